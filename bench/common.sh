# shellcheck shell=sh disable=SC2034
# Functions of the scripts in this folder, which read them with `.`, in the root of the tree. `build` is the folder of builds.
build=${BUILD:-build}

# Builds the shared library and the module of bench/peers: build_library SOURCE BUILD.
build_library() {
    mkdir -p "$2"
    { cmake -S "$1" -B "$2" -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON -DFOVEA_BUILD_TESTS=OFF \
        -DFOVEA_BUILD_TOOLS=OFF -DFOVEA_BUILD_EXAMPLES=OFF -DFOVEA_BUILD_BENCH=ON >"$2/build.log" 2>&1 &&
        cmake --build "$2" --parallel "$(nproc)" --target fovea fovea-peers >"$2/build.log" 2>&1; } || {
        cat "$2/build.log" >&2
        return 1
    }
}

# Where api.py finds a build's libraries: library_of BUILD VARIABLE.
library_variables='FOVEA_LIBRARY FOVEA_PEERS_MODULE'
library_of() {
    case $2 in
    FOVEA_LIBRARY) find "$1" -name libfovea.so ;;
    FOVEA_PEERS_MODULE) find "$1" -name libfovea-peers.so ;;
    esac | head -n 1
}

# This tree's library for api.py, in build/peers.
need_library() {
    build_library . "$build/peers" || return
    for variable in $library_variables; do
        export "$variable=$(library_of "$build/peers" "$variable")"
    done
}

# Builds a program of the release preset, quietly: need_program TARGET [CMAKE_OPTION].
need_program() {
    mkdir -p "$build/peers"
    { cmake --preset release ${2:+"$2"} && cmake --build --preset release --target "$1"; } >"$build/peers/$1.log" 2>&1 || {
        cat "$build/peers/$1.log" >&2
        return 1
    }
}

# Makes a venv that uses what the system's Python has, too: make_venv FOLDER.
make_venv() {
    if [ ! -x "$1/bin/python" ] && ! python3 -m venv --system-site-packages "$1"; then
        rm -rf "$1"
        echo "Python 3 with venv is needed; on Debian and Ubuntu: apt-get install python3-venv" >&2
        return 1
    fi
}

# Installs a package where a module of it is missing: need_module VENV MODULE PACKAGE...
need_module() {
    python=$1/bin/python
    module=$2
    shift 2
    "$python" -c "import $module" 2>/dev/null && return
    echo "installing $*" >&2
    "$python" -m pip install --quiet --disable-pip-version-check "$@"
}

# FOVEA_LLAMA_PYTHON: an interpreter with llama-cpp-python, which pip builds from its source for this CPU, once (5 minutes
# on 2 cores): need_llama FOLDER.
need_llama() {
    [ -z "${FOVEA_LLAMA_PYTHON:-}" ] || return 0
    make_venv "$1/venv-llama" && need_module "$1/venv-llama" llama_cpp --no-binary llama-cpp-python llama-cpp-python || return
    FOVEA_LLAMA_PYTHON=$1/venv-llama/bin/python
    export FOVEA_LLAMA_PYTHON
}

# smol: the folder of SmolLM2-135M-Instruct, fetched once; model: its GGUF file or, with --large, a llama of 1.1 billion random weights,
# made once: need_model WHAT-FOR [--large].
need_model() {
    smol=$build/models/SmolLM2-135M-Instruct
    python3 tools/generate/fetch.py "$smol" || {
        echo "SKIPPED: $1: there is no model" >&2
        return 1
    }
    model=$smol/SmolLM2-135M-Instruct.Q4_1.gguf
    [ "${2:-}" != --large ] || make_model large
}

# model: a llama of random weights with the tokenizer of `model`, made once (generate/large.py): make_model large, or make_model TYPE
# [LAYERS].
make_model() {
    made=$build/models/$1${2:+-$2}.gguf
    if [ ! -f "$made" ]; then
        make_venv "$build/peers/venv" && need_module "$build/peers/venv" gguf gguf || return
        "$build/peers/venv/bin/python" bench/generate/large.py "$model" "$made" $([ "$1" = large ] || echo "$@") || return
    fi
    model=$made
}

# FOVEA_TORCH_PYTHON, with this tree's Python package; FOVEA_MODELS_PATH: where its transformers and tokenizers are, for interpreters
# without: need_torch WHAT-FOR.
need_torch() {
    FOVEA_TORCH_PYTHON=${FOVEA_TORCH_PYTHON:-$PWD/build/venv/torch/bin/python}
    if [ ! -x "$FOVEA_TORCH_PYTHON" ]; then
        echo "SKIPPED: $1 need PyTorch and transformers: make test-python" >&2
        return 1
    fi
    python/tools/build.sh "$FOVEA_TORCH_PYTHON"
    FOVEA_MODELS_PATH=$("$FOVEA_TORCH_PYTHON" -c 'import os, transformers; print(os.path.dirname(os.path.dirname(transformers.__file__)))')
    export FOVEA_TORCH_PYTHON FOVEA_MODELS_PATH
}
