#!/usr/bin/env bash
# reproducible.sh DIST: sdist, tarball and one wheel, made again in another folder, have the bytes of those in DIST; so has the library,
# compiled in both folders. Without ccache, which would take objects of the first for the second.
set -euo pipefail
cd "$(dirname "$0")/.."
dist=$(realpath "${1:?usage: reproducible.sh DIST}")
again="$PWD/build/packaging/again in a folder of another name"
rm -rf "$again"
git clone -q . "$again"
mkdir -p "$again/build/packaging"
for made in venv ggml packaging/sysroot; do ln -s "$PWD/build/$made" "$again/build/$made"; done
export CCACHE_DISABLE=1
library() { # library TREE: compiles it, static and shared, and prints the hashes
    local shared
    mkdir -p "$1/build/packaging"
    for shared in OFF ON; do
        cmake -S "$1" -B "$1/build/packaging/library-$shared" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=$shared \
            -DFOVEA_BUILD_{TESTS,BENCH,TUNE,TOOLS,EXAMPLES}=OFF >"$1/build/packaging/library.log" 2>&1 &&
            cmake --build "$1/build/packaging/library-$shared" --target fovea >>"$1/build/packaging/library.log" 2>&1 ||
            { tail -n 30 "$1/build/packaging/library.log" >&2 && exit 1; }
    done
    (cd "$1/build/packaging" && sha256sum library-OFF/libfovea.a library-ON/libfovea.so)
}
TARGETS=x86_64-linux-gnu "$again/packaging/release.sh" sdist wheels tarball >"$again/build/packaging/log" 2>&1 ||
    { tail -n 30 "$again/build/packaging/log" >&2 && exit 1; }
sums() { # sums DIST: hashes of what was made twice
    (cd "$1" && find . -maxdepth 1 -name '*fovea[-_]*.tar.*z' -o -name '*manylinux*x86_64.whl' | LC_ALL=C sort | xargs sha256sum)
}
{ sums "$dist" && library "$PWD/build/packaging/tree"; } >"$again/build/first"
{ sums "$again/build/dist" && library "$again"; } >"$again/build/second"
diff "$again/build/first" "$again/build/second" || { echo "reproducible.sh: made again, these differ ($again)" >&2 && exit 1; }
cut -c1-16,65- "$again/build/first"
rm -rf "$again"
