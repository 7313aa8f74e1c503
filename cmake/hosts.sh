# Tests in other surroundings than those of make test. Sourced by test.sh, which has count(), attribute() and build().
#   test_hosts RUN [PART]   in each surrounding below the tests of preset test with label "hosts" (FOVEA_HOST_TESTS in
#                           FoveaTest.cmake) and those of Python with the mark of that name. PART is one of these, or
#                           "all": every C test
# shellcheck shell=bash disable=SC2034,SC2154

# A surrounding is a function that sets any of these, or says why it cannot be had:
#   wrap      words before a command
#   tree      where the tests are; default: here
#   preset, filter, python   other tests
no_host() {
    reason=$*
    return 1
}
pretend=(env LD_PRELOAD="$PWD/build/test/tests/libpretend-cpus.so" FOVEA_TEST_CPUS=12)
host_tier() { # capped, as users do who have several kinds of machines
    wrap=(env FOVEA_ISA="$(grep -qw avx2 /proc/cpuinfo && echo avx2 || echo scalar)")
}
host_one_cpu() {
    command -v taskset >/dev/null || no_host "no taskset" || return
    wrap=(taskset -c "$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')")
}
host_12_cpus() { wrap=("${pretend[@]}"); }
host_omp_12_cpus() { wrap=("${pretend[@]}" OMP_NUM_THREADS=8); }
host_turkish() { # where ranges of letters have others than ASCII's, and I is not the capital of i
    local locales=$PWD/build/locales
    mkdir -p "$locales"
    [ -e "$locales/tr_TR.UTF-8" ] || localedef -i tr_TR -f UTF-8 "$locales/tr_TR.UTF-8" ||
        no_host "no locale tr_TR.UTF-8 (package locales)" || return
    wrap=(env LOCPATH="$locales" LC_ALL=tr_TR.UTF-8)
}
host_space() { # a copy of this tree, built there
    tree=$PWD/build/a\ space/fovea
    [ -z "${copied-}" ] || return 0
    mkdir -p "$tree/build" && find "$tree" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} + &&
        tar -c --exclude=./build --exclude=./.git . | tar -x --no-same-owner -C "$tree" &&
        ln -sfn "$PWD"/build/{models,ggml,venv} "$tree/build" && (cd "$tree" && build_hosts) && copied=yes
}
host_user() { # the copy is nobody's, a home is not
    local nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null || no_host "needs root and setpriv" || return
    host_space && chown -R 65534:65534 "$tree" || return
    "${nobody[@]}" test -w "$tree/build" || no_host "others cannot enter this folder" || return
    [ -z "$python" ] || "${nobody[@]}" env "$python" -c 'import pytest' 2>/dev/null || {
        count "$run python" 0 0 1 "others cannot run this Python"
        python=
    }
    mkdir -p build/home
    wrap=("${nobody[@]}" env HOME="$PWD/build/home" USER=nobody LOGNAME=nobody)
}
host_busy() { # programs that do not ask the time are left out
    local i
    filter+=(--tests-regex '^(threads|cache_threads|nodes|tun|context|example|bench)')
    for i in 1 2 3 4; do
        while kill -0 $$ 2>/dev/null; do :; done &
        busy+=($!)
    done
}
host_avx_without_avx2() { # of preset release, whose scalar tier has no fma instructions
    command -v qemu-x86_64 >/dev/null || no_host "no qemu-x86_64" || return
    preset=release filter=(--tests-regex '^emulated[.]SandyBridge[.]') python=
    build release emulated
}
hosts=(tier one_cpu 12_cpus omp_12_cpus turkish user space busy avx_without_avx2) # user is in the folder with a space

build_hosts() { # in this folder
    CCACHE_BASEDIR=$PWD build test "$host_part" && cmake --build build/test --target pretend-cpus || return
    [ -z "$host_python" ] || {
        cmake -S python -B build/python -G Ninja -DPython_EXECUTABLE="$host_python" && cmake --build build/python
    }
}
run_host() { # run_host C-REPORT PYTHON-REPORT
    cd "$tree" || return
    "${wrap[@]}" env FOVEA_TEST_SCALE=0.02 ctest --preset "$preset" "${filter[@]}" -j "$jobs" --output-junit "$PWD/$1"
    [ -z "$python" ] || "${wrap[@]}" env PYTHONPATH="$PWD/build/python" PYTHONDONTWRITEBYTECODE=1 "$python" -m pytest \
        -q -p no:cacheprovider -n "$jobs" -m hosts -k "not sklearn" --junitxml="$2" python/tests/test_*.py
}
test_hosts() {
    local host_part=hosts name wrap tree preset filter python reason busy report n f s host_python='' in_space=''
    case ${2-} in '' | all) ;; *) local hosts=("$2") ;; esac
    [ "${2-}" != all ] || host_part=
    for name in torch python; do
        [ ! -f build/venv/$name/made ] || [ -n "$host_python" ] || host_python=$PWD/build/venv/$name/bin/python
    done
    [ -n "$host_python" ] || count "$1 python" 0 0 1 "numpy and pytest: not installed, see above"
    build_hosts || { count "$1" 0 1 0 "does not build" && return; }
    for name in "${hosts[@]}"; do
        [ "$name" != space ] || [ -z "$in_space" ] || continue
        printf '\n=== %s, %s\n' "$1" "${name//_/ }"
        wrap=() tree=$PWD preset=test filter=() python=$host_python reason='' busy=()
        [ -z "$host_part" ] || filter=(--label-regex '^hosts$')
        SECONDS=0
        if ! "host_$name"; then
            if [ -n "$reason" ]; then count "$1 $name" 0 0 1 "$reason"; else count "$1 $name" 0 1 0 "cannot be made"; fi
            continue
        fi
        rm -f "$tree"/build/$preset/hosts-*.xml
        (run_host build/$preset/hosts-c.xml build/$preset/hosts-python.xml)
        [ "$tree" = "$PWD" ] || in_space=yes
        [ ${#busy[@]} = 0 ] || kill "${busy[@]}"
        local passed_here=0 failed_here=0 skipped_here=0
        for report in c ${python:+python}; do
            report=$tree/build/$preset/hosts-$report.xml
            n=$(attribute tests "$report") f=$(attribute failures "$report") s=$(attribute skipped "$report")
            f=$((f + $(attribute errors "$report" | grep . || echo 0)))
            if [ "${n:-0}" -eq 0 ]; then
                n=1 f=1 s=0 # ran no tests
            elif [[ $report = */hosts-c.xml ]]; then
                f=$((f + $(unsaid "$report"))) s=$((s - $(unsaid "$report")))
            fi
            passed_here=$((passed_here + n - f - s)) failed_here=$((failed_here + f)) skipped_here=$((skipped_here + s))
        done
        count "$1 $name" $passed_here $failed_here $skipped_here "$SECONDS s"
    done
}
