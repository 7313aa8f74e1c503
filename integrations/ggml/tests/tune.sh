#!/usr/bin/env bash
# tune.sh TUNE PROGRAM FOVEA_TUNE: fovea-tune-ggml writes rows that the backend takes, also as rows that ship. PROGRAM is
# test-ggml-fovea-options, which loads the backend; in brief runs what is measured does not matter.
. "$(dirname "$0")/../../../tests/support/sure.sh"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0
expect() { # expect STATUS WORDS...: fovea-tune-ggml ends with it
    local status=0
    "$tune" "${@:2}" >"$scratch/log" 2>&1 || status=$?
    [ $status = "$1" ] || { cat "$scratch/log" && echo "FAILED: ${*:2}: status $status, not $1" && failed=1; }
}
taken() { # taken NUMBER [FILE [SHIPPED]]: the backend takes NUMBER rows, and understands all
    local said
    said=$(FOVEA_GGML='' FOVEA_DEBUG=1 FOVEA_TUNING_FILE=${2-$scratch/tuning} FOVEA_KNOWN_CPUS=${3-} "$program" 2>&1)
    if [ "$(grep -c '^ggml-fovea: by line .* ggml\.' <<<"$said")" != "$1" ] || grep -q 'not understood' <<<"$said"; then
        echo "FAILED: not $1 rows: $said"
        failed=1
    fi
}
tune=$1 program=$2 merge=$3
expect 2
expect 2 -o
expect 2 -o "$scratch/tuning" --type q9
expect 2 -o "$scratch/tuning" --other
expect 0 -o "$scratch/tuning" --type q8_0 --brief
taken 4
expect 0 -o "$scratch/tuning" --type q4_K --brief
taken 7
expect 0 -o "$scratch/tuning" --type q8_0 --brief
taken 7
FOVEA_GGML_ARITHMETIC=q8 expect 0 -o "$scratch/tuning" --type q4_K --brief
taken 7
FOVEA_GGML_ARITHMETIC=q8 taken 7
"$merge" merge --ship "$scratch/tuning" -o "$scratch/shipped" >"$scratch/log"
taken 7 "$scratch/shipped"
taken 7 "$scratch/tuning" "$scratch/shipped"
echo damaged >>"$scratch/tuning"
cp "$scratch/tuning" "$scratch/before"
expect 4 -o "$scratch/tuning" --type q8_0 --brief
grep -q 'line' "$scratch/log" && cmp -s "$scratch/tuning" "$scratch/before" || { echo 'FAILED: a damaged file' && failed=1; }
[ $failed = 0 ] && echo passed
exit $failed
