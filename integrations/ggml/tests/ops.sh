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

wide() { # wide ARCH FTYPE SETTING...: that small model at the widths of a real one, with two layers and few words
    local model=build/ggml/models/$1.gguf log=$logs/wide-$1.log
    build/ggml/archs/bin/test-llama-archs -s 1 -a "^$1\$" -o build/ggml/models >"$log" 2>&1
    mv build/ggml/models/"$1"-*e.gguf "$model"
    FOVEA_GGML=all build/ggml/archs/bin/decode "$model" "${@:2}" >"$log" 2>&1 && grep -q '^hash: ' "$log" && grep -qx left: "$log"
    report $? "decode $1 at true widths, llama_ftype $2: $(grep -E '^(hash|left)' "$log" | paste -sd' ')" "$log"
    rm -f "$model" "$model.$2"
}

# Q4_K of all matrices, gpt-oss in MXFP4.
all_wide() {
    local delta="ssm.conv_kernel=4 ssm.state_size=128 ssm.group_count=16 ssm.inner_size=4096 ssm.time_step_rank=32"
    local head256="attention.key_length=256 attention.value_length=256 rope.dimension_count=64"
    local mla="attention.kv_lora_rank=512 attention.key_length=576 attention.value_length=512 attention.key_length_mla=192 "
    mla+="attention.value_length_mla=128 rope.dimension_count=64 leading_dense_block_count=1"
    local head128="attention.key_length=128 attention.value_length=128 rope.dimension_count=128"
    # shellcheck disable=SC2086 # settings are words
    {
        # 30B-A3B
        wide qwen3moe 14 embedding_length=2048 feed_forward_length=6144 attention.head_count=32 attention.head_count_kv=4 \
            $head128 expert_count=128 expert_used_count=8 expert_feed_forward_length=768
        # 20B
        wide gpt-oss 38 embedding_length=2880 feed_forward_length=2880 attention.head_count=64 attention.head_count_kv=8 \
            attention.key_length=64 attention.value_length=64 rope.dimension_count=64 attention.sliding_window=128 \
            attention.key_length_swa=64 attention.value_length_swa=64 rope.dimension_count_swa=64 expert_count=32 \
            expert_used_count=4 expert_feed_forward_length=2880
        # 80B-A3B
        wide qwen3next 14 embedding_length=2048 feed_forward_length=5120 attention.head_count=16 attention.head_count_kv=2 \
            $head256 $delta expert_count=512 expert_used_count=10 expert_feed_forward_length=512 \
            expert_shared_feed_forward_length=512
        # 4B
        wide qwen35 14 embedding_length=2560 feed_forward_length=9216 attention.head_count=16 attention.head_count_kv=4 \
            $head256 $delta rope.dimension_sections=11,11,10,0
        # 35B-A3B
        wide qwen35moe 14 embedding_length=2048 feed_forward_length=5120 attention.head_count=16 attention.head_count_kv=2 \
            $head256 $delta rope.dimension_sections=11,11,10,0 expert_count=256 expert_used_count=8 \
            expert_feed_forward_length=512 expert_shared_feed_forward_length=512
        # Granite 4.0 H-Tiny
        wide granitehybrid 14 embedding_length=1536 feed_forward_length=512 attention.head_count=12 \
            attention.head_count_kv=4,0 $head128 ssm.conv_kernel=4 ssm.state_size=128 ssm.group_count=1 ssm.inner_size=3072 \
            ssm.time_step_rank=48 expert_count=64 expert_used_count=6 expert_feed_forward_length=512 \
            expert_shared_feed_forward_length=1024
        # 7B
        wide falcon-h1 14 embedding_length=3072 feed_forward_length=12288 attention.head_count=12 attention.head_count_kv=2 \
            $head128 ssm.conv_kernel=4 ssm.state_size=256 ssm.group_count=1 ssm.inner_size=3072 ssm.time_step_rank=24
        # Falcon-Mamba 7B, Codestral Mamba
        wide mamba 14 embedding_length=4096 ssm.inner_size=8192 ssm.state_size=16 ssm.time_step_rank=256 ssm.conv_kernel=4
        wide mamba2 14 embedding_length=4096 ssm.inner_size=8192 ssm.state_size=128 ssm.time_step_rank=128 \
            ssm.group_count=8 ssm.conv_kernel=4
        # 48B-A3B
        wide kimi-linear 14 embedding_length=2304 feed_forward_length=9216 attention.head_count=32 \
            attention.head_count_kv=1,0 $mla kda.head_dim=128 ssm.conv_kernel=4 expert_count=256 expert_used_count=8 \
            expert_feed_forward_length=1024 expert_shared_feed_forward_length=1024
        # V2
        wide deepseek2 14 embedding_length=5120 feed_forward_length=12288 attention.head_count=128 \
            attention.head_count_kv=1 $mla attention.q_lora_rank=1536 expert_count=160 expert_used_count=6 \
            expert_feed_forward_length=1536 expert_shared_count=2
    }
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
    all_wide
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
