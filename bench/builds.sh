#!/bin/sh
# Compares this tree's build with that of another revision, in every case of bench-peers:
#
#   make bench-builds BASE=HEAD~5                            all of it
#   bench/builds.sh HEAD --quick --case 'linear*'            some of it; see --help
#
# BASE is any revision that git knows. Its tree and both builds are kept in build/builds and build/peers. For figures
# that mean something, nothing else should run. Environment: BUILD (default build), PYTHON (an interpreter with numpy: no
# venv is made).
set -eu
cd "$(dirname "$0")/.."
. bench/common.sh

case ${1:-} in
'' | -*)
    echo "usage: bench/builds.sh BASE [options], as in: bench/builds.sh HEAD --quick; BASE --help has the options" >&2
    exit 2
    ;;
esac
base=$(git rev-parse --verify --quiet --short=12 "$1^{commit}") || {
    echo "bench/builds.sh: git knows no revision $1" >&2
    exit 2
}
shift

if [ -z "${PYTHON:-}" ]; then
    make_venv "$build/peers/venv"
    need_module "$build/peers/venv" numpy numpy
    PYTHON=$build/peers/venv/bin/python
fi
old=$build/builds/$base
if [ ! -d "$old/source" ]; then
    mkdir -p "$old/part"
    git archive "$base" | tar -x -C "$old/part"
    mv "$old/part" "$old/source"
fi
build_library "$old/source" "$old/build"
build_library . "$build/peers"

# One build as JSON: describe NAME SOURCE BUILD.
describe() {
    printf '"%s": {"folder": "%s/bench/peers", "environment": {' "$1" "$(cd "$2" && pwd)"
    comma=
    for variable in $library_variables; do
        printf '%s"%s": "%s"' "$comma" "$variable" "$PWD/$(library_of "$3" "$variable")"
        comma=', '
    done
    printf '}}'
}
builds="{$(describe base "$old/source" "$old/build"), $(describe tree . "$build/peers")}"
PYTHONDONTWRITEBYTECODE=1 exec "$PYTHON" bench/peers/builds.py --base "$base" --builds "$builds" "$@"
