#!/usr/bin/env bash
# consumers.sh STEP KIND: one test of how Fovea is packaged, as a static or a shared library. Run by ctest, which sets
#   FOVEA_SOURCE, FOVEA_BUILD   source tree, and build tree of what is tested
#   SCRATCH                     a folder for the tests of this KIND
#   TREES                       how the names of build trees of Fovea begin
#   CC, CXX, NM, CMAKE, PKG_CONFIG, BUILD_TYPE, GENERATOR
#   SCALAR_FMA                  as the build tree has it, so that ccache knows the scalar kernels
# (CMakeLists.txt here, which also says what the steps are.)
# shellcheck source=tests/support/sure.sh
. "$(dirname "$0")/../support/sure.sh"
step=$1 kind=$2
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$SCRATCH"
prefix=$SCRATCH/moved
pc=$(find "$SCRATCH" -path "$prefix/*/fovea.pc")
libdir=${pc%/pkgconfig/*}
library=$libdir/libfovea.a
[ "$kind" = static ] || library=$libdir/libfovea.$([ "$(uname)" = Darwin ] && echo dylib || echo so)
shared=$([ "$kind" = shared ] && echo ON || echo OFF)
tree=$TREES-$kind-$step
unset FOVEA_ISA FOVEA_DEBUG

configure() { # configure SOURCE BUILD OPTION...
    rm -rf "$2"
    "$CMAKE" -G "$GENERATOR" -S "$1" -B "$2" -DCMAKE_BUILD_TYPE="$BUILD_TYPE" -DCMAKE_C_COMPILER="$CC" \
        -DCMAKE_CXX_COMPILER="$CXX" "${@:3}"
}

configure_fovea() { # configure_fovea OPTION...: this library alone, in $tree
    configure "$FOVEA_SOURCE" "$tree" -DFOVEA_SCALAR_FMA="$SCALAR_FMA" -DFOVEA_WERROR="${FOVEA_WERROR:-OFF}" \
        -DFOVEA_BUILD_BENCH=OFF -DFOVEA_BUILD_TOOLS=OFF -DFOVEA_BUILD_EXAMPLES=OFF -DFOVEA_BUILD_TUNE=OFF "$@"
}

# The public functions, from the header.
declared() {
    "$CC" -E -P -I"$FOVEA_SOURCE/include" "$FOVEA_SOURCE/include/fovea/fovea.h" | tr '\n' ' ' | tr ';' '\n' |
        sed -n 's/.*visibility("default").*[ *]\(fovea_[a-z0-9_]*\)(.*/\1/p' | sort
}
# symbols OPTION: what the library has (--defined-only) or asks of others (-u), without version tags.
symbols() {
    local table=-g
    [ "$kind" = static ] || table=-D
    "$NM" $table "$1" "$library" | sed -n 's/^[0-9a-f]* *[A-Za-z] \([^@]*\).*/\1/p' | sort -u
}

# words_of OPTION... PACKAGE: what pkg-config says, in words; it escapes spaces of paths as a shell would.
words_of() {
    local said
    said=$("$PKG_CONFIG" "$@")
    [ -n "$said" ] || fail "pkg-config $* says nothing"
    eval "words=($said)"
}

# finds_rows PROGRAM ARGUMENT...: it finds the rows for known CPUs that are installed next to it, or next to its library.
finds_rows() {
    local said
    said=$(env -u FOVEA_TUNING_FILE -u FOVEA_KNOWN_CPUS XDG_CACHE_HOME="$SCRATCH/nowhere" FOVEA_DEBUG=1 "$@" 2>&1)
    [ -e /etc/fovea/tuning ] || grep -q "$prefix/.*/share/fovea/[0-9][0-9]*/known-cpus[.]tuning" <<<"$said" ||
        fail "$1 does not find $prefix/share/fovea/1/known-cpus.tuning: $said"
}

case $step in
build) # the kind that the tree around is not made of; of the examples, two are programs that are installed
    configure_fovea -DBUILD_SHARED_LIBS="$shared" -DFOVEA_BUILD_TESTS=OFF -DFOVEA_BUILD_EXAMPLES=ON -DFOVEA_BUILD_TOOLS=ON
    "$CMAKE" --build "$tree"
    ;;

