"""verify.py RECEIPT MODEL.gguf: a second verifier of fovea-generate's receipts, on the Python packages fovea, numpy and
gguf, written from docs/receipts.md. Exit status 0, 1 and 2 as there. It computes the architecture llama, and reads no
private prompts."""

import hashlib
import json
import re
import struct
import sys

import gguf
import numpy as np

import fovea

HEX, NUMBER, CACHE = "[0-9a-f]{64}", "[-+.0-9e]{1,31}", "f32|bf16|f16|int8|int4"
SAMPLING = {"temperature": 100, "top_k": 1 << 24, "top_p": 1, "min_p": 1, "repetition_penalty": 100}
# The pattern of a string, the most of an integer, the form of each in a list; a tuple: or null.
FORM = {
    "format": "fovea-receipt 1", "bits": 1 << 31, "sampling": dict.fromkeys(SAMPLING, NUMBER),
    "arithmetic": {"type": "f32|bf16|f16", "weights": "stored|f32|bf16|f16", "products": "none|q16|q8|exact",
                   "keys": CACHE, "values": CACHE},
    "model": dict.fromkeys(("arrays", "weights", "settings", "tokenizer", "template"), HEX),
    "made": {"seconds": NUMBER, "by": "[ -~]*"}, "sha256": HEX,
    "answers": [{"prompt": {"count": 1 << 24, "sha256": HEX, "tokens": ([1 << 31],)}, "seed": "[0-9]{1,31}",
                 "tokens": [1 << 31], "rows": ["[0-9a-f]{16}"], "blocks": [HEX], "sha256": HEX}],
}  # fmt: skip
LONG = {"f32": "float32", "bf16": "bfloat16", "f16": "float16", "int8": "int8", "int4": "int4"}


class End(Exception):
    """Status, sentence."""


def require(good, text, status=2):
    if not good:
        raise End(status, text)


def sha(*parts):
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.digest()


def check(value, form, name):
    """Is a value of the format?"""
    if isinstance(form, tuple) and value is not None:
        check(value, form[0], name)
    elif isinstance(form, dict):
        require(isinstance(value, dict) and set(value) == set(form), f"{name} lacks fields, or has others")
        for key in form:
            check(value[key], form[key], key)
    elif isinstance(form, list):
        require(isinstance(value, list), f"{name} is no list")
        for one in value:
            check(one, form[0], name)
    elif isinstance(form, int):
        require(type(value) is int and 0 <= value < form, f"{name} has {value!r}")
    elif isinstance(form, str):
        require(isinstance(value, str) and re.fullmatch(form, value), f"{name} has {value!r}")


