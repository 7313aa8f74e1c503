#!/usr/bin/env bash
# release.sh: makes build/dist, everything that a release uploads, from what is committed: sdist, wheels, source tarball, Debian's
# packages, bills of materials, SHA256SUMS, and publishing.md, what is left for a person to do. Each wheel is built from the sdist, then
# installed and run in a root of its own (roots/). Says before each step what it takes on 2 idle cores.
# Environment: TARGETS, the wheels' (sysroot.sh); CHECK=no leaves out the roots and the second build that all bytes are compared with.
set -euo pipefail
cd "$(dirname "$0")/.."
targets=${TARGETS:-x86_64-linux-gnu aarch64-linux-gnu x86_64-linux-musl aarch64-linux-musl}
work=$PWD/build/packaging dist=$PWD/build/dist
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
step() { # step MINUTES TITLE COMMAND...
    printf '\n=== %s (%s min)\n' "$2" "$1"
    local begin=$SECONDS
    "${@:3}"
    echo "    done in $((SECONDS - begin)) s"
}
[ -z "$(git status --porcelain --untracked-files=no)" ] ||
    echo "Some files are changed and not committed: the release is made of $(git log -1 --format=%h) without these changes"
rm -rf "$dist" "$work/tree" "$work/sdist"
mkdir -p "$dist" "$work/tree" "$work/sdist"

prepare() {
    cmake/setup.sh --python --release
    python/tools/venv.sh wheel
    python3 integrations/ggml/fetch.py build/ggml # whose headers the wheels' backend is compiled with
    git archive HEAD | tar -x -C "$work/tree"
}
sdist() {
    build/venv/wheel/bin/python -m build --no-isolation --sdist --outdir "$dist" "$work/tree" >"$work/sdist.log" 2>&1 ||
        { tail -n 30 "$work/sdist.log" >&2 && exit 1; }
    build/venv/wheel/bin/twine check --strict "$dist"/*.tar.gz
    tar -x --strip-components=1 -f "$dist"/*.tar.gz -C "$work/sdist"
}
tarball() {
    packaging/tarball.sh "$dist"
    python3 packaging/sbom.py tarball "$(ls "$dist"/fovea-[0-9]*.tar.*z)"
}
step 5 "What is needed: packages of Debian and PyPI, ggml's headers" prepare
step 0 "sdist" sdist
for target in $targets; do
    step 3 "Wheel for $target" packaging/wheel.sh "$target" "$work/sdist" "$dist"
done
[ ! -e packaging/tarball.sh ] || step 0 "Source tarball" tarball
[ ! -e packaging/debian.sh ] || step 10 "Debian's packages, installed in a fresh root" packaging/debian.sh "$dist"
if [ "${CHECK:-}" != no ]; then
    for target in $targets; do
        step 5 "The wheel for $target in a root of its own" packaging/root.sh "$target" "$dist"
    done
    step 10 "The same bytes from another folder" packaging/reproducible.sh "$dist"
fi
cp packaging/publishing.md "$dist"
(cd "$dist" && find . -type f ! -name SHA256SUMS -printf '%P\n' | LC_ALL=C sort | xargs -d '\n' sha256sum >SHA256SUMS)
printf '\nbuild/dist is ready; publishing.md says what to do with it.\n'
(cd "$dist" && du -ah --apparent-size -- * | sort -k2)
