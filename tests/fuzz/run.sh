#!/usr/bin/env bash
# run.sh TARGET REPLAY FUZZER: gives a fuzz target its committed inputs, and
# with HOLDFAST_TEST_LONG=1 lets libFuzzer look for others for a minute
# (HOLDFAST_FUZZ_SECONDS). FUZZER is empty where the compiler has none.
set -euo pipefail

target=$1 replay=$2 fuzzer=$3
corpus=$(dirname "$0")/corpus/$target

"$replay" "$corpus"
if [[ ${HOLDFAST_TEST_LONG:-} != 1 ]]; then
    exit 0
fi
if [[ -z $fuzzer ]]; then
    echo "skip $target: fuzzing needs clang and HOLDFAST_SANITIZE=address"
    exit 0
fi

found=$(mktemp -d)
trap 'rm -rf "$found"' EXIT
mkdir "$found/inputs"
# No input is worth much memory: 16 MiB at once, 512 MiB in all, which is
# mostly what the sanitizer keeps for itself.
if ! ASAN_OPTIONS=detect_leaks=1:quarantine_size_mb=16 "$fuzzer" \
    -max_total_time="${HOLDFAST_FUZZ_SECONDS:-60}" -timeout=10 \
    -malloc_limit_mb=16 -rss_limit_mb=512 -print_final_stats=1 \
    -artifact_prefix="$fuzzer-" "$found/inputs" "$corpus" \
    >"$found/log" 2>&1; then
    tail -n 50 "$found/log"
    echo "not ok $target: the input is the file that is named above"
    exit 1
fi
executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$found/log")
echo "ok $target: $executions executions"
