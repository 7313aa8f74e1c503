#!/usr/bin/env bash
# setup.sh [OPTION]...: installs what the build needs and this machine lacks, by apt-get, with sudo where not root. Where that cannot
# be, says what to install and fails. Quick and silent where nothing is missing; else
# it says what it installs and how large that is, and shows one line of progress (quiet.sh).
#   --clang    clang 14 too, where the distribution has it
#   --debian   what builds and checks Debian's packages, and roots to install them in (packaging/debian.sh)
#   --emulators  what builds for 64-bit Arm and runs that, and x86 CPUs that are not here: Debian's cross compiler and arm64
#              packages, qemu, Bochs from PyPI. Not on an Arm machine
#   --hosts    what cmake/hosts.sh runs tests in: the system's descriptions of locales, qemu
#   --mca      llvm-mca, of the newest LLVM that the distribution has
#   --mpich    MPICH besides another MPI, for tests by both
#   --release  what make release needs: compilers of the wheels (MinGW-w64, clang and lld for macOS), debootstrap; wine (packaging/test.sh)
#   --python   what the Python package needs of the distribution's python3: headers and venv. Where that cannot be, the rest goes on
#   --site     Doxygen, for site/build.sh
set -uo pipefail
cd "$(dirname "$0")/.." || exit
export PATH=$PWD/build/tools/bin:$PATH # as in the Makefile

missing=()
need() { # need PACKAGE COMMAND...: the Debian package is missing where the command fails
    local package=$1
    shift
    "$@" >/dev/null 2>&1 || missing+=("$package")
}
header() {
    printf '#if !__has_include(<%s>)\n#error\n#endif\n' "$1" | cc -E -
}
fail() {
    printf '%s\n' "$@" >&2
    exit 1
}
root=(env DEBIAN_FRONTEND=noninteractive LC_ALL=C)
[ "$(id -u)" = 0 ] || root=(sudo "${root[@]}")
megabytes() { # megabytes apt-get install OPTION... PACKAGE...: what that will download
    "$@" -qq --print-uris 2>/dev/null | awk '{ sum += $3 } END { printf "%.1f", sum / 1e6 }'
}
# The missing packages that the distribution has.
choose_missing() {
    local name chosen=()
    for name in "${missing[@]}"; do
        case $name in
        clang-14 | libomp-14-dev)
            apt-cache show clang-14 >/dev/null 2>&1 || { clang=none && continue; }
            ;;
        libclang-rt-14-dev) # libFuzzer and the sanitizers: a package of their own on Debian, part of another on Ubuntu
            apt-cache show clang-14 >/dev/null 2>&1 || continue
            apt-cache show $name >/dev/null 2>&1 || name=libclang-common-14-dev
            ;;
        esac
        chosen+=("$name")
    done
    missing=("${chosen[@]}")
}
install_missing() {
    [ ${#missing[@]} -gt 0 ] || return 0
    if compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null; then
        choose_missing
        [ ${#missing[@]} -gt 0 ] || return 0
    fi
    local names=${missing[*]}
    command -v apt-get >/dev/null ||
        fail "Fovea needs what Debian and Ubuntu call: $names" "There is no apt-get here: please install these."
    [ "$(id -u)" = 0 ] || command -v sudo >/dev/null ||
        fail "Fovea needs: $names" "You are not root and there is no sudo. As root: apt-get install -y $names"
    local install=(apt-get install -q -y --no-install-recommends)
    # A fresh machine knows of no packages before.
    cmake/quiet.sh "Listing packages" "${root[@]}" apt-get update -q && choose_missing &&
        echo "Installing ${missing[*]} ($(megabytes "${install[@]}" "${missing[@]}") MB to download)" &&
        cmake/quiet.sh "Installing" "${root[@]}" "${install[@]}" "${missing[@]}" ||
        fail "Please install by hand, as root: apt-get install -y $names"
    missing=()
}

need gcc command -v cc
need g++ command -v c++
need cmake command -v cmake
need ninja-build command -v ninja
need ccache command -v ccache
need pkg-config command -v pkg-config
need libc6-dev header stdlib.h
need python3 command -v python3
# fetch.py downloads the model by pip: that of Python, or one in a venv. Without, the rest goes on.
can_install() {
    command -v apt-get >/dev/null && { [ "$(id -u)" = 0 ] || command -v sudo >/dev/null; }
}
if can_install; then # MPI, abidw of test abi and musl-gcc are optional, too
    need abigail-tools command -v abidw
    need musl-tools command -v musl-gcc
    need libopenmpi-dev sh -c 'command -v mpicc || pkg-config --exists ompi-c || pkg-config --exists mpich'
    need openmpi-bin command -v mpirun
    need python3-venv sh -c 'python3 -c "import pip" || python3 -c "import ensurepip, venv"'
fi
need libsleef-dev header sleef.h
need libbenchmark-dev header benchmark/benchmark.h
need libutf8proc-dev header utf8proc.h
need libjansson-dev header jansson.h
need libssl-dev header openssl/evp.h
need liblapacke-dev header lapacke.h
clang='' aarch64=''
for option in "$@"; do
    case $option in
    --clang)
        clang=yes
        need clang-14 command -v clang-14
        need libomp-14-dev test -e /usr/lib/llvm-14/lib/libomp.so
        need libclang-rt-14-dev compgen -G '/usr/lib/llvm-14/lib/clang/14*/lib/linux/libclang_rt.fuzzer-*.a'
        ;;
    --debian)
        can_install || continue
        need debootstrap command -v debootstrap
        need debhelper command -v dh
        need dh-python command -v dh_python3
        need dpkg-dev command -v dpkg-buildpackage
        need fakeroot command -v fakeroot
        need lintian command -v lintian
        need mpi-default-dev dpkg -s mpi-default-dev
        need python3-dev dpkg -s python3-dev
        ;;
    --emulators)
        # On a 64-bit Arm machine 'make test' does what test-aarch64 does elsewhere by emulation.
        [ "$(dpkg --print-architecture 2>/dev/null)" != arm64 ] || continue
        aarch64=yes
        arm=/usr/lib/aarch64-linux-gnu
        need gcc-aarch64-linux-gnu command -v aarch64-linux-gnu-gcc
        need g++-aarch64-linux-gnu command -v aarch64-linux-gnu-g++
        need qemu-user command -v qemu-aarch64
        need libsleef-dev:arm64 test -e $arm/libsleef.so
        need libgomp1:arm64 test -e $arm/libgomp.so.1
        need libbenchmark-dev:arm64 test -e $arm/libbenchmark.so
        need libstdc++6:arm64 test -e $arm/libstdc++.so.6
        ;;
    --hosts)
        can_install || continue
        need locales test -e /usr/share/i18n/locales/tr_TR
        need qemu-user command -v qemu-x86_64
        ;;
    --mca)
        for version in 19 16 15 14; do
            ! apt-cache show llvm-$version >/dev/null 2>&1 || break
        done
        need llvm-$version command -v llvm-mca-$version
        ;;
    --mpich)
        can_install || continue
        need mpich command -v mpirun.mpich
        need libmpich-dev pkg-config --exists mpich
        ;;
    --python)
        if can_install && [ "$(python3 -c 'import sys; print(sys.base_prefix)' 2>/dev/null || echo /usr)" = /usr ]; then
            need python3-venv python3 -c 'import ensurepip, venv'
            need python3-dev python3 -c 'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")'
        fi
        ;;
    --site)
        can_install || continue
        need doxygen command -v doxygen
        ;;
    --release)
        [ "$(dpkg --print-architecture 2>/dev/null)" = amd64 ] || fail "make release needs Debian on a 64-bit x86 machine"
        need debootstrap command -v debootstrap
        need dpkg-dev command -v dpkg-source
        need gcc-aarch64-linux-gnu command -v aarch64-linux-gnu-gcc
        need musl-tools command -v musl-gcc
        need gcc-mingw-w64-x86-64-posix command -v x86_64-w64-mingw32-gcc-posix
        need wine sh -c 'command -v wine64 || command -v wine'
        need wine64 test -e /usr/lib/wine/wine64
        need clang-19 command -v clang-19
        need lld-19 command -v ld64.lld-19
        need llvm-19 command -v llvm-objdump-19
        ;;
    *) fail "setup.sh: unknown option $option" ;;
    esac
