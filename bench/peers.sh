#!/bin/sh
# Compares Fovea with other libraries, those that are installed; writes the page of this CPU in docs/peers.
#
#   make bench-peers                                    ONNX Runtime, and what else Python already has
#   make bench-peers PEERS="onnxruntime torch"          installs these first, into venvs of their own in the build folder
#   make bench-peers PEERS=all                          onnxruntime torch openvino zentorch openblas (12 GB)
#   bench/peers.sh --only '*T512*' --rounds 9           some cases, printed only; see --help
#
# zentorch gets a venv of its own, as it asks for its own version of PyTorch. A peer that cannot be installed is SKIPPED.
# Environment: PEERS (default onnxruntime), BUILD (default build), PYTHON (an interpreter that has everything: no venv is
# made, nothing is installed), FOVEA_ZENTORCH_PYTHON (one that has zentorch). An AVX-512 or AVX2 CPU is needed for figures
# that mean something.
set -eu
cd "$(dirname "$0")/.."
. bench/common.sh
venv=$build/peers/venv
FOVEA_PEERS=${PEERS:-onnxruntime}
peers=$FOVEA_PEERS
[ "$peers" != all ] || peers='onnxruntime torch openvino zentorch openblas'

# zentorch 2.14.x works with PyTorch 2.14.
install_zentorch() {
    make_venv "$1" && need_module "$1" zentorch --no-deps zentorch || return
    version=$("$1/bin/python" -m pip show zentorch | sed -n 's/^Version: \([0-9]*\.[0-9]*\).*/\1/p')
    need_module "$1" zentorch numpy deprecated safetensors "torch==$version.*"
}

install_peer() {
    case $1 in
    zentorch) install_zentorch "$venv-zentorch" ;;
    openblas) need_module "$venv" scipy_openblas32 scipy-openblas32 ;;
    *) need_module "$venv" "$1" "$1" ;;
    esac
}

need_library
if [ -z "${PYTHON:-}" ]; then
    make_venv "$venv"
    PYTHON=$venv/bin/python
    for module in numpy onnx; do
        need_module "$venv" "$module" "$module"
    done
    for peer in $peers; do
        install_peer "$peer" || echo "SKIPPED: $peer cannot be installed" >&2
    done
fi
if [ -z "${FOVEA_ZENTORCH_PYTHON:-}" ] && [ -x "$venv-zentorch/bin/python" ]; then
    FOVEA_ZENTORCH_PYTHON=$venv-zentorch/bin/python
fi
export FOVEA_PEERS FOVEA_ZENTORCH_PYTHON

PYTHONDONTWRITEBYTECODE=1 exec "$PYTHON" bench/peers/run.py "$@"
