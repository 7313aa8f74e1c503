# shellcheck shell=sh disable=SC2034
# What peers.sh and builds.sh have in common; read by them with `.`, in the root of the tree.

# Builds the shared library and what Python needs beside it: build_library SOURCE BUILD.
build_library() {
    mkdir -p "$2"
    { cmake -S "$1" -B "$2" -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON -DFOVEA_BUILD_TESTS=OFF \
        -DFOVEA_BUILD_TOOLS=ON -DFOVEA_BUILD_EXAMPLES=ON -DFOVEA_BUILD_BENCH=ON >"$2/build.log" 2>&1 &&
        cmake --build "$2" --parallel "$(nproc)" --target fovea fovea-peers minilm-peer >"$2/build.log" 2>&1; } || {
        cat "$2/build.log" >&2
        return 1
    }
}

# Where api.py and encoder.py find a build's libraries: library_of BUILD VARIABLE.
library_variables='FOVEA_LIBRARY FOVEA_PEERS_MODULE FOVEA_ENCODER_LIBRARY'
library_of() {
    case $2 in
    FOVEA_LIBRARY) find "$1" -name libfovea.so ;;
    FOVEA_PEERS_MODULE) find "$1" -name libfovea-peers.so ;;
    FOVEA_ENCODER_LIBRARY) find "$1" -name libminilm-peer.so ;;
    esac | head -n 1
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
