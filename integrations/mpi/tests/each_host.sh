#!/usr/bin/env bash
# each_host.sh MPIRUN: mpirun fovea-tune --each-host, on hosts that are made up. Run by ctest, which sets SIMULATED
# (fovea-tune on a machine that is made up), EACH_HOST (fovea-tune-each-host) and SCRATCH. With HOSTS this file is
# fovea-tune of a rank: kind rank % 2, with a row of its own; rank $FAILING fails.
rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}
if [ -n "${HOSTS:-}" ]; then
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
self=$(realpath "$0") step=each-host name=fovea-tune-each-host program=$1
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

# A file that cannot be written is refused before anything is measured.
expect 4 -n 2 "$SIMULATED" --each-host -o missing/x "${small[@]}"
has err '^fovea-tune: missing/x: '
[ ! -s out ] || fail "tuned before missing/x was refused"

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
export HOSTS=1
hosts() { # hosts STATUS MPIRUN...
    rm -f ran both
    program=$2
    expect "$1" "${@:3}" "$EACH_HOST" both "$self" --budget 1s
}
mpirun=$1
hosts 0 "$mpirun" -n 3
[ "$(sort ran)" = "0 --budget 1s -o -
1 --budget 1s -o -" ] || fail "not once on each kind: $(cat ran)"
rows both | grep -qE '^both: 2 rows for 2 CPUs and builds$' || fail "$(rows both)"
has out '^cpu made_up=0: tuned$' '^cpu made_up=1: tuned$'
FAILING=1 hosts 4 "$mpirun" -n 2
rows both | grep -qE '^both: 1 row for 1 CPU and build$' || fail "$(rows both)"
has out '^cpu made_up=1: failed: nothing stored$'
LIKE=3 hosts 3 env # a rank without mpirun, which takes its time where ranks fail
SILENT=0 hosts 4 env
has err 'rank 0. does not tell its kind'
[ ! -f ran ] || fail "tuned although a rank has no kind"

# The output of fovea-tune by itself.
program=$SIMULATED
expect 2 --each-host
has err '-o FILE is missing'
expect 2 --each-host -o x --json
has err '--each-host goes with neither'
PATH=/usr/bin:/bin expect 4 --each-host -o x
has err '--each-host needs fovea-tune-each-host'
