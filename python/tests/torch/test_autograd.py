"""Gradients of fovea.torch.attention beside float64, for whatever attention takes."""

import random

import pytest

torch = pytest.importorskip("torch")

import eager  # noqa: E402

import fovea.torch  # noqa: E402


def call(seed):
    """({q, k, v and tensors with gradients}, options): random ones."""
    pick = random.Random(seed)
    torch.manual_seed(seed)
    batch, kv_heads, groups, dim, value_dim = pick.choice([1, 2, 3]), pick.choice([1, 2]), pick.choice([1, 2]), 8, pick.choice([8, 5])
    heads, q_len, kv_len = kv_heads * groups, pick.choice([1, 4, 7]), pick.choice([4, 7, 9])
    if pick.random() < 0.3:
        kv_len = q_len
    options, sequences = {}, batch
    kind = pick.choice(["dense", "dense", "padded", "packed"])
    layout = pick.choice(["bhtd", "bthd"])
    if kind == "packed":
        layout = pick.choice(["htd", "thd", "bhtd"])
        batch, sequences = 1, 3
        for name, tokens in (("cu_seqlens_q", q_len), ("cu_seqlens_kv", kv_len)):
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
    options["causal"] = pick.choice([None, None, "top_left", "bottom_right", 2, [pick.randint(0, 4) for _ in range(sequences)]])
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
        tensors["bias"] = torch.randn(pick.choice([(kv_len,), (heads, 1, kv_len), (batch, 1, q_len, kv_len), (1, heads, q_len, kv_len)]))
    if pick.random() < 0.3:
        tensors["sinks"] = torch.randn(heads)
    position = pick.choice([None, None, "alibi", "t5", "toeplitz", "window_2d"])
    if position == "alibi":
        tensors["alibi"] = torch.rand(pick.choice([(heads,), (sequences, heads)]))
    elif position:
        numbers = {"t5": {"bidirectional": pick.random() < 0.5, "max_distance": 9}, "window_2d": {"height": 4, "width": 4}}.get(position, {})
        entries = {"t5": 8, "toeplitz": 7, "window_2d": 49}[position]
        tensors["table"] = torch.randn(pick.choice([(entries,), (heads, entries), (sequences, heads, entries), (1, 1, entries)]))
        options["relative"] = (position, numbers)
        if position == "window_2d":
            options.pop("q_offsets", None)
            options["causal"] = pick.choice([None, "top_left"])
    shapes = {"q": (batch, heads, q_len, dim), "k": (batch, kv_heads, kv_len, dim), "v": (batch, kv_heads, kv_len, value_dim)}
    for name, shape in shapes.items():
        x = torch.randn(shape)
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