done
case "${missing[*]-}" in
*:arm64*)
    dpkg --print-foreign-architectures | grep -qx arm64 || {
        echo "Fovea needs packages of another architecture: dpkg --add-architecture arm64"
        "${root[@]}" dpkg --add-architecture arm64 || fail "That did not work."
    }
    ;;
esac
install_missing
[ "$clang" != none ] || echo "This distribution has no clang 14: what needs it is skipped."

# clang's OpenMP runtime for arm64 has the same path as this machine's: unpacked apart, where the toolchain file looks.
apart=build/sysroot-arm64
if [ "$clang$aarch64" = yesyes ] && [ ! -e $apart/libomp.so ]; then
    echo "Fetching libomp5-14:arm64 (0.4 MB), unpacked into $apart"
    mkdir -p $apart && (
        cd $apart && apt-get download -qq libomp5-14:arm64 && dpkg -x libomp5-14_*_arm64.deb . &&
            ln -sf usr/lib/llvm-14/lib/libomp.so.5 libomp.so.5 && ln -sf libomp.so.5 libomp.so
    ) || fail "That did not work."
fi

# Bochs for AVX-512 (tests/bochs.py), of which only the shared library is used.
bochs=build/venv/bochs
if [ "$aarch64" = yes ] && ! compgen -G "$bochs/lib/python3*/site-packages/bochscpu" >/dev/null; then
    echo "Fetching bochscpu-python (2 MB) into $bochs"
    python3 -m venv $bochs && $bochs/bin/pip install -q --disable-pip-version-check --no-deps bochscpu-python==0.4.0 ||
        echo "That did not work: tests that need it are skipped."
fi

# The CMake of Ubuntu 22.04 is older than the project asks for; PyPI has newer ones.
oldest=3.25
version=$(cmake --version | sed -n '1s/[^0-9]*//p')
if ! printf '%s\n' $oldest "$version" | sort --version-sort --check=silent; then
    need python3-venv python3 -c 'import ensurepip, venv'
    install_missing
    echo "Fetching CMake (30 MB), since $version here is older than $oldest, into build/tools"
    cmake/quiet.sh "Installing CMake" \
        sh -c "python3 -m venv build/tools && build/tools/bin/pip install -q 'cmake>=$oldest,<4'" ||
        fail "Please install CMake $oldest or newer."
fi
