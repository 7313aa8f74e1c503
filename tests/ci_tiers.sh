#!/usr/bin/env bash
# ci_tiers.sh SCRATCH: that .ci/tiers finds a tier or feature of the CPU on which no test ran.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/support/sure.sh
. "$here/support/sure.sh"
mkdir -p "$1"
cd "$1"
echo 'flags		: fpu avx2 fma avx512f avx512bw avx512dq avx512vl f16c' >cpuinfo
for tier in 'scalar' 'avx2 with f16c' 'avx512 with f16c'; do
    echo "<system-out>a: a CPU, of a kind (family 1), tier $tier, gcc 12, seed 1"
done >whole
grep -v 'tier avx512' whole >no_avx512
sed 's/ with f16c//' whole >no_f16c
grep -v 'tier scalar' no_avx512 >no_avx512_scalar

check() { # check STATUS WORDS COMMAND...
    local status=0
    "${@:3}" >out || status=$?
    if [ $status != "$1" ] || ! grep -q "$2" out; then
        printf '%s: status %s, without "%s":\n%s\n' "${*:3}" $status "$2" "$(cat out)" >&2
        exit 1
    fi
}
tiers=$here/../.ci/tiers
check 0 'tiers that ran: scalar (1 tests), avx2 (1 tests), avx512 (1 tests)' "$tiers" whole cpuinfo
check 0 'features that ran: f16c (2 tests)' "$tiers" whole cpuinfo
check 0 'not on this CPU: .*neon.*amx_bf16' "$tiers" whole cpuinfo
check 1 'FAILED: this CPU has avx512,' "$tiers" no_avx512 cpuinfo
check 1 'FAILED: this CPU has f16c,' "$tiers" no_f16c cpuinfo
check 1 'FAILED: this CPU has scalar,' "$tiers" /dev/null cpuinfo
check 0 'did not run: scalar avx512' "$tiers" no_avx512_scalar /dev/null # emulated: nothing is asked of it
