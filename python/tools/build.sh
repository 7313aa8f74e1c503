#!/usr/bin/env bash
# build.sh PYTHON: builds the package for that interpreter, without fovea-tune, into build/python, which PYTHONPATH then names.
# Exit status 3: its headers are not here.
set -euo pipefail
cd "$(dirname "$0")/../.."
python=${1:?usage: build.sh PYTHON}
"$python" -c 'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")' 2>/dev/null || {
    echo "Python's headers are needed; on Debian and Ubuntu: apt-get install python3-dev" >&2
    exit 3
}
cmake/quiet.sh "Configuring for Python" cmake -S python -B build/python -G Ninja -DCMAKE_BUILD_TYPE=Release -DPython_EXECUTABLE="$python"
cmake/quiet.sh "Compiling for Python" cmake --build build/python --target _core
cmake --build build/python --target package >/dev/null # in no time, each time
