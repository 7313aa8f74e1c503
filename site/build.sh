#!/usr/bin/env bash
# build.sh: the site, in build/site/html; warnings are errors, and so are links that lead nowhere. Needs Doxygen (cmake/setup.sh
# --site) and, once, PyPI for the packages of site/requirements.txt, which it installs in build/venv/site.
# Exit status 77: one of them cannot be had.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=build/venv/site out=build/site

command -v doxygen >/dev/null || { echo "SKIPPED: the site: no doxygen (cmake/setup.sh --site)"; exit 77; }
if ! cmp -s site/requirements.txt $venv/made; then
    rm -rf $venv
    python3 -m venv $venv && $venv/bin/pip install -q --disable-pip-version-check -r site/requirements.txt ||
        { echo "SKIPPED: the site: its packages could not be installed"; exit 77; }
    cp site/requirements.txt $venv/made
fi

# Pages, and the files that pages link to, stand where they do in the tree: links are those of the tree.
rm -rf $out
mkdir -p $out/source
for name in *; do
    [ "$name" = build ] || cp -r "$name" $out/source
done
cp site/index.md $out/source

{ cat site/Doxyfile; echo "INPUT = include/fovea integrations/mpi/include"; echo "OUTPUT_DIRECTORY = $out"; } | doxygen -
$venv/bin/sphinx-build -q -W --keep-going -j auto -c site -d $out/doctrees $out/source $out/html
echo "The site is $out/html/index.html: $(find $out/html -name '*.html' | wc -l) pages"
