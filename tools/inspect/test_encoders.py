#!/usr/bin/env python3
"""Small models with random weights in the form of each family, for test.sh:  test_encoders.py FOLDER PROGRAM

Writes a folder for each family, runs PROGRAM attention on it, and compares tokens and weights with those computed here, in
float64 and by other means: lists of numbers, one row after another.
"""
import json
import math
import pathlib
import random
import struct
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "models"))
import model_files  # noqa: E402

WIDTH, HEADS, INNER, LAYERS, PLACES = 8, 2, 12, 2, 20
SENTENCE = "The cat's 42"


# ------------------------------------------------------------------------------------------------------------- arithmetic

def linear(x, weight, bias):
    """Rows x, weight [out][in]."""
    return [[sum(a * b for a, b in zip(row, w)) + c for w, c in zip(weight, bias)] for row in x]


def norm(x, gain, bias, epsilon):
    rows = []
    for row in x:
        mean = sum(row) / len(row)
        scale = 1 / math.sqrt(sum((v - mean) ** 2 for v in row) / len(row) + epsilon)
        rows.append([(v - mean) * scale * g + b for v, g, b in zip(row, gain, bias)])
    return rows


def softmax(row):
    most = max(row)
    powers = [math.exp(v - most) for v in row]
    return [p / sum(powers) for p in powers]


ACTIVATIONS = {
    "gelu": lambda t: t / 2 * (1 + math.erf(t / math.sqrt(2))),
    "gelu_new": lambda t: t / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (t + 0.044715 * t ** 3))),
    "relu": lambda t: max(t, 0.0),
}


def attend(q, k, v, causal):
    """The heads side by side, and the weights of each."""
    size = WIDTH // HEADS
    out, all_weights = [[] for _ in q], []
    for head in range(HEADS):
        part = slice(head * size, (head + 1) * size)
        weights = []
        for i, row in enumerate(q):
            seen = i + 1 if causal else len(k)
            scores = [sum(a * b for a, b in zip(row[part], k[j][part])) / math.sqrt(size) for j in range(seen)]
            weights.append(softmax(scores) + [0.0] * (len(k) - seen))
            out[i] += [sum(w * v[j][part][c] for j, w in enumerate(weights[-1])) for c in range(size)]
        all_weights.append(weights)
    return out, all_weights


def add(x, y):
    return [[a + b for a, b in zip(r, s)] for r, s in zip(x, y)]


def run(model, ids, family):
    """The weights [layer][head][query][key]."""
    epsilon, first = family["epsilon"], family["first_place"]
    x = [[a + b + (c if family["types"] else 0.0) for a, b, c in zip(model["words"][i], model["places"][first + t], model["types"][0])]
         for t, i in enumerate(ids)]
    if not family["norm_first"]:
        x = norm(x, *model["norm"], epsilon)
    result = []
    for layer in model["layers"]:
        y = norm(x, *layer["norm1"], epsilon) if family["norm_first"] else x
        out, weights = attend(*(linear(y, *layer[part]) for part in "qkv"), family["causal"])
        result.append(weights)
        x = add(x, linear(out, *layer["out"]))
        y = x = norm(x, *layer["norm1"], epsilon) if not family["norm_first"] else x
        if family["norm_first"]:
            y = norm(x, *layer["norm2"], epsilon)
        inner = [[ACTIVATIONS[family["activation"]](v) for v in row] for row in linear(y, *layer["inner"])]
        x = add(x, linear(inner, *layer["outer"]))
        if not family["norm_first"]:
            x = norm(x, *layer["norm2"], epsilon)
    return result


# ------------------------------------------------------------------------------------------------------------------ models

def make_model(words):
    r = random.Random(7)

    def matrix(rows, columns):
        return [[struct.unpack("f", struct.pack("f", r.gauss(0, 0.7)))[0] for _ in range(columns)] for _ in range(rows)]

    def pair(out, fan_in):
        return matrix(out, fan_in), matrix(1, out)[0]

    def gains():
        return matrix(1, WIDTH)[0], matrix(1, WIDTH)[0]

    layers = [{**{part: pair(WIDTH, WIDTH) for part in ("q", "k", "v", "out")}, "inner": pair(INNER, WIDTH),
               "outer": pair(WIDTH, INNER), "norm1": gains(), "norm2": gains()} for _ in range(LAYERS)]
    return {"words": matrix(words, WIDTH), "places": matrix(PLACES, WIDTH), "types": matrix(2, WIDTH), "norm": gains(),
            "last": gains(), "layers": layers}