install) # then moves what was installed: it must not remember where it was
    rm -rf "$SCRATCH/installed" "$prefix"
    "$CMAKE" --install "$FOVEA_BUILD" --prefix "$SCRATCH/installed"
    mv "$SCRATCH/installed" "$prefix"
    grep -rqI fovea_attention_execute "$prefix" && ! grep -rlI -e "$SCRATCH" -e "$FOVEA_SOURCE" "$prefix" ||
        fail "these remember this machine's folders"
    [ "$kind" = static ] || [ -e "$prefix/bin/fovea-quantize" ] || fail "no program that loads the library is installed"
    # Each of the programs that was built is there, starts, and has a man page and a completion that know all its options.
    for program in fovea-bench fovea-check fovea-embed fovea-generate fovea-inspect fovea-quantize fovea-tune; do
        [ -n "$(find "$FOVEA_BUILD" -name "$program" -type f -perm -u+x)" ] || continue
        help=$("$prefix/bin/$program" --help) || fail "$program is not installed, or does not run"
        man=$(find "$prefix" -path "*/man1/$program.1") completion=$(find "$prefix" -path "*/completions/$program")
        [ -n "$man" ] && [ -n "$completion" ] || fail "$program has no man page or no completion"
        [ $program != fovea-tune ] || finds_rows "$prefix/bin/$program" show
        bash -n "$completion"
        options=$(sed -n 's/^  \(--[a-z-]*\) .*/\1/p' <<<"$help" | grep .) || fail "$program --help: no options"
        for option in $options; do
            grep -q -- "${option//-/\\\\-}" "$man" && grep -q -- "$option" "$completion" || fail "$program: no $option"
        done
    done
    ;;

symbols)
    exports=$(symbols --defined-only)
    diff <(declared) <(cat <<<"$exports") >&2 && [ "$(wc -l <<<"$exports")" -gt 80 ] ||
        fail "exported (>) is not what the header declares (<)"
    # Nothing aborts, exits or writes to stdout, ever.
    symbols -u >"$SCRATCH/asked"
    grep -qx malloc "$SCRATCH/asked" || fail "the library allocates nothing?"
    lacks "$SCRATCH/asked" '^_?Sleef_'
    ! grep -xE 'abort|_?exit|quick_exit|raise|kill|(__)?v?printf(_chk)?|puts|putchar|stdout' "$SCRATCH/asked" ||
        fail "the library should not need these"
    ;;

find_package | cplusplus)
    language=C
    [ "$step" = find_package ] || language=CXX
    configure "$here/outside" "$SCRATCH/$step" -DOUTSIDE_LANGUAGE=$language -DCMAKE_PREFIX_PATH="$prefix"
    "$CMAKE" --build "$SCRATCH/$step"
    "$SCRATCH/$step/outside"
    [ "$kind" = static ] || finds_rows "$SCRATCH/$step/outside"
    ;;

add_subdirectory)
    configure "$here/outside" "$tree" -DOUTSIDE_LANGUAGE=C -DOUTSIDE_FOVEA_SOURCE="$FOVEA_SOURCE" \
        -DBUILD_SHARED_LIBS="$shared" -DFOVEA_TIERS=scalar -DFOVEA_WERROR="${FOVEA_WERROR:-OFF}"
    "$CMAKE" --build "$tree"
    "$tree/outside"
    # A part of somebody's project installs nothing and tests nothing of its own.
    "$CMAKE" --install "$tree" --prefix "$tree/installed"
    [ ! -e "$tree/installed" ] || fail "installs Fovea together with the project around it"
    ;;

