#!/bin/sh
# Whole models from Python: transformers' attention implementations, copies by fovea.torch.optimize(), zentorch and OpenVINO, in turns.
#   bench/models.sh [--only GLOB] [--rounds N] [--threads 1,2] [--before DIR]      see models/run.py
# Runs in the venv of make test-python; without it, or without a model, a case is SKIPPED. zentorch and OpenVINO are taken from the
# venvs that bench/peers.sh makes (PEERS=all, or PEERS="openvino zentorch"); their processes find transformers in this one's.
# Environment: FOVEA_ZENTORCH_PYTHON, FOVEA_OPENVINO_PYTHON: interpreters that have these.
set -eu
cd "$(dirname "$0")/.."
. bench/common.sh
need_torch 'models from Python' || exit 0
# The interpreter of a venv that has a module: find_peer VENV MODULE.
find_peer() {
    if [ -x "$1/bin/python" ] && "$1/bin/python" -c "import importlib.util as u, sys; sys.exit(not u.find_spec('$2'))"; then
        printf '%s' "$PWD/$1/bin/python"
    fi
}
FOVEA_ZENTORCH_PYTHON=${FOVEA_ZENTORCH_PYTHON:-$(find_peer "$build/peers/venv-zentorch" zentorch)}
FOVEA_OPENVINO_PYTHON=${FOVEA_OPENVINO_PYTHON:-$(find_peer "$build/peers/venv" openvino)}
export FOVEA_ZENTORCH_PYTHON FOVEA_OPENVINO_PYTHON
PYTHONPATH=build/python:python/tests/support PYTHONDONTWRITEBYTECODE=1 exec "$FOVEA_TORCH_PYTHON" bench/models/run.py "$@"
