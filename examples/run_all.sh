#!/usr/bin/env bash
# Runs each program given, on a server of its own that ends with this script.
# Each has to end with 0 and to say something. Prints "ok NAME" or "not ok
# NAME" for each.
set -uo pipefail

dir=$(mktemp -d "${TMPDIR:-/tmp}/holdfast-examples.XXXXXX")
status=0
server=

clean_up() {
    if [[ -n $server ]]; then
        kill "$server" 2>/dev/null
        wait "$server" 2>/dev/null
    fi
    rm -rf "$dir"
}
trap clean_up EXIT

start_server() {
    local program line lines
    program=${HOLDFAST_TEST_SERVER:-$(command -v redis-server ||
        command -v valkey-server)} || return 1
    # Its log comes through a pipe, which stays open as long as the server; it
    # dies with us, also when we are killed.
    exec {lines}< <(exec setpriv --pdeathsig KILL "$program" --port 0 \
        --unixsocket "$dir/redis.sock" --save '' --appendonly no --dir "$dir" \
        --daemonize no 2>&1)
    server=$!
    while read -r -t 20 -u "$lines" line; do
        if [[ $line == *"eady to accept connections"* ]]; then
            return 0
        fi
        echo "$line"
    done
    return 1
}

if ! start_server; then
    echo "not ok redis-server on a unix socket"
    exit 1
fi
export HOLDFAST_URL=unix://$dir/redis.sock
for program in "$@"; do
    name=$(basename "$program")
    timeout 60 "$program" >"$dir/output" 2>&1 </dev/null
    code=$?
    if [[ $code == 0 && -s $dir/output ]]; then
        echo "ok $name"
    else
        echo "not ok $name: exit code $code"
        sed 's/^/    /' "$dir/output"
        status=1
    fi
done
exit "$status"
