"""verify.py RECEIPT MODEL.gguf: a second verifier of fovea-generate's receipts, on the packages fovea and numpy, drafted from
docs/receipts.md alone; exit status as there. It reads the architecture llama, in one GGUF file, and no private prompts."""

import functools
import hashlib
import json
import os
import re
import struct
import sys

import fovea
import numpy as np

HEX, TYPE, CACHE = "[0-9a-f]{64}", "f32|bf16|f16", "f32|bf16|f16|int8|int4"
DIGITS, NUMBER = "[0-9]{1,31}", r"(?=.{1,31}$)[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?"
SAMPLING = {"temperature": 100, "top_k": 1 << 24, "top_p": 1, "min_p": 1, "repetition_penalty": 100}
MOST, LAST = 1 << 24, (1 << 31) - 1  # of tokens, and their ids
MODEL = {"arrays": 2, "settings": 2, "weights": 1, "tokenizer": 1, "template": 1}  # the status where another one is there
# The pattern of a string, the most of an integer, the form of each in a list and the most of them; a tuple is that or null.
FORM = {"format": "fovea-receipt 1", "bits": 1 << 31, "sampling": {**dict.fromkeys(SAMPLING, NUMBER), "top_k": DIGITS}, "sha256": HEX,
    "arithmetic": {"type": TYPE, "weights": "stored|" + TYPE, "products": "none|q16|q8|exact", "keys": CACHE, "values": CACHE},
    "model": dict.fromkeys(MODEL, HEX), "made": {"seconds": NUMBER, "by": "[ -~]*"},
    "answers": [{"prompt": {"count": MOST, "sha256": HEX, "tokens": ([LAST, MOST],)}, "seed": DIGITS, "tokens": [LAST, MOST],
                 "rows": ["[0-9a-f]{16}", MOST], "blocks": [HEX, MOST], "sha256": HEX}, 1 << 16]}  # fmt: skip
