#!/bin/sh
# SmolLM2-135M-Instruct: fovea-generate, llama.cpp on the same GGUF file, and transformers on its numbers, in turns.
#   bench/generate.sh [--large] [--rounds N] [--threads N] [--tokens N] [--characters N]      see generate/run.py
# --large, the first argument: a llama of 1.1 billion random weights in Q4_K (generate/large.py), compared with llama.cpp alone.
# llama.cpp is llama-cpp-python (common.sh). transformers is taken from the venv of make test-python. Libraries that cannot be installed
# are marked SKIPPED.
# Environment: BUILD (default build), FOVEA_LLAMA_PYTHON, FOVEA_TORCH_PYTHON: interpreters that have these.
set -eu
cd "$(dirname "$0")/.."
. bench/common.sh
need_program fovea-generate
need_model 'decoding of a model' "${1:-}" || exit 0
if [ "${1:-}" = --large ]; then shift; else model=$smol; fi
need_llama "$build/peers" || echo 'SKIPPED: llama-cpp-python cannot be built' >&2
if [ -z "${FOVEA_TORCH_PYTHON:-}" ] && [ -f build/venv/torch/made ]; then
    FOVEA_TORCH_PYTHON=build/venv/torch/bin/python
fi
export FOVEA_TORCH_PYTHON
PYTHONDONTWRITEBYTECODE=1 exec python3 bench/generate/run.py --model "$model" "$@"
