#!/usr/bin/env bash
# test_mpi.sh PROGRAM MPIRUN TEST-GENERATE-SETTINGS: fovea-generate --mpi on the tiny model of make_gguf.h has the hash
# of logits that it has without, on any number of ranks. Run by ctest, which sets SCRATCH, a folder of its own.
step=generate-mpi name=fovea-generate program=$1 mpirun=$2
. "$(dirname "$0")/../../tests/support/program.sh"
"$3" --write tiny.gguf >out 2>err || fail "no model"
hash_of() { sed -n 's/^logits   hash //p' out; }

for type in bf16 f32; do
    many=(1 2 3 4 8)
    [ $type = f32 ] || many=(3)
    options=(--model tiny.gguf --type $type --threads 1 --tokens 9 --ids)
    expect 0 "${options[@]}" ab
    alone=$(hash_of) answer=$(head -1 out)
    for ranks in "${many[@]}"; do
        "$mpirun" -n $ranks "$program" --mpi "${options[@]}" ab >out 2>err || fail "$type on $ranks ranks: $(cat err)"
        same "$type: another hash on $ranks ranks" "$(hash_of)" "$alone"
        same "$type: another answer on $ranks ranks" "$(head -1 out)" "$answer"
        [ "$(grep -c '^logits' out)" = 1 ] || fail "$type: more than one of $ranks ranks prints"
    done
done
expect 2 --mpi - </dev/null
has err 'only one rank has standard input'
"$mpirun" -n 2 "$program" --mpi --model tiny.gguf --context 65 --threads 1 ab >out 2>err && fail "a bad context is no error"
has err '^fovea-generate: --context 65: the model reads at most 64 tokens$'
