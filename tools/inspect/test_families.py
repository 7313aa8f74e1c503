#!/usr/bin/env python3
"""Models of every family that fovea-inspect knows, made up and tiny: the names, orders and config.json are the real ones
(as transformers 5.24 writes them, and PyTorch for nn.MultiheadAttention), the numbers are random.

    test_families.py write FOLDER       writes FOLDER/FAMILY/model.safetensors, config.json and expected.json
    test_families.py check FOLDER       compares what fovea-inspect wrote of each, FOLDER/FAMILY/out.csv, out.json and err, with
                                        the matrices that went in
    test_families.py shard FOLDER N     parts FOLDER/model.safetensors into N files with an index
"""
import csv
import json
import math
import pathlib
import random
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "models"))
import model_files  # noqa: E402

WIDTH, HEADS, D_K, LAYERS = 12, 4, 3, 2
QKV = ("q", "k", "v")


def stack(names, order="separate", heads=HEADS, kv_heads=None, d_k=D_K, width=WIDTH, layers=LAYERS, cross=False, in_out=False):
    """names: of the arrays of a layer, {} being its number."""
    return {"names": names, "order": order, "heads": heads, "kv_heads": kv_heads or heads, "d_k": d_k, "width": width,
            "layers": layers, "cross": cross, "in_out": in_out}


def three(prefix, suffix, **sizes):
    return stack([prefix.replace("*", part) + suffix for part in QKV], **sizes)


def words(prefix, suffix, **sizes):
    return stack([prefix + part + suffix for part in ("query", "key", "value")], **sizes)


def fused(name, order, **sizes):
    return stack([name], order, **sizes)


def sizes(kind, **more):
    return {"model_type": kind, "hidden_size": WIDTH, "num_attention_heads": HEADS, "num_hidden_layers": LAYERS, **more}


def gpt(kind, **more):
    return {"model_type": kind, "n_embd": WIDTH, "n_head": HEADS, "n_layer": LAYERS, **more}


def pair(kind, **more):  # encoder and decoder of their own numbers of heads
    return {"model_type": kind, "d_model": WIDTH, "encoder_layers": LAYERS, "decoder_layers": LAYERS,
            "encoder_attention_heads": HEADS, "decoder_attention_heads": 2, "num_hidden_layers": LAYERS, **more}


LLAMA = "model.layers.{}.self_attn."
ROPE = {"rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"}}
BART = [three("model.encoder.layers.{}.self_attn.*", "_proj.weight"),
        three("model.decoder.layers.{}.self_attn.*", "_proj.weight", heads=2, d_k=6),
        three("model.decoder.layers.{}.encoder_attn.*", "_proj.weight", heads=2, d_k=6, cross=True)]
CROSS = "transformer.h.{}.crossattention."
ALBERT = "encoder.albert_layer_groups.0.albert_layers.{}.attention."

