#!/usr/bin/env bash
# setup.sh [--clang]: installs what the build needs and this machine lacks, by apt-get, with sudo where not root. Where
# that cannot be, says what to install and fails. Quick and silent where nothing is missing. --clang: clang 14 too.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
export PATH=$PWD/build/tools/bin:$PATH # as in the Makefile

missing=()
need() { # need PACKAGE COMMAND...: the Debian package is missing where the command fails
    local package=$1
    shift
    "$@" >/dev/null 2>&1 || missing+=("$package")
}
header() {
    printf '#if !__has_include(<%s>)\n#error\n#endif\n' "$1" | cc -E -
}
fail() {
    printf '%s\n' "$@" >&2
    exit 1
}
install_missing() {
    [ ${#missing[@]} -gt 0 ] || return 0
    local names=${missing[*]} as_root=()
    command -v apt-get >/dev/null ||
        fail "Fovea needs what Debian and Ubuntu call: $names" "There is no apt-get here: please install these."
    if [ "$(id -u)" != 0 ]; then
        as_root=(sudo)
        command -v sudo >/dev/null ||
            fail "Fovea needs: $names" "You are not root and there is no sudo. As root: apt-get install -y $names"
    fi
    echo "Fovea needs: $names"
    as_root+=(env DEBIAN_FRONTEND=noninteractive)
    { "${as_root[@]}" apt-get update -q &&
        "${as_root[@]}" apt-get install -q -y --no-install-recommends "${missing[@]}"; } ||
        fail "That did not work. Please do it by hand, as root: apt-get install -y $names"
    missing=()
}

need gcc command -v cc
need g++ command -v c++
need cmake command -v cmake
need ninja-build command -v ninja
need pkg-config command -v pkg-config
need libc6-dev header stdlib.h
need libsleef-dev header sleef.h
need libbenchmark-dev header benchmark/benchmark.h
need libcjson-dev header cjson/cJSON.h
need libutf8proc-dev header utf8proc.h
if [ "${1-}" = --clang ]; then
    need clang-14 command -v clang-14
    need libomp-14-dev test -e /usr/lib/llvm-14/lib/libomp.so
fi
install_missing

# The CMake of Ubuntu 22.04 is older than the project asks for; PyPI has newer ones.
oldest=3.25
version=$(cmake --version | sed -n '1s/[^0-9]*//p')
if ! printf '%s\n' $oldest "$version" | sort --version-sort --check=silent; then
    need python3-venv python3 -c 'import ensurepip, venv'
    install_missing
    echo "CMake here is $version and not $oldest: putting one into build/tools"
    { python3 -m venv build/tools && build/tools/bin/pip install -q "cmake>=$oldest,<4"; } ||
        fail "That did not work. Please install CMake $oldest or newer."
fi
