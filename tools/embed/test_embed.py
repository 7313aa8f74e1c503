"""Tests of fovea-embed on a tiny BERT that this makes:  python3 test_embed.py FOVEA-EMBED FOLDER

A text's vector has the same bytes in any order, batch, number of threads and tier, from lines and JSON lines; empty texts
and texts past the limit are texts; memory stays flat over 100,000 texts; Ctrl-C and a wrong line keep what was written;
folders that it cannot serve are refused."""

import json
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "models"))
import model_files  # noqa: E402

WIDTH, INNER, LAYERS, HEADS, TOKENS = 16, 32, 2, 2, 24
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"] + [chr(c) for c in range(97, 123)] + ["##" + chr(c) for c in range(97, 123)]
program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
draw = random.Random(1)


def make_model(model):
    shapes = {
        "embeddings.word_embeddings.weight": [len(WORDS), WIDTH],
        "embeddings.position_embeddings.weight": [TOKENS, WIDTH],
        "embeddings.token_type_embeddings.weight": [2, WIDTH],
        "embeddings.LayerNorm": [WIDTH],
    }
    for i in range(LAYERS):
        layer = f"encoder.layer.{i}."
        for name in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
            shapes[layer + name] = [WIDTH, WIDTH]
        shapes |= {layer + "attention.output.LayerNorm": [WIDTH], layer + "output.LayerNorm": [WIDTH]}
        shapes |= {layer + "intermediate.dense": [INNER, WIDTH], layer + "output.dense": [WIDTH, INNER]}
    arrays = {}
    for name, shape in shapes.items():
        arrays[name if name.endswith("weight") else name + ".weight"] = shape
        if not name.endswith("weight"):
            arrays[name + ".bias"] = shape[:1]
    files = {}
    for name, shape in arrays.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        files[name] = shape, model_files.floats([draw.gauss(0, 0.5) for _ in range(count)])
    model.mkdir(parents=True, exist_ok=True)
    (model / "model.safetensors").write_bytes(model_files.safetensors(files))
    (model / "config.json").write_text(json.dumps({"model_type": "bert", "num_attention_heads": HEADS}))
    (model / "vocab.txt").write_text("\n".join(WORDS) + "\n")


def embed(texts, output, *options, field=None, env=(), status=0):
    """The vectors as bytes, one for each text, and the resources of the run."""
    source = folder / "texts.tmp"
    source.write_text("".join((json.dumps({field: t}) if field else t) + "\n" for t in texts))
    command = [program, "--model", folder / "model", "--text", source, "--output", output, *options]
    run = subprocess.run(command, env={**os.environ, **dict(env)}, capture_output=True, text=True)
    assert run.returncode == status, (run.returncode, run.stderr)
    return vectors(output), run.stderr


def vectors(path):
    path = pathlib.Path(path)
    if path.suffix != ".npy":
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        assert [r["index"] for r in rows] == list(range(len(rows)))
        return [struct.pack(f"<{WIDTH}f", *r["embedding"]) for r in rows]
    data = path.read_bytes()
    assert data[:8] == b"\x93NUMPY\x01\x00" and struct.unpack("<H", data[8:10]) == (118,)
    shape = eval(data[10:128])["shape"]
    assert shape[1] == WIDTH and len(data) == 128 + 4 * shape[0] * WIDTH, (shape, len(data))
    return [data[128 + 4 * WIDTH * i :][: 4 * WIDTH] for i in range(shape[0])]


def some_texts(count):
    return ["" if i % 50 == 7 else " ".join("".join(draw.choices("abcdefgh", k=draw.randint(1, 5)))
                                           for _ in range(draw.choice((1, 2, 4, 30)))) for i in range(count)]


