#!/usr/bin/env bash
# test.sh STEP: one test of fovea-inspect as a program. Run by ctest, which sets INSPECT (the program), SOURCE (this
# folder) and SCRATCH (a folder of the step's own).
step=$1 name=fovea-inspect program=$INSPECT
. "$(dirname "$0")/../../tests/support/program.sh"

refuses() { # refuses PATTERN ARGUMENT...: ends with 1 and that sentence
    expect 1 "${@:2}"
    has err "^fovea-inspect: .*$1"
}
svg() { # svg FILE TEXTS: is XML, with that many <text>, and nothing outside of its size but what is turned
    python3 - "$1" "$2" <<'PY' || fail "$1 is not the picture it should be"
import sys, xml.etree.ElementTree as tree
root = tree.parse(sys.argv[1]).getroot()
space = "{http://www.w3.org/2000/svg}"
assert root.tag == space + "svg" and root.get("role") == "img" and root.get("aria-label")
width, height = float(root.get("width")), float(root.get("height"))
texts = list(root.iter(space + "text"))
assert len(texts) == int(sys.argv[2]), len(texts)
for text in texts:
    assert 0 < float(text.get("x")) < width and 0 < float(text.get("y")) < height, text.attrib
    assert text.text is not None and text.text.strip()
assert any("prefers-color-scheme" in style.text for style in root.iter(space + "style"))
PY
}

case $step in
options) # one table makes help, man page and completion, and every option is in all three
    one_table 20
    for command in cost similarity attention; do
        expect 0 "$command" --help
        has out "^usage: fovea-inspect $command" '--threads' 'exit status'
    done
    lacks out --svg
    completes --d-model fovea-inspect cost --d-m
    for wrong in '' dance --nothing 'cost' 'cost --d-model 8' 'cost --d-model 0 --heads 1' 'cost --d-model 8x --heads 1' \
        'cost --d-model 99999999999999999999 --heads 1' 'cost --svg x' 'cost --d-model' 'cost word' 'similarity' \
        'similarity --measure a' 'cost --causal=1' 'similarity --csv= a' 'attention' 'attention --layer -1 a' \
        'attention --samples 3 a' 'attention a --threads 0'; do
        # shellcheck disable=SC2086
        expect 2 $wrong
        [ -s err ] && [ ! -s out ] || fail "$wrong: no sentence"
    done
    expect 2 cost --d-model 8 --heads 65537
    has err '^fovea-inspect cost: --heads needs a number from 1 to 65536, not "65537"$'
    # Sentences lead with what to type.
    complains() { # complains SENTENCE ARGUMENT...
        expect 2 "${@:2}"
        same "another sentence" "$(cat err)" "fovea-inspect$1"
    }
    complains ': a command is missing; there are cost, similarity and attention (see fovea-inspect --help)'
    complains ': there is no command dance; there are cost, similarity and attention (see fovea-inspect --help)' dance
    complains ' cost: --d-model needs a number, as in: --d-model 768' cost --d-model
    complains ' cost: --d-model is missing, as in: fovea-inspect cost --d-model 768 --heads 12' cost
    complains ' cost: --heads is missing, as in: fovea-inspect cost --d-model 768 --heads 12' cost --d-model=8
    complains ' cost: does not take --svg (see fovea-inspect cost --help)' cost --svg x
    complains ' cost: there is no option --rows (see fovea-inspect cost --help)' cost --rows 3
    complains ' cost: --causal takes no value' cost --causal=1
    complains ' similarity: --csv needs a file, not "", as in: --csv costs.csv' similarity --csv= a
    complains ' similarity: FILE is missing, as in: fovea-inspect similarity model.safetensors --csv heads.csv' similarity
    ;;

cost) # numbers that can be computed by hand
    expect 0 cost --d-model 768 --heads 12 --q-len 100 --csv -
    has out '^form,what,parameters' '^0,"[^"]*",2359296,353894400,30720000,117964800,' \
        '^1q,"[^"]*",8257536,1533542400,199680000,117964800,' '^4,"[^"]*",1179648,' '^3,"[^"]*",589824,0,30720000,'
    [ "$(wc -l <out)" = 10 ] || fail "not a line for each form"
    expect 0 cost --d-model 8 --heads 2 --biases --measure --seconds 1 --threads 1 --q-len 5 --kv-len 3 --csv file.csv
    has out '1 thread' '^0 .* 1\.00 .* 1\.00$' '^1k[*] .* [0-9.]+$' '^5 ' '5 queries, 3 keys, biases'
    python3 - <<'PY' || fail "no times in the CSV file"