def arrays_of(model, names, family):
    """name -> [rows][columns], or a row."""
    weight, bias = names.get("norm_words", ("weight", "bias"))
    arrays = {names["words"]: model["words"], names["places"]: model["places"]}
    if family["types"]:
        arrays[names["types"]] = model["types"]

    def put_norm(name, gains):
        arrays[f"{name}.{weight}"], arrays[f"{name}.{bias}"] = gains

    def put_linear(name, maps):
        rows = [row for matrix, _ in maps for row in matrix]
        arrays[name + ".weight"] = [list(column) for column in zip(*rows)] if names.get("in_out") else rows
        arrays[name + ".bias"] = [value for _, values in maps for value in values]

    if "norm" in names:
        put_norm(names["norm"], model["norm"])
    if "last" in names:
        put_norm(names["last"], model["last"])
    for i, layer in enumerate(model["layers"]):
        at = names["layer"].format(i)
        if "qkv" in names:
            put_linear(at + names["qkv"], [layer[part] for part in "qkv"])
        for part in ("q", "k", "v", "out", "inner", "outer"):
            if part in names:
                put_linear(at + names[part], [layer[part]])
        for part in ("norm1", "norm2"):
            put_norm(at + names[part], layer[part])
    return arrays


def write_safetensors(path, arrays):
    flat = {name: [v for row in rows for v in row] if isinstance(rows[0], list) else rows for name, rows in arrays.items()}
    path.write_bytes(model_files.safetensors({
        name: ([len(rows), len(rows[0])] if isinstance(rows[0], list) else [len(rows)], model_files.floats(flat[name]))
        for name, rows in arrays.items()}))


# -------------------------------------------------------------------------------------------------------------- tokenizers

def byte_alphabet():
    plain = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174]
    others = [b for b in range(256) if b not in plain]
    return [chr(b) for b in plain] + [chr(256 + i) for i in range(len(others))]


MERGES = [("h", "e"), ("T", "he"), ("\u0120", "c"), ("a", "t"), ("\u0120c", "at"), ("\u0120", "4")]
BPE_WORDS = ["<s>", "<pad>", "</s>"] + byte_alphabet() + ["".join(pair) for pair in MERGES]
BPE_CUT = ["The", "\u0120cat", "'", "s", "\u01204", "2"]
CASED_WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "The", "the", "c", "##at", "'", "s", "42"]
CASED_CUT = ["[CLS]", "The", "c", "##at", "'", "s", "42", "[SEP]"]


def write_bpe(folder):
    pieces = {piece: i for i, piece in enumerate(BPE_WORDS)}
    (folder / "vocab.json").write_text(json.dumps(pieces), encoding="utf-8")
    (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in MERGES), encoding="utf-8")


def write_json_bpe(folder):
    model = {"type": "BPE", "vocab": {piece: i for i, piece in enumerate(BPE_WORDS)}, "merges": [list(pair) for pair in MERGES]}
    (folder / "tokenizer.json").write_text(json.dumps({
        "normalizer": None, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False}, "model": model}), encoding="utf-8")


def write_cased(folder):
    (folder / "vocab.txt").write_text("\n".join(CASED_WORDS) + "\n", encoding="utf-8")
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}', encoding="utf-8")


def write_json_uncased(folder):
    words = {piece: i for i, piece in enumerate(CASED_WORDS)}
    (folder / "tokenizer.json").write_text(json.dumps({
        "normalizer": {"type": "BertNormalizer", "lowercase": True, "strip_accents": None, "handle_chinese_chars": True},
        "model": {"type": "WordPiece", "vocab": words}}), encoding="utf-8")


# ---------------------------------------------------------------------------------------------------------------- families

BERT = {"words": "embeddings.word_embeddings.weight", "places": "embeddings.position_embeddings.weight",
        "types": "embeddings.token_type_embeddings.weight", "norm": "embeddings.LayerNorm", "layer": "encoder.layer.{}.",
        "q": "attention.self.query", "k": "attention.self.key", "v": "attention.self.value", "out": "attention.output.dense",
        "norm1": "attention.output.LayerNorm", "inner": "intermediate.dense", "outer": "output.dense", "norm2": "output.LayerNorm"}


def prefixed(names, prefix, **more):
    return {key: prefix + value if key in ("words", "places", "types", "norm", "last", "layer") else value
            for key, value in {**names, **more}.items()}


DISTILBERT = prefixed({
    "words": "embeddings.word_embeddings.weight", "places": "embeddings.position_embeddings.weight", "norm": "embeddings.LayerNorm",
    "layer": "transformer.layer.{}.", "q": "attention.q_lin", "k": "attention.k_lin", "v": "attention.v_lin",
    "out": "attention.out_lin", "norm1": "sa_layer_norm", "inner": "ffn.lin1", "outer": "ffn.lin2", "norm2": "output_layer_norm"},
    "distilbert.")
GPT2 = {"words": "wte.weight", "places": "wpe.weight", "layer": "h.{}.", "qkv": "attn.c_attn", "out": "attn.c_proj", "norm1": "ln_1",
        "inner": "mlp.c_fc", "outer": "mlp.c_proj", "norm2": "ln_2", "last": "ln_f", "in_out": True}
