"""fovea::attention: opcheck, gradients against float64, and models compiled whole."""

import pytest
import torch

import fovea.torch

SAMPLES = {
    "plain": {},
    "causal": {"causal": True},
    "top left": {"causal": "top_left"},
    "bottom right": {"causal": "bottom_right"},
    "offset": {"causal": 3},
    "offsets": {"causal": [1, 4]},
    "window": {"window": (2, 1)},
    "window of offsets": {"window": (2, 1), "q_offsets": [2, 0]},
    "causal window": {"causal": "bottom_right", "window": (3, None)},
    "scale, softcap": {"scale": 0.4, "softcap": 2.0},
    "boolean mask": {"mask": "mask"},
    "bias": {"bias": "bias"},
    "bias and mask": {"mask": "mask", "bias": "bias"},
    "sinks": {"sinks": [0.1, -0.5, 1.0, 0.0]},
    "alibi": {"alibi": [0.5, 0.25, 0.125, 0.1]},
    "t5": {"relative": ("t5", (4, 8), {"bidirectional": True, "max_distance": 6})},
    "toeplitz": {"relative": ("toeplitz", (5,), {}), "causal": "bottom_right"},
    "window of 2 dimensions": {"relative": ("window_2d", (4, 35), {"height": 3, "width": 4})},
    "lengths": {"kv_lens": [4, 7], "q_lens": [5, 2]},
    "starts": {"kv_starts": [2, 0], "causal": "bottom_right"},
    "starts and lengths": {
        "kv_starts": [2, 0], "kv_lens": [3, 6], "q_starts": [1, 2], "q_lens": [3, 2], "window": (2, 0)
    },  # fmt: skip
    "bthd": {"layout": "bthd"},
    "bhtd to bthd": {"out_layout": "bthd"},
    "packed": {
        "q_cu_seqlens": [0, 2, 5], "kv_cu_seqlens": [0, 3, 7], "layout": "htd", "out_layout": "thd",
        "causal": "bottom_right",
    },  # fmt: skip
    "value dim": {"value": 12},
}


def sample(name, heads=2, grad=False):
    """(q, k, v, options) with T_q = 5 (7 where causal is True), T_k = 7, H = 4 over `heads` heads of keys."""
    options = dict(SAMPLES[name])
    value = options.pop("value", 8)
    if "mask" in options:
        options["mask"] = (torch.rand(2, 1, 5, 7) > 0.4) | (torch.arange(7) == 6)
    if "bias" in options:
        options["bias"] = torch.randn(1, 4, 5, 7)
    if "relative" in options:
        kind, shape, numbers = options["relative"]
        options["relative"] = getattr(fovea.Relative, kind)(torch.randn(shape), **numbers)
    for key in options:
        if key in ("sinks", "alibi") or "lens" in key or "starts" in key:
            options[key] = torch.tensor(options[key])
    shapes = [(2, 4, 7 if options.get("causal") is True else 5, 8), (2, heads, 7, 8), (2, heads, 7, value)]
    if options.get("layout") == "bthd":
        shapes = [(b, t, h, d) for b, h, t, d in shapes]
    elif options.get("layout") == "htd":
        shapes = [shape[1:] for shape in shapes]
    return *(torch.randn(s, requires_grad=grad) for s in shapes), options


def operands(name, grad):
    from fovea.torch import compile as module

    q, k, v, options = sample(name, grad=grad)
    tensors, options = module._to_op(q, k, options)
    return (q, k, v, *tensors), options


@pytest.mark.parametrize("name", SAMPLES)
def test_opcheck(name):
    args, options = operands(name, grad=True)
    torch.library.opcheck(torch.ops.fovea.attention.default, args, options)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["plain", "bias", "bhtd to bthd"])
def test_opcheck_of_16_bits(name, dtype):
    args, options = operands(name, False)
    args = [x.to(dtype) if i < 3 else x for i, x in enumerate(args)]
    torch.library.opcheck(torch.ops.fovea.attention.default, args, options)
    assert torch.ops.fovea.attention(*args, **options)[1].dtype is torch.float32