# family: config.json (None: there is none), stacks of layers, arrays that are to be listed, positions (or by words in stacks)
FAMILIES = {
    "bert": (sizes("bert"), [words("encoder.layer.{}.attention.self.", ".weight")], [], "learned"),
    "bert-decoder": (sizes("bert"), [words("bert.encoder.layer.{}.attention.self.", ".weight"),
                                     words("bert.encoder.layer.{}.crossattention.self.", ".weight", cross=True)], [], "learned"),
    "roberta": (sizes("roberta"), [words("encoder.layer.{}.attention.self.", ".weight")], [], "learned"),
    "albert": (sizes("albert", num_hidden_layers=12, num_hidden_groups=1),
               [words(ALBERT, ".weight", layers=1)], [], "learned"),
    "mpnet": (sizes("mpnet", relative_attention_num_buckets=32),
              [three("encoder.layer.{}.attention.attn.*", ".weight")], [], "relative"),
    "deberta": (sizes("deberta", relative_attention=True),
                [fused("encoder.layer.{}.attention.self.in_proj.weight", "grouped")],
                ["encoder.layer.*.attention.self.pos_proj.weight", "encoder.layer.*.attention.self.pos_q_proj.weight"], "relative"),
    "deberta-v2": (sizes("deberta-v2", relative_attention=True),
                   [words("deberta.encoder.layer.{}.attention.self.", "_proj.weight")],
                   ["deberta.encoder.layer.*.attention.self.pos_key_proj.weight"], "relative"),
    "distilbert": ({"model_type": "distilbert", "dim": WIDTH, "n_heads": HEADS, "n_layers": LAYERS},
                   [three("distilbert.transformer.layer.{}.attention.*", "_lin.weight")], [], "learned"),
    "gpt2": (gpt("gpt2"), [fused("h.{}.attn.c_attn.weight", "qkv", in_out=True)], [], "learned"),
    "nanogpt": ({"n_embd": WIDTH, "n_head": HEADS, "n_layer": LAYERS},
                [fused("transformer.h.{}.attn.c_attn.weight", "qkv"),
                 stack([CROSS + "q_attn.weight", CROSS + "c_attn.weight"], "q_kv", cross=True)], [], None),
    "nanogpt-heads": (None, [fused("transformer.h.{}.attn.c_attn.weight", "qkv")], [], None),
    "gpt2-cross": (gpt("gpt2"), [fused("transformer.h.{}.attn.c_attn.weight", "qkv", in_out=True),
                                 stack([CROSS + "q_attn.weight", CROSS + "c_attn.weight"], "q_kv", cross=True, in_out=True)],
                   [], "learned"),
    "gpt_bigcode": (gpt("gpt_bigcode", multi_query=True),
                    [fused("transformer.h.{}.attn.c_attn.weight", "grouped", kv_heads=1)], [], "learned"),
    "gpt_neo": ({"model_type": "gpt_neo", "hidden_size": WIDTH, "num_heads": HEADS, "num_layers": LAYERS},
                [three("transformer.h.{}.attn.attention.*", "_proj.weight")], [], "learned"),
    "gptj": (gpt("gptj", rotary_dim=2), [three("transformer.h.{}.attn.*", "_proj.weight")], [], "rotary"),
    "gpt_neox": (sizes("gpt_neox", rotary_pct=0.25),
                 [fused("gpt_neox.layers.{}.attention.query_key_value.weight", "grouped")], [], "rotary"),
    "llama": (sizes("llama", num_key_value_heads=2, **ROPE), [three(LLAMA + "*", "_proj.weight", kv_heads=2)], [], "rotary"),
    "llama-1": (sizes("llama"), [three(LLAMA + "*", "_proj.weight")], [], "rotary"),
    "qwen3": (sizes("qwen3", num_key_value_heads=2, head_dim=5, **ROPE),
              [three(LLAMA + "*", "_proj.weight", kv_heads=2, d_k=5)], [], "rotary"),
    "qwen3_next": (sizes("qwen3_next", num_key_value_heads=2, head_dim=5, **ROPE),
                   [three(LLAMA + "*", "_proj.weight", order="gated", kv_heads=2, d_k=5)], [], "rotary"),
    "gemma": (sizes("gemma", num_key_value_heads=1, head_dim=8, **ROPE),
              [three(LLAMA + "*", "_proj.weight", kv_heads=1, d_k=8)], [], "rotary"),
    "gemma3": ({"model_type": "gemma3", "text_config": sizes("gemma3_text", num_key_value_heads=2, head_dim=5, **ROPE),
                "vision_config": {"model_type": "siglip_vision_model", "hidden_size": 10, "num_attention_heads": 2}},
               [three("language_model." + LLAMA + "*", "_proj.weight", kv_heads=2, d_k=5),
                three("vision_tower.vision_model.encoder.layers.{}.self_attn.*", "_proj.weight", heads=2, d_k=5, width=10)],
               [], {"vision": "learned", "": "rotary"}),
    "phi3": (sizes("phi3", num_key_value_heads=2, **ROPE), [fused(LLAMA + "qkv_proj.weight", "qkv", kv_heads=2)], [], "rotary"),
    "t5": ({"model_type": "t5", "d_model": WIDTH, "d_kv": 5, "num_heads": HEADS, "num_layers": LAYERS, "num_decoder_layers": 1,
            "relative_attention_num_buckets": 32},
           [three("encoder.block.{}.layer.0.SelfAttention.*", ".weight", d_k=5),
            three("decoder.block.{}.layer.0.SelfAttention.*", ".weight", d_k=5, layers=1),
            three("decoder.block.{}.layer.1.EncDecAttention.*", ".weight", d_k=5, layers=1, cross=True)], [], "relative"),
    "bart": (pair("bart"), BART, [], "learned"),
    "whisper": (pair("whisper"), BART, [], "sinusoidal in the encoder, learned in the decoder"),
    "opt": (sizes("opt"), [three("model.decoder.layers.{}.self_attn.*", "_proj.weight")], [], "learned"),
    "clip": ({"model_type": "clip", "text_config": sizes("clip_text_model"),
              "vision_config": {"model_type": "clip_vision_model", "hidden_size": 16, "num_attention_heads": 2}},
             [three("text_model.encoder.layers.{}.self_attn.*", "_proj.weight"),
              three("vision_model.encoder.layers.{}.self_attn.*", "_proj.weight", heads=2, d_k=8, width=16)], [], "learned"),
    "vit": (sizes("vit"), [words("vit.encoder.layer.{}.attention.attention.", ".weight")], [], "learned"),
    "bloom": (gpt("bloom", hidden_size=WIDTH), [fused("transformer.h.{}.self_attention.query_key_value.weight", "grouped")],
              [], "ALiBi"),
    "falcon": (sizes("falcon", multi_query=True, alibi=False, num_kv_heads=HEADS),
               [fused("transformer.h.{}.self_attention.query_key_value.weight", "grouped", kv_heads=1)], [], "rotary"),
    "falcon-new": (sizes("falcon", multi_query=True, new_decoder_architecture=True, num_kv_heads=2),
                   [fused("transformer.h.{}.self_attention.query_key_value.weight", "grouped", kv_heads=2)], [], "rotary"),
    "mpt": ({"model_type": "mpt", "d_model": WIDTH, "n_heads": HEADS, "n_layers": LAYERS, "attn_config": {"alibi": True}},
            [fused("transformer.blocks.{}.attn.Wqkv.weight", "qkv")], [], "ALiBi"),
    "mha": (None, [fused("in_proj_weight", "qkv", layers=1)], [], None),
    "mha-decoder": (None, [fused("layers.{}.self_attn.in_proj_weight", "qkv"),
                           fused("layers.{}.multihead_attn.in_proj_weight", "qkv", cross=True)], [], None),
    "mha-apart": (None, [stack(["attn." + part + "_proj_weight" for part in QKV], layers=1)], [], None),
    "unknown": (sizes("deepseek_v3"), [three(LLAMA + "*", "_proj.weight", layers=1)],
                ["model.layers.*.self_attn.q_a_proj.weight", "model.layers.*.self_attn.kv_a_proj_with_mqa.weight",
                 "model.layers.*.self_attn.kv_b_proj.weight"], None),
}

