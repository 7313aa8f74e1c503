#!/bin/sh
# Vectors of texts: fovea.sentence_transformers, and fovea-embed if make run built it, and sentence-transformers on
# PyTorch, ONNX Runtime and OpenVINO, in turns.
#   bench/embeddings.sh [--rounds N] [--threads 1] [--only GLOB]...     see embeddings/run.py
# Runs in the venv of make test-python, which has the model. ONNX Runtime and OpenVINO are taken from the venv that bench/peers.sh makes
# (PEERS="onnxruntime openvino"); their processes find tokenizers in this one's. Without NNCF OpenVINO's int8 is SKIPPED.
# Environment: FOVEA_TORCH_PYTHON, FOVEA_PEERS_PYTHON: interpreters that have these; FOVEA_NNCF: a folder that has
# NNCF (pip install --target FOLDER nncf).
set -eu
cd "$(dirname "$0")/.."
. bench/common.sh
need_torch 'vectors from Python' || exit 0
export FOVEA_PEERS_PYTHON="${FOVEA_PEERS_PYTHON:-$PWD/$build/peers/venv/bin/python}"
PYTHONPATH=build/python PYTHONDONTWRITEBYTECODE=1 exec "$FOVEA_TORCH_PYTHON" -u bench/embeddings/run.py "$@"