import csv
rows = list(csv.DictReader(open("file.csv")))
assert len(rows) == 9 and all(float(row["seconds"]) > 0 and float(row["time_ratio"]) > 0 for row in rows), rows
PY
    expect 0 cost --d-model 8 --heads 2 --kv-heads 1 --d-k 3 --d-v 5 --d-out 0 --causal --measure --seconds 1 --batch 2
    has out '- \(below\)' '^1k: merged keys' '^4: one W' 'causal'
    # Break-even by hand: n < n_k d_k d_model / ((d_model - d_k) (d_model + n_k)) = 27.9; with very many keys 69.8.
    expect 0 cost --d-model 768 --heads 12
    has out '^one B_i = .*: 768 x 768, 589.8 k numbers of rank 64 at most; W_i\^Q and W_i\^K: 98.3 k numbers$' \
        '^of all 12 heads: B_i 7.078 M numbers; W\^Q and W\^K 1.18 M$' \
        '^break-even with 512 keys, fewer flops than form 0: 0v up to 27 queries, 1q up to 27, 1k never, 1v up to 27$' \
        '^break-even with very many keys, .*: 0v up to 69 queries, 1q up to 69, 1k never, 1v up to 69$'
    # 1k by hand: n > n_k d_model (d_model - d_k) / (d_model d_k - n_k (d_model - d_k)) = 99.4.
    expect 0 cost --d-model 768 --heads 12 --q-len 1000 --kv-len 8
    has out '^break-even with 8 keys, .*: 0v never, 1q never, 1k from 100 queries on, 1v never$' '^1k .* 0[.]61 '
    lacks out '[*]' # marks a form that cannot hold a bias
    expect 0 cost --d-model 512 --heads 8 --d-k 512 --q-len 1
    has out '^break-even with 1 key, .*: 0v always, 1q always, 1k always, 1v always$' ' 1 query, 1 key$'
    expect 0 cost --d-model 4 --heads 1 --d-k 1 --kv-len 8
    has out ' 1 head, ' '^break-even with 8 keys, .*: 0v never, 1q never, 1k never, 1v never$' \
        '^break-even with very many keys, .* 0v up to 1 query, 1q up to 1,'
    lacks out '^of all' # heads, of which there is one
    # Which biases a form cannot hold.
    expect 0 cost --d-model 8 --heads 2 --biases
    has out '^0 ' '^0v[*] ' '^1q ' '^1k[*] ' '^1v[*] ' '^[*] 1k is counted without the bias it cannot hold: q_bias' '^[*] 1v .*v_bias'
    [ "$(grep -c '[*]' out)" = 6 ] || fail "other forms are marked"
    expect 0 cost --d-model 8 --heads 2 --biases --csv -
    has out ',cannot_hold,cheaper_from_queries,cheaper_to_queries$' '^0,.*,,,$' '^0v,.*,v_bias,1,[0-9]+$' '^1q,.*,,,1,[0-9]+$' \
        '^1k,.*,q_bias,0,0$'
    expect 0 cost --d-model 768 --heads 12 --q-len 1000 --kv-len 8 --csv -
    has out '^1k,.*,100,inf$' '^3,.*,,,$'
    refuses 'not a multiple of heads' cost --d-model 8 --heads 3
    refuses 'not a multiple of kv_heads' cost --d-model 8 --heads 4 --kv-heads 3
    refuses 'too large to be measured' cost --d-model 10000000 --heads 1000 --batch 10000000 --measure
    mkdir folder
    refuses 'not a regular file' cost --d-model 8 --heads 2 --csv folder
    ;;

similarity)
    python3 "$SOURCE/test_models.py" . || fail "no models"
    refuses '--heads N' similarity alike.safetensors
    expect 0 similarity alike.safetensors --heads 2 --csv a.csv --svg a.svg --samples 5
    has out '^0 +1\.000 +1\.000 +1\.000 +0\.000 +0\.000 +0\.000 +0\.0 +0\.0 +0\.0 .* 1\.000 +2\.0$' \
        '^1 +0\.000 +0\.000 +0\.000 +1\.000 +1\.000 +1\.000 +90\.0 +90\.0 +90\.0 .* 0\.500 +2\.0$' 'mean +0\.500' 'random, mean'
    python3 - <<'PY' || fail "a.csv is not as it should be"
