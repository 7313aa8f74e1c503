#!/usr/bin/env bash
# reproducible.sh DIST: sdist, tarballs of sources and library, and a wheel, made again in another folder, have the bytes of those in DIST.
# Without ccache, which would take objects of the first for the second.
set -euo pipefail
cd "$(dirname "$0")/.."
dist=$(realpath "${1:?usage: reproducible.sh DIST}")
again=$PWD/build/packaging/again-in-a-folder-of-another-name
rm -rf "$again"
git clone -q . "$again"
mkdir -p "$again/build/packaging"
for made in venv ggml packaging/sysroot; do ln -s "$PWD/build/$made" "$again/build/$made"; done
CCACHE_DISABLE=1 TARGETS=x86_64-linux-gnu "$again/packaging/release.sh" sdist wheels tarball >"$again/build/packaging/log" 2>&1 ||
    { tail -n 30 "$again/build/packaging/log" >&2 && exit 1; }
(cd "$again/build/dist" && sha256sum -- *.tar.gz *.whl) >"$again/build/sums"
(cd "$dist" && sha256sum -c "$again/build/sums") || { echo "reproducible.sh: made again, these differ ($again)" >&2 && exit 1; }
rm -rf "$again"
