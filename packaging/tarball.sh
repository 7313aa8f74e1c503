#!/usr/bin/env bash
# tarball.sh FOLDER: writes two archives of what is committed into FOLDER, whose bytes do not depend on time, machine or folder:
#   fovea-VERSION.tar.gz                       the sources
#   libfovea-VERSION-SYSTEM-PROCESSOR.tar.gz   the shared library with headers and the files for CMake and pkg-config, by cpack. It needs
#                                              the C library and OpenMP's runtime of the system that builds it, or newer ones
# Works in build/packaging/tarball. Environment: SOURCE_DATE_EPOCH, the time of the library's files; the commit's if not set.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p "${1:?usage: tarball.sh FOLDER}"
to=$(realpath "$1") work=$PWD/build/packaging/tarball
version=$(sed -n 's/#define FOVEA_VERSION_STRING "\(.*\)"/\1/p' include/fovea/types.h)
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)} TZ=UTC LC_ALL=C
git archive --prefix="fovea-$version/" HEAD >"$to/fovea-$version.tar" # whose times are the commit's
gzip -n -9 -f "$to/fovea-$version.tar"

rm -rf "$work" && mkdir -p "$work"
tar -x -f "$to/fovea-$version.tar.gz" -C "$work"
{
    cmake -S "$work/fovea-$version" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON -DFOVEA_MPI=OFF \
        -DFOVEA_BUILD_{BENCH,EXAMPLES,TESTS,TOOLS,TUNE}=OFF &&
        cmake --build "$work/build" && cd "$work/build" && cpack -G TGZ -B "$work"
} >"$work/log" 2>&1 || { tail -n 30 "$work/log" >&2 && exit 1; }
mv "$work"/libfovea-*.tar.gz "$to"
rm -rf "$work"
ls -l "$to"/*fovea-"$version"*.tar.gz | awk '{ printf "%s  %.2f MB\n", $NF, $5 / 1e6 }'