import csv
rows = list(csv.DictReader(open("a.csv")))
assert len(rows) == 4 + 5 and len(rows[0]) == 23
for row in rows[:4]:
    same = row["layer"] == "0"
    assert row["stack"] == "model.layers" and row["attention"] == "self" and row["d_model"] == "8" and row["d_k"] == "2"
    for pair in ("qk", "qv", "kv"):
        assert abs(float(row["cosine_" + pair]) - same) < 1e-7
        assert abs(float(row["distance_" + pair]) - (not same)) < 1e-7
        for angle in ("angle_", "least_angle_", "greatest_angle_"):
            assert abs(float(row[angle + pair]) - 90 * (not same)) < 1e-4
    assert abs(float(row["symmetry"]) - (1 if same else 0.5)) < 1e-7 and abs(float(row["effective_rank"]) - 2) < 1e-7
assert [row["stack"] for row in rows[4:]] == ["random"] * 5
PY
    svg a.svg $((8 * 11 + 3))
    cp a.csv first.csv
    expect 0 similarity alike.safetensors --heads 2 --csv a.csv --svg - --samples 5 --threads 1
    same_files a.csv first.csv "the number of threads changes figures"
    same_files out a.svg "--svg - is another picture"
    [ ! -s err ] || fail "something on standard error"
    expect 0 similarity zeros.safetensors --heads 2 --csv - --svg z.svg
    has out '^model.layers,0,self,0,8,2,0,,,1,1,1,90,,,90,,,90,,,0\.5,2$'
    svg z.svg $((4 * 10 + 4 * 6 + 3))
    has z.svg 'class="none"'
    mkdir beside && cp alike.safetensors beside && printf '{"num_attention_heads": 2}' >beside/config.json
    expect 0 similarity beside/alike.safetensors
    printf '{"num_attention_heads": 3}' >beside/config.json
    refuses '4 channels are not those of 3 heads' similarity beside/alike.safetensors
    # Whatever fails leaves files as they were.
    cp first.csv kept.csv
    head -c 300 alike.safetensors >cut.safetensors
    refuses 'cut off' similarity cut.safetensors --heads 2 --csv kept.csv --svg none.svg
    refuses 'cannot be opened' similarity nowhere --heads 2 --csv kept.csv
    mkfifo fifo
    for wrong in fifo /dev/zero; do # at once: nothing is written to the pipe, and the device has no end
        refuses "$wrong: cannot be opened .not a regular file" similarity "$wrong" --heads 2 --csv kept.csv
    done
    mkdir piped && cp alike.safetensors piped && mkfifo piped/config.json
    refuses 'config.json: cannot be opened .not a regular file' similarity piped/alike.safetensors
    same_files kept.csv first.csv "a file was changed in spite of an error"
    [ ! -e none.svg ] || fail "a file was written in spite of an error"
    [ -z "$(find . -name '.*.new')" ] || fail "something was left over"
    refuses 'only one of CSV, JSON and SVG' similarity alike.safetensors --heads 2 --svg - --csv -
    refuses 'not a regular file' similarity alike.safetensors --heads 2 --svg beside
    for way in --csv --svg --json; do
        refuses 'alike.safetensors: holds something else' similarity alike.safetensors --heads 2 $way alike.safetensors
        refuses 'folder/file: its folder does not exist' similarity alike.safetensors --heads 2 $way folder/file
    done
    printf 'stack' >short.csv && : >empty.csv
    refuses 'short.csv: holds something else' similarity alike.safetensors --heads 2 --csv short.csv
    expect 0 similarity alike.safetensors --heads 2 --csv empty.csv # nothing is lost
    refuses 'folder/file: its folder does not exist' cost --d-model 8 --heads 2 --csv folder/file
    refuses 'folder/file: its folder does not exist' attention --model nowhere -o folder/file who
    [ ! -e folder ] || fail "a folder was made"
    if [ -c /dev/full ]; then
        status=0
        "$INSPECT" similarity alike.safetensors --heads 2 >/dev/full 2>err || status=$?
        [ $status = 1 ] || fail "a full disk is not noticed"
        has err 'standard output'
    fi
    ;;

