#!/usr/bin/env bash
# release.sh [STEP...]: makes build/dist, everything that a release uploads, from what is committed. All steps if none is named:
#   sdist         of the Python package
#   wheels        each built from the sdist (wheel.sh)
#   tarball       of the sources, with what it contains (SPDX)
#   debian        Debian's packages, installed in a fresh root
#   roots         each wheel installed in a system of its own, where the page's three steps must print the page's hash (root.sh)
#   reproducible  the same from another folder: equal bytes
# Last come publishing.md, what is left for a person to do, and SHA256SUMS. Each step says first what it takes on 2 idle cores.
# Environment: TARGETS, those of the wheels (sysroot.sh).
set -euo pipefail
cd "$(dirname "$0")/.."
steps=" ${*:-sdist wheels tarball debian roots reproducible} "
targets=${TARGETS:-x86_64-linux-gnu aarch64-linux-gnu x86_64-linux-musl aarch64-linux-musl x86_64-windows aarch64-macos x86_64-macos}
work=$PWD/build/packaging dist=$PWD/build/dist
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
step() { # step NAME MINUTES TITLE COMMAND...
    [[ $steps == *" $1 "* ]] || return 0
    printf '\n=== %s (%s min)\n' "$3" "$2"
    local begin=$SECONDS
    "${@:4}"
    echo "    done in $((SECONDS - begin)) s"
}
sdist() {
    rm -rf "$dist" "$work/tree" "$work/sdist"
    mkdir -p "$dist" "$work/tree" "$work/sdist"
    git archive HEAD | tar -x -C "$work/tree"
    build/venv/wheel/bin/python -m build --no-isolation --sdist --outdir "$dist" "$work/tree" >"$work/sdist.log" 2>&1 ||
        { tail -n 30 "$work/sdist.log" >&2 && exit 1; }
    build/venv/wheel/bin/twine check --strict "$dist"/*.tar.gz
    tar -x --strip-components=1 -f "$dist"/*.tar.gz -C "$work/sdist"
}
tarball() {
    packaging/tarball.sh "$dist"
    python3 packaging/sbom.py tarball "$(ls "$dist"/fovea-[0-9]*.tar.*z)"
}

[ -z "$(git status --porcelain --untracked-files=no)" ] ||
    echo "Some files are changed and not committed: this makes $(git log -1 --format=%h), without these changes"
needs=(--python --release)
[[ $steps != *" debian "* ]] || needs+=(--debian)
cmake/setup.sh "${needs[@]}"
python/tools/venv.sh wheel
python3 integrations/ggml/fetch.py build/ggml # whose headers the wheels' backend is compiled with
step sdist 0 "sdist" sdist
for target in $targets; do
    step wheels 3 "Wheel for $target" packaging/wheel.sh "$target" "$work/sdist" "$dist"
done
step tarball 0 "Source tarball" tarball
step debian 10 "Debian's packages, installed in a fresh root" packaging/debian.sh "$dist"
for target in $targets; do
    step roots 5 "The wheel for $target in a root of its own" packaging/root.sh "$target" "$dist"
done
step reproducible 10 "The same bytes from another folder" packaging/reproducible.sh "$dist"
cp packaging/publishing.md "$dist"
(cd "$dist" && find . -type f ! -name SHA256SUMS -printf '%P\n' | LC_ALL=C sort | xargs -d '\n' sha256sum >SHA256SUMS)
printf '\nbuild/dist has:\n'
(cd "$dist" && du -ah --apparent-size -- * | sort -k2)
