"""fovea.Linear of quantized weights: the numbers that they stand for, and the bits of each arithmetic."""

import copy
import pickle

import numpy
import pytest
from quantized_weights import BLOCKS, GROUPED, fp8, gptq, int8
from reference import same

import fovea

MAKERS = {
    **{f"{name} g{group}": (make, group) for name, make in GROUPED.items() for group in (32, 64, 128)},
    **{name: (make, None) for name, make in BLOCKS.items()},
}
# Relative to the largest number of a result: q16 rounds x to 1 / 32638 of the largest of a group, q8 to 1 / 254.
BOUNDS = {"exact": 1e-5, "q16": 1e-4, "q8": 2e-2}


def given(name, inner=256, out=48, seed=0):
    make, group = MAKERS[name]
    rng = numpy.random.default_rng(sum(map(ord, name)) + seed)
    return make(rng, inner, out, *([] if group is None else [group]))


def linear_of(g, **options):
    return fovea.Linear.quantized(g.weight, g.kind, **g.options, **options)


@pytest.mark.parametrize("name", MAKERS)
def test_numbers(name):
    g = given(name)
    linear = linear_of(g)
    numbers = numpy.empty(g.numbers.shape, numpy.float32)
    linear.unpack(numbers)
    assert numpy.abs(numbers - g.numbers).max() <= 2e-7 * numpy.abs(g.numbers).max()
    assert linear.quantization == g.kind and linear.in_features == 256 and linear.out_features == 48
    assert linear.nbytes < 256 * 48 * (1.3 if g.bits == 8 else 0.85) and repr(linear).startswith("<fovea.Linear 256 to 48")


@pytest.mark.parametrize("arithmetic", BOUNDS)
@pytest.mark.parametrize("name", MAKERS)
def test_products(name, arithmetic):
    g = given(name)
    rng = numpy.random.default_rng(1)
    bias = rng.standard_normal(48, dtype=numpy.float32)
    x = rng.standard_normal((37, 256), dtype=numpy.float32)
    linear = linear_of(g, bias=bias, arithmetic=arithmetic)
    y, want = linear(x), x.astype(numpy.float64) @ g.numbers.T + bias
    assert numpy.abs(y - want).max() < BOUNDS[arithmetic] * numpy.abs(want).max()
    for rows in (slice(0, 1), slice(5, 9), slice(20, 37)):  # a row's bits are its own
        same(linear(x[rows]), y[rows])
    with fovea.config(threads=1):
        same(linear_of(g, bias=bias, arithmetic=arithmetic)(x), y)
    if arithmetic == "exact":
        numbers = numpy.empty((48, 256), numpy.float32)
        linear.unpack(numbers)
        same(y, fovea.Linear(numbers, bias)(x))
    elif arithmetic == "q16":
        same(linear_of(g, bias=bias)(x), y)


@pytest.mark.parametrize("name", MAKERS)
def test_tiers(name, tiers):
    g = given(name)
    x = numpy.random.default_rng(2).standard_normal((5, 256), dtype=numpy.float32)
    tiers(lambda: linear_of(g)(x))


@pytest.mark.parametrize("name", MAKERS)
def test_stored(name):
    g = given(name)
    linear = linear_of(g, arithmetic="q16", activation="relu")
    stored = pickle.loads(pickle.dumps(linear))
    x = numpy.random.default_rng(3).standard_normal((3, 256), dtype=numpy.float32)
    same(stored(x), linear(x))
    assert copy.deepcopy(linear) is linear and copy.copy(linear) is linear
    for attribute in ("quantization", "nbytes", "weight_dtype", "arithmetic", "error", "activation"):
        assert getattr(stored, attribute) == getattr(linear, attribute)
    assert pickle.dumps(stored) == pickle.dumps(linear)


def test_blocks_are_ggufs():
    quants = pytest.importorskip("gguf.quants")
    from gguf import GGMLQuantizationType

    for name in BLOCKS:
        g = given(name)
        numbers = numpy.empty((48, 256), numpy.float32)
        linear_of(g).unpack(numbers)
        theirs = quants.dequantize(g.weight, GGMLQuantizationType[g.kind.removeprefix("gguf:")])
        assert numpy.abs(numbers - theirs).max() <= 3e-7 * numpy.abs(theirs).max()
        raw = numpy.empty_like(g.weight)
        linear_of(g).unpack(raw)
        same(raw, g.weight)


