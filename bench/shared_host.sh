#!/bin/sh
# Decoding while others use the CPUs: whose threads to use on a shared host (docs/how-to/threads.md).
#   bench/shared_host.sh [ROUNDS] [TOKENS]      default: 7 rounds of 64 tokens
# SmolLM2-135M-Instruct in bfloat16, on two threads and on one, alone and while one and two endless loops run. In a
# round each way has its turn; printed are medians of tokens per second, and the least and the most.
# Environment: BUILD (default build), FOVEA_GENERATE_MODEL.
set -eu
cd "$(dirname "$0")/.."
rounds=${1:-7} tokens=${2:-64} build=${BUILD:-build}
model=${FOVEA_GENERATE_MODEL:-$build/models/SmolLM2-135M-Instruct}
work=$(mktemp -d)
loops=
finish() {
    # shellcheck disable=SC2086
    [ -z "$loops" ] || kill $loops
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM
{ cmake --preset release && cmake --build --preset release --target fovea-generate; } >"$work/log" 2>&1 || {
    cat "$work/log" >&2
    exit 1
}
[ -d "$model" ] || python3 tools/generate/fetch.py "$model" || {
    echo 'SKIPPED: decoding of a model: there is none' >&2
    exit 77
}

decode() { # decode FILE THREADS VARIABLE=VALUE...: adds the tokens per second to FILE
    file=$1 threads=$2
    shift 2
    sleep 0.3
    env "$@" "$build/release/tools/fovea-generate" --model "$model" --type bf16 --threads "$threads" \
        --tokens "$tokens" -- 'Tell a long story about a lighthouse, a storm and three ships.' |
        sed -n 's/^decode  *[0-9]* tokens, \([0-9.]*\) per second.*/\1/p' >>"$work/$file"
}

row() { # row NAME FILE
    sort -n "$work/$2" | awk -v name="$1" '{ at[NR] = $1 } END {
        printf "| %s | %.1f (%.1f to %.1f) |\n", name, (at[int((NR + 1) / 2)] + at[int(NR / 2) + 1]) / 2, at[1], at[NR] }'
}

for beside in 0 1 2; do
    [ "$beside" = 0 ] || {
        sh -c 'while :; do :; done' &
        loops="$loops $!"
    }
    rm -f "$work"/openmp "$work"/passive "$work"/pool "$work"/one
    for round in $(seq "$rounds"); do
        echo "beside $beside loops, round $round of $rounds" >&2
        decode openmp 2 FOVEA_THREADS_BACKEND=openmp
        decode passive 2 FOVEA_THREADS_BACKEND=openmp OMP_WAIT_POLICY=passive
        decode pool 2 FOVEA_THREADS_BACKEND=pool
        decode one 1 FOVEA_THREADS_BACKEND=pool
    done
    printf '\n| beside %s loops | tokens per second |\n|---|---|\n' "$beside"
    row 'OpenMP, 2 threads' openmp
    row 'OpenMP, 2 threads, OMP_WAIT_POLICY=passive' passive
    row 'pool, 2 threads' pool
    row '1 thread' one
done
