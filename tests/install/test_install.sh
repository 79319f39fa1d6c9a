#!/usr/bin/env bash
# Installs the build named by HOLDFAST_BUILD_DIR into a temporary tree, and
# uses it as strangers would: pkg-config, find_package, C++, the README's first
# program on a real server. Prints "ok NAME" or "not ok NAME" for each.
set -uo pipefail
cd "$(dirname "$0")/../.."

build=${HOLDFAST_BUILD_DIR:?names the build to install}
dir=$(mktemp -d "${TMPDIR:-/tmp}/holdfast-install.XXXXXX")
prefix=$dir/usr
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

# expect NAME COMMAND...
expect() {
    local name=$1
    shift
    if "$@" >"$dir/output" 2>&1; then
        echo "ok $name"
    else
        echo "not ok $name"
        sed 's/^/    /' "$dir/output"
        status=1
    fi
}

install_tree() {
    cmake --install "$build" --prefix "$prefix" || return 1
    libdir=$(dirname "$(find "$prefix" -name libholdfast.so)")
    export PKG_CONFIG_PATH=$libdir/pkgconfig
    export LD_LIBRARY_PATH=$libdir
}

# Files beyond these would be a mistake as much as missing ones.
installed_files() {
    local soname
    find "$prefix" ! -type d | sed "s|^$libdir/|lib/|; s|^$prefix/||" |
        grep -v '^lib/cmake/holdfast/holdfast.*Targets-[a-z]*\.cmake$' |
        sed -E 's/[0-9]+(\.[0-9]+)+$/VERSION/' | sort >"$dir/found"
    sort >"$dir/wanted" <<LIST
bin/holdfast
include/holdfast/holdfast.h
include/holdfast/synchronizers.h
lib/cmake/holdfast/holdfastConfig.cmake
lib/cmake/holdfast/holdfastConfigVersion.cmake
lib/cmake/holdfast/holdfastStaticTargets.cmake
lib/cmake/holdfast/holdfastTargets.cmake
lib/libholdfast.a
lib/libholdfast.so
lib/libholdfast.so.0
lib/libholdfast.so.VERSION
lib/pkgconfig/holdfast.pc
$(cd docs/man && printf 'share/man/man1/%s\n' *.1)
LIST
    diff "$dir/wanted" "$dir/found" || return 1
    soname=$(readelf -d "$libdir/libholdfast.so" | grep SONAME) || return 1
    [[ $soname == *"[libholdfast.so.0]"* ]] || {
        echo "$soname"
        return 1
    }
}

# compile COMPILER OUTPUT ARG...
compile() {
    "$1" -Wall -Wextra -Werror -o "$dir/$2" "${@:3}"
}

pkg_config_shared() {
    local -a flags
    read -ra flags < <(pkg-config --cflags --libs holdfast)
    [[ " ${flags[*]} " != *-lhiredis* ]] || {
        echo "the shared library's user is made to link hiredis: ${flags[*]}"
        return 1
    }
    compile "${CC:-cc}" shared tests/install/consumer.c "${flags[@]}" &&
        "$dir/shared"
}

# Against the archive; the rest stays shared, for a static glibc has no
# getaddrinfo.
pkg_config_static() {
    local -a flags
    read -ra flags < <(pkg-config --static --cflags --libs holdfast)
    flags=("${flags[@]/#-lholdfast/-l:libholdfast.a}")
    compile "${CC:-cc}" static tests/install/consumer.c "${flags[@]}" &&
        env -u LD_LIBRARY_PATH "$dir/static"
}

pkg_config_version() {
    local header
    header=$(sed -n 's/^#define HF_VERSION_STRING "\(.*\)"/\1/p' \
        "$prefix/include/holdfast/holdfast.h")
    pkg-config --modversion holdfast
    [[ -n $header && $(pkg-config --modversion holdfast) == "$header" ]]
}

# With the tree moved first: nothing may remember where it was installed.
find_package() {
    local moved=$dir/moved program
    mv "$prefix" "$moved" &&
        cmake -S tests/install/consumer -B "$dir/consumer" \
            -DCMAKE_PREFIX_PATH="$moved" &&
        cmake --build "$dir/consumer" || return 1
    mv "$moved" "$prefix" || return 1
    for program in holdfast static cxx; do
        "$dir/consumer/consumer_$program" || return 1
    done
}

cxx_pkg_config() {
    local -a flags
    read -ra flags < <(pkg-config --cflags --libs holdfast)
    compile "${CXX:-c++}" cxx -std=c++17 tests/install/consumer.cpp \
        "${flags[@]}" && "$dir/cxx"
}

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
        echo "$line"
        if [[ $line == *"eady to accept connections"* ]]; then
            return 0
        fi
    done
    return 1
}

first_program() {
    local -a flags
    local output
    scripts/readme-program >"$dir/first.c" || return 1
    read -ra flags < <(pkg-config --cflags --libs holdfast)
    compile "${CC:-cc}" first "$dir/first.c" "${flags[@]}" || return 1
    output=$(HOLDFAST_URL=unix://$dir/redis.sock timeout 20 "$dir/first" </dev/null) ||
        return 1
    echo "$output"
    [[ -n $output ]]
}

installed_tool() {
    local version
    version=$(env -u LD_LIBRARY_PATH "$prefix/bin/holdfast" --version) || return 1
    echo "$version"
    [[ $version == *"$(pkg-config --modversion holdfast)"* ]] || return 1
    HOLDFAST_URL=unix://$dir/redis.sock env -u LD_LIBRARY_PATH timeout 20 \
        "$prefix/bin/holdfast" run install-test -- true
}

manual_pages() {
    local page count=0
    for page in "$prefix"/share/man/man1/*.1; do
        mandoc -Tascii "$page" | sed 's/.\x08//g' | grep SYNOPSIS >/dev/null || {
            echo "$page does not show a synopsis"
            return 1
        }
        count=$((count + 1))
    done
    ((count >= 2))
}

expect "cmake --install" install_tree
if [[ $status != 0 ]]; then
    exit 1
fi
expect "the files installed are those wanted" installed_files
expect "pkg-config and header agree on the version" pkg_config_version
expect "a C program by pkg-config" pkg_config_shared
expect "a C program by pkg-config, the library inside" pkg_config_static
expect "a C++ program by pkg-config" cxx_pkg_config
expect "a project by find_package, from a tree that was moved" find_package
expect "redis-server on a unix socket" start_server
expect "the README's first program" first_program
expect "the installed tool" installed_tool
expect "the installed manual pages" manual_pages
exit "$status"