# ------------------------------------------------------------------------------------------------------------- writing --

DTYPES = {"F32": lambda x: struct.pack("<f", x), "F16": lambda x: struct.pack("<e", x),
          "BF16": lambda x: struct.pack("<f", x)[2:]}


def write(path, arrays, dtype):
    """arrays: name -> rows. The numbers are the same in all three types."""
    path.write_bytes(model_files.safetensors({name: ([len(rows), len(rows[0])], b"".join(DTYPES[dtype](x) for row in rows for x in row))
                                              for name, rows in arrays.items()}, dtype))


def matrix(rng, rows, columns):
    return [[rng.randint(-8, 8) / 8 for _ in range(columns)] for _ in range(rows)]


def pack(order, q, k, v):
    """Arrays of a layer, [out, in] each, of heads' matrices [d_k, in]."""
    def join(pieces):
        return [row for piece in pieces for row in piece]

    group = len(q) // len(k)
    if order == "separate":
        return [join(q), join(k), join(v)]
    if order == "gated":  # behind the query channels of each head those of its gate
        return [join([rows for head in q for rows in (head, [[9.0] * len(row) for row in head])]), join(k), join(v)]
    if order == "qkv":
        return [join(q + k + v)]
    if order == "q_kv":
        return [join(q), join(k + v)]
    return [join([piece for g in range(len(k)) for piece in q[g * group:(g + 1) * group] + [k[g], v[g]]])]


def cosine(a, b):
    def dot(x, y):
        return sum(m * n for row, other in zip(x, y) for m, n in zip(row, other))
    return dot(a, b) / math.sqrt(dot(a, a) * dot(b, b))


