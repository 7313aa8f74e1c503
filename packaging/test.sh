#!/usr/bin/env bash
# test.sh [NAME...]: tests of what is packaged. All of them, or
#   tarball    a program is compiled and runs with the archive of the library; the list of contents is SPDX
#   conan      the recipe makes a package, static and shared, from which the documentation's first program prints its digits
#   vcpkg      the port installs what it should, with vcpkg's functions replaced: vcpkg itself is not run
#   oss-fuzz   the fuzzers are built as OSS-Fuzz does, and run for seconds in another folder
#   workflows  .github/workflows fit their schema, and zizmor finds nothing
#   release    make release, without Debian's packages: each wheel runs in a root of its own, and all bytes are made twice
#   debian     Debian's packages, made twice with equal bytes, pass lintian, and run in a fresh root
#   conda      the recipe is read by rattler-build's parser; nothing is built
#   windows    built by MinGW-w64; fovea-quickstart, fovea-check and C tests run under wine, the bits on each tier
#   macos      for Arm and x86-64 by clang and lld: libraries and programs are linked, symbols and imports checked. NOT RUN
# Scratch is build/packaging. One that lacks its tools or a network says SKIPPED.
# shellcheck source=tests/support/sure.sh
. "$(dirname "$0")/../tests/support/sure.sh"
cd "$(dirname "$0")/.."
bin=$PWD/build/venv/packaging/bin scratch=$PWD/build/packaging
mkdir -p "$scratch"
version=$(sed -n 's/#define FOVEA_VERSION_STRING "\(.*\)"/\1/p' include/fovea/types.h)
digits=$(grep -m 1 '^last token of the last head' docs/tutorial.md)
quiet() { # quiet LOG COMMAND...: shows the end of what it prints where it fails
    "${@:2}" >"$scratch/$1" 2>&1 || { tail -n 30 "$scratch/$1" >&2 && fail "${*:2}"; }
}

test_tarball() {
    local to=$scratch/tarballs
    rm -rf "$to" && mkdir -p "$to/unpacked"
    quiet tarball.log packaging/tarball.sh "$to"
    tar -x -f "$to/fovea-$version.tar.gz" -C "$to"
    same "sources" "$(git ls-tree -r --name-only HEAD | wc -l)" "$(find "$to/fovea-$version" -type f | wc -l)"
    tar -x --strip-components=1 -f "$to/libfovea-$version"-*.tar.gz -C "$to/unpacked"
    eval "words=($(PKG_CONFIG_PATH=$to/unpacked/lib/pkgconfig pkg-config --cflags --libs fovea))"
    cc examples/quickstart.c "${words[@]}" -o "$to/quickstart"
    same "digits" "$(LD_LIBRARY_PATH=$to/unpacked/lib "$to/quickstart")" "$digits"
    SOURCE_DATE_EPOCH=1 python3 packaging/sbom.py tarball "$to/fovea-$version.tar.gz"
    quiet tarball.log "$bin/pyspdxtools" --infile "$to/fovea-$version.tar.gz.spdx.json"
    rm -rf "$to"
}

test_conan() {
    export CONAN_HOME=$scratch/conan
    rm -rf "$CONAN_HOME"
    quiet conan.log "$bin/conan" profile detect
    printf '[platform_tool_requires]\ncmake/%s\n' "$(cmake --version | sed -n '1s/[^0-9]*//p')" >>"$CONAN_HOME/profiles/default"
    for shared in False True; do
        quiet conan.log "$bin/conan" create packaging/conan --no-remote -o "fovea/*:shared=$shared" \
            -c tools.cmake.cmaketoolchain:generator=Ninja -c tools.cmake.cmake_layout:test_folder="$scratch/test_package"
        has "$scratch/conan.log" "fovea/$version \(test package\): Running test\(\)"
    done
    has packaging/conan/test_package/conanfile.py "$digits"
    rm -rf "$CONAN_HOME" "$scratch/test_package"
}

