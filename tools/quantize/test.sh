#!/usr/bin/env bash
# test.sh FOVEA-QUANTIZE FOVEA-GENERATE TEST-GENERATE-SETTINGS TINY: models of tools/generate, quantized and read
# again. Run by ctest, which sets SCRATCH, a folder of its own.
step=quantize name=fovea-quantize program=$1 generate=$2 tiny=$4 models=$(cd "$(dirname "$0")/../models" && pwd)
. "$(dirname "$0")/../../tests/support/program.sh"
export PYTHONPATH=$models PYTHONDONTWRITEBYTECODE=1
"$3" --write tiny.gguf >out 2>err || fail "no model"

refused() { # refused STATUS WORDS ARGUMENT...: one line that says so, apart from those of progress, and no file
    expect "$1" "${@:3}"
    has err "^fovea-quantize: .*$2"
    [ "$(grep -cv ' MB, .* left$' err)" = 1 ] || fail "not one line: ${*:3}"
    ls >files
    local left
    left=$(grep -vE '^(files|out|err|.*[.]gguf|broken.*|folder.*|tiny.*)$' files) && fail "something is left: $left"
    [ ! -e no.gguf ] || fail "no.gguf is there: ${*:3}"
}

# Rows of 16 and 24 elements: no blocks of 32. The tiny LLaMA of safetensors has 48 and 80.
refused 1 'no matrix whose rows are whole blocks or groups' tiny.gguf --type q8_0 -o no.gguf
refused 2 'cannot do without --type|needs? .*--type|--type' tiny.gguf -o no.gguf
refused 2 '--output' tiny.gguf --type q8_0
refused 2 'multiple of 16' tiny.gguf --type int4 --group-size 24 -o no.gguf
refused 2 'has blocks of its own' tiny.gguf --type q4_0 --group-size 32 -o no.gguf
refused 1 'nowhere' nowhere --type q8_0 -o no.gguf

# One table makes help, man page and completion, which are installed with the program.
mkdir folder.pages
cd folder.pages
one_table 10
completes --group-size fovea-quantize --gr
: >weights.gguf
completes weights.gguf fovea-quantize wei
cd ..

# int4 and int8 in groups of 16, from several safetensors files; what was written is read again.
mkdir folder
expect 0 "$tiny/llama" --type int4 --group-size 16 -o folder/model.safetensors
has out 'q_proj.weight  48 x 48  int4  max .* rms .* relative 0[.][0-9]*  1440 bytes$' \
    'norm.weight  48  BF16 kept \(no matrix\)  96 bytes$' 'embed_tokens.weight  .* BF16 kept \(embedding\)' \
    'tensors quantized \([0-9]* int4\), .* MB from'