def peak_of(count):
    """KiB that the program takes at most, as the system says while the pipe with its texts is still open."""
    some, output = some_texts(100), folder / "many.npy"
    output.unlink(missing_ok=True)
    command = [program, "--model", folder / "model", "--text", "-", "--output", output, "--threads", "1"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as run:
        run.stdin.write("".join(some[i % 100] + "\n" for i in range(count)))
        run.stdin.flush()
        while run.poll() is None and (not output.exists() or output.stat().st_size < 128 + 4 * WIDTH * (count // 1024 * 1024)):
            time.sleep(0.005)
        status = pathlib.Path(f"/proc/{run.pid}/status").read_text()
        run.stdin.close()
    assert run.returncode == 0 and output.stat().st_size == 128 + 4 * WIDTH * count
    return int(status.split("VmHWM:")[1].split()[0])


def stop_early():
    """Texts come by a pipe that stays open, from which the program reads when SIGINT ends it: behind what it has."""
    output = folder / "stopped.npy"
    command = [program, "--model", folder / "model", "--text", "-", "--output", output]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        run.stdin.write("".join(t + "\n" for t in some_texts(3000)))
        run.stdin.flush()
        for _ in range(200):
            time.sleep(0.05)
            if output.exists() and output.stat().st_size >= 128 + 4 * WIDTH * 2048:
                break
        time.sleep(0.2)
        run.send_signal(signal.SIGINT)
        words = run.stderr.read()
        run.stdin.close()
    found = vectors(output)
    assert run.returncode == 130 and f"stopped: {len(found)} vectors are written" in words, (run.returncode, words)
    assert len(found) == 2048, len(found)


make_model(folder / "model")
texts = some_texts(2500)
whole, _ = embed(texts, folder / "whole.npy")
assert len(whole) == len(texts) and all(any(v) for v in whole)
assert len({whole[i] for i in range(len(texts)) if texts[i] == ""}) == 1

order = list(range(len(texts)))
draw.shuffle(order)
for env in ({}, {"FOVEA_ISA": "scalar"}, {"FOVEA_ISA": "avx2"}):
    if env.get("FOVEA_ISA") == "avx2" and "avx2" not in open("/proc/cpuinfo").read():
        continue
    for threads in "1", "3":
        shuffled, _ = embed([texts[i] for i in order], folder / "shuffled.npy", "--threads", threads, env=env)
        assert [shuffled[order.index(i)] for i in range(0, 2500, 9)] == whole[::9], (env, threads)
for i in (0, 7, 8, 30, 2499):
    assert embed([texts[i]], folder / "one.npy")[0] == [whole[i]], i
assert embed(texts[:40], folder / "lines.jsonl", field="passage", *("--field", "passage"))[0] == whole[:40]
assert embed(["a b " * 100], folder / "one.npy")[0] == embed(["a b " * 11], folder / "one.npy")[0], "the limit"

few, many = peak_of(10_000), peak_of(100_000)
print(f"memory: {few} KiB for 10,000 texts, {many} KiB for 100,000")
assert many - few < 2 * 1024, f"100,000 texts take {many - few} KiB more than 10,000"

pieces, poolings = (shutil.copytree(folder / "model", folder / name, dirs_exist_ok=True) for name in ("pieces", "poolings"))
(pieces / "vocab.txt").replace(pieces / "sentencepiece.bpe.model")
(poolings / "modules.json").write_text('[{"type": "Pooling"}]')
(poolings / "1_Pooling").mkdir(exist_ok=True)
(poolings / "1_Pooling/config.json").write_text('{"pooling_mode_cls_token": true, "pooling_mode": "mean"}')
for model, words, options in (
    ("model", ("16", "32"), ("--weights", "q8_0")),
    ("pieces", ["/pieces: has sentencepiece.bpe.model, but no tokenizer.json, which transformers makes of it: "
                "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)\n"], ()),
    ("poolings", ["asks for 2 ways of pooling"], ()),
):
    refused = subprocess.run([program, "--model", folder / model, *options, "a"], capture_output=True, text=True)
    assert refused.returncode == 1 and all(word in refused.stderr for word in words), refused
stop_early()
found, words = embed(["x", "", "y"], folder / "bad.npy", "--field", "other", field="text", status=1)
assert found == [] and 'line 1 has no text "other"' in words, words
print("good")
