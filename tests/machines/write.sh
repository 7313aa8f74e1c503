#!/bin/sh -e
# write.sh BUILD [EMULATOR]: writes the records of all machines again whose kernels this build has (README): on x86, and for
# 64-bit Arm there, or cross-compiled with qemu-aarch64.
build=$(cd "$1" && pwd)
cd "$(dirname "$0")"
for machine in "$PWD"/*.txt; do
    status=0
    # shellcheck disable=SC2086 # no emulator is no word
    ${2-} "$build/tests/test-machines" --machine "$machine" --write >/dev/null || status=$?
    [ $status != 77 ] || continue
    [ $status = 0 ]
    [ -n "${2-}" ] || [ ! -x "$build/tune/test-tune-simulated" ] ||
        WRITE=1 TUNE=$build/tune/fovea-tune SIMULATED=$build/tune/test-tune-simulated FOVEA_TUNE_MACHINE=$machine \
            SCRATCH=$build/tune/test-machine ../../tune/test.sh machine
    echo "$machine"
done