refused) # flags that change arithmetic, however they are given, and 32-bit programs, both before anything is looked for
    fast="cannot be built with -ffast-math"
    refuse() { # refuse WORDS SOURCE OPTION...
        configure "$2" "$tree" "${@:3}" >"$SCRATCH/refused" 2>&1 && fail "taken: ${*:2}"
        tr -s ' \n' ' ' <"$SCRATCH/refused" | grep -F "$1" | grep -vqi sleef || fail "other words: $(cat "$SCRATCH/refused")"
    }
    for flag in -ffast-math -ffinite-math-only -funsafe-math-optimizations; do
        refuse "$fast" "$FOVEA_SOURCE" -DCMAKE_C_FLAGS="-g $flag"
    done
    CFLAGS=-ffast-math refuse "$fast" "$FOVEA_SOURCE"
    type=$(tr '[:lower:]' '[:upper:]' <<<"$BUILD_TYPE")
    refuse "$fast" "$FOVEA_SOURCE" -DCMAKE_C_FLAGS_"$type"=-Ofast
    mkdir -p "$SCRATCH/around"
    printf '%s\n' 'cmake_minimum_required(VERSION 3.25)' 'project(around C)' 'add_compile_options(-ffast-math)' \
        "add_subdirectory($FOVEA_SOURCE fovea)" >"$SCRATCH/around/CMakeLists.txt"
    refuse "$fast" "$SCRATCH/around"
    # Flags that cannot be tried are no such flags: parts of generator expressions, second words.
    sed -i 's/add_compile_options.*/add_compile_options("$<$<COMPILE_LANGUAGE:C>:-g;-fwrapv>")/' "$SCRATCH/around/CMakeLists.txt"
    configure "$SCRATCH/around" "$tree.around" >"$SCRATCH/refused" 2>&1 || fail "refused: $(cat "$SCRATCH/refused")"
    if [ "$(uname -m)" = x86_64 ]; then # objects alone: there may be no 32-bit system to link with
        refuse "no 32-bit builds" "$FOVEA_SOURCE" -DCMAKE_C_FLAGS=-m32 -DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY
    fi
    # And by each file of the library, however it is compiled.
    for flag in -ffast-math -Ofast -ffinite-math-only; do
        ! "$CC" $flag -fsyntax-only -include "$FOVEA_SOURCE/kernels/strict.h" -x c /dev/null 2>"$SCRATCH/refused" &&
            grep -q "$fast" "$SCRATCH/refused" || fail "$flag: no #error"
    done
    commands=$(grep '"command":.* -o \(src\|kernels\)/CMakeFiles/.*\.c",$' "$FOVEA_BUILD/compile_commands.json")
    ! grep -v -- "-include $FOVEA_SOURCE/kernels/strict.h" <<<"$commands" || fail "these are compiled without strict.h"
    ;;

pkg_config)
    export PKG_CONFIG_PATH=$libdir/pkgconfig
    options=(--cflags --libs)
    [ "$kind" = shared ] || options+=(--static)
    # The outside program needs m for itself; a shared library must not lend it.
    words_of "${options[@]}" fovea
    words+=(-lm)
    echo "$CC outside.c ${words[*]}"
    "$CC" "$here/outside/outside.c" -o "$SCRATCH/pkg_config" "${words[@]}"
    LD_LIBRARY_PATH=$libdir DYLD_LIBRARY_PATH=$libdir "$SCRATCH/pkg_config"
    same "version of fovea.pc and header" "$("$PKG_CONFIG" --modversion fovea)" \
        "$(sed -n 's/#define FOVEA_VERSION_STRING "\(.*\)"/\1/p' "$prefix/include/fovea/types.h")"
    ;;

mpi) # the component, by CMake and by pkg-config
    [ -n "$(find "$prefix" -name fovea-mpi.pc)" ] || { echo "SKIPPED: this build has no libfovea_mpi" && exit 77; }
    export PKG_CONFIG_PATH=$libdir/pkgconfig OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    configure "$here/outside" "$SCRATCH/$step" -DOUTSIDE_LANGUAGE=C -DOUTSIDE_COMPONENTS=mpi -DCMAKE_PREFIX_PATH="$prefix"
    "$CMAKE" --build "$SCRATCH/$step"
    "$SCRATCH/$step/over_ranks"
    "$SCRATCH/$step/ranks_alone"
    words_of --cflags --libs --static fovea-mpi
    OMPI_CC=$CC MPICH_CC=$CC mpicc "$here/outside/over_ranks.c" -o "$SCRATCH/over_ranks" "${words[@]}"
    LD_LIBRARY_PATH=$libdir "$SCRATCH/over_ranks"
    ;;

grown) # a program of these headers with a library whose structs have grown, and the other way round
    grown=$SCRATCH/grown
    soname=$(sed -n 's/#define FOVEA_VERSION_MAJOR \(.*\)/\1/p' "$prefix/include/fovea/types.h")
    [ "$soname" != 0 ] || soname=1
    [ "$(uname)" != Linux ] || readelf -d "$library" | grep -F "[libfovea.so.$soname]" || fail "SONAME is not $soname"
    rm -rf "$grown" && mkdir -p "$grown/include/fovea"
    cp "$FOVEA_SOURCE"/include/fovea/*.inc "$grown/include/fovea"
    for header in "$FOVEA_SOURCE"/include/fovea/*.h; do
        awk '/^typedef struct/ { grows = 0 } /size_t struct_size;/ { grows = 1 }
            /^}/ && grows { print "    int64_t made_up;"; grows = 0; count++ } { print }
            END { print count + 0 > "/dev/stderr" }' "$header" >"$grown/include/fovea/${header##*/}"
    done 2>"$grown/count"
    [ "$(awk '{ n += $1 } END { print n }' "$grown/count")" -ge 10 ] || fail "too few structs have grown: is the pattern right?"
    configure_fovea -DBUILD_SHARED_LIBS="$shared" -DFOVEA_INCLUDE="$grown/include" -DFOVEA_PORTABLE=ON \
        -DFOVEA_BUILD_TESTS=OFF
    "$CMAKE" --build "$tree"
    export PKG_CONFIG_PATH=$libdir/pkgconfig
    words_of --libs --static fovea
    [ "${words[1]}" = -lfovea ] || fail "fovea.pc does not begin with its own folder and library: ${words[*]}"
    words=("${words[@]:2}" -lm)
    "$CC" -I"$FOVEA_SOURCE/include" "$here/outside/grown.c" -o "$grown/older" -L"$tree" -lfovea "${words[@]}"
    LD_LIBRARY_PATH=$tree "$grown/older"
    "$CC" -DNEWER -I"$grown/include" "$here/outside/grown.c" -o "$grown/newer" -L"$libdir" -lfovea "${words[@]}"
    LD_LIBRARY_PATH=$libdir "$grown/newer"
    ;;

