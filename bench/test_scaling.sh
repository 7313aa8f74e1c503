#!/usr/bin/env bash
# test_scaling.sh BUILD: the table of scaling.sh has a row for each case, and a column for each number of threads; on at most
# two CPUs a line says that more were not measured.
set -euo pipefail
out=$(CASES=$'attention q_heads=2 q_len=16 head_dim=16\nlinear m=4 n=32 k=32' THREADS='1 2' REPETITIONS=1 "$(dirname "$0")/scaling.sh" "$1")
echo "$out"
grep -qE '^ +1 +2  threads$' <<<"$out"
[ "$(grep -cE '^ +[0-9.]+ ms +[0-9.]+  (attention|linear)/' <<<"$out")" = 2 ]
if [ "$(nproc)" -le 2 ]; then grep -q '^Scaling beyond [12] threads was not measured: ' <<<"$out"; fi
