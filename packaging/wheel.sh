#!/usr/bin/env bash
# wheel.sh TARGET SOURCE OUT: builds the wheel of a target of sysroot.sh from the unpacked sdist SOURCE into the folder OUT, adds its SBOM,
# and checks it: auditwheel and abi3audit find nothing that its tags do not promise, twine finds nothing that PyPI would not take.
# ggml's headers are those of build/ggml. Environment: SOURCE_DATE_EPOCH, the time of its files; FOVEA_WERROR=ON.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${1:?usage: wheel.sh TARGET SOURCE OUT} source=$(realpath "$2") out=$3
arch=${target%%-*}
case $target in
*-linux-gnu) platform=manylinux_2_28_$arch ;;
*-linux-musl) platform=musllinux_1_2_$arch ;;
x86_64-windows) platform=win_amd64 ;;
aarch64-macos) platform=macosx_11_0_arm64 ;;
x86_64-macos) platform=macosx_10_15_x86_64 ;;
*) echo "wheel.sh: unknown target $target" >&2 && exit 2 ;;
esac
packaging/sysroot.sh "$target"
python/tools/venv.sh wheel
export PATH=$PWD/build/venv/wheel/bin:$PATH
sysroot=$PWD/build/packaging/sysroot/$target
work=$PWD/build/packaging/wheel/$target
rm -rf "$work"
mkdir -p "$work" "$out"
check() { # check WHAT COMMAND...: quiet unless it fails
    "${@:2}" >>"$work/log" 2>&1 || { tail -n 30 "$work/log" && echo "$platform: $1 (all of it: $work/log)"; exit 1; } >&2
}

check "does not build" python -m build --no-isolation --wheel --outdir "$work" "$source" \
    -Cbuild-dir="$work/build" -Cwheel.tags="cp311-abi3-$platform" \
    -Ccmake.define.CMAKE_TOOLCHAIN_FILE="$PWD/packaging/toolchain.cmake" -Ccmake.define.FOVEA_SYSROOT="$sysroot" \
    -Ccmake.define.FOVEA_GGML_SOURCE="$PWD/build/ggml/llama.cpp/ggml" -Ccmake.define.FOVEA_WERROR="${FOVEA_WERROR:-OFF}"
wheel=$(echo "$work"/*.whl)
python packaging/sbom.py wheel "$wheel" "$sysroot/include"
case $target in
*-linux-*) # auditwheel names the oldest systems that have the symbols: no newer ones than the tag's
    auditwheel show "$wheel" >"$work/auditwheel" 2>&1
    oldest=$(grep -o -m1 '"m[a-z]*linux_[0-9_a-z]*"' "$work/auditwheel" | tr -d '"')
    [ "$(printf '%s\n' "$oldest" "$platform" | sort -V | tail -n 1)" = "$platform" ] || { cat "$work/auditwheel" && exit 1; } >&2
    ;;
*) check "asks for libraries that not every such system has" python packaging/imports.py "$wheel" ;;
esac
check "is not abi3" abi3audit --strict "$wheel"
check "is not for PyPI" twine check --strict "$wheel"
mv "$wheel" "$out"
