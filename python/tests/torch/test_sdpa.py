"""F.scaled_dot_product_attention with fovea.torch.enable(): values, gradients, what goes to torch, and putting it back."""

import pytest
import torch
import torch.nn.functional as F
from processes import run
from sdpa_cases import CASES

import fovea
import fovea.torch

INF = float("inf")


def tensors(*shapes, grad=False):
    return [torch.randn(s, requires_grad=grad) for s in shapes]


def reference(q, k, v, **options):
    """torch's attention in float64, by its plain formula."""
    mask = options.pop("attn_mask", None)
    if mask is not None and mask.dtype is not torch.bool:
        mask = mask.double()
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        return F.scaled_dot_product_attention(q.double(), k.double(), v.double(), attn_mask=mask, **options)


def ran():
    return fovea.torch.counters()["fovea"].get("sdpa", 0)


@pytest.mark.parametrize(
    "name, float_mask", [(name, f) for name in CASES for f in (False, True)[: 1 + ("attn_mask" in CASES[name][3])]]
)
def test_values(name, float_mask):
    q_shape, k_shape, v_shape, options = CASES[name]
    q, k, v = tensors(q_shape, k_shape, v_shape)
    options = dict(options)
    if "attn_mask" in options:
        mask = torch.rand(options["attn_mask"]) > 0.3
        mask[..., 0] = True
        options["attn_mask"] = torch.where(mask, torch.randn(mask.shape), -INF) if float_mask else mask
    want = reference(q, k, v, **options)
    with fovea.torch.enable():
        out = F.scaled_dot_product_attention(q, k, v, **options)
    assert ran() == 1 and not fovea.torch.counters()["torch"]
    assert (out - want).abs().max() < 2e-6 * want.abs().max()


@pytest.mark.parametrize("order", ["bhtd", "bthd", "slice of bthd", "tbhd"])
def test_strides_of_outputs_are_those_of_torch(order):
    q = {
        "bhtd": lambda: torch.randn(2, 3, 8, 16),
        "bthd": lambda: torch.randn(2, 8, 3, 16).transpose(1, 2),
        "slice of bthd": lambda: torch.randn(2, 8, 9, 16)[:, :, :3].transpose(1, 2),
        "tbhd": lambda: torch.randn(8, 2, 3, 16).permute(1, 2, 0, 3),
    }[order]()
    want = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, q, q)
    with fovea.torch.enable():
        got = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, q, q)
    assert ran() == 1
    assert [x.stride() for x in got] == [x.stride() for x in want]
    assert (got[1] - want[1]).abs().max() < 4e-6


def test_strided_inputs_equal_contiguous_ones():
    packed = torch.randn(2, 8, 3, 4, 16)
    q, k, v = (x.transpose(1, 2) for x in packed.unbind(2))
    with fovea.torch.enable():
        out = F.scaled_dot_product_attention(q, k, v)
        again = F.scaled_dot_product_attention(q.contiguous(), k.contiguous(), v.contiguous())
        turned = q.transpose(2, 3).contiguous().transpose(2, 3)  # channel stride: torch's math path
        third = F.scaled_dot_product_attention(turned, k, v)
    assert torch.equal(out, again) and torch.equal(out, third) and ran() == 3


def test_masked_row():
    q, k, v = tensors((1, 2, 3, 8), (1, 2, 4, 8), (1, 2, 4, 8), grad=True)
    mask = torch.zeros(3, 4)
    mask[1] = -INF
    with fovea.torch.enable():
        out = F.scaled_dot_product_attention(q, k, v, mask)
        out.square().sum().backward()
    assert ran() == 1
    assert out[:, :, 1].abs().max() == 0
    assert all(x.grad.isfinite().all() for x in (q, k, v)) and q.grad[:, :, 1].abs().max() == 0


@pytest.mark.parametrize("name", [n for n in CASES if "value dim" not in n and n != "3-D mask"])
def test_gradients(name):
    q_shape, k_shape, v_shape, options = CASES[name]
    q, k, v = tensors(q_shape, k_shape, v_shape, grad=True)
    options = dict(options)
    if "attn_mask" in options:
        options["attn_mask"] = torch.rand(options["attn_mask"]) > 0.3
        options["attn_mask"][..., 0] = True
    want = reference(q, k, v, **options)
    weight = torch.randn(want.shape)
    grads = torch.autograd.grad((want * weight).sum(), (q, k, v))
    with fovea.torch.enable():
        out = F.scaled_dot_product_attention(q, k, v, **options)
        ours = torch.autograd.grad((out * weight).sum(), (q, k, v))
    assert ran() == 1
    for got, expected in zip(ours, grads):
        assert (got - expected).abs().max() < 4e-6 * expected.abs().max()