test_vcpkg() {
    local into=$scratch/vcpkg
    rm -rf "$into" && mkdir -p "$into"
    cat >"$into/port.cmake" <<EOF
cmake_policy(VERSION 3.25)
set(PORT fovea)
set(CURRENT_PACKAGES_DIR $into/packages)
function(run)
    execute_process(COMMAND \${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()
function(vcpkg_check_features)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" OUT_FEATURE_OPTIONS FEATURES)
    list(POP_BACK arg_FEATURES option)
    set(\${arg_OUT_FEATURE_OPTIONS} -D\${option}=ON PARENT_SCOPE)
endfunction()
function(vcpkg_cmake_configure)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" SOURCE_PATH OPTIONS)
    run(\${CMAKE_COMMAND} -G Ninja -S \${arg_SOURCE_PATH} -B $into/build -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_LIBDIR=lib
        \${arg_OPTIONS} -DCMAKE_INSTALL_PREFIX=\${CURRENT_PACKAGES_DIR})
endfunction()
function(vcpkg_cmake_install)
    run(\${CMAKE_COMMAND} --build $into/build --target install)
endfunction()
function(vcpkg_cmake_config_fixup)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "PACKAGE_NAME;CONFIG_PATH" "")
    file(MAKE_DIRECTORY \${CURRENT_PACKAGES_DIR}/share)
    file(RENAME \${CURRENT_PACKAGES_DIR}/\${arg_CONFIG_PATH} \${CURRENT_PACKAGES_DIR}/share/\${arg_PACKAGE_NAME})
endfunction()
function(vcpkg_fixup_pkgconfig)
endfunction()
function(vcpkg_install_copyright)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "" FILE_LIST)
    configure_file(\${arg_FILE_LIST} \${CURRENT_PACKAGES_DIR}/share/fovea/copyright COPYONLY)
endfunction()
include($PWD/packaging/vcpkg/portfile.cmake)
EOF
    quiet vcpkg.log cmake -P "$into/port.cmake"
    (cd "$into/packages" && find . -type f | grep -v '^./include/fovea/' | sort) >"$into/files"
    diff - "$into/files" <<EOF || fail "the port installs other files"
./lib/libfovea.a
./lib/pkgconfig/fovea.pc
./share/Fovea/FoveaConfig.cmake
./share/Fovea/FoveaConfigVersion.cmake
./share/Fovea/FoveaTargets-release.cmake
./share/Fovea/FoveaTargets.cmake
./share/fovea/1/known-cpus.tuning
./share/fovea/copyright
./share/fovea/usage
EOF
    same "version of vcpkg.json" "$(sed -n 's/.*"version": "\(.*\)".*/\1/p' packaging/vcpkg/vcpkg.json)" "$version"
    rm -rf "$into"
}

test_conda() {
    same "version of recipe.yaml" "$(sed -n 's/^  version: "\(.*\)"/\1/p' packaging/conda/recipe.yaml)" "$version"
    quiet conda.log "$bin/python" -c '
import sys
from rattler_build import Stage0Recipe
recipe = Stage0Recipe.from_file(sys.argv[1])
print(recipe.to_dict())' packaging/conda/recipe.yaml
    has "$scratch/conda.log" libfovea fovea-attention
}

test_oss-fuzz() {
    command -v clang-14 >/dev/null || { echo "SKIPPED: oss-fuzz: no clang 14" && exit 77; }
    local work=$scratch/oss-fuzz flags="-O1 -fno-omit-frame-pointer -gline-tables-only -fsanitize=address,undefined,fuzzer-no-link"
    rm -rf "$work" && mkdir -p "$work/src" "$work/out" "$work/work"
    ln -s "$PWD" "$work/src/fovea"
    quiet oss-fuzz.log env CC=clang-14 CXX=clang++-14 CFLAGS="$flags" CXXFLAGS="$flags" LIB_FUZZING_ENGINE=-fsanitize=fuzzer \
        SRC="$work/src" WORK="$work/work" OUT="$work/out" packaging/oss-fuzz/build.sh
    rm -r "$work/work" && mv "$work/out" "$work/moved"
    local fuzzer count=0
    for fuzzer in "$work"/moved/fuzz-*; do
        [ -x "$fuzzer" ] || continue
        mkdir "$work/seeds" && python3 -m zipfile -e "${fuzzer}_seed_corpus.zip" "$work/seeds"
        quiet "${fuzzer##*/}.log" "$fuzzer" "$work/seeds" -max_total_time=3 -max_len=8192 -malloc_limit_mb=16
        has "$scratch/${fuzzer##*/}.log" '^Done [1-9][0-9]* runs'
        grep -q "${fuzzer##*/}" packaging/oss-fuzz/README.md || fail "packaging/oss-fuzz/README.md does not name ${fuzzer##*/}"
        rm -r "$work/seeds"
        count=$((count + 1))
    done
    same "number of fuzzers" $count "$(find tests/fuzz -name 'fuzz_*.c' | wc -l)"
    rm -rf "$work"
}

