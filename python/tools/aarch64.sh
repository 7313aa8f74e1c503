#!/usr/bin/env bash
# aarch64.sh: cross-builds the wheel for 64-bit Arm Linux into build/wheels-aarch64, and calls it under qemu by Debian's Python for arm64,
# which is unpacked into build/sysroot-arm64-python and not installed. Bits of an attention are compared with those of the hash in $1, if
# given. Needs what cmake/setup.sh --emulators installs. Exit status 3: something cannot be had here.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD/build/sysroot-arm64-python
missing() {
    echo "aarch64.sh: $1" >&2
    exit 3
}
for program in qemu-aarch64 aarch64-linux-gnu-gcc; do
    command -v $program >/dev/null || missing "no $program: cmake/setup.sh --emulators"
done
python/tools/venv.sh wheel
bin=$PWD/build/venv/wheel/bin

if [ ! -e "$root/done" ]; then
    mkdir -p "$root"
    (
        cd "$root"
        packages=(python3.11-minimal libpython3.11-minimal libpython3.11-stdlib libpython3.11-dev zlib1g libexpat1 libffi8)
        apt-get download -q "${packages[@]/%/:arm64}" >log 2>&1 || missing "no Python for arm64 from Debian: see $root/log"
        for package in *.deb; do dpkg -x "$package" .; done
        rm ./*.deb
        "$bin/python" -m pip download -q --no-deps --only-binary :all: --platform manylinux_2_28_aarch64 --python-version 3.11 numpy \
            >>log 2>&1 || missing "no numpy for aarch64: see $root/log"
        mkdir -p site && "$bin/python" -m zipfile -e numpy-*.whl site
        touch done
    )
fi

wheels=build/wheels-aarch64
mkdir -p $wheels
rm -rf $wheels/*.whl $wheels/site
log=$wheels/build.log
_PYTHON_HOST_PLATFORM=linux-aarch64 "$bin/python" -m build --no-isolation --wheel --outdir $wheels -Cbuild-dir=$wheels/build \
    -Ccmake.define.CMAKE_TOOLCHAIN_FILE="$PWD/cmake/toolchain-aarch64.cmake" \
    -Ccmake.define.Python_INCLUDE_DIR="$root/usr/include/python3.11" \
    -Ccmake.define.CMAKE_C_FLAGS="-I$root/usr/include" . >$log 2>&1 || { tail -n 40 $log >&2 && exit 1; }
ls $wheels/*.whl
"$bin/python" -m zipfile -e $wheels/*.whl $wheels/site

hash=$(LD_LIBRARY_PATH= PYTHONHOME=$root/usr PYTHONPATH=$PWD/$wheels/site:$root/site qemu-aarch64 \
    -E LD_LIBRARY_PATH="$root/lib/aarch64-linux-gnu:$root/usr/lib/aarch64-linux-gnu" "$root/usr/bin/python3.11" -c '
import hashlib, sys, numpy, fovea
print(fovea.info()["isa"], fovea.__version__, file=sys.stderr)
x = (numpy.arange(2 * 4 * 300 * 32, dtype=numpy.int64) * 2654435761 % 2**32 / 2**31 - 1).astype(numpy.float32).reshape(2, 4, 300, 32)
fovea.config(threads=3)
y = fovea.Linear(x[0, 0, :48], activation="gelu")(fovea.attention(x, x, x, causal=True, softcap=5))
print(hashlib.sha256(y.tobytes()).hexdigest())')
echo "$hash"
[ -z "${1:-}" ] || [ "$1" = "$hash" ] || { echo "aarch64.sh: expected $1" >&2 && exit 1; }
