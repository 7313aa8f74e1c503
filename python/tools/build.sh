#!/usr/bin/env bash
# build.sh PYTHON [BUILD]: builds the package for that interpreter, without fovea-tune, into build/python, which PYTHONPATH then names.
# With BUILD, a build folder of the library: into BUILD/python, in seconds, on that library. Exit status 3: its headers are not here.
set -euo pipefail
cd "$(dirname "$0")/../.."
python=${1:?usage: build.sh PYTHON [BUILD]}
folder=${2:-build}/python options=()
"$python" -c 'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")' 2>/dev/null || {
    echo "Python's headers are needed; on Debian and Ubuntu: apt-get install python3-dev" >&2
    exit 3
}
if [ $# -gt 1 ]; then
    options=(-DFOVEA_BUILT="$PWD/$2")
    cmake/quiet.sh "Compiling" cmake --build "$2" --target fovea_internal
fi
cmake/quiet.sh "Configuring for Python" \
    cmake -S python -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Release -DPython_EXECUTABLE="$python" "${options[@]}"
cmake/quiet.sh "Compiling for Python" cmake --build "$folder" --target _core
cmake --build "$folder" --target package >/dev/null # in no time, each time
