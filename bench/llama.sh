#!/bin/sh
# llama.cpp with and without Fovea's backend (integrations/ggml), in turns: prompts, and tokens behind a filled cache.
#   bench/llama.sh [--model FILE.gguf] [--rounds N] [--threads N] [--prompts N,...] [--keys N,...]      see generate/llama.py
#   bench/llama.sh --large ...      the first argument: a llama of 1.1 billion random weights in Q4_K (generate/large.py)
#   bench/llama.sh --types ...      llamas of 0.4 billion random weights in six types, prompts of 512, on one thread and on two;
#                                   LAYERS=16: of 1.1 billion; TYPES: some of them. Decoding is also told as a share of
#                                   the speed at which these threads read memory (fovea-nodes, machines with one node)
# llama.cpp is llama-cpp-python, as in generate.sh. For another build of ggml, say for AVX2, name its folder in LD_LIBRARY_PATH, and
# FOVEA_ISA=avx2. Environment: BUILD (default build), FOVEA_LLAMA_PYTHON: an interpreter that has llama_cpp.
set -eu
cd "$(dirname "$0")/.."
. bench/common.sh
python3 integrations/ggml/fetch.py build/ggml
need_program ggml-fovea -DFOVEA_GGML=ON
need_model llama.cpp "${1:-}" || exit 0
case "${1:-}" in
--large | --types)
    what=$1
    shift
    ;;
esac
need_llama "$build/peers" || {
    echo 'SKIPPED: llama-cpp-python cannot be built' >&2
    exit
}
export PYTHONDONTWRITEBYTECODE=1
export FOVEA_KNOWN_CPUS="${FOVEA_KNOWN_CPUS-$PWD/src/tuning/known-cpus.tuning}" # an installed backend finds them
set -- --backend build/release/integrations/ggml/libggml-fovea.so "$@"
[ "${what:-}" = --types ] || exec python3 bench/generate/llama.py --model "$model" "$@"
tokenizer=$model
need_program fovea-nodes
reading() {
    OMP_NUM_THREADS=$1 build/release/bench/fovea-nodes --megabytes 256 --seconds 0 | sed -n 's/^reading memory, .*: \([0-9.]*\) GB.*/\1/p'
}
for type in ${TYPES:-Q4_K_M Q5_K_M Q6_K Q8_0 F16 BF16}; do
    model=$tokenizer
    make_model "$type" ${LAYERS:-}
    for threads in 1 2; do
        echo "$type"
        python3 bench/generate/llama.py --model "$model" --prompts 512 --keys 512 --threads "$threads" \
            --reading "$(reading "$threads" | grep . || echo 0)" "$@"
    done
done
