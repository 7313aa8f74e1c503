# The steps of test.sh, which sources this, that are about fovea-inspect attention.
# shellcheck shell=bash
case $step in
attention)
    python3 "$SOURCE/test_models.py" . || fail "no models"
    expect 0 attention --heads 12 --model minilm --layer 1 -o a.svg 'who <'
    has out '^a.svg: attention of 4 tokens, 12 heads'
    # Queries are zero: all weights are 1/4, whose root is level 10 of 20. The last head looks at "who" alone.
    [ "$(grep -c 'class="p10" d="M0 0h4v1h-4zM0 1h4v1h-4zM0 2h4v1h-4zM0 3h4v1h-4z"' a.svg)" = 11 ] || fail "wrong weights"
    sed -n '/>layer 1, head 11</,$p' a.svg >last
    has last 'class="p20" d="M1 0h1v1h-1zM1 1h1v1h-1zM1 2h1v1h-1zM1 3h1v1h-1z"'
    has a.svg '>&lt;</text>' '>\[SEP\]</text>' '>layer 1, head 11</text>' '>Attention of "who &lt;"</text>'
    svg a.svg $((12 * 9 + 7))
    expect 0 attention --heads 12 --model minilm -o - -- who '&' who
    svg out $((24 * 11 + 7))
    refuses 'no layer 2' attention --heads 12 --model minilm --layer 2 -o b.svg who
    refuses 'no layer 2' attention --heads 12 --model minilm --head 2.0 -o b.svg who
    refuses 'no head 12' attention --heads 12 --model minilm --head 0.12 -o b.svg who
    refuses 'leave out --layer' attention --heads 12 --model minilm --head 0.1 --layer 0 -o b.svg who
    refuses 'only one of' attention --heads 12 --model minilm --csv - --json - who
    refuses '300 at most' attention --heads 12 --model minilm -o b.svg "$(printf 'who %.0s' {1..299})"
    # Numbers: all but one head give each of four tokens 1/4; that one looks at the second alone.
    rm -f attention.svg
    expect 0 attention --heads 12 --model minilm --csv a.csv --json a.json 'who <'
    [ ! -e attention.svg ] || fail "a picture that was not asked for"
    has out '^a.json: attention of 4 tokens, 24 heads$' '^    0\.3 +2\.000( +0\.250){7} +0$' \
        '^    1\.11 +0\.000 +1\.000 +0\.000 +0\.000 +0\.000 +0\.250 +0\.333 +0\.333 +1$'
    expect 0 attention --heads 12 --model minilm --head 1.11 --csv b.csv --json - 'who' '<'
    python3 - <<'PY' || fail "wrong numbers"
import csv, json
def reject(word): raise ValueError(word)
def check(path, rows, wanted):
    data = json.load(open(path), parse_constant=reject)
    rows = list(csv.DictReader(open(rows, newline="")))
    assert data["sentence"] == "who <" and data["tokens"] == ["[CLS]", "who", "<", "[SEP]"] and data["causal"] is False
    assert [(head["layer"], head["head"]) for head in data["heads"]] == wanted
    assert len(rows) == 4 * len(wanted)
    at = iter(rows)
    for head in data["heads"]:
        alone = (head["layer"], head["head"]) == (1, 11)
        third = 1 / 3 if alone else 1 / 4
        assert head["summary"].keys() == {"entropy", "largest", "cls", "sep", "first", "self", "previous", "next"}
        quarter = 0.25 * (not alone)
        for name, value in {"entropy": 2 * (not alone), "largest": 1 if alone else 0.25, "cls": quarter, "sep": quarter,
                            "first": quarter, "self": 0.25, "previous": third, "next": third}.items():
            assert abs(head["summary"][name] - value) < 1e-6, (head["layer"], head["head"], name)
        assert all(abs(x - (4 * (k == 1) if alone else 1)) < 1e-5 for k, x in enumerate(head["received"]))
        assert head["top"] == [[1, 0, 2] if alone else [0, 1, 2]] * 4, head["top"]
        for q, weights in enumerate(head["weights"]):
            row = next(at)
            assert row["sentence"] == "who <" and (row["layer"], row["head"]) == (str(head["layer"]), str(head["head"]))
            assert (row["query"], row["token"]) == (str(q), data["tokens"][q])
            assert list(row)[5:] == [f"{k} {token}" for k, token in enumerate(data["tokens"])]
            for k, weight in enumerate(weights):
                assert abs(weight - (k == 1 if alone else 0.25)) < 1e-6
                assert float(row[f"{k} {data['tokens'][k]}"]) == weight
