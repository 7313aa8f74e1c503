#!/usr/bin/env bash
# test.sh RUN...: builds and tests, and counts. RUN is PRESET[@CPU][/PART], or
#   python  the Python package, as a wheel
#   ggml    ggml's own test of backends; ggml/all: in other builds and releases of ggml, too
#   packaging  recipes of Conan, vcpkg and conda, Debian's packages, wheels in roots of their own, fuzzers as OSS-Fuzz builds
#           them, workflows, the library for Windows and macOS (packaging/test.sh)
#   site    the pages as a site, whose warnings and dead links are errors
#   hosts   tests that depend on their surroundings, in others than these (hosts.sh); hosts/turkish: in that one;
#           hosts/all: all C tests in each
#   PRESET  of CMakePresets.json
#   @CPU    tests are emulated, on that CPU of qemu's
#   /PART   only the tests of these labels (the table below); "python/slow" adds those that are marked slow
# The last line is
#     N passed, N failed, N skipped
# over all of them, and the exit status is 0 only if nothing failed. A preset that does not build, or has no tests,
# counts as one failure; one that needs a compiler or packages that are not here, as one skipped.
# Environment: FOVEA_TEST_SCALE in place of the table below; FETCHED, the seconds of what was done before (make test).
set -uo pipefail
cd "$(dirname "$0")/.." || exit
export CCACHE_BASEDIR=$PWD # presets compile many files alike
jobs=$(nproc 2>/dev/null || sysctl -n hw.ncpu)

# The share of random and listed cases that a preset runs; release runs all. Emulated, a case takes ten times as long.
declare -A scale=([release]=1 [test]=0.25 [clang]=0.1 [debug]=0.25 [asan]=0.1 [tsan]=0.1 [portable]=0.25
    [aarch64]=0.03 [aarch64-clang]=0.03)
# ships: what differs where the scalar tier has no fma instructions, and how the library is installed.
declare -A labels=([kernels]='^kernels$' [threads]='^threads$' [ships]='^(kernels|package|emulated)$')
declare -A part_scale=([ships]=0.1)

passed=0 failed=0 skipped=0
summary=()
count() { # count RUN PASSED FAILED SKIPPED [REMARK]
    passed=$((passed + $2)) failed=$((failed + $3)) skipped=$((skipped + $4))
    summary+=("$(printf '%-22s %4d passed %4d failed %4d skipped  %s' "$1" "$2" "$3" "$4" "${5-}")")
}
build() { # build PRESET PART: of some parts, only the programs; clang's warnings are wanted of all code
    local target=all
    case $1/$2 in clang/*) ;; */kernels | */threads | */hosts | */emulated) target=tests-$2 ;; esac
    [ "$1" != fuzz ] || target=fuzz-programs
    local options=() # ggml's backend is part of preset test, where ggml was fetched
    [ "$1" != test ] || [ ! -d build/ggml/llama.cpp ] || options=(-DFOVEA_GGML=ON)
    { [ -f "build/$1/build.ninja" ] && [ ${#options[@]} = 0 ]; } || cmake --preset "$1" "${options[@]}" || return
    cmake --build "build/$1" -j "$jobs" --target $target
}
parts_skipped() { # parts_skipped LOG: of tests that passed, what they printed as SKIPPED
    awk '/: [0-9]+ passed, 0 failed, [0-9]+ skipped$/ && $2 > 0 { n += $6 } END { print n + 0 }' "$1"
}
attribute() { # attribute NAME FILE: of the one <testsuite> in ctest's report
    sed -n "/<testsuite/,/>/s/.*[[:space:]]$1=\"\([0-9]*\)\".*/\1/p" "$2" | head -1
}
unsaid() { # unsaid FILE: of what ctest's report calls skipped, the tests that did not say so: no program, a fixture failed
    grep '<skipped ' "$1" | grep -vc 'SKIP_RETURN_CODE='
}
test_python() { # test_python RUN MARKED: with PyTorch where it is, else the tests that do not need it
    local venv=build/venv/torch where=python/tests report=$PWD/build/venv/python.xml status=0 n
    if [ ! -f $venv/made ]; then
        venv=build/venv/python where=$(find python/tests -maxdepth 1 -name 'test_*.py')
        count "$1" 0 0 1 "PyTorch and transformers: not installed, see above"
    fi
    SECONDS=0
    { [ $venv = build/venv/torch ] || python/tools/venv.sh python; } && python/tools/wheel.sh || status=$?
    local built=$SECONDS
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
        "$venv/bin/python" -m pytest -q -p no:cacheprovider -n "$jobs" --dist loadfile -m "$2" --junitxml="$report" $where
    n=$(attribute tests "$report")
    if [ "${n:-0}" -eq 0 ]; then
        count "$1" 0 1 0 "ran no tests"
        return
    fi
    local failures skips
    failures=$(($(attribute failures "$report") + $(attribute errors "$report"))) skips=$(attribute skipped "$report")
    count "$1" $((n - failures - skips)) "$failures" "$skips" "wheel $built s, tests $SECONDS s"
}

test_ggml() { # test_ggml RUN PART
    local log=build/ggml/ops.log
    if [ ! -f build/test/integrations/ggml/libggml-fovea.so ]; then
        count "$1" 0 0 1 "ggml: not fetched, or preset test not built"
        return
    fi
    SECONDS=0
    integrations/ggml/tests/ops.sh "${2:-}" 2>&1 | tee $log
    count "$1" "$(grep -c '^passed: ' $log)" "$(grep -c '^FAILED: ' $log)" "$(grep -c '^SKIPPED: ' $log)" "$SECONDS s"
}

test_site() { # test_site RUN
    SECONDS=0
    site/build.sh
    case $? in
    0) count "$1" 1 0 0 "$SECONDS s" ;;
    77) count "$1" 0 0 1 "no Doxygen, or no network" ;;
    *) count "$1" 0 1 0 "does not build" ;;
    esac
}

