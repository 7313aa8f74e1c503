"""fovea.torch.optimize(example=) of quantized weights: wrong weights and wrong products are told from what quantizing costs."""

import dataclasses

import numpy
import pytest
import torch
from quantized_modules import MODULES, gptq_module
from torch import nn

import fovea.torch
from fovea.torch import compared, optimize, oracle, packed, packed_mha, quantized

WORDS = ["int8", "int4", "q8_0", "q4_0", "q4_1", "q4_k"]


def integers(name):
    """Are the weights of this module integers? Others are multiplied exactly."""
    return "float8" not in name


class Model(nn.Module):
    def __init__(self, maps, attention=True):
        super().__init__()
        self.embed, self.act = nn.Linear(24, 256), nn.GELU()
        self.one, self.two = maps
        self.attention = nn.MultiheadAttention(256, 4, batch_first=True) if attention else None

    def forward(self, x):
        x = self.embed(x)
        x = x + self.two(self.act(self.one(x)))
        return x if self.attention is None else x + self.attention(x, x, x, need_weights=False)[0]


def model_of(name, dtype=torch.float32):
    """Two maps of 256 x 256, of a module's name or as torch makes them."""
    torch.manual_seed(0)
    rng = numpy.random.default_rng(sum(map(ord, name)))
    make = MODULES.get(name, lambda *_: nn.Linear(256, 256))
    model = Model([make(rng, 256, 256, 64) for _ in range(2)], name not in MODULES).eval()
    for module in (model.embed, model.attention):
        module and module.to(dtype)
    return model if name in MODULES else model.to(dtype)


def run(model, dtype=torch.float32, **options):
    torch.manual_seed(1)
    return optimize(model, example=torch.randn(2, 9, 24).to(dtype), **options)


@pytest.mark.parametrize("name", [*filter(integers, MODULES), *WORDS])
def test_q16_is_what_the_oracle_computes(name, monkeypatch):
    """The results for the same x agree but for float32's rounding, which is less than that of x. After another map x differs in last bits,
    and some of it is rounded the other way."""
    model, weights = model_of(name), name if name in WORDS else None
    torch.manual_seed(1)
    options = {"example": torch.randn(2, 9, 256), "weights": weights}
    monkeypatch.setitem(compared.BOUND, torch.float32, 8e-6)
    optimize(model.one, **options)
    with monkeypatch.context() as patch:
        patch.setattr(oracle, "rounded", lambda x, *_: x.float())
        with pytest.raises(RuntimeError, match="differs by"):
            optimize(model.one, **options)
    monkeypatch.setitem(compared.BOUND, torch.float32, 3e-5)
    run(model, weights=weights)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["gptq act-order", "int8", "q4_k"])
def test_half(name, dtype):
    run(model_of(name, dtype), dtype, weights=name if name in WORDS else None)


def nibbles(words):
    """The two integers of each byte exchanged."""
    return (words & 0x0F0F0F0F) << 4 | ((words >> 4) & 0x0F0F0F0F)


def rolled(words):
    return ((words >> 8) & 0xFFFFFF) | words << 24


