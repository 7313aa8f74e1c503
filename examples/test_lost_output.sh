#!/usr/bin/env bash
# test_lost_output.sh PROGRAM...: what a full disk loses of a demonstration's output ends it with 1, and a line.
set -u
[ -c /dev/full ] || { echo "SKIPPED: no /dev/full" && exit 77; }
[ $# -ge 6 ] || { echo "few programs: $*" && exit 1; }
for program; do
    said=$("$program" 2>&1 >/dev/full)
    status=$?
    [ $status = 1 ] || { echo "$program: status $status although its output was lost" && exit 1; }
    [[ $said == "${program##*/}: standard output was not written completely"* ]] || { echo "$program: $said" && exit 1; }
done