def read_receipt(path):
    with open(path, encoding="utf-8") as file:
        r = json.load(file, object_pairs_hook=lambda pairs: len(dict(pairs)) == len(pairs) and dict(pairs))
    check(r, FORM, "the receipt")
    require(r["answers"] and 0 <= float(r["made"]["seconds"]) < 1e12, "it has no answers, or seconds")
    for a in r["answers"]:
        ids, count = a["prompt"]["tokens"], a["prompt"]["count"]
        require(count > 0 and (ids is None or len(ids) == count), "a prompt has another count")
        require(len(a["tokens"]) == len(a["rows"]) and len(a["blocks"]) == -(-len(a["rows"]) // 32), "tokens and rows")
        require(int(a["seed"]) < 1 << 64, "a seed is too large")
    require(r["bits"] == fovea.BITS_VERSION, f"it was made with version {r['bits']} of the bits")
    rules = {name: (int if name == "top_k" else float)(text) for name, text in r["sampling"].items()}
    require(all(0 <= rules[name] <= most for name, most in SAMPLING.items()), "a number of sampling is out of bounds")
    require(rules["repetition_penalty"] > 0, "the penalty is 0")
    return r, rules


class Gguf(gguf.GGUFReader):
    def get(self, key, default=None):
        return self.fields[key].contents() if default is None or key in self.fields else default

    def digests(self):
        layout, contents = [], []
        self.arrays = {t.name: t for t in sorted(self.tensors, key=lambda t: t.name.encode())}
        for name, t in self.arrays.items():
            layout.append(f"{name}\0{t.tensor_type.name}\0{','.join(map(str, t.shape))}\0".encode())
            contents += [layout[-1], sha(np.ascontiguousarray(t.data))]
        parts = {"settings": [], "tokenizer": [], "template": []}
        for key, field in sorted(self.fields.items(), key=lambda item: item[0].encode()):
            if key.startswith(("GGUF.", "general.", "split.")) and not key.startswith("general.architecture"):
                continue
            part = "template" if key.startswith("tokenizer.chat_template") else "tokenizer"
            part = part if key.startswith("tokenizer.") else "settings"
            kind, array = int(field.types[0]), len(field.types) > 1
            head = (kind, int(field.types[1]), int(field.parts[4][0])) if array else (kind, 0, 1)
            data = (part.tobytes() for part in field.parts[5 if array else 3 :])
            parts[part] += [key.encode() + b"\0", struct.pack("<QQQ", *head), *data]
        return {"arrays": sha(*layout), "weights": sha(*contents)} | {name: sha(*part) for name, part in parts.items()}


def rounded(x, kind):
    """float32 to the nearest number of a type, as float32."""
    if kind == "f16":
        return x.astype(np.float16).astype(np.float32)
    bits = np.ascontiguousarray(x).view(np.uint32)
    return x if kind == "f32" else ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).view(np.float32)


class Model:
    """The architecture llama, by docs/receipts.md."""

    def __init__(self, file, arithmetic):
        require(file.get("general.architecture") == "llama", "this verifier computes the architecture llama alone")
        for key in ("expert_count", "attention.sliding_window", "rope.scaling.type", "rope.scale_linear"):
            require(file.get("llama." + key, 0) in (0, "none"), f"this verifier does not compute llama.{key}")
        number = lambda key, default=None: file.get("llama." + key, default)  # noqa: E731
        self.file, self.arithmetic, self.stored = file, arithmetic, arithmetic["weights"] == "stored"
        self.layers, self.longest, width = number("block_count"), number("context_length"), number("embedding_length")
        self.heads, self.eps = number("attention.head_count"), number("attention.layer_norm_rms_epsilon")
        self.kv_heads = number("attention.head_count_kv", self.heads)
        self.head_dim = number("attention.key_length", width // self.heads)
        divisors = self.stored_array("rope_freqs.weight")[0] if "rope_freqs.weight" in file.arrays else None
        rotary, base = number("rope.dimension_count", self.head_dim), number("rope.freq_base", 10000.0)
        self.rope = fovea.Rope(rotary, base=base, pairing="adjacent", divisors=divisors)
        self.round = lambda x: rounded(x, arithmetic["type"])
        self.embedding = self.array("token_embd.weight")[0]

    def array(self, name):
        """Floats, rounded, and the Linear of blocks that run as they are stored, or None."""
        found = self.stored_array(name)
        return found if self.stored else (rounded(found[0], self.arithmetic["weights"]), None)

    def stored_array(self, name):
        kind, data = self.file.arrays[name].tensor_type.name, self.file.arrays[name].data
        if kind == "BF16":
            return (data.view(np.uint16).astype(np.uint32) << 16).view(np.float32), None
        if kind in ("F32", "F16"):
            return data.astype(np.float32), None
        products = self.arithmetic["products"]
        linear = fovea.Linear.quantized(data, "gguf:" + kind, arithmetic=None if products == "none" else products)
        floats = np.empty((linear.out_features, linear.in_features), np.float32)
        linear.unpack(floats)
        return floats, linear

    def map(self, name, x, residual=None, activation=None):
        floats, linear = self.array(name)
        return (linear or fovea.Linear(floats))(x, residual, activation=activation)

    def norm(self, x, name):
        return self.round(fovea.rms_norm(x, self.stored_array(name)[0].reshape(-1), eps=self.eps))

    def rows(self, ids, first):
        """Logits of the tokens from the first on."""
        x, count = self.embedding[ids], len(ids)
        kinds = {f"{name[0]}_dtype": LONG[self.arithmetic[name]] for name in ("keys", "values")}
        pages = self.layers * (count // 256 + 1)
        cache = fovea.KVCache(self.layers, self.kv_heads, self.head_dim, max_pages=pages, rope=self.rope, **kinds)
        sequence, heads = cache.add(), lambda y, n: y.reshape(1, count, n, self.head_dim)
        for layer in range(self.layers):
            blk = f"blk.{layer}."
            normed = self.norm(x, blk + "attn_norm.weight")
            q, k, v = (self.round(self.map(f"{blk}attn_{name}.weight", normed)) for name in "qkv")
            q = self.round(self.rope.apply(heads(q, self.heads), 0, layout="bthd"))
            cache.append(layer, sequence, heads(k, self.kv_heads), heads(v, self.kv_heads), layout="bthd")
            seen = cache.attend(layer, sequence, q, causal="bottom_right", layout="bthd")
            x = self.map(blk + "attn_output.weight", self.round(seen).reshape(count, -1), x)
            normed = self.norm(x, blk + "ffn_norm.weight")
            gate = self.map(blk + "ffn_gate.weight", normed, activation="silu")
            inner = self.round(gate * self.map(blk + "ffn_up.weight", normed))
            x = self.map(blk + "ffn_down.weight", inner, x)
        head = "output.weight" if "output.weight" in self.file.arrays else "token_embd.weight"
        return self.map(head, self.norm(x[first:], "output_norm.weight"))


def draw(row, seen, rules, state):
    """The token, and the next state of the generator."""
    x, p, temperature = row.copy(), np.float32(rules["repetition_penalty"]), rules["temperature"]
    x[seen] = np.where(row[seen] > 0, row[seen] / p, row[seen] * p)
    if temperature == 0:
        return int(np.argmax(x)), state
    w = fovea.exp(((x - x.max()).astype(np.float64) / temperature).astype(np.float32))
    order = np.flatnonzero(w > np.float32(1e-6))
    order = order[np.lexsort((order, -w[order]))]
    order = order[: rules["top_k"]] if rules["top_k"] > 0 else order
    w = w[order].astype(np.float64)
    sums = np.cumsum(w)
    keep = (np.concatenate([[0], sums[:-1]]) < rules["top_p"] * sums[-1]) & (w >= rules["min_p"])
    keep[0] = True
    kept = len(keep) if keep.all() else int(np.argmin(keep))
    state = (state + 0x9E3779B97F4A7C15) % 2**64
    z = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
    left = ((z ^ z >> 31) >> 11) / 2**53 * sums[kept - 1]
    for i in range(kept):
        left -= w[i]
        if left < 0:
            return int(order[i]), state
    return int(order[kept - 1]), state


def check_answer(model, a, number, rules):
    prompt, state, digests, where = a["prompt"]["tokens"], int(a["seed"]), [], f"answer {number}"
    require(prompt is not None, f"{where}: its prompt is private")
    require(sha(np.array(prompt, "<i4")).hex() == a["prompt"]["sha256"], f"{where}: its prompt has another SHA-256", 1)
    ids = prompt + a["tokens"]
    require(max(ids) < len(model.embedding), f"{where}: the model has no such token", 1)
    for i, row in enumerate(model.rows(np.array(ids[:-1]), len(prompt) - 1) if a["tokens"] else []):
        digests.append(sha((row + np.float32(0)).astype("<f4")))
        token, state = draw(row, ids[: len(prompt) + i], rules, state)
        require(digests[i][:8].hex() == a["rows"][i], f"{where}, row {i}: logits are others", 1)
        require(token == a["tokens"][i], f"{where}, row {i}: sampling draws token {token}, not {a['tokens'][i]}", 1)
    for i, block in enumerate(a["blocks"]):
        own = sha(*digests[32 * i : 32 * i + 32]).hex()
        require(own == block, f"{where}: rows from {32 * i} on have another SHA-256", 1)
    require(sha(*digests).hex() == a["sha256"], f"{where}: its rows have another SHA-256", 1)


def verify(receipt_path, model_path):
    """(0, 1 or 2, the sentence)"""
    try:
        r, rules = read_receipt(receipt_path)
        file = Gguf(model_path)
        own = file.digests()
        for name, status in {"arrays": 2, "settings": 2, "weights": 1, "tokenizer": 1, "template": 1}.items():
            require(own[name].hex() == r["model"][name], f"the model's {name} have another SHA-256", status)
        model = Model(file, r["arithmetic"])
        blocks = any(t.data.dtype == np.uint8 and t.tensor_type.name != "BF16" for t in file.tensors)
        require((model.stored and blocks) == (r["arithmetic"]["products"] != "none"), "products are none of this model")
        longest = max(a["prompt"]["count"] + max(len(a["rows"]), 1) - 1 for a in r["answers"])
        require(longest <= model.longest, f"the model reads {model.longest} tokens, not {longest}")
        for number, a in enumerate(r["answers"], 1):
            check_answer(model, a, number, rules)
        stated = r.pop("sha256")
        sealed = sha(json.dumps(r, sort_keys=True, separators=(",", ":")).encode()).hex()
        require(sealed == stated, "its own SHA-256 is another: a field was changed after it was written", 1)
    except End as end:
        return end.args
    except Exception as error:  # what gguf and json say of files that are damaged
        return 2, f"{type(error).__name__}: {error}"
    return 0, f"verified {sum(len(a['rows']) for a in r['answers'])} tokens"


if __name__ == "__main__":
    found, text = verify(*sys.argv[1:])
    print(text, file=sys.stderr if found else sys.stdout)
    sys.exit(found)
