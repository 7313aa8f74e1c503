#!/bin/sh
# llama.cpp with and without Fovea's backend (integrations/ggml), in turns: prompts, and tokens behind a filled cache.
#   bench/llama.sh [--model FILE.gguf] [--rounds N] [--threads N] [--prompts N,...] [--keys N,...]      see generate/llama.py
#   bench/llama.sh --large ...      the first argument: a llama of 1.1 billion random weights in Q4_K (generate/large.py)
# llama.cpp is llama-cpp-python, as in generate.sh. For another build of ggml, say for AVX2, name its folder in LD_LIBRARY_PATH, and
# FOVEA_ISA=avx2. Environment: BUILD (default build), FOVEA_LLAMA_PYTHON: an interpreter that has llama_cpp.
set -eu
cd "$(dirname "$0")/.."
. bench/common.sh
build=${BUILD:-build}
smol=$build/models/SmolLM2-135M-Instruct
mkdir -p "$build/peers"
{ python3 integrations/ggml/fetch.py build/ggml && cmake --preset release -DFOVEA_GGML=ON &&
    cmake --build --preset release --target ggml-fovea; } >"$build/peers/llama.log" 2>&1 || {
    cat "$build/peers/llama.log" >&2
    exit 1
}
python3 tools/generate/fetch.py "$smol" || {
    echo 'SKIPPED: llama.cpp: there is no model' >&2
    exit
}
model=$smol/SmolLM2-135M-Instruct.Q4_1.gguf
if [ "${1:-}" = --large ]; then
    shift
    [ -f "$build/models/large.gguf" ] || python3 bench/generate/large.py "$model" "$build/models/large.gguf"
    model=$build/models/large.gguf
fi
need_llama "$build/peers" || {
    echo 'SKIPPED: llama-cpp-python cannot be built' >&2
    exit
}
PYTHONDONTWRITEBYTECODE=1 exec python3 bench/generate/llama.py --backend build/release/integrations/ggml/libggml-fovea.so --model "$model" "$@"