# Heads of query, key and value that torch takes, and Fovea does not.
HEADS = {"few keys": (6, 2, 3), "few values": (6, 3, 2), "one key": (2, 1, 2), "one value": (2, 2, 1)}


@pytest.mark.parametrize("case", ["float64", "dropout", "no keys", "gradient of values of another size", *HEADS])
def test_what_goes_to_torch(case):
    heads = HEADS.get(case, (2, 2, 2))
    q, k, v = tensors(*((1, count, 4, 8) for count in heads))
    options = {"enable_gqa": True} if heads[0] == 6 else {}
    if case == "float64":
        q, k, v = q.double(), k.double(), v.double()
    elif case == "dropout":
        options["dropout_p"] = 0.5
    elif case == "no keys":
        k, v = k[:, :, :0], v[:, :, :0]
    elif case not in HEADS:
        v = torch.randn(1, 2, 4, 12, requires_grad=True)
    torch.manual_seed(1)
    want = F.scaled_dot_product_attention(q, k, v, **options)
    torch.manual_seed(1)
    with fovea.torch.enable():
        out = F.scaled_dot_product_attention(q, k, v, **options)
    if case == "no keys":
        assert out.shape == want.shape and out.abs().max() == 0
    else:
        assert torch.equal(out, want) and ran() == 0 and sum(fovea.torch.counters()["torch"].values()) == 1


@pytest.mark.parametrize("which", range(3))
def test_a_batch_of_one_broadcasts(which):
    shared = [x[:1] if i == which else x for i, x in enumerate(tensors(*[(2, 2, 4, 8)] * 3))]
    want = F.scaled_dot_product_attention(*shared)
    with fovea.torch.enable():
        assert torch.equal(F.scaled_dot_product_attention(*shared), want) and ran() == 0


def test_grouped_heads_without_enable_gqa_are_refused_as_by_torch():
    q, k = tensors((2, 4, 5, 8), (2, 2, 5, 8))
    with fovea.torch.enable(), pytest.raises(RuntimeError, match="must match"):
        F.scaled_dot_product_attention(q, k, k)


def test_restores_exactly():
    names = {
        name: torch._C._dispatch_dump(f"aten::{name}")
        for name in (
            "_scaled_dot_product_flash_attention_for_cpu",
            "_scaled_dot_product_attention_math",
            "_native_multi_head_attention",
        )
    }
    forward = F.multi_head_attention_forward
    q = torch.randn(1, 2, 40, 8)
    want = F.scaled_dot_product_attention(q, q, q)
    fovea.torch.enable()
    assert fovea.torch.enabled() and F.multi_head_attention_forward is not forward
    assert torch.nn.attention.current_flash_attention_impl() == "FOVEA"
    fovea.torch.disable()
    assert not fovea.torch.enabled() and F.multi_head_attention_forward is forward
    assert torch.nn.attention.current_flash_attention_impl() is None
    for name, dump in names.items():
        assert torch._C._dispatch_dump(f"aten::{name}") == dump
    assert torch.equal(F.scaled_dot_product_attention(q, q, q), want) and ran() == 0


def test_scopes_nest():
    with fovea.torch.enable():
        with fovea.torch.enable():
            pass
        assert fovea.torch.enabled()
    assert not fovea.torch.enabled()
    fovea.torch.enable()
    with fovea.torch.enable():
        pass
    assert fovea.torch.enabled()


def test_another_implementation_comes_back():
    class Handle:
        removed = 0

        def remove(self):
            Handle.removed += 1

    registry = torch.nn.attention
    registry.register_flash_attention_impl("OTHER", register_fn=Handle)
    registry.activate_flash_attention_impl("OTHER")
    with fovea.torch.enable():
        assert Handle.removed == 1
    assert registry.current_flash_attention_impl() == "OTHER"
    registry.restore_flash_attention_impl()


def test_import_changes_nothing():
    code = (
        "import torch, torch.nn.functional as F; f = F.multi_head_attention_forward;"
        "d = torch._C._dispatch_dump('aten::_scaled_dot_product_flash_attention_for_cpu');"
        "import fovea.torch; assert not fovea.torch.enabled() and F.multi_head_attention_forward is f;"
        "assert d == torch._C._dispatch_dump('aten::_scaled_dot_product_flash_attention_for_cpu')"
    )
    run(code)


def test_compiled_model_with_gradients():
    q = torch.randn(2, 2, 16, 8, requires_grad=True)
    function = torch.compile(
        lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True) * 2, fullgraph=True, backend="aot_eager"
    )
    want = torch.autograd.grad((reference(q, q, q, is_causal=True) * 2).square().sum(), q)[0]
    with fovea.torch.enable():
        got = torch.autograd.grad(function(q).square().sum(), q)[0]
    assert ran() == 1
    assert (got - want).abs().max() < 4e-6 * want.abs().max()