families) # every family by the names and the config.json of its own, with no --heads but where there is no config.json
    python3 "$SOURCE/test_families.py" write . || fail "no models"
    [ "$(find . -name expected.json | wc -l)" -ge 34 ] || fail "families are missing"
    for family in *; do
        [ -f "$family/expected.json" ] || continue
        heads=()
        [ -f "$family/config.json" ] || heads=(--heads 4)
        expect 0 similarity "$family" "${heads[@]}" --samples 2 --csv - --json "$family/out.json"
        cp out "$family/out.csv"
        cp err "$family/err"
    done
    python3 "$SOURCE/test_families.py" check . || fail "a family is read wrong"
    refuses '--heads N is needed, as no config.json' similarity mha
    # --heads in place of config.json does not change how matrices lie, and gates are no heads.
    for family in nanogpt qwen3_next; do
        expect 0 similarity $family --heads 4 --samples 2 --csv a.csv
        cut -d, -f1-20 a.csv | grep -v random >a
        cut -d, -f1-20 $family/out.csv | grep -v random >b
        same_files a b "$family with --heads is read wrong"
    done
    expect 0 similarity qwen3_next
    has out '4 heads with a gate each, 2 of keys and values; d_model 12, d_k 5;'
    for heads in 2 8; do
        refuses "q_proj.weight: its 40 channels are 4 heads of 5 with a gate each, .*: --heads $heads would take gates for heads" \
            similarity qwen3_next --heads $heads
    done
    sed 's/"hidden_size": 12/"hidden_size": 20/' qwen3/config.json >a && mv a qwen3/config.json # as if q_proj were [in, out]
    for heads in '' '--heads 4'; do
        # shellcheck disable=SC2086
        refuses 'q_proj.weight is .20, 12., but config.json says 20 input channels: the matrix seems to be transposed' \
            similarity qwen3 $heads
    done
    # GGUF, which other programs read.
    printf 'GGUF\3\0\0\0\0\0\0\0\0\0\0\0' >model.bin
    refuses 'model.bin: is a GGUF file, but a safetensors file is needed' similarity model.bin --heads 2
    mkdir gguf && cp model.bin gguf/model.gguf
    refuses 'gguf: has no .safetensors file, only GGUF' similarity gguf
    refuses 'gguf/model.gguf: is a GGUF file, but a safetensors file is needed' attention --model gguf/model.gguf who
    refuses 'gguf: has no model.safetensors, only GGUF: weights must be in safetensors format' attention --model gguf who
    expect 0 similarity unknown
    has out '^left out: model.layers.\*.self_attn.q_a_proj.weight .2 arrays; not recognized.$' \
        '^config.json names 2 layers of model.layers; attention was found in 1$'
    expect 0 similarity albert
    has out 'albert_layers: 1 layer of self-attention, used by 12 layers of the model; 4 heads'
    expect 0 similarity t5
    has out 'decoder.block: 1 layer of cross-attention; 4 heads, 4 of keys and values; d_model 12, d_k 5; positions: relative$'
    ;;