MISREAD = {  # what is read of a module, and of which modules that is another reading
    "nibbles": (lambda s: {"weight": nibbles(s.weight)}, lambda name: "8" not in name),
    "bytes of words": (lambda s: {"weight": rolled(s.weight)}, lambda name: "int8" not in name and integers(name)),
    "zeros": (lambda s: {"zeros": rolled(s.zeros)}, lambda name: "symmetric" not in name and "int8" not in name and integers(name)),
    "no zeros": (
        lambda s: {"zeros": None, "options": {n: v for n, v in s.options.items() if n == "bits"}},
        lambda name: "symmetric" not in name and "int8" not in name and integers(name),
    ),
    "zero offset": (
        lambda s: {"options": {**s.options, "zero_offset": 1 - s.options["zero_offset"]}},
        lambda name: "gptq" in name and "awq" not in name and "8 bits" not in name,  # there a zero of 256 is refused
    ),
    "no act-order": (lambda s: {"g_idx": None}, lambda name: "act-order" in name),
    "an act-order": (
        lambda s: {"g_idx": torch.arange(256, dtype=torch.int32) % (256 // 64)},
        lambda name: name in ("gptq", "compressed"),
    ),
    "scales of the next": (lambda s: {"scales": s.scales.roll(1, 0)}, lambda name: True),
    "one integer": (lambda s: {"weight": s.weight ^ (torch.arange(s.weight.numel()) == 2).view_as(s.weight).to(s.weight.dtype)},
                    integers),
    "one float": (lambda s: {"weight": torch.where(torch.arange(s.weight.numel()).view_as(s.weight) == 2, 9, s.weight.float())
                             .to(s.weight.dtype)}, lambda name: not integers(name)),
}  # fmt: skip


@pytest.mark.parametrize("damage, name", [(d, n) for d, (_, fits) in MISREAD.items() for n in MODULES if fits(n)])
def test_misread_weights_are_found(damage, name, monkeypatch):
    read, model = quantized.read, model_of(name)
    change = MISREAD[damage][0]

    def misread(module):
        stored = read(module)
        wrong = isinstance(stored, quantized.Stored) and bool((stored.scales == model.two_scales).all())
        return dataclasses.replace(stored, **change(stored)) if wrong else stored

    model.two_scales = read(model.two).scales.clone()  # a weight that the model holds twice would be left to torch
    monkeypatch.setattr(quantized, "read", misread)
    with pytest.raises(RuntimeError, match=r"the weights of two \(\w+\) input channel \d+ of output \d+ is .*, read as"):
        run(model)
    optimize(model)  # without an example nobody looks


def test_a_module_that_cannot_be_run_is_refused():
    model = model_of("gptq")
    model.one.numbers = None
    with pytest.raises(RuntimeError, match=r"one \(TorchLinear\) cannot be run here"):
        run(model)


def test_modules_of_one_type_of_input(monkeypatch):
    """Which refuse float32: they are asked in 16 bits."""
    for dtype in (torch.float16, torch.bfloat16):
        model = nn.Sequential(gptq_module(numpy.random.default_rng(3), 128, 48)).eval()
        forward = type(model[0]).forward

        def strict(self, x, dtype=dtype, forward=forward):
            if x.dtype is not dtype:
                raise RuntimeError(f"expected {dtype}")
            return forward(self, x)

        with monkeypatch.context() as patch:
            patch.setattr(type(model[0]), "forward", strict)
            optimize(model, example=torch.randn(3, 128).to(dtype))


@pytest.mark.parametrize("word", WORDS)
def test_weights_that_are_rounded_wrongly_are_found(word, monkeypatch):
    made = fovea.Linear

    def wrong(weights, *args, quantization=None, **options):
        if quantization and weights[0].shape == (256, 256):
            weights = [w.clone() for w in weights]
            weights[0][7, 9] += weights[0][7].abs().max() / 3
        return made(weights, *args, quantization=quantization, **options)

    for module, weight in ((packed, "weight of one"), (packed_mha, "in_proj_weight of attention")):
        with monkeypatch.context() as patch:
            patch.setattr(module.fovea, "Linear", wrong)
            chosen = word if module is packed else {"attention": word}
            with pytest.raises(RuntimeError, match=rf"the {weight} \(\w+\) are off by .* {word} .* channel 7: use"):
                run(model_of("floats"), weights=chosen)


@pytest.mark.parametrize("name", ["gptq", "compressed int8", "int4", "int8"])
def test_the_first_wrong_module_is_named(name, monkeypatch):
    forward, fuse = packed.Linear.forward, optimize.__globals__["_fuse"]

    def wrong(self, x):
        return forward(self, x) * getattr(self, "factor", 1.0)

    def fused(self, activation, x, residual=None):
        y = self.forward(x)
        y = y if activation is None else packed.ACTIVATIONS[activation](y)
        return y if residual is None else y + residual

    def mark(model, report):
        model.one.factor = 1.001
        fuse(model, report)

    monkeypatch.setattr(packed.Linear, "forward", wrong)
    monkeypatch.setattr(packed.Linear, "fused", fused)
    monkeypatch.setitem(optimize.__globals__, "_fuse", mark)
    sentence = r"the result of one \(Linear\) differs by (1\.0e-03|9.*e-04) of its largest number; 1e-04"
    with pytest.raises(RuntimeError, match=sentence):
        run(model_of(name), weights=name if name in WORDS else None)


def test_attention_that_is_wrong_is_named(monkeypatch):
    project = packed_mha.MultiheadAttention._project
    monkeypatch.setattr(packed_mha.MultiheadAttention, "_project",
                        lambda self, q, k, v: [y * 1.001 for y in project(self, q, k, v)])  # fmt: skip
    with pytest.raises(RuntimeError, match=r"attention \(MultiheadAttention\) differs by"):
        run(model_of("floats"), weights="int4")


@pytest.mark.parametrize("group, order", [(32, False), (48, False), (100, False), (25, True)])
def test_rounded(group, order):
    torch.manual_seed(2)
    x = torch.randn(5, 100) * torch.logspace(-3, 3, 100)
    x[0, :group] = 0.0
    x[1, :group] *= 1e-38
    x[2, 3], x[3, 60] = float("inf"), float("nan")
    channels = torch.randperm(100) if order else torch.arange(100)
    got = oracle.rounded(x, group, channels if order else None)
    for row in range(5):
        for first in range(0, 100, group):
            of = channels[first : first + group]
            top = x[row, of].abs().max()
            if not top.isfinite():
                assert got[row, of].isnan().all()
            elif top < 2.0**-112:
                assert (got[row, of] == 0).all()
            else:
                integers = got[row, of].double() * 16319 / top
                assert (integers - integers.round()).abs().max() < 2e-3 and integers.abs().max().round() == 16319
                assert (got[row, of] - x[row, of]).abs().max() < 0.51 * top / 16319