OPT = prefixed({
    "words": "embed_tokens.weight", "places": "embed_positions.weight", "layer": "layers.{}.", "q": "self_attn.q_proj",
    "k": "self_attn.k_proj", "v": "self_attn.v_proj", "out": "self_attn.out_proj", "norm1": "self_attn_layer_norm", "inner": "fc1",
    "outer": "fc2", "norm2": "final_layer_norm", "last": "final_layer_norm"}, "model.decoder.")


def family(names, config, write, cut, activation, epsilon, first_place=0, causal=False, types=True, absent=()):
    """absent: summaries that such a model has not."""
    return {"absent": set(absent), "names": names, "config": config, "write": write, "cut": cut, "activation": activation,
            "epsilon": epsilon, "first_place": first_place, "causal": causal, "types": types, "norm_first": "last" in names}


FAMILIES = {
    "bert": family(prefixed(BERT, "bert.", norm_words=("gamma", "beta")), {"model_type": "bert", "num_attention_heads": HEADS},
                   write_cased, CASED_CUT, "gelu", 1e-12),
    "uncased": family(BERT, {"num_attention_heads": HEADS, "hidden_act": "gelu_new", "layer_norm_eps": 0.01}, write_json_uncased,
                      ["[CLS]", "the", "c", "##at", "'", "s", "42", "[SEP]"], "gelu_new", 0.01),
    "decoder": family(BERT, {"model_type": "bert", "num_attention_heads": HEADS, "is_decoder": True, "hidden_act": "relu"},
                      write_cased, CASED_CUT, "relu", 1e-12, causal=True, absent=("next",)),
    "roberta": family(prefixed(BERT, "roberta."), {"model_type": "roberta", "num_attention_heads": HEADS, "pad_token_id": 1,
                                                   "layer_norm_eps": 1e-5},
                      write_bpe, ["<s>", *BPE_CUT, "</s>"], "gelu", 1e-5, first_place=2),
    "distilbert": family(DISTILBERT, {"model_type": "distilbert", "n_heads": HEADS, "activation": "gelu"}, write_cased, CASED_CUT,
                         "gelu", 1e-12, types=False),
    "gpt2": family(GPT2, {"model_type": "gpt2", "n_head": HEADS, "activation_function": "gelu_new"}, write_json_bpe, BPE_CUT,
                   "gelu_new", 1e-5, causal=True, types=False, absent=("cls", "sep", "next")),
    "opt": family(OPT, {"model_type": "opt", "num_attention_heads": HEADS, "activation_function": "relu",
                        "do_layer_norm_before": True, "hidden_size": WIDTH, "word_embed_proj_dim": WIDTH},
                  write_bpe, ["</s>", *BPE_CUT], "relu", 1e-5, first_place=2, causal=True, types=False, absent=("sep", "next")),
}


def reject(word):
    raise ValueError(f"{word} is no JSON")


def check(name, spec, folder, program):
    folder.mkdir()
    words = BPE_WORDS if spec["write"] in (write_bpe, write_json_bpe) else CASED_WORDS
    model = make_model(len(words))
    write_safetensors(folder / "model.safetensors", arrays_of(model, spec["names"], spec))
    (folder / "config.json").write_text(json.dumps(spec["config"]), encoding="utf-8")
    spec["write"](folder)
    text = subprocess.run([program, "attention", "--model", folder, "--json", "-", *SENTENCE.split()], check=True,
                          capture_output=True, text=True, encoding="utf-8").stdout
    data = json.loads(text, parse_constant=reject)
    assert data["tokens"] == spec["cut"], (name, data["tokens"])
    assert data["causal"] == spec["causal"] and data["model"] == name, name
    wanted = run(model, [words.index(piece) for piece in spec["cut"]], spec)
    worst = 0.0
    assert [(head["layer"], head["head"]) for head in data["heads"]] == [(l, h) for l in range(LAYERS) for h in range(HEADS)]
    for head in data["heads"]:
        for got, want in zip(head["weights"], wanted[head["layer"]][head["head"]], strict=True):
            worst = max(worst, *(abs(a - b) for a, b in zip(got, want, strict=True)))
        sums = (sum(column) for column in zip(*head["weights"], strict=True))
        assert all(abs(a - b) < 1e-5 for a, b in zip(head["received"], sums, strict=True)), name
        for query, (top, weights) in enumerate(zip(head["top"], head["weights"], strict=True)):
            seen = range(query + 1 if spec["causal"] else len(weights))
            assert top == sorted(seen, key=lambda key: (-weights[key], key))[:3], (name, top)
        absent = {figure for figure, value in head["summary"].items() if value is None}
        assert absent == spec["absent"], (name, absent)
    print(f"{name}: {len(data['tokens'])} tokens, weights within {worst:.1e}")
    assert worst < 1e-5, name


def main():
    folder, program = pathlib.Path(sys.argv[1]), sys.argv[2]
    for name, spec in FAMILIES.items():
        check(name, spec, folder / name, program)


if __name__ == "__main__":
    main()