has folder/config.json '"format": "pack-quantized"' '"group_size": 16' '"hidden_size"' '"model.embed_tokens"'
python3 - folder/model.safetensors "$tiny"/llama/*.safetensors <<'END' || fail "not a file of compressed-tensors"
import json, struct, sys
def read(path):
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    return data, size, json.loads(data[8:8 + size])
def numbers(file, name, kind):
    data, size, header = file
    begin, end = (8 + size + x for x in header[name]["data_offsets"])
    return struct.unpack("<%d%s" % ((end - begin) // struct.calcsize("<" + kind), kind), data[begin:end])
written = read(sys.argv[1])
data, size, header = written
name = "model.layers.0.self_attn.q_proj.weight"
given = next(f for f in map(read, sys.argv[2:]) if name in f[2])
words, scales = numbers(written, name + "_packed", "I"), numbers(written, name + "_scale", "e")
for i, bits in enumerate(numbers(given, name, "H")): # bfloat16
    x = struct.unpack("<f", struct.pack("<I", bits << 16))[0]
    w = (words[i // 8] >> i % 8 * 4 & 15) - 8
    assert abs(x - w * scales[i // 16]) <= abs(scales[i // 16]) * 1.01, i # scales have either sign
assert header[name + "_packed"]["shape"] == [48, 6] and header[name + "_packed"]["dtype"] == "I32"
assert header[name + "_scale"]["shape"] == [48, 3] and header[name + "_scale"]["dtype"] == "F16"
begin, end = header[name + "_shape"]["data_offsets"]
assert struct.unpack("<qq", data[8 + size + begin:8 + size + end]) == (48, 48)
assert max(t["data_offsets"][1] for n, t in header.items() if n[0] != "_") == len(data) - 8 - size
END
refused 1 'exists; --force replaces it' "$tiny/llama" --type int8 -o folder/model.safetensors
cp -r "$tiny/llama" folder.input
refused 1 'is a file of the input' folder.input --type int8 --force -o folder.input/model-00001-of-00002.safetensors
refused 1 'config.json: is a file of the input: .* another folder' folder.input --type int8 --force \
    -o folder.input/no.safetensors
expect 0 "$tiny/llama" --type int8 --force -o folder/model.safetensors
has folder/config.json '"strategy": "channel"' '"int-quantized"'
refused 1 'is of type I8; only F32, F16 and BF16 can be quantized' folder --type q8_0 -o no.gguf

# From safetensors to GGUF: names are kept, and the one setting that GGUF asks for is there.
python3 - <<'END' || fail "no safetensors file"
from model_files import floats, safetensors
open("folder/wide.safetensors", "wb").write(safetensors({"a.weight": ([2, 32], floats(range(64)))}))
END
expect 0 folder/wide.safetensors --type q8_0 -o folder/wide.gguf
grep -qa 'a[.]weight' folder/wide.gguf || fail "the name is lost"
grep -qa 'general[.]architecture.*unknown' folder/wide.gguf || fail "no general.architecture"
program=$generate expect 1 --model folder/wide.gguf x
has err 'has no tokenizer'

# Tensors that are kept.
expect 0 "$tiny/llama" --type int4 --group-size 16 --keep '*q_proj*,lm_head*' --force -o folder/model.safetensors
has out 'q_proj.weight  .* kept \(--keep\)' 'k_proj.weight  [0-9]* x 48  int4' 'lm_head.weight  .* kept \(--keep\)'
refused 2 "are of GGUF's types, not of int4" "$tiny/llama" --type int4 --token-embedding-type q8_0 -o no.gguf
refused 2 "are of GGUF's types, not of int8" "$tiny/llama" --type int8 --tensor-type '*=q8_0' -o no.gguf
refused 2 'needs one of keep, q8_0' "$tiny/llama" --type q8_0 --output-tensor-type int4 -o no.gguf
for list in q_proj '*=q9' '=q8_0' 'a=q8_0,b'; do
    refused 2 "needs PATTERN=TYPE, of keep, q8_0" "$tiny/llama" --type q8_0 --tensor-type "$list" -o no.gguf
done

# GGUF with its settings, by fovea-generate.
python3 -c 'from model_files import wide_llama; open("wide.gguf", "wb").write(wide_llama())' || fail "no wide model"
logits() { # logits VARIABLE OPTION...: their hash, of fovea-generate
    program=$generate expect 0 "${@:2}" --type f32 --threads 1 --plain --tokens 5 ab
    printf -v "$1" '%s' "$(sed -n 's/^logits   hash //p' out)"
}
for type in q8_0 q4_0 q4_1 q4_k; do
    expect 0 wide.gguf --type $type --force -o $type.gguf
    has out "blk.0.attn_q.weight  256 x 256  $type  max " 'token_embd.weight  8 x 256  q8_0 \(embedding\)  max ' \
        '^8 of 11 tensors quantized'
    logits quantized --model $type.gguf --arithmetic exact
    logits wide --model $type.gguf --weights f32
    same "$type: other logits in f32" "$quantized" "$wide"
done
differ "q8_0 is q4_0" "$(cksum <q8_0.gguf)" "$(cksum <q4_0.gguf)"
mv q8_0.gguf tiny-q8.gguf
expect 0 wide.gguf --type q8_0 --search --threads 1 -o q8_0.gguf
refused 1 'is of type Q8_0: its weights were rounded already' tiny-q8.gguf --type q4_0 -o no.gguf
refused 1 'have their types already: nothing is left to quantize' tiny-q8.gguf --type q8_0 -o no.gguf
expect 0 tiny-q8.gguf --type q4_0 --allow-requantize --force -o q4_0.gguf
has out 'token_embd.weight  8 x 256  Q8_0 kept \(already\)' '256 x 256  q4_0  max'
expect 0 wide.gguf --type q4_k --token-embedding-type keep --tensor-type '*_v.*=keep,*attn_*=q8_0' --force -o q4_k.gguf
has out 'token_embd.weight  8 x 256  F32 kept \(embedding\)' 'attn_v.weight  256 x 256  F32 kept \(--tensor-type\)' \
    'attn_k.weight  256 x 256  q8_0 \(--tensor-type\)' 'ffn_up.weight  256 x 256  q4_k  max' '\(3 q8_0, 3 q4_k\)'
logits several --model q4_k.gguf --arithmetic exact

# Tensors of several pieces (16 MB): rows that repeat become blocks that repeat.
mkdir folder.rows
python3 - <<'END' || fail "no large file"
import random
from model_files import floats, safetensors
random.seed(2)
few = floats([random.gauss(0, 1) for _ in range(8192)])
for name, shape in ("folder/large", [7, 800, 1024]), ("folder.rows/rows", [5600, 1024]):
    open(name + ".safetensors", "wb").write(safetensors({"few.weight": ([8, 1024], few), "many.weight": (shape, few * 700)}))
END
expect 0 folder/large.safetensors --type q4_k -o folder/large.gguf
error=$(sed -n 's/^few.weight .*q4_k  \(max .* relative [0-9.]*\)  4608 bytes$/\1/p' out)
has out "many.weight  7 x 800 x 1024  q4_k  ${error:-none}  3225600 bytes"
python3 - <<'END' || fail "pieces are not the whole"
data = open("folder/large.gguf", "rb").read()
few, many = data[-4608 * 701:-4608 * 700], data[-4608 * 700:]
assert few * 700 == many and len(set(few)) > 100
END
# And their scales, which are behind all pieces.
expect 0 folder.rows/rows.safetensors --type int4 --force -o folder/model.safetensors
python3 - <<'END' || fail "scales of pieces are not those of the whole"
import json, struct
data = open("folder/model.safetensors", "rb").read()
size = 8 + struct.unpack("<Q", data[:8])[0]
head = json.loads(data[8:size])
for part in "weight_packed", "weight_scale":
    few, many = (data[size + a:size + b] for a, b in (head[n + part]["data_offsets"] for n in ("few.", "many.")))
    assert few * 700 == many and len(set(few)) > 10, part
END

# Damaged input, numbers that are none, and a full disk: a sentence, and no file.
head -c 3000 wide.gguf >broken.gguf
refused 1 'ends (within its header|beyond)' broken.gguf --type q8_0 -o no.gguf
head -c -200 wide.gguf >broken.gguf
refused 1 "ends beyond the file's end" broken.gguf --type q8_0 -o no.gguf
{ head -c -4 wide.gguf; printf '\0\0\300\177'; } >broken.gguf
refused 1 'ffn_down.weight: .*NaN' broken.gguf --type q8_0 -o no.gguf
{ head -c -4 folder/large.safetensors; printf '\0\0\300\177'; } >broken.safetensors
refused 1 'many.weight, rows from 4096 on: output channel 1503 of from has a number that is NaN' broken.safetensors \
    --type q8_0 -o no.gguf
refused 1 'its folder does not exist' wide.gguf --type q8_0 -o nowhere/no.gguf
(
    ulimit -f 100
    refused 1 'no.gguf: cannot be written: ' wide.gguf --type q8_0 -o no.gguf
) || exit
refused 1 'is not a regular file' wide.gguf --type q8_0 --force -o folder

# Links are not replaced by files, /dev/stdout neither: the file behind them would stay as it is.
printf kept >folder.rows/behind
for link in nowhere behind /proc/self/fd/1; do
    ln -sf $link folder.rows/link
    refused 1 'is a link: name its file' wide.gguf --type q8_0 --force -o folder.rows/link
    same "a link is replaced" "$(readlink folder.rows/link) $(cat folder.rows/behind)" "$link kept"
done

# A file of the input is never replaced, under whichever name: parts of a split GGUF, the index of shards, links.
mkdir folder.split
python3 - <<'END' || fail "no split model"
from model_files import U32, floats, gguf, setting
for part in range(3):
    settings = [setting("split.no", U32, part), setting("split.count", U32, 3), setting("split.tensors.count", U32, 3)]
    open("folder.split/m-%05d-of-00003.gguf" % (part + 1), "wb").write(
        gguf(settings, {"blk.%d.ffn_up.weight" % part: ([32, 2], 0, floats(range(64)))}))
END
whole=$(cat folder.split/*.gguf | cksum)
ln -s m-00002-of-00003.gguf folder.split/symbolic
ln folder.split/m-00003-of-00003.gguf folder.split/hard
for output in m-00001-of-00003.gguf m-00002-of-00003.gguf m-00003-of-00003.gguf symbolic hard; do
    refused 1 'is a file of the input' folder.split/m-00001-of-00003.gguf --type q8_0 --force -o folder.split/$output
done
[ "$(cat folder.split/*.gguf | cksum)" = "$whole" ] || fail "the input is another"
expect 0 folder.split/m-00001-of-00003.gguf --type q8_0 --force -o folder.split/whole.gguf
refused 1 'is a file of the input' folder.input --type int8 --force -o folder.input/model.safetensors.index.json

# Two files of one name, and two tensors of one name.
refused 1 'config.json: is the configuration, .*: name the weights otherwise' "$tiny/llama" --type int8 \
    -o folder.split/config.json
[ ! -e folder.split/config.json ] || fail "a configuration without weights"
twice() { # twice NAME TYPE: a matrix and a tensor of that name
    python3 - "$1" <<'END' || fail "no safetensors file"
import sys
from model_files import safetensors
open("folder.split/twice.safetensors", "wb").write(
    safetensors({"a.weight": ([2, 32], bytes(256)), sys.argv[1]: ([2, 1], bytes(8))}))
END
    refused 1 "two tensors would be named $1: --keep" folder.split/twice.safetensors --type "$2" -o folder.split/no.safetensors
    expect 0 folder.split/twice.safetensors --type q8_0 --force -o folder.split/once.gguf
}
twice a.weight_scale int8
twice a.weight_scale int4
twice a.weight_packed int4
twice a.weight_shape int4

# Names that ggml has no room for, with the zero behind them.
named() { # named LENGTH
    python3 - "$1" <<'END' || fail "no safetensors file"
import sys
from model_files import safetensors
name = "a" * (int(sys.argv[1]) - 7) + ".weight"
open("folder.split/named.safetensors", "wb").write(safetensors({name: ([2, 32], bytes(256))}))
END
}
named 63
expect 0 folder.split/named.safetensors --type q8_0 -o folder.split/named.gguf
named 64
refused 1 'ggml reads names of at most 63 bytes' folder.split/named.safetensors --type q8_0 -o no.gguf

# A file of the type already, with a matrix whose rows are no blocks.
python3 - <<'END' || fail "no GGUF file"
from model_files import gguf
open("folder.split/already.gguf", "wb").write(
    gguf([], {"a.weight": ([32, 2], 8, bytes(96)), "b.weight": ([24, 2], 0, bytes(192))}))
END
refused 1 'have their types already' folder.split/already.gguf --type q8_0 -o no.gguf

# Lines that nobody can read: the file is whole, and so is its exit code. Nothing printed goes into a file.
expect 0 wide.gguf --type q8_0 --force -o folder.split/told.gguf
told() { # told STATUS: of the program just run
    [ "$1" = 0 ] || fail "status $1 although the file is whole"
    has err '^fovea-quantize: standard output was not written completely'
    cmp folder.split/untold.gguf folder.split/told.gguf || fail "another file where nothing could be printed"
}
for closed in '>&-' '<&- >&-' '<&- >&- 2>&-'; do
    : >err
    eval '"$program" wide.gguf --type q8_0 --force -o folder.split/untold.gguf 2>err' "$closed"
    status=$?
    [[ $closed != *2* ]] || echo "fovea-quantize: standard output was not written completely" >err
    told $status
done
{
    sleep 0.2 # until nobody reads
    "$program" wide.gguf --type q8_0 --force -o folder.split/untold.gguf 2>err
    echo $? >folder.split/status
} | :
told "$(cat folder.split/status)"
if [ -c /dev/full ]; then
    "$program" wide.gguf --type q8_0 --force -o folder.split/untold.gguf >/dev/full 2>err
    told $?
    "$program" wide.gguf --type q8_0 -o folder.split/untold.gguf >/dev/full 2>err && fail "a refused file ends with 0"
fi

# No file after a signal. (A shell has SIGINT ignored in what it starts in the background.)
heedful="import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"
for signal in HUP INT TERM; do
    python3 -c "$heedful" "$program" folder/large.safetensors --type q4_k --search --threads 1 -o folder/no.gguf \
        >out 2>err &
    started=$!
    for _ in {1..100}; do
        ! compgen -G 'folder/no.gguf.*' >/dev/null || break
        sleep 0.05
    done
    compgen -G 'folder/no.gguf.*' >/dev/null || fail "no unfinished file to interrupt"
    kill -$signal $started
    wait $started 2>/dev/null && fail "ended well in spite of SIG$signal"
    ! compgen -G 'folder/no.*' || fail "SIG$signal leaves files"
done