test_workflows() {
    quiet workflows.log "$bin/check-jsonschema" --builtin-schema vendor.github-workflows .github/workflows/*.yml
    quiet workflows.log "$bin/check-jsonschema" --builtin-schema vendor.dependabot .github/dependabot.yml
    quiet workflows.log "$bin/zizmor" --offline --no-progress --pedantic .github
}

test_release() {
    quiet release.log packaging/release.sh sdist wheels tarball roots reproducible
}

test_debian() {
    [ "$(id -u)" = 0 ] || { echo "SKIPPED: debian: needs root, for debootstrap and chroot" && exit 77; }
    quiet debian.log packaging/debian.sh --twice "$scratch/packages"
    rm -rf "$scratch/packages"
}

# The list of kernels goes by a share: products on the scalar tier, whose fma() is software, take minutes. A test whose tier
# this CPU lacks ends with 77.
test_windows() {
    local wine tier program status tests=(cache cache_save elementary file_windows reference threads_hooks threads_parallel_for)
    { wine=$(command -v wine64 || command -v wine) && command -v x86_64-w64-mingw32-gcc-posix >/dev/null; } ||
        { echo "SKIPPED: windows: no wine, or no MinGW-w64" && exit 77; }
    export WINEPREFIX=$scratch/wine WINEDEBUG=-all FOVEA_TEST_SCALE=0.02
    quiet windows.log cmake --preset windows
    quiet windows.log cmake --build build/windows -j2 --target fovea fovea-quickstart fovea-check test-golden "${tests[@]/#/test-}"
    for tier in scalar avx2 avx512; do
        quiet windows-run.log env FOVEA_ISA=$tier "$wine" build/windows/examples/fovea-quickstart.exe
        has "$scratch/windows-run.log" "^$digits"
    done
    for program in {scalar,avx2,avx512}:{fovea-check,test-golden} "${tests[@]/#/avx2:test-}"; do
        status=0
        FOVEA_ISA=${program%:*} "$wine" "build/windows/tests/${program#*:}.exe" >"$scratch/windows-run.log" 2>&1 || status=$?
        echo "windows: $program: $(tr -d '\r' <"$scratch/windows-run.log" | tail -n 1)"
        [ $status = 0 ] || [ $status = 77 ] || { tail -n 30 "$scratch/windows-run.log" && fail "$program under wine"; }
    done
    # Nothing of MinGW-w64 need be shipped.
    x86_64-w64-mingw32-objdump -p build/windows/examples/fovea-quickstart.exe | sed -n 's/.*DLL Name: //p' | sort >"$scratch/imports"
    same "imports" "$(tr '\n' ' ' <"$scratch/imports")" "ADVAPI32.dll KERNEL32.dll msvcrt.dll "
}

test_macos() {
    { command -v clang-19 && command -v ld64.lld-19 && command -v llvm-objdump-19 && python/tools/venv.sh zig; } >/dev/null ||
        { echo "SKIPPED: macos: no clang, lld and llvm 19, or no ziglang" && exit 77; }
    local cpu build program
    sed -n 's/^FOVEA_API .*[ *]\(fovea_[a-z0-9_]*\)(.*/_\1/p' include/fovea/*.h | sort -u >"$scratch/declared"
    for cpu in aarch64 x86_64; do
        build=$scratch/macos-$cpu
        quiet macos.log packaging/sysroot.sh $cpu-macos
        macos() { # macos FOLDER OPTION TARGET...
            quiet macos.log cmake -S . -B "$1" -G Ninja -DCMAKE_BUILD_TYPE=Release -DFOVEA_SYSROOT="$scratch/sysroot/$cpu-macos" "$2" \
                -DCMAKE_TOOLCHAIN_FILE="$PWD/packaging/toolchain.cmake" -DFOVEA_{OPENMP,MPI,BUILD_{BENCH,TOOLS}}=OFF
            quiet macos.log cmake --build "$1" -j2 --target "${@:3}"
        }
        macos "$build" -DBUILD_SHARED_LIBS=OFF fovea fovea-quickstart fovea-check fovea-tune tests/all
        # The archive has fv_*, too, which no dylib that links it shows.
        llvm-nm-19 --defined-only --extern-only --format=just-symbols "$build/libfovea.a" | grep '^_' | sort -u >"$build/defined"
        grep '^_fovea_' "$build/defined" | same_files "$scratch/declared" - "$cpu: libfovea.a defines other functions than are declared"
        same "$cpu: other names in libfovea.a" "$(grep -cvE '^_(fovea|fv)_' "$build/defined" || true)" 0
        macos "$build-shared" -DBUILD_SHARED_LIBS=ON fovea
        llvm-objdump-19 --macho --exports-trie "$build-shared/libfovea.dylib" | sed -n 's/^0x[0-9A-F]* *\(_[a-z0-9_]*\)$/\1/p' | sort \
            >"$build/exported"
        same_files "$scratch/declared" "$build/exported" "$cpu: libfovea.dylib exports other functions than are declared"
        for program in /examples/fovea-quickstart /tests/fovea-check /tests/test-golden /tune/fovea-tune -shared/libfovea.dylib; do
            llvm-objdump-19 --macho --dylibs-used "$build$program" | sed -n 's/^\t\([^@ ]*\) .*/\1/p' >"$build/imports"
            same "$cpu: imports of $program" "$(cat "$build/imports")" /usr/lib/libSystem.B.dylib
        done
        echo "macos: $cpu is linked, and NOT RUN"
    done
}

[ $# -gt 0 ] || set -- tarball conan vcpkg conda oss-fuzz workflows release debian windows macos
[ -x "$bin/python" ] || python/tools/venv.sh packaging || { echo "SKIPPED: $*: no environment" && exit 77; }
for name in "$@"; do
    step=$name
    test_"$name"
    echo "$name: passed"
done
