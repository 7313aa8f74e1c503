#!/usr/bin/env bash
# x86_64-linux-musl.sh ROOT: a system whose C library is musl: CPython from Debian's source, compiled by musl-gcc with Debian's zlib in it,
# and busybox. Compiles for some minutes.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$(realpath -m "$1")
packaging/source.sh zlib
packaging/source.sh python3.11
work=$PWD/build/packaging/musl
rm -rf "$work"
mkdir -p "$work/zlib" "$work/python" "$root/bin" "$root/lib" "$root/tmp"
zlib=$PWD/build/packaging/source/zlib python=$PWD/build/packaging/source/python3.11

# Debian compiles pyexpat into the interpreter; here it is a module.
sed -i '1s/^#include "Python.h"$/#define Py_BUILD_CORE_MODULE 1\n&/' "$python/Modules/pyexpat.c"
# CPython asks for the name of Debian's multiarch folders and would look there for headers, which are glibc's.
cat >"$work/cc" <<'END'
#!/bin/sh
case $1 in -print-multiarch | --print-multiarch) exit 1 ;; esac
exec musl-gcc "$@"
END
printf '#!/bin/sh\nexit 1\n' >"$work/dpkg-architecture"
chmod +x "$work/cc" "$work/dpkg-architecture"
compile() {
    export CC=$work/cc PATH=$work:$PATH
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
    apt-get download -qq -o APT::Sandbox::User=root busybox-static
    for package in *.deb; do dpkg -x "$package" "$root"; done
)
for name in sh env mkdir; do ln -s busybox "$root/bin/$name"; done
cp -L /lib/ld-musl-x86_64.so.1 "$root/lib"