shards) # a model in several files, given in every way; one that is not whole; and files that are wrong
    python3 "$SOURCE/test_families.py" write . || fail "no models"
    cp -r llama whole && python3 "$SOURCE/test_families.py" shard llama 4 || fail "no shards"
    index=llama/model.safetensors.index.json
    expect 0 similarity whole --csv whole.csv --samples 2
    for way in llama llama/ $index "$(echo llama/model-0000*)"; do
        # shellcheck disable=SC2086
        expect 0 similarity $way --csv a.csv --samples 2
        same_files a.csv whole.csv "$way is read differently"
        lacks out 'shard|left out'
    done
    cd llama # its own name alone, too
    expect 0 similarity model.safetensors.index.json --csv ../a.csv --samples 2
    cd .. && same_files a.csv whole.csv "the index by its name alone"
    # Shards of a larger model say so, and what layers lack.
    mkdir part && cp llama/config.json llama/model-0000[13]-of-00004.safetensors part
    refuses 'has no complete layer; model-00001-of-00004.safetensors is a shard: 1 of the 4 files of this model is here' \
        similarity part/model-00001-of-00004.safetensors
    cp llama/model-00002-of-00004.safetensors part # the first layer, and one array of the second
    expect 0 similarity part
    has out '^model-00001-of-00004.safetensors is a shard: 3 of the 4 files of this model are here' \
        'k_proj.weight .1 array; W\^Q is missing' ': 1 layer of self'
    expect 0 similarity part --json -
    has out '"whole": false' '"why": "W.Q is missing"'
    has err 'is a shard: 3 of the 4 files'
    mkdir other && cp whole/config.json other && cp whole/model.safetensors other/first.safetensors
    printf '{"weight_map": {"a": "first.safetensors", "b": "second.safetensors"}}' >other/model.safetensors.index.json
    expect 0 similarity other/first.safetensors
    has out '^first.safetensors is a shard of the model of other/model.safetensors.index.json'
    refuses 'index.json: names the shard second.safetensors, which is not there' similarity other
    cp whole/model.safetensors other/second.safetensors
    refuses 'is in first.safetensors, too: these are not files of one model' similarity other
    printf '{"weight_map": {"norm.weight": "first.safetensors", "b": "first.safetensors"}}' >other/model.safetensors.index.json
    refuses 'index.json: b is not in first.safetensors, where it should be' similarity other
    for wrong in '{"a": "../whole/model.safetensors"}' '{"a": 1}' '{"a": "first.bin"}'; do
        printf '{"weight_map": %s}' "$wrong" >other/model.safetensors.index.json
        refuses 'a is not in a .safetensors file of the same folder' similarity other
    done
    for wrong in '' '{}' '[]' '{"weight_map": 3}' '{"weight_map": {}'; do
        printf '%s' "$wrong" >other/model.safetensors.index.json
        refuses 'index.json: is not (a model index|JSON|a JSON object)' similarity other
    done
    printf '{"weight_map": {}}' >other/model.safetensors.index.json
    refuses 'lists no files' similarity other
    mkdir empty
    refuses 'empty: has no .safetensors file' similarity empty
    refuses 'nowhere.index.json: does not exist' similarity nowhere.index.json
    # A shard cut off, one whose arrays overlap, and a config.json of another model.
    mkdir cut && cp llama/* cut && head -c 400 llama/model-00002-of-00004.safetensors >cut/model-00002-of-00004.safetensors
    refuses 'model-00002-of-00004.safetensors: ' similarity cut
    cp llama/* cut && python3 - cut/model-00003-of-00004.safetensors <<'PY'
import json, struct, sys
data = open(sys.argv[1], "rb").read()
length = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:8 + length])
first, second = list(header)[:2]
header[second]["data_offsets"] = header[first]["data_offsets"]
header[second]["shape"] = header[first]["shape"]
text = json.dumps(header).encode()
open(sys.argv[1], "wb").write(struct.pack("<Q", len(text)) + text + data[8 + length:])
PY
    refuses 'model-00003-of-00004.safetensors: .* overlaps ' similarity cut
    for wrong in '"num_attention_heads": 5' '"num_attention_heads": 4, "head_dim": 4' '"num_attention_heads": 4, "hidden_size": 13' \
        '"num_attention_heads": 4, "num_key_value_heads": 4'; do
        printf '{%s}' "$wrong" >llama/config.json
        refuses 'llama/config.json: contradicts the model: ' similarity llama
        [ "$(wc -l <err)" = 1 ] || fail "more than a sentence"
        expect 0 similarity llama --heads 4
    done
    ;;

output) # orders, histograms, one head, JSON, and the picture
    python3 "$SOURCE/test_models.py" . || fail "no models"
    expect 0 similarity alike.safetensors --heads 2 --json a.json --svg a.svg
    has out '^Q and K most alike .* 0\.0 \(0\.0\)  0\.1 \(0\.0\)  1\.0 \(90\.0\)  1\.1 \(90\.0\)$' \
        '^most symmetric B .* 0\.0 \(1\.000\)  0\.1 \(1\.000\)  1\.0 \(0\.500\)' \
        '^least symmetric B .* 1\.0 \(0\.500\)  1\.1 \(0\.500\)  0\.0 \(1\.000\)' '^Q and K: cosine +0\.000 \|█ {30}█\| 1\.000$'
    has a.svg '>greatest 1\.000: layer 0, head 0<' '>least 0\.500: layer 1, head 0<' '>random heads [0-9.-]+<'
    python3 - <<'PY' || fail "a.json is not as it should be"
import json
a = json.load(open("a.json"))
assert a["files"] == 1 and a["whole"] and a["model_type"] == "" and a["left_out"] == []
assert a["layers"][1] == {"stack": "model.layers", "layer": 1, "attention": "self", "d_model": 8, "d_k": 2, "heads": 2,
                          "kv_heads": 2, "used": 1, "positions": None}
assert [(h["layer"], h["head"], round(h["cosine_qk"], 6)) for h in a["heads"]] == [(0, 0, 1), (0, 1, 1), (1, 0, 0), (1, 1, 0)]
assert a["histograms"]["symmetry"] == {"low": 0.5, "high": 1, "heads": [2] + [0] * 18 + [2]}
assert a["random"][0]["heads"] == 32 and abs(a["random"][0]["mean"]["cosine_qk"]) < 0.3
PY
    expect 0 similarity alike.safetensors --heads 2 --rank least-symmetric --top 3
    same "another order" "$(grep -E '^[0-9]+\.[0-9]+ ' out | cut -d' ' -f1 | tr '\n' ' ')" '1.0 1.1 0.0 '
    while read -r order title; do
        expect 0 similarity alike.safetensors --heads 2 --rank "$order"
        [ "$(grep -cE '^[0-9]+\.[0-9]+ ' out)" = 4 ] || fail "$order lists not all heads"
        has out "^$title"
    done <<'END'
most-alike Q and K most alike
least-alike Q and K least alike
most-symmetric most symmetric
least-symmetric least symmetric
lowest-rank lowest effective rank
highest-rank highest effective rank
most-alike-qv Q and V most alike
most-alike-kv K and V most alike
by-name by layer and head
END
    same "not by name" "$(grep -E '^[0-9]+\.[0-9]+ ' out | cut -d' ' -f1 | tr '\n' ' ')" '0.0 0.1 1.0 1.1 '
    expect 2 similarity alike.safetensors --rank backwards
    expect 0 similarity alike.safetensors --heads 2 --head 1.1 --csv a.csv
    has out '^1\.1 ' '^  Q and K: cosine +0\.000 +-?0\.[0-9]+ \(deviation ' '^  symmetric share of B +0\.500 '
    [ "$(grep -vc random a.csv)" = 2 ] || fail "more than one head"
    refuses 'has no head 1.2: layers are 0 to 1' similarity alike.safetensors --heads 2 --head 1.2
    refuses 'cannot be combined with --head' similarity alike.safetensors --heads 2 --head 1.1 --svg b.svg
    # 100 layers x 100 heads: as large as it is readable, and no more.
    python3 "$SOURCE/../models/model_files.py" 100 100 8 1 many.safetensors || fail "no model"
    expect 0 similarity many.safetensors --heads 100 --svg many.svg --samples 2
    python3 - <<'PY' || fail "many.svg cannot be read"
import os, re
text = open("many.svg").read()
width, height = map(float, re.search(r'width="(\d+)" height="(\d+)"', text).groups())
scales = {float(s) for s in re.findall(r"scale\(([\d.]+)\)", text)}
assert width < 1400 and height < 3500 and min(scales) >= 4, (width, height, scales)
assert text.count('class="small soft"') < 8 * 40 and text.count(">least ") == 8 and os.path.getsize("many.svg") < 2e6
PY
    ;;

memory) # one layer at a time: 30 layers of 1.6 MB, less memory than half of the file
    mkdir large && python3 "$SOURCE/../models/model_files.py" 30 16 1024 16 large/model.safetensors || fail "no model"
    bounded() { # bounded FILES: their sum is more than twice the memory that the program takes
        python3 - "$INSPECT" "$@" <<'PY' || fail "more memory than it should take"
import os, resource, subprocess, sys
subprocess.run([sys.argv[1], "similarity", "large", "--heads", "16", "--samples", "2", "--threads", "1"], check=True,
               stdout=subprocess.DEVNULL)
most, files = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024, sum(map(os.path.getsize, sys.argv[2:]))
print(f"{most / 1e6:.1f} MB, the model has {files / 1e6:.1f} MB")
assert most < files / 2
PY
    }
    bounded large/model.safetensors
    python3 "$SOURCE/test_families.py" shard large 7 || fail "no shards"
    bounded large/model-*
    rm -r large
    ;;

attention | models)
    # shellcheck disable=SC1091
    . "$SOURCE/test_attention.sh"
    ;;

*) fail "no step $step" ;;
esac
