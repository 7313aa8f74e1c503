"""Gradients of fovea.torch.attention against float64, for whatever attention takes."""

import random

import eager
import pytest
import torch
import torch.utils.checkpoint

import fovea.torch


def call(seed):
    """({q, k, v and tensors with gradients}, options): random ones."""
    pick = random.Random(seed)
    torch.manual_seed(seed)
    batch, kv_heads, groups = pick.choice([1, 2, 3]), pick.choice([1, 2]), pick.choice([1, 2])
    dim, value_dim = 8, pick.choice([8, 5])
    heads, q_len, kv_len = kv_heads * groups, pick.choice([1, 4, 7]), pick.choice([4, 7, 9])
    if pick.random() < 0.3:
        kv_len = q_len
    options, sequences = {}, batch
    kind = pick.choice(["dense", "dense", "padded", "packed"])
    layout = pick.choice(["bhtd", "bthd"])
    if kind == "packed":
        layout = pick.choice(["htd", "thd", "bhtd"])
        batch, sequences = 1, 3
        for name, tokens in (("q_cu_seqlens", q_len), ("kv_cu_seqlens", kv_len)):
            inner = sorted(pick.choices(range(tokens + 1), k=3))
            options[name] = [pick.choice([0, min(1, inner[0])]), *inner]
    options["layout"] = layout
    if pick.random() < 0.5:
        options["out_layout"] = pick.choice(["htd", "thd"] if len(layout) == 3 else ["bhtd", "bthd"])
    if kind == "padded":
        for side, tokens in (("q", q_len), ("kv", kv_len)):
            if pick.random() < 0.7:
                options[f"{side}_lens"] = [pick.randint(0, tokens) for _ in range(batch)]
            if pick.random() < 0.7:
                lens = options.get(f"{side}_lens", [0] * batch)
                options[f"{side}_starts"] = [pick.randint(0, tokens - n) for n in lens]
    offsets = [pick.randint(0, 4) for _ in range(sequences)]
    options["causal"] = pick.choice([None, None, "top_left", "bottom_right", 2, offsets])
    if options["causal"] is None and pick.random() < 0.3:
        options["q_offsets"] = [pick.randint(0, 3) for _ in range(sequences)]
    if pick.random() < 0.3:
        options["window"] = pick.choice([(2, 1), (3, None), (None, 2), (0, 0)])
    if pick.random() < 0.3:
        options["scale"] = pick.choice([0.4, -0.3])
    if pick.random() < 0.4:
        options["softcap"] = 1.5
    if pick.random() < 0.3:
        shape = pick.choice([(q_len, kv_len), (batch, 1, 1, kv_len), (batch, heads, q_len, kv_len)])
        options["mask"] = torch.rand(shape) > 0.3
    tensors = {}
    if pick.random() < 0.3:
        shapes = [(kv_len,), (heads, 1, kv_len), (batch, 1, q_len, kv_len), (1, heads, q_len, kv_len)]
        tensors["bias"] = torch.randn(pick.choice(shapes))
    if pick.random() < 0.3:
        tensors["sinks"] = torch.randn(heads)
    position = pick.choice([None, None, "alibi", "t5", "toeplitz", "window_2d"])
    if position == "alibi":
        tensors["alibi"] = torch.rand(pick.choice([(heads,), (sequences, heads)]))
    elif position:
        t5 = {"bidirectional": pick.random() < 0.5, "max_distance": 9}
        numbers = {"t5": t5, "window_2d": {"height": 4, "width": 4}}.get(position, {})
        entries = {"t5": 8, "toeplitz": 7, "window_2d": 49}[position]
        shapes = [(entries,), (heads, entries), (sequences, heads, entries), (1, 1, entries)]
        tensors["table"] = torch.randn(pick.choice(shapes))
        options["relative"] = (position, numbers)
        if position == "window_2d":
            options.pop("q_offsets", None)
            options["causal"] = pick.choice([None, "top_left"])
    shapes = {"q": (heads, q_len, dim), "k": (kv_heads, kv_len, dim), "v": (kv_heads, kv_len, value_dim)}
    for name, shape in shapes.items():
        x = torch.randn(batch, *shape)
        x = x.transpose(1, 2) if layout.endswith("thd") else x
        tensors[name] = (x[0] if len(layout) == 3 else x).contiguous()
    return tensors, options


def results(function, tensors, options, lse):
    """(out, lse, gradients by name) of a call whose loss weighs every number of out, and of lse if wanted."""
    leaves = {name: x.detach().requires_grad_() for name, x in tensors.items()}
    out, found = function(leaves, dict(options))
    torch.manual_seed(1)
    loss = (out.double() * torch.randn(out.shape, dtype=torch.float64)).sum()
    weight = torch.randn(found.shape, dtype=torch.float64)
    if lse:
        loss = loss + torch.where(found > -torch.inf, found * weight, 0.0).sum()
    grads = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
    return out, found, {n: torch.zeros_like(x) if g is None else g for (n, x), g in zip(leaves.items(), grads)}


