#!/usr/bin/env bash
# foreign.sh windows|macos: the library for systems that Fovea is not run on.
#   windows  built by MinGW-w64; fovea-quickstart, fovea-check and tests of bits run under wine, on each tier of this CPU
#   macos    for aarch64 and x86_64 by ziglang's clang: library and fovea-quickstart are linked, symbols and imports checked.
#            NOT RUN
# Needs what cmake/setup.sh --release installs, and a network for ziglang. Last lines tell what was built, run and not run.
# shellcheck source=tests/support/sure.sh
. "$(dirname "$0")/../tests/support/sure.sh"
cd "$(dirname "$0")/.."
scratch=$PWD/build/packaging
mkdir -p "$scratch"
digits=$(grep -m 1 '^last token of the last head' docs/tutorial.md)
only=(-DFOVEA_OPENMP=OFF -DFOVEA_MPI=OFF -DFOVEA_BUILD_TESTS=OFF -DFOVEA_BUILD_BENCH=OFF -DFOVEA_BUILD_TUNE=OFF
    -DFOVEA_BUILD_TOOLS=OFF)
ran=0 not_run=0
quiet() { # quiet LOG COMMAND...: shows the end of what it prints where it fails
    "${@:2}" >"$scratch/$1" 2>&1 || { tail -n 30 "$scratch/$1" >&2 && fail "${*:2}"; }
}
run() { # run NAME PROGRAM [ARGUMENT...]: on each tier
    local tier
    for tier in scalar avx2 avx512; do
        quiet windows-run.log env FOVEA_ISA=$tier WINEDEBUG=-all "$wine" "${@:2}"
        echo "ran  windows  $1 $tier: $(tr -d '\r' <"$scratch/windows-run.log" | tail -n 1)"
        ran=$((ran + 1))
    done
}

# The list of kernels goes by a share: products on the scalar tier, whose fma() is software, take minutes.
windows() {
    wine=$(command -v wine64 || command -v wine) || { echo "SKIPPED: windows: no wine" && exit 77; }
    export WINEPREFIX=$scratch/wine FOVEA_TEST_SCALE=0.02
    quiet windows.log cmake --preset windows
    quiet windows.log cmake --build build/windows --target fovea fovea-quickstart fovea-check test-golden
    WINEDEBUG=-all "$wine" build/windows/examples/fovea-quickstart.exe 2>/dev/null | tr -d '\r' >"$scratch/digits"
    same "digits" "$(cat "$scratch/digits")" "$digits"
    run quickstart build/windows/examples/fovea-quickstart.exe
    run fovea-check build/windows/tests/fovea-check.exe
    run golden build/windows/tests/test-golden.exe
    # Nothing of MinGW-w64 need be shipped.
    x86_64-w64-mingw32-objdump -p build/windows/examples/fovea-quickstart.exe | sed -n 's/.*DLL Name: //p' |
        sort >"$scratch/imports"
    same "imports" "$(tr '\n' ' ' <"$scratch/imports")" "ADVAPI32.dll KERNEL32.dll msvcrt.dll "
}

macos() {
    python/tools/venv.sh zig || { echo "SKIPPED: macos: no ziglang" && exit 77; }
    local zig cpu build
    zig=$(echo "$PWD"/build/venv/zig/lib/python3*/site-packages/ziglang/zig)
    for cpu in aarch64 x86_64; do
        build=$scratch/macos-$cpu
        quiet macos.log cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DFOVEA_ZIG="$zig" -DFOVEA_MACOS=$cpu \
            -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/toolchain-macos.cmake" -DFOVEA_BUILD_EXAMPLES=OFF "${only[@]}"
        quiet macos.log cmake --build "$build" --target fovea
        quiet macos.log "$zig" cc -target $cpu-macos -Iinclude examples/quickstart.c "$build/libfovea.a" -o "$build/quickstart"
        llvm-nm-14 --defined-only -g "$build/libfovea.a" 2>/dev/null | sed -n 's/.* T _\(fovea_.*\)/\1/p' | sort >"$build/symbols"
        sed -n 's/^FOVEA_API .*[ *]\(fovea_[a-z0-9_]*\)(.*/\1/p' include/fovea/*.h | sort -u >"$build/declared"
        same "$cpu: functions declared and not defined" "$(comm -23 "$build/declared" "$build/symbols")" ""
        llvm-objdump-14 --macho --dylibs-used "$build/quickstart" | sed -n 's/^\t\([^ ]*\).*/\1/p' >"$build/imports"
        same "$cpu: imports" "$(cat "$build/imports")" /usr/lib/libSystem.B.dylib
        echo "NOT RUN  macos $cpu: linked; $(wc -l <"$build/symbols") functions, imports $(cat "$build/imports")"
        not_run=$((not_run + 1))
    done
}

case ${1-} in
windows | macos) "$1" ;;
*) fail "usage: foreign.sh windows|macos" ;;
esac
echo "$1: $ran runs, $not_run built and NOT RUN"
