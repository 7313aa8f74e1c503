#!/usr/bin/env bash
# x86_64-linux-musl.sh ROOT: a system whose C library is musl: CPython from Debian's source, compiled by musl-gcc with Debian's zlib in it,
# pip from Debian, and busybox. Compiles for some minutes.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$1
packaging/source.sh zlib
packaging/source.sh python3.11
work=$PWD/build/packaging/musl
rm -rf "$work"
mkdir -p "$work/zlib" "$work/python" "$root/bin" "$root/lib" "$root/tmp"
zlib=$PWD/build/packaging/source/zlib python=$PWD/build/packaging/source/python3.11

# CPython would take the name of Debian's multiarch folders, which musl-gcc prints as gcc does, for the name of the system.
cat >"$work/cc" <<'END'
#!/bin/sh
[ "$1" != --print-multiarch ] || exit 1
exec musl-gcc "$@"
END
chmod +x "$work/cc"
compile() {
    export CC=$work/cc
    cp -r "$zlib/." "$work/zlib"
    (cd "$work/zlib" && CFLAGS='-O2 -fPIC' ./configure --static && make -j"$(nproc)" libz.a)
    cd "$work/python"
    "$python/configure" --build=x86_64-linux-musl --prefix=/usr --disable-test-modules --without-static-libpython \
        CPPFLAGS="-I$work/zlib" LDFLAGS="-L$work/zlib" ZLIB_CFLAGS="-I$work/zlib" ZLIB_LIBS="$work/zlib/libz.a"
    make -j"$(nproc)"
    make install DESTDIR="$root" ENSUREPIP=no
}
export -f compile
export work zlib python root
cmake/quiet.sh "Compiling CPython with musl" bash -euo pipefail -c compile

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
(
    cd "$scratch"
    apt-get download -qq busybox-static python3-pip-whl python3-setuptools-whl
    for package in *.deb; do dpkg -x "$package" "$root"; done
)
for name in sh env mkdir; do ln -s busybox "$root/bin/$name"; done
cp -L /lib/ld-musl-x86_64.so.1 "$root/lib"