NAMES, FLOATS = {"f32": "float32", "bf16": "bfloat16", "f16": "float16"}, {"F32": np.float32, "F16": np.float16, "BF16": np.uint16}
ARRAY, KINDS = 9, {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}  # GGUF's values; 8: a string
TYPES = {  # of GGUF's arrays: name, numbers and bytes of a block
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 30: ("BF16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34), 12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176), 14: ("Q6_K", 256, 210)}  # fmt: skip
MAPS = r"blk\.[0-9]+\.(attn_(q|k|v|output)|ffn_(gate|up|down))\.weight"
KNOWN = (r"(general|tokenizer|split)\..*|llama\.(block_count|(embedding|context|feed_forward)_length|vocab_size|rope\.(dimension_count|"
         r"dimension_sections|freq_base|scaling\.finetuned)|attention\.(head_count(_kv)?|key_length|value_length|layer_norm_rms_epsilon))|"
         r"(token_embd|output|output_norm|rope_freqs|blk\.[0-9]+\.(attn|ffn)_norm)\.weight|" + MAPS)  # fmt: skip
AS_COMPUTED = {"general.quantization_version": 2, "general.type": "model", **{f"llama.{key}": value for value, keys in {
    1: "rope.scaling.factor rope.scale_linear rope.scaling.attn_factor attention.causal logit_scale embedding_scale residual_scale",
    0: "expert_count expert_used_count attention.sliding_window attention.scale attention.clamp_kqv attention.max_alibi_bias "
       "attn_logit_softcapping final_logit_softcapping use_parallel_residual",
    "none": "rope.scaling.type"}.items() for key in keys.split()}}  # fmt: skip
End = type("End", (Exception,), {})  # status, sentence


def require(good, text, status=2):
    if not good:
        raise End(status, text)


def sha(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def check_form(value, form, name):
    if isinstance(form, tuple):
        return value is None or check_form(value, form[0], name)
    if isinstance(form, dict):
        require(isinstance(value, dict) and set(value) == set(form), f"{name} lacks fields, or has others")
        return all(check_form(value[key], form[key], key) for key in form)
    if isinstance(form, list):
        require(isinstance(value, list) and len(value) <= form[1], f"{name} is no list, or too long")
        return all(check_form(one, form[0], name) for one in value)
    good = type(value) is int and 0 <= value <= form if type(form) is int else type(value) is str and re.fullmatch(form, value)
    return require(good, f"{name} has {value!r:.40}") or True


def read_receipt(path):
    with open(path, "rb") as file:
        require(len(data := file.read((1 << 28) + 1)) <= 1 << 28, "it is too large")
    receipt = json.loads(data.decode(), object_pairs_hook=lambda pairs: len(dict(pairs)) == len(pairs) and dict(pairs))
    check_form(receipt, FORM, "the receipt")
    require(receipt["answers"] and float(receipt["made"]["seconds"]) < 1e12, "no answers, or too many seconds")
    for a in receipt["answers"]:
        ids, count, rows = a["prompt"]["tokens"], a["prompt"]["count"], len(a["rows"])
        require(count > 0 and (ids is None or len(ids) == count) and len(a["tokens"]) == rows and len(a["blocks"]) == (rows + 31) // 32
                and int(a["seed"]) < 1 << 64, "tokens, rows and blocks are not as many, or the seed is too large")  # fmt: skip
    require(receipt["bits"] == fovea.BITS_VERSION, f"it was made with version {receipt['bits']} of the bits")
    rules = {name: (int if name == "top_k" else float)(text) for name, text in receipt["sampling"].items()}
    require(all(0 <= rules[name] <= SAMPLING[name] for name in rules) and rules["repetition_penalty"] > 0, "sampling is out of bounds")
    return receipt, rules


class Gguf:  # values and raw, (kind, kind of elements, count) and bytes, by key; arrays: type, shape and bytes, by name
    def __init__(self, path):
        self.file, self.at, self.raw, self.values, self.arrays = np.memmap(path, np.uint8, "r"), 0, {}, {}, {}
        require(self.take(4).tobytes() == b"GGUF" and self.number("I") in (2, 3), "the model is no GGUF file")
        found, count = self.number("Q"), self.number("Q")
        for _ in range(count):
            key, kind = self.text(), self.number("I")
            head = kind, *((self.number("I"), self.number("Q")) if kind == ARRAY else (0, 1))
            begin, size = self.at, KINDS.get(head[1] if kind == ARRAY else kind, "")
            for _ in range(head[2]):
                self.take(struct.calcsize(size) if size else self.number("Q"))
            data = self.file[begin : self.at].tobytes()
            self.raw[key] = head, data
            self.values[key] = data[8:].decode() if kind == 8 else data if kind == ARRAY else struct.unpack("<" + KINDS[kind], data)[0]
        heads = [(self.text(), [self.number("Q") for _ in range(self.number("I"))], TYPES[self.number("I")], self.number("Q"))
                 for _ in range(found)]  # fmt: skip
        begin = -(-self.at // (align := self.values.get("general.alignment", 32))) * align
        for name, shape, (kind, numbers, size), at in heads:
            self.at = begin + at
            self.arrays[name] = kind, shape, self.take(int(np.prod(shape)) // numbers * size)

    def take(self, size):
        self.at += size
        require(self.at <= len(self.file), "the model is cut off")
        return self.file[self.at - size : self.at]

    def number(self, kind):
        return struct.unpack("<" + kind, self.take(struct.calcsize(kind)))[0]

    def text(self):
        return self.take(self.number("Q")).tobytes().decode()

    def digests(self):
        parts = {name: [] for name in MODEL}
        for name, (kind, shape, data) in sorted(self.arrays.items()):
            parts["arrays"].append(f"{name}\0{kind}\0{','.join(map(str, shape))}\0".encode())
            parts["weights"] += [parts["arrays"][-1], sha(data)]
        for key, (head, data) in sorted(self.raw.items()):
            if key == "general.architecture" or not key.startswith(("general.", "split.")):
                depth = key.startswith("tokenizer.") + key.startswith("tokenizer.chat_template")
                parts[("settings", "tokenizer", "template")[depth]] += [key.encode() + b"\0" + struct.pack("<QQQ", *head), data]
        return {name: sha(*part).hex() for name, part in parts.items()}


def rounded(x, kind):  # float32 to the nearest number of a type, as float32
    if kind != "bf16":
        return x if kind == "f32" else x.astype(np.float16).astype(np.float32)
    bits = np.ascontiguousarray(x).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).view(np.float32)


class Model:
    def __init__(self, file, arithmetic):
        others = [key for key, value in {**file.values, **dict.fromkeys(file.arrays)}.items()
                  if (value != AS_COMPUTED[key] if key in AS_COMPUTED else not re.fullmatch(KNOWN, key))]  # fmt: skip
        require(file.values.get("general.architecture") == "llama" and not others, f"it computes plain llama, without {others}")
        get = lambda key, *default: file.values.get("llama." + key, *default)  # noqa: E731
        self.file, self.arithmetic, self.eps = file, arithmetic, get("attention.layer_norm_rms_epsilon")
        self.layers, self.longest, heads = get("block_count"), get("context_length"), get("attention.head_count")
        self.kv_heads, width, base = get("attention.head_count_kv", heads), get("embedding_length") // heads, get("rope.freq_base", 10000.0)
        self.head_dim = get("attention.key_length", width)
        divisors = self.numbers("rope_freqs", "stored") if "rope_freqs.weight" in file.arrays else None
        self.rope = fovea.Rope(get("rope.dimension_count", self.head_dim), base=base, pairing="adjacent", divisors=divisors)
        require(get("attention.value_length", width) == self.head_dim, "it computes values of as many channels as keys")
        self.words, self.head = self.numbers("token_embd", arithmetic["weights"]), ("token_embd", "output")["output.weight" in file.arrays]
        kinds = [kind for name, (kind, _, _) in file.arrays.items() if name == self.head + ".weight" or re.fullmatch(MAPS, name)]
        self.blocks = arithmetic["weights"] == "stored" and any(kind not in FLOATS for kind in kinds)

    def numbers(self, name, kind):
        """An array's numbers as float32, rounded to a type unless it is `stored`."""
        stored, shape, data = self.file.arrays[name + ".weight"]
        if stored in FLOATS:
            x = data.view(FLOATS[stored]).astype(np.uint32 if stored == "BF16" else np.float32)
            x = (x << 16).view(np.float32) if stored == "BF16" else x
        else:
            x = np.empty((int(np.prod(shape[1:])), shape[0]), np.float32)
            fovea.Linear.quantized(data.reshape(len(x), -1), "gguf:" + stored).unpack(x)
        return (x if kind == "stored" else rounded(x, kind)).reshape(shape[::-1])

    @functools.cache
    def map(self, name):
        stored, shape, data = self.file.arrays[name + ".weight"]
        if self.arithmetic["weights"] != "stored" or stored in FLOATS:
            return fovea.Linear(self.numbers(name, self.arithmetic["weights"]))
        return fovea.Linear.quantized(data.reshape(shape[1], -1), "gguf:" + stored, arithmetic=self.arithmetic["products"])

    def normed(self, x, name):
        return rounded(fovea.rms_norm(x, self.numbers(name, "stored"), eps=self.eps), self.arithmetic["type"])

    def rows(self, ids, first):
        kind, tokens, pages = self.arithmetic["type"], len(ids), self.layers * (len(ids) // 256 + 1)
        keys, values = [NAMES.get(self.arithmetic[name], self.arithmetic[name]) for name in ("keys", "values")]
        cache = fovea.KVCache(self.layers, self.kv_heads, self.head_dim, max_pages=pages, rope=self.rope, k_dtype=keys, v_dtype=values)
        sequence, x = cache.add(), self.words[ids]
        for layer in range(self.layers):
            blk, n = f"blk.{layer}.", self.normed(x, f"blk.{layer}.attn_norm")
            q, k, v = (rounded(self.map(f"{blk}attn_{name}")(n), kind).reshape(1, tokens, -1, self.head_dim) for name in "qkv")
            cache.append(layer, sequence, k, v, layout="bthd")
            q = rounded(self.rope.apply(q, 0, layout="bthd"), kind)
            a = rounded(cache.attend(layer, sequence, q, causal="bottom_right", layout="bthd"), kind)
            x = self.map(blk + "attn_output")(a.reshape(tokens, -1), x)
            n = self.normed(x, blk + "ffn_norm")
            h = rounded(self.map(blk + "ffn_gate")(n, activation="silu") * self.map(blk + "ffn_up")(n), kind)
            x = self.map(blk + "ffn_down")(h, x)
        return self.map(self.head)(self.normed(x[first:], "output_norm"))


def draw(x, seen, rules, state):
    """The token, and the next state of the generator."""
    x, p = x.copy(), np.float32(rules["repetition_penalty"])
    x[seen] = np.where(x[seen] > 0, x[seen] / p, x[seen] * p)
    if rules["temperature"] == 0:
        return int(np.argmax(x)), state
    w = fovea.exp(((x - x.max()).astype(np.float64) / rules["temperature"]).astype(np.float32))
    order = np.argsort(-w, kind="stable")[: np.sum(w > np.float32(1e-6))][: rules["top_k"] or None]
    w = w[order].astype(np.float64)
    sums = np.cumsum(w)
    drop = (np.concatenate([[0], sums[:-1]]) >= rules["top_p"] * sums[-1]) | (w < rules["min_p"])
    kept = max(1, int(np.argmax([*drop, True])))
    state = (state + 0x9E3779B97F4A7C15) % 2**64
    z = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
    left = ((z ^ z >> 31) >> 11) / 2**53 * sums[kept - 1]
    after = np.flatnonzero(np.subtract.accumulate([left, *w[:kept]])[1:] < 0)
    return int(order[after[0] if len(after) else kept - 1]), state


def check_answer(model, a, where, rules):
    prompt, state, digests = a["prompt"]["tokens"], int(a["seed"]), []
    require(prompt is not None, f"{where}: its prompt is private")
    require(sha(np.array(prompt, "<u4")).hex() == a["prompt"]["sha256"], f"{where}: its prompt has another SHA-256", 1)
    ids = prompt + a["tokens"]
    require(max(ids) < len(model.words), f"{where}: the model has no such token", 1)
    for i, row in enumerate(model.rows(np.array(ids[:-1]), len(prompt) - 1) if a["tokens"] else []):
        digests.append(sha(row + np.float32(0)))
        require(digests[i][:8].hex() == a["rows"][i], f"{where}, row {i}: logits are others", 1)
        token, state = draw(row, ids[: len(prompt) + i], rules, state)
        require(token == a["tokens"][i], f"{where}, row {i}: sampling draws token {token}, not {a['tokens'][i]}", 1)
    for i, block in enumerate(a["blocks"]):
        require(sha(*digests[32 * i : 32 * i + 32]).hex() == block, f"{where}: rows from {32 * i} on have another SHA-256", 1)
    require(sha(*digests).hex() == a["sha256"], f"{where}: its rows have another SHA-256", 1)


def verify(receipt_path, model_path):
    """(0, 1, 2 or 77, the sentence)"""
    try:
        receipt, rules = read_receipt(receipt_path)
        require(os.path.exists(model_path), "there is no model", 77)
        file = Gguf(model_path)
        for name, own in file.digests().items():
            require(own == receipt["model"][name], f"the model's {name} have another SHA-256", MODEL[name])
        model = Model(file, receipt["arithmetic"])
        fits = all(a["prompt"]["count"] + max(len(a["rows"]), 1) - 1 <= model.longest for a in receipt["answers"])
        require(fits, f"the model reads at most {model.longest} tokens")
        require(model.blocks == (receipt["arithmetic"]["products"] != "none"), "the products are none of this model")
        for number, a in enumerate(receipt["answers"], 1):
            check_answer(model, a, f"answer {number}", rules)
        stated, rest = receipt.pop("sha256"), json.dumps(receipt, sort_keys=True, separators=(",", ":")).encode()
        require(sha(rest).hex() == stated, "its own SHA-256 is another: a field was changed after it was written", 1)
    except End as end:
        return end.args
    except Exception as error:  # of a file that is damaged, or that cannot be read
        return 2, f"{type(error).__name__}: {error}"
    return 0, f"verified {sum(len(a['rows']) for a in receipt['answers'])} tokens"


if __name__ == "__main__":
    found, sentence = verify(*sys.argv[1:]) if len(sys.argv) == 3 else (2, "usage: verify.py RECEIPT MODEL.gguf")
    print(sentence, file=sys.stderr if found else sys.stdout)
    sys.exit(found)
