#!/bin/sh
# SmolLM2-135M-Instruct: fovea-generate beside llama.cpp on the same GGUF file, and transformers on its numbers, in turns.
#   bench/generate.sh [--large] [--rounds N] [--threads N] [--tokens N] [--characters N]      see generate/run.py
# --large, the first argument: a llama of 1.1 billion random weights in Q4_K (generate/large.py), beside llama.cpp alone.
# llama.cpp is llama-cpp-python (common.sh). transformers is taken from the venv of make test-python. Libraries that cannot be installed
# are marked SKIPPED.
# Environment: BUILD (default build), FOVEA_LLAMA_PYTHON, FOVEA_TORCH_PYTHON: interpreters that have these.
set -eu
cd "$(dirname "$0")/.."
. bench/common.sh
build=${BUILD:-build}/peers
model=${BUILD:-build}/models/SmolLM2-135M-Instruct
mkdir -p "$build"
{ cmake --preset release && cmake --build --preset release --target fovea-generate; } >"$build/generate.log" 2>&1 || {
    cat "$build/generate.log" >&2
    exit 1
}
python3 tools/generate/fetch.py "$model" || {
    echo 'SKIPPED: decoding of a model: there is none' >&2
    exit
}
if [ "${1:-}" = --large ]; then
    shift
    large=${BUILD:-build}/models/large.gguf
    [ -f "$large" ] || python3 bench/generate/large.py "$model/SmolLM2-135M-Instruct.Q4_1.gguf" "$large"
    model=$large
fi
need_llama "$build" || echo 'SKIPPED: llama-cpp-python cannot be built' >&2
if [ -z "${FOVEA_TORCH_PYTHON:-}" ] && [ -f build/venv/torch/made ]; then
    FOVEA_TORCH_PYTHON=build/venv/torch/bin/python
fi
export FOVEA_TORCH_PYTHON
PYTHONDONTWRITEBYTECODE=1 exec python3 bench/generate/run.py --model "$model" "$@"