def make(name, config, stacks, others, positions, folder):
    rng, arrays, heads = random.Random(name), {}, []
    for s in stacks:
        for layer in range(s["layers"]):
            q = [matrix(rng, s["d_k"], s["width"]) for _ in range(s["heads"])]
            k, v = ([matrix(rng, s["d_k"], s["width"]) for _ in range(s["kv_heads"])] for _ in range(2))
            for array, rows in zip(s["names"], pack(s["order"], q, k, v)):
                arrays[array.format(layer)] = [list(row) for row in zip(*rows)] if s["in_out"] else rows
            for h in range(s["heads"]):
                own = h // (s["heads"] // s["kv_heads"])
                heads.append({"first": s["names"][0].split("{}")[0].split(".in_proj")[0], "layer": layer, "head": h, "cross": s["cross"],
                              "d_model": s["width"], "d_k": s["d_k"],
                              "cosine": [cosine(q[h], k[own]), cosine(q[h], v[own]), cosine(k[own], v[own])]})
    for other in others:
        for layer in range(LAYERS):
            arrays[other.replace("*", str(layer))] = matrix(rng, 4, WIDTH)
    arrays["norm.weight"] = [[1.0]]
    folder.mkdir()
    write(folder / "model.safetensors", arrays, rng.choice(list(DTYPES)))
    if config:
        (folder / "config.json").write_text(json.dumps(config))
    (folder / "expected.json").write_text(json.dumps(
        {"heads": heads, "others": others, "positions": positions}))


# ------------------------------------------------------------------------------------------------------------ checking --

def check(folder):
    expected = json.loads((folder / "expected.json").read_text())
    with open(folder / "out.csv", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["stack"] != "random"]
    assert len(rows) == len(expected["heads"]), (len(rows), len(expected["heads"]))
    for row in rows:
        key = (row["attention"] == "cross", int(row["layer"]), int(row["head"]))
        found = [h for h in expected["heads"] if (h["cross"], h["layer"], h["head"]) == key and h["first"].startswith(row["stack"])]
        assert len(found) == 1, (row["stack"], key, len(found))
        assert (int(row["d_model"]), int(row["d_k"])) == (found[0]["d_model"], found[0]["d_k"]), row
        for name, value in zip(("qk", "qv", "kv"), found[0]["cosine"]):
            assert abs(float(row["cosine_" + name]) - value) < 1e-6, (row["stack"], key, name, value)
    told = (folder / "err").read_text()
    for other in expected["others"]:
        assert f"left out: {other} (2 arrays; not recognized)" in told, other
    assert told.count("left out") == len(expected["others"]), told
    out = json.loads((folder / "out.json").read_text())
    assert [item["names"] for item in out["left_out"]] == sorted(expected["others"]), out["left_out"]
    told = expected["positions"] if isinstance(expected["positions"], dict) else {"": expected["positions"]}
    for layer in out["layers"]:
        assert layer["positions"] == next(kind for word, kind in told.items() if word in layer["stack"]), layer
    assert out["whole"] and len(out["heads"]) == len(rows)


# ----------------------------------------------------------------------------------------------------------- sharding --

def shard(folder, count):
    """Arrays are dealt out in turn, so that a layer's are in several files."""
    data = (folder / "model.safetensors").read_bytes()
    begin = 8 + struct.unpack("<Q", data[:8])[0]
    header, index = json.loads(data[8:begin]), {"metadata": {}, "weight_map": {}}
    for n in range(count):
        path = folder / f"model-{n + 1:05d}-of-{count:05d}.safetensors"
        part = {name: (one["shape"], data[begin + one["data_offsets"][0]:begin + one["data_offsets"][1]], one["dtype"])
                for name, one in list(header.items())[n::count]}
        index["weight_map"] |= dict.fromkeys(part, path.name)
        path.write_bytes(model_files.safetensors(part))
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "model.safetensors").unlink()


def main():
    folder = pathlib.Path(sys.argv[2])
    if sys.argv[1] == "write":
        for name, (config, stacks, others, positions) in FAMILIES.items():
            make(name, config, stacks, others, positions, folder / name)
    elif sys.argv[1] == "check":
        for name in FAMILIES:
            try:
                check(folder / name)
            except AssertionError as error:
                raise SystemExit(f"{name}: {error!r}") from None
    else:
        shard(folder, int(sys.argv[3]))


if __name__ == "__main__":
    main()