def ours(x, options):
    if "relative" in options:
        kind, numbers = options["relative"]
        options["relative"] = getattr(fovea.Relative, kind)(x["table"], **numbers)
    given = {name: y for name, y in x.items() if name != "table"}
    return fovea.torch.attention(**given, **options, return_lse=True)


def reference(x, options):
    if "relative" in options:
        kind, numbers = options["relative"]
        options["relative"] = (kind, x["table"], numbers)
    return eager.attention(**{name: y for name, y in x.items() if name != "table"}, **options)


def close(got, want, what, tolerance=1e-5):
    bound = tolerance * max(want.abs().max().item(), 1) if want.numel() else 0
    assert got.shape == want.shape and (not want.numel() or (got - want).abs().max() <= bound), what


@pytest.mark.parametrize("seed", range(8))
def test_gradients_of_random_calls(seed):
    """Fifteen calls a seed: what differs in the options is drawn in call()."""
    for number in range(15 * seed, 15 * seed + 15):
        tensors, options = call(number)
        want = results(reference, {n: x.double() for n, x in tensors.items()}, options, number % 2)
        got = results(ours, tensors, options, number % 2)
        finite = want[1] > -torch.inf
        assert torch.equal(got[1] > -torch.inf, finite), number
        close(got[0], want[0], number)
        close(got[1][finite], want[1][finite], number)
        for name in tensors:
            close(got[2][name], want[2][name], (number, name))
        with torch.no_grad():
            assert torch.equal(ours(tensors, dict(options))[0], got[0]), number


def test_blocks_of_rows_and_of_sequences(monkeypatch):
    """As above, with so few weights at a time that each call takes many blocks."""
    monkeypatch.setattr(fovea.torch.autograd, "_BLOCK", 40)
    test_gradients_of_random_calls(1)


# Cases that torch's kernel serves, by a mask that Fovea makes or is given, and others.
PADDED = {
    "top left": {"causal": "top_left"},
    "bottom right": {"causal": "bottom_right"},
    "mask and corner": {"causal": "bottom_right", "mask": torch.arange(7) > 1},
    "lengths": {"kv_lens": [4, 6], "causal": "bottom_right"},
    "starts": {"kv_starts": [3, 1], "q_starts": [1, 0], "causal": [2, 4]},
    "mask": {"mask": torch.tensor([0, 1, 1, 1, 1, 1, 0]).bool()},
    "bias": {"bias": torch.tensor([-torch.inf, 0, 1, 2, 1, 0, -torch.inf])},
    "bias of lengths": {"kv_lens": [4, 6], "bias": torch.arange(7.0), "mask": torch.arange(7) > 0},
    "window": {"kv_lens": [4, 6], "window": (2, 1), "softcap": 2.0},
    "own bias": {"mask": torch.arange(7) < 5, "bias": torch.arange(7.0, requires_grad=True)},
}


@pytest.mark.parametrize("name", PADDED)
def test_padding_is_not_read(name):
    """NaN in keys and rows that are not attended gives the gradients of zeros there, and zeros for them."""
    options = dict(PADDED[name])
    q, k, v = (torch.randn(2, 3, n, 8) for n in (5, 7, 7))
    plain = {n: x.detach() if isinstance(x, torch.Tensor) else x for n, x in options.items()}
    out, lse = eager.attention(q.double(), k.double(), v.double(), **plain)
    weigh = lambda v: eager.attention(q.double(), k.double(), v, **plain)[0].sum()  # noqa: E731
    used = torch.func.grad(weigh)(v.double()) != 0
    k, v = (torch.where(used, x, torch.nan) for x in (k, v))
    q = torch.where(lse[..., None] == -torch.inf, torch.nan, q)
    weight = torch.randn(2, 3, 5, 8)
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    got = torch.autograd.grad((fovea.torch.attention(*leaves, **options) * weight).sum(), leaves)
    clean = [x.nan_to_num().double().requires_grad_() for x in (q, k, v)]
    want = torch.autograd.grad((eager.attention(*clean, **plain)[0] * weight).sum(), clean)
    for a, b, x in zip(got, want, (q, k, v)):
        close(a, b, name)
        assert a[x.isnan()].abs().sum() == 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("options", [{"causal": True}, {"softcap": 3.0, "window": (3, 0)}], ids=["fused", "again"])
