#!/usr/bin/env bash
# compare.sh MODEL [TEXT]: compare.py, with the vectors that fovea-embed writes of the same text; make run calls it. numpy and tokenizers
# come from the venv of make test-python where it was made, else by pip into build/venv/embeddings. Without a network, Python 3.11 or its
# headers, SKIPPED.
set -euo pipefail
cd "$(dirname "$0")/../.."
model=${1:?usage: compare.sh MODEL [TEXT]} text=${2:-tools/embed/alice.txt}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

skip() {
    echo "SKIPPED: the bytes of vectors from Python: $*"
    exit
}
fetch() { # as fetch.py does: by a pip of its own where Python has none, and soon over where nothing answers
    local pip=$python
    echo "Fetching numpy and tokenizers (20 MB, once)"
    "$pip" -m pip --version >/dev/null 2>&1 || {
        "$python" -m venv "$scratch/venv" >/dev/null || skip "on Debian and Ubuntu: apt-get install python3-venv"
        pip=$scratch/venv/bin/python
    }
    rm -rf "$packages"
    "$pip" -m pip install --quiet --disable-pip-version-check --no-input --retries=1 --timeout=10 --no-deps --only-binary=:all: \
        --target "$packages" numpy tokenizers >"$scratch/said" 2>&1 || {
        rm -rf "$packages"
        skip "numpy and tokenizers could not be fetched ($(tail -n 1 "$scratch/said"))"
    }
}

packages=$PWD/build/venv/embeddings
if [ -f build/venv/torch/made ]; then
    python=$PWD/build/venv/torch/bin/python
else
    python=$(python3 -c 'import sys; print(sys.executable)')
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || skip "$("$python" --version) is older than 3.11"
    export PYTHONPATH=$packages
    "$python" -c 'import numpy, tokenizers' 2>/dev/null || fetch
fi
status=0
python/tools/build.sh "$python" build/release || status=$?
[ $status -ne 3 ] || skip "Python's headers are missing"
[ $status -eq 0 ] || exit $status
build/release/tools/fovea-embed --model "$model" --text "$text" --output "$scratch/vectors.npy" 2>"$scratch/said" || {
    cat "$scratch/said" >&2
    exit 1
}
export PYTHONPATH=build/release/python${PYTHONPATH:+:$PYTHONPATH} PYTHONDONTWRITEBYTECODE=1
"$python" tools/embed/compare.py "$model" "$text" "$scratch/vectors.npy"
