#!/bin/sh
# Whole models from Python: transformers' attention implementations, and copies by fovea.torch.optimize(), in one process, in turns.
#   bench/models.sh [--only GLOB] [--rounds N] [--threads 1,2]      see models.py
# Runs in the venv of make test-python; without it, or without a model, a case is SKIPPED.
set -eu
cd "$(dirname "$0")/.."
if [ ! -f build/venv/torch/made ]; then
    echo 'SKIPPED: models from Python need PyTorch and transformers: make test-python' >&2
    exit
fi
build=build/python
{ cmake -S python -B $build -G Ninja -DCMAKE_BUILD_TYPE=Release -DPython_EXECUTABLE="$PWD/build/venv/torch/bin/python" >$build.log 2>&1 &&
    cmake --build $build >$build.log 2>&1; } || {
    cat $build.log >&2
    exit 1
}
PYTHONPATH=$build:python/tests/support PYTHONDONTWRITEBYTECODE=1 exec build/venv/torch/bin/python bench/models.py "$@"
