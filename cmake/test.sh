#!/usr/bin/env bash
# test.sh PRESET[@CPU]...: builds and tests each preset of CMakePresets.json, and counts; or the Python package, as a wheel:
# "python" its tests that need no PyTorch, "python-torch" all of them, in the venv of make test-python. The last line is
#     N passed, N failed, N skipped
# over all of them, and the exit status is 0 only if nothing failed. A preset that does not build, or has no tests,
# counts as one failure; one that needs a compiler or packages that are not here, as one skipped. @CPU: tests are emulated,
# on that CPU of qemu's. Environment: FOVEA_TEST_SCALE in place of the table below.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
jobs=$(nproc 2>/dev/null || sysctl -n hw.ncpu)

# Of the random and listed cases of tests, what part a preset runs; release runs all. Emulated, a case takes ten times as long.
declare -A scale=([release]=1 [clang]=0.25 [debug]=0.25 [asan]=0.25 [tsan]=0.2 [portable]=0.25 [aarch64]=0.03 [aarch64-clang]=0.03)
# Beside aarch64@max, which runs all tests, emulated CPUs and compilers run those in which kernels differ (FOVEA_KERNEL_TESTS).
declare -A only=([aarch64@cortex-a53]=kernels [aarch64@cortex-a76]=kernels [aarch64-clang@max]=kernels)

passed=0 failed=0 skipped=0
summary=()
count() { # count PRESET PASSED FAILED SKIPPED [REMARK]
    passed=$((passed + $2)) failed=$((failed + $3)) skipped=$((skipped + $4))
    summary+=("$(printf '%-18s %4d passed %4d failed %4d skipped  %s' "$1" "$2" "$3" "$4" "${5-}")")
}
build() {
    { [ -f "build/$1/build.ninja" ] || cmake --preset "$1"; } && cmake --build --preset "$1" -j "$jobs"
}
parts_skipped() { # parts_skipped LOG: of tests that passed, what they printed as SKIPPED
    awk '/: [0-9]+ passed, 0 failed, [0-9]+ skipped$/ && $2 > 0 { n += $6 } END { print n + 0 }' "$1"
}
attribute() { # attribute NAME FILE: of the one <testsuite> in ctest's report
    sed -n "/<testsuite/,/>/s/.*[[:space:]]$1=\"\([0-9]*\)\".*/\1/p" "$2" | head -1
}
test_python() { # test_python python|python-torch
    local venv=build/venv/${1#python-} where=python/tests report=$PWD/build/venv/$1.xml status=0 n
    if [ "$1" = python ]; then
        where=$(find python/tests -maxdepth 1 -name 'test_*.py')
        python/tools/venv.sh python && python/tools/wheel.sh || status=$?
    elif [ ! -f "$venv/made" ]; then
        count "$1" 0 0 1 "no PyTorch here: make test-python"
        return
    elif ! compgen -G 'build/wheels/*.whl' >/dev/null; then
        python/tools/wheel.sh || status=$?
    fi
    if [ $status -ne 0 ]; then
        case $status in
        3) count "$1" 0 0 1 "no Python 3.11 here, or no network" ;;
        *) count "$1" 0 1 0 "does not build" ;;
        esac
        return
    fi
    SECONDS=0
    rm -f "$report"
    # shellcheck disable=SC2086 # $where is a list
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall build/wheels/*.whl &&
        "$venv/bin/python" -m pytest -q -p no:cacheprovider --junitxml="$report" $where
    n=$(attribute tests "$report")
    if [ "${n:-0}" -eq 0 ]; then
        count "$1" 0 1 0 "ran no tests"
        return
    fi
    local failures skips
    failures=$(($(attribute failures "$report") + $(attribute errors "$report"))) skips=$(attribute skipped "$report")
    count "$1" $((n - failures - skips)) "$failures" "$skips" "$SECONDS s"
}

for run in "$@"; do
    preset=${run%@*} labels=()
    environment=(env FOVEA_TEST_SCALE="${FOVEA_TEST_SCALE:-${scale[$preset]-1}}")
    [ "$preset" = "$run" ] || environment+=(QEMU_CPU="${run#*@}")
    [ -z "${only[$run]-}" ] || labels=(--label-regex "^${only[$run]}\$" --label-exclude '^scalar$')
    printf '\n=== %s\n' "$run"
    case $preset in
    python | python-torch)
        test_python "$run"
        continue
        ;;
    clang | fuzz | *-clang)
        if ! command -v clang-14 >/dev/null; then
            count "$run" 0 0 1 "no clang 14 here"
            continue
        fi
        ;;
    esac
    if ! build "$preset"; then
        count "$run" 0 1 0 "does not build"
        continue
    fi
    # ThreadSanitizer of gcc 12 cannot start where addresses are much randomised.
    launch=()
    [ "$preset" != tsan ] || ! setarch --addr-no-randomize true 2>/dev/null || launch=(setarch --addr-no-randomize)
    report=$PWD/build/$preset/ctest.xml
    rm -f "$report"
    SECONDS=0
    "${environment[@]}" "${launch[@]}" ctest --preset "$preset" "${labels[@]}" -j "$jobs" --output-junit "$report"
    tests=$(attribute tests "$report") failures=$(attribute failures "$report") skips=$(attribute skipped "$report")
    if [ "${tests:-0}" -eq 0 ]; then
        count "$run" 0 1 0 "ran no tests"
        continue
    fi
    parts=$(parts_skipped "build/$preset/Testing/Temporary/LastTest.log")
    remark="${SECONDS} s"
    [ "$parts" -eq 0 ] || remark+="; $parts parts of tests that passed were skipped"
    count "$run" $((tests - failures - skips)) "$failures" "$skips" "$remark"
done

printf '\n'
printf '%s\n' "${summary[@]}"
printf '\n%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" -eq 0 ]
