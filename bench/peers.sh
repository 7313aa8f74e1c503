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
build=${BUILD:-build}/peers
peers=${PEERS:-onnxruntime}

mkdir -p "$build"
cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON -DFOVEA_BUILD_TESTS=OFF -DFOVEA_BUILD_EXAMPLES=ON \
    -DFOVEA_BUILD_BENCH=ON >"$build/build.log" 2>&1 || { cat "$build/build.log" >&2; exit 1; }
cmake --build "$build" --parallel --target fovea fovea-peers minilm-peer >"$build/build.log" 2>&1 || { cat "$build/build.log" >&2; exit 1; }

if [ -z "${PYTHON:-}" ]; then
    venv=$build/venv
    # What the system's Python already has is used, too.
    if [ ! -x "$venv/bin/python" ] && ! python3 -m venv --system-site-packages "$venv"; then
        rm -rf "$venv"
        echo "bench-peers needs Python 3 with venv; on Debian and Ubuntu: apt-get install python3-venv" >&2
        exit 1
    fi
    PYTHON=$venv/bin/python
    for package in numpy onnx $peers; do
        "$PYTHON" -c "import $package" 2>/dev/null || {
            echo "installing $package" >&2
            "$PYTHON" -m pip install --quiet --disable-pip-version-check "$package"
        }
    done
fi

find_library() { find "$build" -name "$1" | head -n 1; }
FOVEA_LIBRARY=$(find_library 'libfovea.so')
FOVEA_PEERS_MODULE=$(find_library 'libfovea-peers.so')
FOVEA_ENCODER_LIBRARY=$(find_library 'libminilm-peer.so')
export FOVEA_LIBRARY FOVEA_PEERS_MODULE FOVEA_ENCODER_LIBRARY
PYTHONDONTWRITEBYTECODE=1 exec "$PYTHON" bench/peers/run.py "$@"
