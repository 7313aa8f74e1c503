#!/bin/bash -eu
# Builds the fuzzers of tests/fuzz as OSS-Fuzz asks: sources in $SRC/fovea, programs with their seeds and settings to $OUT, by $CC, $CXX,
# $CFLAGS, $CXXFLAGS and $LIB_FUZZING_ENGINE. Programs run where these libraries are not installed: copies go to $OUT/lib.
build=$WORK/fovea
cmake -G Ninja -S "$SRC/fovea" -B "$build" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG= -DFOVEA_ASSERTS=ON -DFOVEA_OPENMP=OFF \
    -DFOVEA_BUILD_FUZZ=ON -DFOVEA_FUZZ_ENGINE="$LIB_FUZZING_ENGINE" -DFOVEA_MPI=OFF -DFOVEA_INSTALL=OFF \
    -DFOVEA_BUILD_{BENCH,EXAMPLES,TUNE}=OFF -DCMAKE_BUILD_RPATH="\$ORIGIN/lib"
cmake --build "$build" --target fuzz-programs
mkdir -p "$OUT/lib"
for program in "$build"/tests/fuzz-*; do
    [ -f "$program" ] || continue
    name=${program##*/}
    cp "$program" "$OUT"
    ldd "$program" | awk '/lib(jansson|utf8proc|crypto)[.]so/ { print $3 }' | xargs -r cp -t "$OUT/lib"
    mkdir -p "$build/seeds-$name"
    "$program" --make-seeds "$build/seeds-$name"
    (cd "$build/seeds-$name" && python3 -m zipfile -c "$OUT/${name}_seed_corpus.zip" *)
    printf '[libfuzzer]\nmax_len = 8192\nmalloc_limit_mb = 16\n' >"$OUT/$name.options"
done
