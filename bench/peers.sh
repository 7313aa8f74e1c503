#!/bin/sh
# Measures Fovea beside ONNX Runtime and, where installed, PyTorch and OpenVINO; writes the page of this CPU
# in docs/peers.
#
#   make bench-peers                                    ONNX Runtime, and what else Python already has
#   make bench-peers PEERS="onnxruntime torch openvino" installs these first, into a venv of its own in the build folder
#   bench/peers.sh --only '*T512*' --rounds 9           some cases, printed only; see --help
#
# Environment: PEERS (packages to install, default onnxruntime), BUILD (default build), PYTHON (an interpreter that has
# everything: no venv is made, nothing is installed). An AVX-512 or AVX2 CPU is needed for figures that mean something.
set -eu
cd "$(dirname "$0")/.."
. bench/common.sh
build=${BUILD:-build}/peers
peers=${PEERS:-onnxruntime}

build_library . "$build"
if [ -z "${PYTHON:-}" ]; then
    # shellcheck disable=SC2086 # words
    make_venv "$build/venv" numpy onnx $peers
    PYTHON=$build/venv/bin/python
fi

for variable in $library_variables; do
    export "$variable=$(library_of "$build" "$variable")"
done
PYTHONDONTWRITEBYTECODE=1 exec "$PYTHON" bench/peers/run.py "$@"
