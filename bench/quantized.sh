#!/bin/sh
# Linear maps with quantized weights: Fovea, llama.cpp, ik_llama.cpp, PyTorch, zentorch, OpenVINO and ONNX Runtime.
#   bench/quantized.sh [--formats i8,u4_32,...] [--rows N] [--from memory|cache] [--errors] ...       see --help
# llama.cpp's ggml comes with llama-cpp-python, which pip builds from its source for this CPU, once (10 minutes on 2 cores). ik_llama.cpp
# is built from a checkout of its repository in FOVEA_IK_SOURCE (default: build/peers/ik_llama.cpp). Libraries that cannot be
# installed are marked SKIPPED.
# Environment: BUILD (default build), PEERS (default "torch openvino onnxruntime": installed into the venv of bench/peers.sh),
# FOVEA_TORCH_PYTHON, FOVEA_ZENTORCH_PYTHON: interpreters that have these; FOVEA_LLAMA_LIBRARIES: a folder of ggml built otherwise, such as
# for AVX2, to be measured with FOVEA_ISA=avx2.
set -eu
cd "$(dirname "$0")/.."
. bench/common.sh
need_library
build=$build/peers
PEERS=${PEERS-torch openvino onnxruntime}
make_venv "$build/venv"
for module in numpy onnx gguf $PEERS; do
    need_module "$build/venv" "$module" "$module" || echo "SKIPPED: $module cannot be installed" >&2
done
if [ -n "${FOVEA_LLAMA_LIBRARIES:-}" ]; then
    : # another build
elif need_llama "$build"; then
    where='import importlib.util as u; print(u.find_spec("llama_cpp").submodule_search_locations[0])'
    FOVEA_LLAMA_LIBRARIES=$("$FOVEA_LLAMA_PYTHON" -c "$where")/lib
    FOVEA_LLAMA_LIBRARIES_VERSION="llama-cpp-python $("$FOVEA_LLAMA_PYTHON" -m pip show llama-cpp-python | sed -n 's/^Version: //p')"
else
    echo 'SKIPPED: llama-cpp-python cannot be built' >&2
fi
ik=${FOVEA_IK_SOURCE:-$build/ik_llama.cpp}
if [ -d "$ik/ggml" ]; then
    [ -f "$ik/ggml/ggml.pc.in" ] || : >"$ik/ggml/ggml.pc.in" # absent in some snapshots
    if { cmake -S "$ik/ggml" -B "$build/ik" -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON -DCMAKE_CXX_FLAGS=-std=c++20 &&
        cmake --build "$build/ik" --parallel "$(nproc)" --target ggml; } >"$build/ik.log" 2>&1; then
        FOVEA_IK_LIBRARIES=$build/ik/src
        FOVEA_IK_LIBRARIES_VERSION=$(git -C "$ik" rev-parse --short HEAD 2>/dev/null || :)
    else
        echo "SKIPPED: ik_llama.cpp cannot be built: $build/ik.log" >&2
    fi
else
    echo "SKIPPED: ik_llama.cpp: no checkout in $ik" >&2
fi
if [ -z "${FOVEA_ZENTORCH_PYTHON:-}" ] && [ -x "$build/venv-zentorch/bin/python" ]; then
    FOVEA_ZENTORCH_PYTHON=$build/venv-zentorch/bin/python
fi
for variable in FOVEA_LLAMA_LIBRARIES FOVEA_IK_LIBRARIES FOVEA_LLAMA_LIBRARIES_VERSION FOVEA_IK_LIBRARIES_VERSION FOVEA_TORCH_PYTHON \
    FOVEA_ZENTORCH_PYTHON; do
    eval "[ -z \"\${$variable:-}\" ] || export $variable"
done
PYTHONDONTWRITEBYTECODE=1 exec "$build/venv/bin/python" bench/quantized/run.py "$@"
