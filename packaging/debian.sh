#!/usr/bin/env bash
# debian.sh FOLDER: builds Debian's packages from what is committed, checks them by lintian, installs them in a fresh root (debootstrap),
# runs there what a stranger would run first, and puts them into FOLDER/debian. As root. The backend for ggml is left out where its sources
# were not fetched (integrations/ggml/fetch.py build/ggml).
# --twice: builds them in a second folder as well, where all bytes must be equal. --keep: leaves the root, build/debian/root.
# Works in build/debian.
set -euo pipefail
cd "$(dirname "$0")/.."
top=$PWD work=$PWD/build/debian twice='' keep=''
for option in "$@"; do
    case $option in
    --twice) twice=yes && shift ;;
    --keep) keep=yes && shift ;;
    esac
done
to=${1:?usage: debian.sh [--twice] [--keep] FOLDER}
fail() {
    echo "debian.sh: $*" >&2
    exit 1
}
cmake/setup.sh --debian
[ "$(id -u)" = 0 ] || fail "needs root, for debootstrap and chroot"
version=$(sed -n 's/#define FOVEA_VERSION_STRING "\(.*\)"/\1/p' include/fovea/types.h)
[ "$(dpkg-parsechangelog -S Version)" = "$version-1" ] || fail "debian/changelog is not about $version-1"
commit=$(git rev-parse HEAD)
ggml=$top/build/ggml/llama.cpp/ggml
[ -d "$ggml" ] || ggml=''

# build FOLDER [SETTING]: the packages, in a tree of that name below build/debian. ccache serves the next run of this script.
build() {
    rm -rf "${work:?}/$1" && mkdir -p "$work/$1/fovea"
    git archive "$commit" | tar -x -C "$work/$1/fovea"
    git archive --format=tar.gz --prefix="fovea-$version/" "$commit" -- . ':!debian' >"$work/$1/fovea_$version.orig.tar.gz"
    local profile=()
    [ -n "$ggml" ] || profile=(-Ppkg.fovea.noggml)
    (cd "$work/$1/fovea" && env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME="$work" LC_ALL=C.UTF-8 CCACHE_DIR="$work/ccache" \
        "${@:2}" FOVEA_GGML_SOURCE="$ggml" DEB_BUILD_OPTIONS="parallel=$(nproc) terse" dpkg-buildpackage -us -uc "${profile[@]}") \
        >"$work/$1/log" 2>&1 || { tail -n 40 "$work/$1/log" >&2 && fail "dpkg-buildpackage failed: $work/$1/log"; }
}

build first
if [ -n "$twice" ]; then
    build second CCACHE_DISABLE=1
    (cd "$work/first" && sha256sum -- *.deb *.dsc *.debian.tar.* *.orig.tar.gz) >"$work/hashes"
    (cd "$work/second" && sha256sum --quiet -c "$work/hashes") || fail "two builds differ"
    rm -rf "$work/second"
fi
for library in libfovea1 libfovea-mpi1; do # the next version is to be installable with it: Debian Policy 8.2
    unversioned=$(dpkg-deb -c "$work/first/$library"_*.deb | awk '!/\/$/ { print $6 }' | grep -vE '/doc/|[.]so[.][0-9]|/fovea/1/' || true)
    [ -z "$unversioned" ] || fail "$library has files that its next version would have: $unversioned"
done
# There is no bug about the wish for a package yet (publishing.md).
lintian --allow-root --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs "$work"/first/*.changes

# The mirror and the release of this machine's apt.
codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
mirror=$(apt-get indextargets --format '$(REPO_URI)' "Codename: $codename" 'Created-By: Packages' 'Component: main' | head -n 1)
root=$work/root
leave() {
    umount "$root/proc" 2>/dev/null || true
    [ -n "$keep" ] || rm -rf --one-file-system "$root"
}
rm -rf --one-file-system "$root"
trap leave EXIT
debootstrap --variant=minbase --include=ca-certificates "$codename" "$root" "$mirror" >"$work/debootstrap.log" 2>&1 ||
    { tail -n 20 "$work/debootstrap.log" >&2 && fail "no root"; }
mount -t proc proc "$root/proc"
mkdir "$root/debs"
cp "$work"/first/*[0-9]_*.deb "$root/debs"
inside() {
    chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 HOME=/root DEBIAN_FRONTEND=noninteractive "$@"
}
install() {
    inside apt-get install -q -y --no-install-recommends "$@" >>"$work/root.log" 2>&1 ||
        { tail -n 20 "$work/root.log" >&2 && fail "cannot install $*"; }
}
packages=$(cd "$root" && printf './%s ' debs/*.deb)
# shellcheck disable=SC2086 # a list
install $packages gcc libc6-dev pkg-config python3-numpy mpi-default-bin mpi-default-dev
rm -r "$root/debs"
tried() { # tried WHAT PATTERN COMMAND...: what the command prints has the pattern
    local said
    said=$(inside "${@:3}" 2>&1) || fail "$1 failed: $said"
    grep -qE -- "$2" <<<"$said" || fail "$1: no \"$2\" in: $said"
    echo "$1: $(grep -m 1 -E -- "$2" <<<"$said")"
}
cp tests/consumers/outside/over_ranks.c "$root/tmp"
digits=$(grep -m 1 '^last token of the last head' docs/tutorial.md)
# shellcheck disable=SC2016 # for the root's shell
{
    tried quickstart "^$digits$" sh -c 'cd /tmp && cc /usr/share/doc/libfovea-dev/examples/quickstart.c \
        $(pkg-config --cflags --libs fovea) -o quickstart && ./quickstart'
    tried libfovea-mpi1 '^over ranks$' sh -c 'cd /tmp && mpicc over_ranks.c $(pkg-config --cflags --libs fovea-mpi) -o over_ranks &&
        OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 ./over_ranks'
}
tried fovea-embed '^usage: fovea-embed ' fovea-embed --help
tried fovea-generate "^fovea-generate $version$" fovea-generate --version
tried fovea-check ' 0 failed' fovea-check -k 'multiply_f32_*'
tried fovea-tune "^fovea-tune $version$" python3 -c 'from fovea.tuning import main; main()' --version
tried python3-fovea "^$version " python3 -c 'import fovea, numpy
q = numpy.ones((1, 2, 4, 8), "float32")
print(fovea.__version__, fovea.attention(q, q, q).shape)'
[ -z "$ggml" ] || tried ggml-backend-fovea "not used: this program's ggml has no " python3 -c 'import ctypes, glob
print(ctypes.CDLL(glob.glob("/usr/lib/*/ggml/libggml-fovea.so")[0]).ggml_backend_score())'
mkdir -p "$to/debian"
cp "$work"/first/*.{deb,dsc,debian.tar.*,orig.tar.gz,buildinfo,changes} "$to/debian"
