#!/usr/bin/env bash
# ops.sh [all]: builds ggml of llama.cpp's sources for this CPU, with its own test of backends, and runs that on ours.
# all: also llama.cpp's small models of all architectures, hashes of what mixtures and hybrids among them give, and our own tests
# with that ggml, one without OpenMP, one for any x86 CPU, and older releases.
# A line for each: "passed: ", "FAILED: " or "SKIPPED: ". Environment: BUILD, which has the backend (default build/test).
set -uo pipefail
cd "$(dirname "$0")/../../.." || exit
backend=$PWD/${BUILD:-build/test}/integrations/ggml/libggml-fovea.so
test=$PWD/${BUILD:-build/test}/integrations/ggml/test-ggml-fovea
logs=build/ggml/logs
mkdir -p $logs
export GGML_BACKEND_PATH=$backend FOVEA_GGML=all FOVEA_TUNING_FILE=

report() { # report STATUS WHAT LOG
    case $1 in
    0) echo "passed: $2" ;;
    *) tail -5 "$3" && echo "FAILED: $2 ($3)" ;;
    esac
}
build() { # build NAME OPTION...: ggml in build/ggml/NAME
    cmake -S integrations/ggml/tests/ops -B "build/ggml/$1" -G Ninja "${@:2}" && cmake --build "build/ggml/$1"
}
operations() { # operations NAME ARGUMENT...: test-backend-ops of build/ggml/NAME, which must have compared something
    local log=$logs/ops-$1-$#.log
    "build/ggml/$1/bin/test-backend-ops" test -b Fovea "${@:2}" >"$log" 2>&1 &&
        grep -qE ' [1-9][0-9]*/[0-9]+ tests passed' "$log"
    report $? "test-backend-ops, ${*}: $(grep -oE '[0-9]+/[0-9]+ tests' "$log" | tail -1)" "$log"
}
results() { # results NAME FOLDER: our own tests with the ggml in that folder
    local program programs=("$test" "$test"-{weights,placed,unpacked,elementwise,experts,hash})
    grep -q ggml_gated_delta_net "$2"/libggml-base.so && programs+=("$test-recurrence")
    for program in "${programs[@]}"; do
        LD_LIBRARY_PATH=$2 "$program" >"$logs/${program##*/}-$1.log" 2>&1
        report $? "${program##*/}, ggml $1" "$logs/${program##*/}-$1.log"
    done
}

archs() { # archs TAKES DEVICE: llama.cpp's small models, computed here in part at least, beside the logits of no device
    local log=$logs/archs-${1:-default}-$2.log
    FOVEA_GGML=$1 FOVEA_DEBUG=1 build/ggml/archs/bin/test-llama-archs -s 1 -b "$2" >"$log" 2>&1 &&
        grep -qE 'ggml-fovea: ROPE: [0-9]+ computed' "$log" && grep -qE 'Summary: all [1-9][0-9]* test' "$log"
    report $? "test-llama-archs, FOVEA_GGML=$1, $2: $(grep -oE 'Summary: .*' "$log")" "$log"
}

graphs() { # graphs ARCH...: small models of these, in f32, Q8_0, Q4_K and MXFP4: one hash, and no operation of a step is left to ggml
    local arch model type log
    for arch; do
        rm -rf build/ggml/models
        mkdir build/ggml/models
        build/ggml/archs/bin/test-llama-archs -s 1 -a "^$arch\$" -o build/ggml/models >"$logs/graphs-$arch.log" 2>&1
        for type in '' 7 14 38; do
            log=$logs/graphs-$arch-${type:-f32}.log
            for model in build/ggml/models/"$arch"-*e.gguf; do
                FOVEA_GGML=all build/ggml/archs/bin/decode "$model" $type >"$log" 2>&1 && grep -q '^hash: ' "$log" && grep -qx left: "$log"
                report $? "decode $arch, llama_ftype ${type:-0}: $(grep -E '^(hash|left)' "$log" | paste -sd' ')" "$log"
            done
        done
    done
}

refused() { # refused NAME FOLDER: that ggml is not served, and one line says so
    LD_LIBRARY_PATH=$2 "$test" >"$logs/test-$1.log" 2>&1
    [ "$(grep -c '^ggml-fovea: not used: ' "$logs/test-$1.log")" = 1 ]
    report $? "ggml $1 is refused" "$logs/test-$1.log"
}

if ! build native >$logs/native.log 2>&1; then
    report 1 "ggml does not build" $logs/native.log
    exit 1
fi
if [ "${1-}" != all ]; then
    # Only some sizes of attention: the CPU backend, the reference, takes most of the time.
    operations native -o FLASH_ATTN_EXT -p 'kv=(113|1024|1025|4096)'
    # UNARY and GLU are tested by the names of their functions.
    names=$(sed -n 's/^FG_OPERATION(\([A-Z_]*\), .*/\1/p' integrations/ggml/backend_operations.inc | grep -v FLASH
            grep -oE '"[A-Z_]+"' integrations/ggml/elementwise_activations.c | tr -d '"')
    [ "$(wc -l <<<"$names")" -gt 20 ] || report 1 "too few names of operations: are the patterns right?" /dev/null
    operations native -o "$(echo "$names" | paste -sd,)"
    exit
fi
operations native
results native build/ggml/native/bin
if build archs -DGGML_NATIVE=OFF -DGGML_BACKEND_DL=ON >$logs/archs.log 2>&1; then
    archs all CPU
    archs all Fovea
    archs '' CPU
    graphs qwen3moe gpt-oss qwen3next qwen35 qwen35moe granitehybrid falcon-h1 mamba mamba2 kimi-linear deepseek2
else
    report 1 "llama.cpp does not build" $logs/archs.log
fi
if build no-openmp -DGGML_OPENMP=OFF >$logs/no-openmp.log 2>&1 &&
    build any-cpu -DGGML_NATIVE=OFF -DGGML_SSE42=OFF -DGGML_AVX=OFF -DGGML_AVX2=OFF -DGGML_BMI2=OFF -DGGML_FMA=OFF \
        -DGGML_F16C=OFF >$logs/any-cpu.log 2>&1; then
    for name in no-openmp any-cpu; do
        results $name build/ggml/$name/bin
    done
else
    report 1 "ggml does not build otherwise" $logs/any-cpu.log
fi
for release in 0.17.0.post1 0.15.3 0.13.1 0.9.11; do
    if python3 integrations/ggml/fetch.py --release $release build/ggml; then
        $([ $release = 0.9.11 ] && echo refused || echo results) $release build/ggml/libggml-$release/lib64
    else
        echo "SKIPPED: ggml $release"
    fi
done