check("a.json", "a.csv", [(layer, head) for layer in range(2) for head in range(12)])
check("out", "b.csv", [(1, 11)])
PY
    expect 0 attention --heads 12 --model minilm --head 0.0 --csv - 'who, "&"'
    python3 - <<'PY' || fail "a sentence with commas and quotes is not one field"
import csv
assert {row["sentence"] for row in csv.DictReader(open("out", newline=""))} == {'who, "&"'}
PY
    expect 0 attention --heads 12 --model minilm --head 0.0 --json - "$(printf 'who \377"\n')"
    python3 -c 'import json; assert json.load(open("out"))["sentence"] == "who \ufffd\""' || fail "no JSON string"
    # Long sentences: fewer labels than tokens; beyond 128 tokens of many maps a cell is a block.
    expect 0 attention --heads 12 --model minilm --head 0.0 -o - "$(printf 'who %.0s' {1..68})"
    svg out $((1 + 2 * 35 + 7))
    expect 0 attention --heads 12 --model minilm --layer 1 -o - '< who' "$(printf '< %.0s' {1..196})"
    svg out $((12 * (1 + 2 * 50) + 7))
    has out 'A cell: the largest of 2 x 2'
    [ "$(grep -c 'class="p1" d="M0 0h100v1' out)" = 11 ] && grep -q 'class="p20" d="M1 0h1v1h-1zM1 1h1v1h-1z' out ||
        fail "the largest of a block is not shown"
    rm minilm/vocab.txt && mkfifo minilm/vocab.txt
    refuses 'vocab.txt: cannot be opened .not a regular file' attention --heads 12 --model minilm -o b.svg who
    rm minilm/vocab.txt
    refuses 'vocab.txt' attention --heads 12 --model minilm -o b.svg who
    [ ! -e b.svg ] || fail "a file was written in spite of an error"
    ;;

models) # families of models, their tokenizers, and what cannot be run
    python3 "$SOURCE/test_encoders.py" . "$INSPECT" || fail "a model is run otherwise than it should be"
    says() { # says PATTERN CONFIG: a model with that config.json is refused
        printf '%s' "$2" >bert/config.json
        refuses "$1" attention --model bert -o no.svg who
    }
    cp bert/config.json kept.json
    says 'config.json: the model cannot run: it needs rotary positions, RMS norm and a gated' '{"model_type": "llama"}'
    says 'needs relative position biases and RMS norm, which' '{"model_type": "t5", "num_attention_heads": 2}'
    says 'needs disentangled attention' '{"model_type": "deberta-v2"}'
    says 'layers that share weights' '{"model_type": "albert"}'
    says 'has an unknown model type, dance; known are BERT,' '{"model_type": "dance"}'
    says 'the activation swish' '{"hidden_act": "swish"}'
    says 'positions that are not absolute' '{"position_embedding_type": "relative_key"}'
    says 'embeddings narrower' '{"model_type": "electra", "hidden_size": 8, "embedding_size": 4}'
    says 'norms behind attention' '{"model_type": "opt", "do_layer_norm_before": false}'
    says 'num_attention_heads is not a number from 1 to 65536' '{"num_attention_heads": 0}'
    says 'num_attention_heads is not a number' '{"num_attention_heads": "two"}'
    says 'epsilon of its layer norms is -1' '{"num_attention_heads": 2, "layer_norm_eps": -1}'
    says 'is no such model: .* 3 heads' '{"num_attention_heads": 3}'
    says 'no config.json there gives the number of heads; pass --heads N' '{}'
    says 'config.json: is not JSON: line 1,' '{"num'
    says 'config.json: is not a JSON object' '[]'
    rm bert/config.json && mkfifo bert/config.json
    refuses 'config.json: cannot be opened .not a regular file' attention --model bert -o no.svg who
    rm bert/config.json
    expect 0 attention --model bert --heads 2 -o a.svg who
    cp kept.json bert/config.json
    # Tokenizers.
    gives() { # gives PATTERN FILE TEXT: gpt2 with that file is refused
        cp -r gpt2 gives && printf '%s' "$3" >"gives/$2"
        refuses "$1" attention --model gives -o no.svg who
        rm -r gives
    }
    gives 'tokenizer.json: splits words by .none. of a kind that is not served' tokenizer.json '{"model": {"type": "Unigram"}}'
    gives 'needs a tokenizer of kind .none.' tokenizer.json '{}'
    gives 'splits words by an unknown rule' tokenizer.json '{"model": {"type": "BPE"}, "pre_tokenizer": {"type": "Split"}}'
    gives 'its vocabulary is empty' tokenizer.json '{"model": {"type": "BPE"}, "pre_tokenizer": {"type": "ByteLevel"}}'
    gives 'the id of a piece' tokenizer.json '{"model": {"type": "WordPiece", "vocab": {"a": -1}}}'
    gives 'two pieces of its vocabulary have the id 0' tokenizer.json '{"model": {"type": "WordPiece", "vocab": {"a": 0, "b": 0}}}'
    gives 'has no .UNK.' tokenizer.json '{"model": {"type": "WordPiece", "vocab": {"a": 0}}}'
    gives 'has no .CLS.' tokenizer.json '{"model": {"type": "WordPiece", "vocab": {"a": 0, "[UNK]": 1}}}'
    gives 'merge 1 is not of tokens' tokenizer.json \
        '{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a b"]}, "pre_tokenizer": {"type": "ByteLevel"}}'
    gives 'merge 1 is not of tokens' tokenizer.json \
        '{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [1]}, "pre_tokenizer": {"type": "ByteLevel"}}'
    gives 'line 1 is empty' vocab.txt ''
    rm gpt2/tokenizer.json
    refuses 'gpt2: has no tokenizer: no vocab.txt, no tokenizer.json, no vocab.json with merges.txt' attention --model gpt2 -o no.svg who
    : >gpt2/spiece.model
    refuses "gpt2: has spiece.model, but no tokenizer.json" attention --model gpt2 -o no.svg who
    # Where a model is looked for.
    expect 0 attention --model bert/model.safetensors --csv - who
    FOVEA_MODEL=$PWD/bert expect 0 attention --csv - who
    mkdir -p home/.cache/fovea/models cache/fovea/models away/bin/deep/deeper away/models
    cp "$INSPECT" away/bin/deep/program
    cp -r bert home/.cache/fovea/models/all-MiniLM-L6-v2
    program=$PWD/away/bin/deep/program
    found() { env -u FOVEA_MODEL "$@" "$program" attention --json - who >out 2>err; }
    found HOME="$PWD/home" XDG_CACHE_HOME= || fail "not found in ~/.cache"
    has out '"model": "all-MiniLM-L6-v2"'
    ! found HOME="$PWD/home" XDG_CACHE_HOME="$PWD/cache" || fail "found in ~/.cache in spite of XDG_CACHE_HOME"
    has err 'all-MiniLM-L6-v2: was not found; fetch it with python3 tools/embed/fetch.py, or name a model with --model'
    cp -r bert cache/fovea/models/all-MiniLM-L6-v2
    found HOME=/nowhere XDG_CACHE_HOME="$PWD/cache" || fail "not found in XDG_CACHE_HOME"
    rm -r cache/fovea && cp -r bert away/models/all-MiniLM-L6-v2
    (cd home && found HOME=/nowhere XDG_CACHE_HOME=/nowhere) || fail "not found beside the program's folders"
    program=$INSPECT
    mkdir sharded old
    : >sharded/model.safetensors.index.json && : >old/pytorch_model.bin
    refuses 'sharded: has its weights in several files' attention --model sharded -o no.svg who
    refuses 'old: has pytorch_model.bin, but' attention --model old -o no.svg who
    refuses 'home: has no model.safetensors' attention --model home -o no.svg who
    refuses 'nowhere: does not exist; python3 tools/embed/fetch.py' attention --model nowhere -o no.svg who
    head -c 500 bert/model.safetensors >old/model.safetensors && cp kept.json old/config.json && cp bert/vocab.txt old
    refuses 'old/model.safetensors: .*cut off' attention --model old -o no.svg who
    [ ! -e no.svg ] || fail "a file was written in spite of an error"
    ;;
esac
