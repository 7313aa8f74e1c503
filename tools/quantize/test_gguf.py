#!/usr/bin/env python3
"""test_gguf.py FOVEA-QUANTIZE: what it writes, as the gguf package reads it: types, shapes, and numbers whose error is
the one printed. Works in the current folder. Ends with 77 where there is no gguf or no numpy."""
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "models"))
import model_files  # noqa: E402

try:
    import gguf
    import numpy
except ImportError as e:
    print(f"SKIPPED: {e}")
    sys.exit(77)

rng = numpy.random.default_rng(5)
ARRAYS = {  # the type of each by --type q4_k; experts have three dimensions, rows of 96 and 288 are no blocks of 256
    "model.embed_tokens.weight": ((64, 512), "Q8_0"),
    "model.layers.0.self_attn.q_proj.weight": ((48, 512), "Q4_K"),
    "model.layers.0.self_attn.o_proj.weight": ((512, 288), "Q4_1"),
    "model.layers.0.mlp.gate.weight": ((4, 512), "F32"),
    "model.layers.0.mlp.experts.gate_up_proj": ((4, 24, 256), "Q4_K"),
    "model.layers.0.mlp.experts.down_proj": ((4, 16, 96), "Q4_1"),
    "model.layers.0.odd.weight": ((16, 40), "F32"),
    "model.norm.weight": ((512,), "F32"),
    "lm_head.weight": ((64, 512), "Q8_0"),
}


def bfloat16(x):
    return ((x.view(numpy.uint32) + 0x8000) >> 16).astype(numpy.uint16)


def stored(x, kind):
    return (bfloat16(x) if kind == "BF16" else x.astype(numpy.float16) if kind == "F16" else x).tobytes()


def check(kind, to, search):
    arrays = {name: (rng.standard_normal(shape) * 0.05).astype(numpy.float32) for name, (shape, _) in ARRAYS.items()}
    if kind == "BF16":
        arrays = {name: (bfloat16(x).astype(numpy.uint32) << 16).view(numpy.float32) for name, x in arrays.items()}
    elif kind == "F16":
        arrays = {name: x.astype(numpy.float16).astype(numpy.float32) for name, x in arrays.items()}
    given = model_files.safetensors({n: (x.shape, stored(x, kind)) for n, x in arrays.items()}, kind)
    pathlib.Path("given.safetensors").write_bytes(given)
    out = subprocess.run([sys.argv[1], "given.safetensors", "--type", to, "-o", "made.gguf", "--force", *search],
                         check=True, capture_output=True, text=True).stdout
    lines = {line.split()[0]: line for line in out.splitlines()}
    read = {t.name: t for t in gguf.GGUFReader("made.gguf").tensors}
    assert set(read) == set(ARRAYS), set(read) ^ set(ARRAYS)
    for name, (shape, want) in ARRAYS.items():
        t, given = read[name], arrays[name]
        want = kind if want == "F32" else to.upper() if want in ("Q4_K", "Q4_1") and to != "q4_k" else want
        assert t.tensor_type.name == want, (name, t.tensor_type.name, want)
        assert tuple(t.shape[::-1]) == shape, (name, t.shape)
        assert f"  {t.n_bytes} bytes" in lines[name], lines[name]
        got = gguf.dequantize(t.data, t.tensor_type).reshape(shape)
        if want == kind:
            assert (got == given).all() and f" {kind} kept (" in lines[name], lines[name]
            continue
        told = [float(x) for x in re.search(r"max (\S+)  rms (\S+)  relative (\S+)", lines[name]).groups()]
        error = got.astype(numpy.float64) - given
        rms = numpy.sqrt((error ** 2).mean())
        real = [abs(error).max(), rms, rms / numpy.sqrt((given.astype(numpy.float64) ** 2).mean())]
        assert numpy.allclose(told, real, rtol=6e-3, atol=6e-5), (name, told, real)
        assert 0 < real[2] < (0.01 if want == "Q8_0" else 0.12), (name, real)


for kind in "F32", "BF16", "F16":
    for to in "q4_k", "q8_0", "q4_0", "q4_1":
        check(kind, to, [])
check("F32", "q4_k", ["--search"])
print("13 files")