test_packaging() { # test_packaging RUN
    local name
    for name in $(sed -n 's/^test_\([a-z-]*\)() .*/\1/p' packaging/test.sh); do
        SECONDS=0
        packaging/test.sh "$name"
        case $? in
        0) count "$1 $name" 1 0 0 "$SECONDS s" ;;
        77) count "$1 $name" 0 0 1 "see above" ;;
        *) count "$1 $name" 0 1 0 ;;
        esac
    done
}

# shellcheck source=cmake/hosts.sh
. cmake/hosts.sh

[ -z "${FETCHED-}" ] || count fetch 0 0 0 "setup and downloads $FETCHED s"
for run in "$@"; do
    part=${run#*/} place=${run%/*}
    [ "$part" != "$run" ] || part=
    preset=${place%@*} filter=()
    environment=(env FOVEA_TEST_SCALE="${FOVEA_TEST_SCALE:-${part_scale[${part:-none}]-${scale[$preset]-1}}}")
    [ "$preset" = "$place" ] || environment+=(QEMU_CPU="${place#*@}")
    case $preset in python | ggml | hosts | packaging | site) ;; *) [ -z "$part" ] || filter=(--label-regex "${labels[$part]}") ;; esac
    [ "$preset" != test ] || [ -d build/ggml/llama.cpp ] || count ggml 0 0 1 "ggml: not fetched, see above"
    [[ $preset != aarch64* ]] || filter+=(--label-exclude '^scalar$')
    printf '\n=== %s\n' "$run"
    case $preset in
    python)
        test_python "$run" "$([ "$part" = slow ] && echo 'slow or not slow' || echo 'not slow')"
        continue
        ;;
    ggml | hosts | packaging | site)
        "test_$preset" "$run" "$part"
        continue
        ;;
    clang | fuzz | *-clang)
        if ! command -v clang-14 >/dev/null; then
            count "$run" 0 0 1 "no clang 14 here"
            continue
        fi
        ;;
    esac
    SECONDS=0
    if ! build "$preset" "$part"; then
        count "$run" 0 1 0 "does not build"
        continue
    fi
    built=$SECONDS
    # ThreadSanitizer of gcc 12 cannot start where addresses are much randomized.
    launch=()
    [ "$preset" != tsan ] || ! setarch --addr-no-randomize true 2>/dev/null || launch=(setarch --addr-no-randomize)
    report=$PWD/build/$preset/ctest${place#"$preset"}.xml
    rm -f "$report"
    SECONDS=0
    "${environment[@]}" "${launch[@]}" ctest --preset "$preset" "${filter[@]}" -j "$jobs" --output-junit "$report"
    tests=$(attribute tests "$report") failures=$(attribute failures "$report") skips=$(attribute skipped "$report")
    if [ "${tests:-0}" -eq 0 ]; then
        count "$run" 0 1 0 "ran no tests"
        continue
    fi
    failures=$((failures + $(unsaid "$report"))) skips=$((skips - $(unsaid "$report")))
    parts=$(parts_skipped "build/$preset/Testing/Temporary/LastTest.log")
    remark="build $built s, tests $SECONDS s"
    [ "$parts" -eq 0 ] || remark+="; $parts parts of tests that passed were skipped"
    count "$run" $((tests - failures - skips)) "$failures" "$skips" "$remark"
done

printf '\n'
printf '%s\n' "${summary[@]}"
printf '\n%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" -eq 0 ]