def test_several():
    rng = numpy.random.default_rng(4)
    order = rng.permutation(numpy.arange(128) // 32).astype(numpy.int32)
    parts = [gptq(rng, 128, out, 32) for out in (16, 48)]
    lists = {name: [p.options[name] for p in parts] for name in ("scales", "zeros")}
    x = rng.standard_normal((2, 7, 128), dtype=numpy.float32)
    for g_idx in (None, [order, order]):
        both = fovea.Linear.quantized([p.weight for p in parts], "gptq", g_idx=g_idx, heads=[2, None], **lists)
        for i, (p, y) in enumerate(zip(parts, both(x))):
            alone = fovea.Linear.quantized(p.weight, "gptq", g_idx=g_idx and order, **p.options)(x)
            same(y if i else numpy.ascontiguousarray(y.transpose(0, 2, 1, 3)).reshape(2, 7, 16), alone)


@pytest.mark.parametrize("quant, most", [("int8", 0.01), ("int4", 0.1), ("q8_0", 0.01), ("q4_0", 0.1), ("q4_1", 0.1), ("q4_k", 0.1)])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_quant(quant, most, dtype):
    if dtype == "bfloat16":
        dtype = pytest.importorskip("ml_dtypes").bfloat16
    rng = numpy.random.default_rng(5)
    weight, x = (rng.standard_normal((n, 512)).astype(dtype) for n in (40, 9))
    linear = fovea.Linear(weight, quantization=quant)
    numbers = numpy.empty((40, 512), numpy.float32)
    linear.unpack(numbers)
    wide = weight.astype(numpy.float64)
    rms = numpy.sqrt(numpy.mean((numbers - wide) ** 2))
    assert linear.quantization == quant and linear.dtype == weight.dtype.name and 0 < linear.error["relative"] < most
    assert linear.error["rms"] == pytest.approx(rms, rel=1e-6)
    assert linear.error["max"] == pytest.approx(numpy.abs(numbers - wide).max(), rel=1e-6)
    assert linear.error["relative"] == pytest.approx(rms / numpy.sqrt(numpy.mean(wide**2)), rel=1e-6)
    y, want = linear(x), x.astype(numpy.float64) @ numbers.T
    bound = {"float32": 1e-4, "float16": 1e-3, "bfloat16": 8e-3}[weight.dtype.name]
    assert y.dtype == weight.dtype and numpy.abs(y.astype(numpy.float64) - want).max() < bound * numpy.abs(want).max()
    transposed = fovea.Linear(numpy.ascontiguousarray(weight.T), quantization=quant, layout="in_out")
    same(transposed(x), y)
    same(pickle.loads(pickle.dumps(linear))(x), y)
    assert pickle.loads(pickle.dumps(linear)).error == linear.error
    two = fovea.Linear([weight, weight[:8]], quantization=quant)
    assert len(two.error) == 2 and two.error[0] == linear.error
    same(two(x)[0], y)


def test_refused():
    rng = numpy.random.default_rng(6)
    weight = rng.standard_normal((16, 96), dtype=numpy.float32)
    g = gptq(rng, 128, 16, 32)
    with pytest.raises(ValueError, match="quantization must be None, 'int8', 'int4'"):
        fovea.Linear(weight, quantization="int3")
    with pytest.raises(ValueError, match="96"):
        fovea.Linear(weight, quantization="q4_k")
    with pytest.raises(ValueError, match="quantization and scale do not go together"):
        fovea.Linear(weight, quantization="int8", scale=2.0)
    with pytest.raises(ValueError, match="(?i)nan"):
        fovea.Linear(numpy.full((4, 32), numpy.nan, numpy.float32), quantization="int4")
    with pytest.raises(TypeError, match="quantization is for weights of floats, not int8"):
        fovea.Linear(numpy.ones((4, 32), numpy.int8), scales=numpy.ones(4, numpy.float32), quantization="int8")
    with pytest.raises(ValueError, match="kind must be 'int8', 'gptq', 'awq'"):
        fovea.Linear.quantized(g.weight, "gguf:Q2_K")
    with pytest.raises(TypeError, match="weight must be int32, not float32"):
        fovea.Linear.quantized(weight, "gptq", scales=g.options["scales"])
    with pytest.raises(TypeError, match="scales are needed of gptq"):
        fovea.Linear.quantized(g.weight, "gptq")
    with pytest.raises(ValueError, match="4 groups: of 128 input channels that is 32 each, not 64"):
        linear_of(g, **{}) and fovea.Linear.quantized(g.weight, "gptq", **{**g.options, "group_size": 64})
    with pytest.raises(ValueError, match=r"zeros has the shape \(4, 1\), not \(4, 2\)"):
        fovea.Linear.quantized(g.weight, "gptq", **{**g.options, "zeros": g.options["zeros"][:, :1]})
    with pytest.raises(ValueError, match="bits must be 4 or 8, not 3"):
        fovea.Linear.quantized(g.weight, "gptq", **{**g.options, "bits": 3})
    with pytest.raises(ValueError, match="bits must be 4, not 8"):
        fovea.Linear.quantized(g.weight, "awq", scales=g.options["scales"], bits=8)
    with pytest.raises(ValueError, match="group"):
        fovea.Linear.quantized(g.weight, "gptq", **g.options, g_idx=numpy.zeros(128, numpy.int32))
    with pytest.raises(ValueError, match="group"):
        fovea.Linear.quantized(g.weight, "gptq", **g.options, g_idx=numpy.full(128, 1 << 40))
    with pytest.raises(ValueError, match="rows of 100 bytes; blocks of gguf:Q8_0 have 34"):
        fovea.Linear.quantized(numpy.zeros((4, 100), numpy.uint8), "gguf:Q8_0")
    with pytest.raises(ValueError, match="zero_offset is 1, but there are no zeros"):
        fovea.Linear.quantized(g.weight, "gptq", scales=g.options["scales"], zero_offset=1)
    with pytest.raises(TypeError, match="bits is for integers in words; of gguf:Q8_0 it is known"):
        fovea.Linear.quantized(numpy.zeros((4, 34), numpy.uint8), "gguf:Q8_0", bits=8)
    with pytest.raises(TypeError, match="the groups of gguf:Q8_0 are those of its blocks"):
        fovea.Linear.quantized(numpy.zeros((4, 34), numpy.uint8), "gguf:Q8_0", group_size=64)
    for broken in (numpy.nan, numpy.inf):
        scales = g.options["scales"].copy()
        scales[1, 3] = broken
        with pytest.raises(ValueError, match="NaN or infinite"):
            fovea.Linear.quantized(g.weight, "gptq", **{**g.options, "scales": scales})
    with pytest.raises(ValueError, match="arithmetic must be .* 'q16' or 'q8' of quantized weights"):
        linear_of(g, arithmetic="q4")
    with pytest.raises(ValueError, match="arithmetic must be"):
        fovea.Linear(weight, arithmetic="q16")
    with pytest.raises(TypeError, match="weight must be uint4, not float16"):
        linear_of(g).unpack(numpy.empty((16, 128), numpy.float16))


@pytest.mark.parametrize("change", range(6))
def test_a_damaged_pickle_is_refused(change):
    g = gptq(numpy.random.default_rng(7), 64, 16, 32, act_order=True)
    restore, (form, kind, maker, args, keywords, _) = linear_of(g).__reduce__()
    matrix = list(args[5][0])
    size, dtype, zeros, order = matrix[6]
    matrix[6] = [(48, dtype, zeros, order), (size, 7, zeros, order), (size, dtype, zeros[1:], order),
                 (size, dtype, zeros, order[4:]), (size, dtype, zeros), 3][change]  # fmt: skip
    args = (*args[:5], (tuple(matrix),), *args[6:])
    from fovea import _stored

    with pytest.raises(ValueError, match="contradicts itself|damaged"):
        restore(form, kind, maker, args, keywords, _stored._checksum(args))


@pytest.mark.parametrize("inner, sizes", [(64, (64, 16)), (2048, (2048, 1024))])
def test_int8_of_several_groupings(inner, sizes):
    """One after the other in a list: never read by the groups of the first."""
    rng = numpy.random.default_rng(8)
    parts = [int8(rng, inner, 16, size) for size in sizes]
    weights, scales = [p.weight for p in parts], [p.options["scales"] for p in parts]
    with pytest.raises(ValueError, match="part 1 has another quantization than part 0"):
        fovea.Linear.quantized(weights, "int8", scales=scales)
    x = rng.standard_normal((3, inner), dtype=numpy.float32)
    both = fovea.Linear.quantized(weights, "int8", scales=scales, arithmetic="exact")
    for part, (p, y) in enumerate(zip(parts, both(x))):
        same(y, fovea.Linear.quantized(p.weight, "int8", **p.options, arithmetic="exact")(x))
        numbers = numpy.empty(p.numbers.shape, numpy.float32)
        both.unpack(numbers, part=part)
        assert numpy.abs(numbers - p.numbers).max() <= 2e-7 * numpy.abs(p.numbers).max()


def test_strides_and_signs():
    g = gptq(numpy.random.default_rng(9), 128, 16, 32)
    x = numpy.random.default_rng(10).standard_normal((3, 128), dtype=numpy.float32)
    want = linear_of(g)(x)
    wide = {name: numpy.repeat(g.options[name], 2, 0)[::2] for name in ("scales", "zeros")}
    same(fovea.Linear.quantized(numpy.asfortranarray(g.weight), "gptq", **{**g.options, **wide})(x), want)
    same(-fovea.Linear.quantized(g.weight, "gptq", **{**g.options, "scales": -g.options["scales"]})(x), want)
    torch = pytest.importorskip("torch")
    tensors = {name: torch.from_numpy(numpy.ascontiguousarray(g.options[name].T)).t() for name in ("scales", "zeros")}
    same(fovea.Linear.quantized(torch.from_numpy(g.weight.view(numpy.int32)), "gptq", **{**g.options, **tensors})(x), want)
    short = torch.from_numpy(g.options["scales"]).bfloat16()
    numbers = numpy.empty((16, 128), numpy.float32)
    fovea.Linear.quantized(g.weight, "gptq", **{**g.options, "scales": short}).unpack(numbers)
    ratio = (short.float() / torch.from_numpy(g.options["scales"]).float()).numpy().repeat(32, 0).T
    assert numpy.abs(numbers - g.numbers * ratio).max() <= 2e-7 * numpy.abs(g.numbers).max()
    with pytest.raises(TypeError, match="scales has no numbers .*meta"):
        fovea.Linear.quantized(g.weight, "gptq", **{**g.options, "scales": short.to("meta")})


@pytest.mark.parametrize(
    "inner, out, rows, columns",
    [(256, 300, 128, 128), (128, 1, 1, 128), (50, 48, 1, 50), (256, 48, 1, 64), (2048, 129, 128, 128)],
)
def test_fp8(inner, out, rows, columns):
    rng = numpy.random.default_rng(inner + out)
    g = fp8(rng, inner, out, rows, columns)
    bias, x = rng.standard_normal(out, dtype=numpy.float32), rng.standard_normal((19, inner), dtype=numpy.float32)
    linear, numbers = linear_of(g, bias=bias), numpy.empty((out, inner), numpy.float32)
    linear.unpack(numbers)
    assert numpy.abs(numbers - g.numbers).max() <= 1e-7 * numpy.abs(g.numbers).max()
    y = linear(x)
    same(y, fovea.Linear(numbers, bias)(x))
    same(linear(x[4:5]), y[4:5])
    assert (linear.quantization, linear.weight_dtype) == ("fp8", "f8_e4m3")
    bytes_of = numpy.empty((out, inner), numpy.uint8)
    linear.unpack(bytes_of)
    same(bytes_of, g.weight)
    for again in (copy.deepcopy(linear), pickle.loads(pickle.dumps(linear))):
        same(again(x), y)


def test_fp8_refused():
    g = fp8(numpy.random.default_rng(0), 256, 300, 128, 128)
    with pytest.raises(ValueError, match=r"scales is \(3, 4\), neither of each of 300 rows nor of blocks of 128 x 128"):
        fovea.Linear.quantized(g.weight, "fp8", scales=numpy.ones((3, 4), numpy.float32))
    with pytest.raises(TypeError, match="weight must be float8_e4m3fn or uint8, not int8"):
        fovea.Linear.quantized(g.weight.view(numpy.int8), "fp8", **g.options)
    with pytest.raises(TypeError, match="scales are needed of fp8"):
        fovea.Linear.quantized(g.weight, "fp8")
    with pytest.raises(ValueError, match="FOVEA_ARITHMETIC_Q16, which multiplies integers"):
        linear_of(g, arithmetic="q16")