def test_16_bits(options, dtype):
    """Gradients have the type of their tensor, and the error of its rounding."""
    x = [torch.randn(2, 4, 6, 8, dtype=dtype, requires_grad=True) for _ in range(3)]
    if "softcap" in options:
        x[0] = x[0].detach().float().requires_grad_()
    want = torch.autograd.grad(fovea.torch.attention(*(y.float() for y in x), **options).sum(), x)
    got = torch.autograd.grad(fovea.torch.attention(*x, **options).float().sum(), x)
    for a, b, y in zip(got, want, x):
        assert a.dtype is y.dtype
        torch.testing.assert_close(a.float(), b.float(), rtol=0.02, atol=0.05)


@pytest.mark.parametrize("shape", [(0, 2, 3, 4), (2, 0, 3, 4), (2, 2, 0, 4), (2, 2, 3, 0)])
@pytest.mark.parametrize("options", [{}, {"softcap": 2.0}, {"causal": 0, "sinks": True}, {"kv_lens": "zeros"}])
def test_nothing_to_attend(shape, options):
    """No sequences, heads, queries or keys: gradients of zeros."""
    batch, heads, rows, keys = shape
    options = dict(options)
    if "sinks" in options:
        options["sinks"] = torch.zeros(heads, requires_grad=True)
    if "kv_lens" in options:
        options["kv_lens"] = [0] * batch
    x = [torch.randn(batch, heads, n, 8, requires_grad=True) for n in (rows, keys, keys)]
    out, lse = fovea.torch.attention(*x, **options, return_lse=True)
    leaves = x + [y for name, y in options.items() if name == "sinks"]
    grads = torch.autograd.grad(out.sum() + lse[lse > -torch.inf].sum(), leaves)
    assert all(g.shape == y.shape and g.isfinite().all() for g, y in zip(grads, leaves))
    assert keys or all(g.abs().sum() == 0 for g in grads[:3])


def test_masks_lists_and_arrays():
    numpy = pytest.importorskip("numpy")
    q, k, v = (torch.randn(2, 2, n, 8, requires_grad=True) for n in (5, 7, 7))
    seen = torch.rand(2, 1, 5, 7) > 0.4
    padding = torch.tensor([[1, 1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 1, 1, 1]]).bool()
    for mask, tensor in ((fovea.Mask.boolean(seen), seen), (fovea.Mask.key_padding(padding), padding[:, None, None]),
                         (fovea.Mask.boolean(seen, prepare=False), seen)):  # fmt: skip
        out, want = (fovea.torch.attention(q, k, v, mask=m) for m in (mask, tensor))
        assert torch.equal(out, want)
        for a, b in zip(*(torch.autograd.grad(x.square().sum(), (q, k, v)) for x in (out, want))):
            assert torch.equal(a, b)
    lens = [3, 7]
    want = fovea.torch.attention(q, k, v, kv_lens=torch.tensor(lens))
    for given in (lens, tuple(lens), numpy.array(lens), torch.tensor(lens, dtype=torch.int32)):
        out = fovea.torch.attention(q, k, v, kv_lens=given)
        assert torch.equal(out, want) and torch.autograd.grad(out.sum(), k)[0][0, :, 3:].abs().max() == 0


def test_defaults_of_torch_do_not_matter():
    q, k, v = (torch.randn(2, 2, 5, 8, requires_grad=True) for _ in range(3))
    slopes = torch.rand(2, requires_grad=True)
    calls = ({"kv_lens": [3, 5], "mask": torch.rand(5, 5) > 0.2}, {"alibi": slopes, "causal": 1, "softcap": 1.0})
    run = lambda options: torch.autograd.grad(fovea.torch.attention(q, k, v, **options).sum(), (q, k, v))  # noqa: E731
    want = [run(options) for options in calls]
    torch.set_default_dtype(torch.float64)
    try:
        with torch.device("meta"):
            got = [run(options) for options in calls]
    finally:
        torch.set_default_dtype(torch.float32)
    assert all(torch.equal(a, b) for one, other in zip(got, want) for a, b in zip(one, other))


def test_gradients_again_and_in_place():
    q, k, v = (torch.randn(1, 2, 5, 8, requires_grad=True) for _ in range(3))
    out = fovea.torch.attention(q, k, v, softcap=1.0)
    first = torch.autograd.grad(out.sum(), q, retain_graph=True)[0]
    assert torch.equal(torch.autograd.grad(out.sum(), q, retain_graph=True)[0], first)
    checkpoint = torch.utils.checkpoint.checkpoint
    again = checkpoint(lambda q: fovea.torch.attention(q, k, v, softcap=1.0).sum(), q, use_reentrant=False)
    assert torch.equal(torch.autograd.grad(again, q)[0], first)
    with torch.no_grad():
        k.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()
