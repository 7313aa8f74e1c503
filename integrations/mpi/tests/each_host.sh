#!/usr/bin/env bash
# each_host.sh MPIRUN: mpirun fovea-tune --each-host, on hosts that are made up. Run by ctest, which sets SIMULATED
# (fovea-tune on a machine that is made up), EACH_HOST (fovea-tune-each-host), FAKE_HOSTS (this file, which is then
# fovea-tune of a rank: kind rank % 2, with a row of its own; rank $FAILING fails) and SCRATCH.
rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-}}
if [ -n "${FAKE_HOSTS:-}" ] && [ -n "$rank" ]; then
    case " $* " in
    *' merge '*) exec "$SIMULATED" "$@" ;;
    *' --kind '*)
        [ "$rank" != "${SILENT:-}" ] || exit 4
        echo "cpu made_up=$((rank % 2))"
        ;;
    *)
        echo "$rank $*" >>ran
        [ "$rank" != "${FAILING:-}" ] || exit 4
        cat "host.$((rank % 2))"
        exit "${LIKE:-0}"
        ;;
    esac
    exit
fi
step=each-host name=fovea-tune-each-host program=$1
. "$(dirname "$0")/../../../tests/support/program.sh"
PATH=$(dirname "$EACH_HOST"):$PATH
export FOVEA_TUNING_FILE= PATH
small=(--shape 'q_heads=2 q_len=64 head_dim=32' --effort quick --threads 1)
rows() { "$SIMULATED" show "$1" --threads 1 | head -1; }

# One machine, two ranks: tuned once.
expect 0 -n 2 "$SIMULATED" --each-host -o - "${small[@]}"
has err '^cpu vendor=.* threads=1: tuned$' '^    by .*, for 1 more rank$'
mv out one
rows one | grep -qE '^one: 1 row for 1 CPU and build$' || fail "$(rows one)"

# Two kinds on three ranks, of which ranks 0 and 1 tune.
cp one host.0
python3 - one host.1 <<'END'
import re, sys
text = open(sys.argv[1], "rb").read()
text = re.sub(rb"model=\d+", b"model=9999", text[:text.rindex(b"end sum=")])
sum = 0xCBF29CE484222325
for byte in text:
    sum = (sum ^ byte) * 0x100000001B3 % 2**64
open(sys.argv[2], "wb").write(text + b"end sum=%016x\n" % sum)
END
export FAKE_HOSTS
hosts() { # hosts STATUS RANKS
    rm -f ran both
    expect "$1" -n "$2" "$EACH_HOST" both "$FAKE_HOSTS" --budget 1s
}
hosts 0 3
[ "$(sort ran)" = "0 --budget 1s -o -
1 --budget 1s -o -" ] || fail "not once on each kind: $(cat ran)"
rows both | grep -qE '^both: 2 rows for 2 CPUs and builds$' || fail "$(rows both)"
has out '^cpu made_up=0: tuned$' '^cpu made_up=1: tuned$'
FAILING=1 hosts 4 2
rows both | grep -qE '^both: 1 row for 1 CPU and build$' || fail "$(rows both)"
has out '^cpu made_up=1: failed: nothing stored$'
LIKE=3 hosts 3 2
SILENT=1 hosts 4 2
has err 'rank 1. does not tell its kind'
[ ! -f ran ] || fail "tuned although a rank has no kind"

# What fovea-tune says by itself.
program=$SIMULATED
expect 2 --each-host
has err '-o FILE is missing'
expect 2 --each-host -o x --json
has err '--each-host goes with neither'
PATH=/usr/bin:/bin expect 4 --each-host -o x
has err '--each-host needs fovea-tune-each-host'