reopen) # dlopen, a call on threads, dlclose, twice
    "$CC" -I"$prefix/include" "$here/outside/reopen.c" -o "$SCRATCH/reopen" -ldl
    for policy in active passive; do
        OMP_WAIT_POLICY=$policy "$SCRATCH/reopen" "$library"
    done
    ;;

no_openmp) # built where there is none; only the portable kernels, which are soon built
    configure_fovea -DBUILD_SHARED_LIBS=ON -DFOVEA_OPENMP=OFF -DFOVEA_PORTABLE=ON \
        -DCMAKE_DISABLE_FIND_PACKAGE_OpenMP=ON -DFOVEA_BUILD_TESTS=OFF
    "$CMAKE" --build "$tree"
    kind=shared
    library=$tree/libfovea.$([ "$(uname)" = Darwin ] && echo dylib || echo so)
    symbols -u >"$SCRATCH/asked"
    lacks "$SCRATCH/asked" '^_?(GOMP|omp|__kmpc)_'
    "$CC" -I"$FOVEA_SOURCE/include" "$here/outside/no_openmp.c" -o "$SCRATCH/no_openmp" "$library" \
        -Wl,-rpath,"$tree"
    "$SCRATCH/no_openmp" ""
    OMP_NUM_THREADS=1 "$SCRATCH/no_openmp" 1
    "$CC" -I"$FOVEA_SOURCE/include" "$here/outside/reopen.c" -o "$SCRATCH/reopen" -ldl
    "$SCRATCH/reopen" "$library" || [ $? = 77 ] # one CPU
    ;;

musl) # by another libc, whose libm has other roundings: the golden results
    CC=$(command -v musl-gcc) || { echo "SKIPPED: no musl-gcc" && exit 77; }
    SCALAR_FMA=ON # musl's own fma() takes minutes
    # No program that is built here needs SLEEF, which is a library of the other libc.
    configure_fovea -DFOVEA_PORTABLE=ON -DFOVEA_OPENMP=OFF -DFOVEA_MPI=OFF -DCMAKE_EXE_LINKER_FLAGS=-static \
        -DSLEEF_LIBRARY=none -DSLEEF_INCLUDE_DIR="$SCRATCH"
    "$CMAKE" --build "$tree" --target test-golden
    "$tree/tests/test-golden"
    ;;

left_out) # tiers and element types: what is built agrees with the scalar tier, and other types are refused
    left_out() { # left_out TIERS TYPES PROGRAM...
        configure_fovea -DFOVEA_TIERS="$1" -DFOVEA_TYPES="$2"
        "$CMAKE" --build "$tree" --target "${@:3}"
        for program in "${@:3}"; do "$tree/tests/$program"; done
    }
    left_out host f32 test-left_out fovea-check
    left_out scalar 'f16;i8' test-left_out
    ;;

header) # each alone, in the languages it promises
    warnings=(-I"$FOVEA_SOURCE/include" -fsyntax-only -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror)
    for header in "$FOVEA_SOURCE"/include/fovea/*.h; do
        echo "#include <fovea/${header##*/}>" >"$SCRATCH/header.c"
        "$CC" -std=c11 "${warnings[@]}" "$SCRATCH/header.c"
        "$CXX" -x c++ -std=c++11 "${warnings[@]}" "$SCRATCH/header.c"
        "$CXX" -x c++ -std=c++17 "${warnings[@]}" "$SCRATCH/header.c"
    done
    ;;

*) fail "no such step: $step" ;;
esac
