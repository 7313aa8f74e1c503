"""fovea::attention: opcheck, gradients beside float64, and models compiled whole."""

import pytest

torch = pytest.importorskip("torch")

import fovea.torch  # noqa: E402

SAMPLES = {
    "plain": {},
    "causal": {"causal": "top_left"},
    "bottom right": {"causal": "bottom_right"},
    "offset": {"causal": 3},
    "offsets": {"causal": [1, 4]},
    "window": {"window": (2, 1)},
    "causal window": {"causal": "bottom_right", "window": (3, None)},
    "scale": {"scale": 0.4},
    "boolean mask": {"mask": "mask"},
    "bias": {"bias": "bias"},
    "bias and mask": {"mask": "mask", "bias": "bias"},
    "lengths": {"kv_lens": [4, 7], "q_lens": [5, 2]},
    "starts": {"kv_starts": [2, 0], "causal": "bottom_right"},
    "starts and lengths": {"kv_starts": [2, 0], "kv_lens": [3, 6], "q_starts": [1, 2], "q_lens": [3, 2], "window": (2, 0)},
    "bthd": {"layout": "bthd"},
    "bhtd to bthd": {"out_layout": "bthd"},
}


def sample(name, heads=2, grad=False):
    """(q, k, v, options) with T_q = 5, T_k = 7, H = 4 over `heads` heads of keys."""
    options = dict(SAMPLES[name])
    if "mask" in options:
        options["mask"] = (torch.rand(2, 1, 5, 7) > 0.4) | (torch.arange(7) == 6)
    if "bias" in options:
        options["bias"] = torch.randn(1, 4, 5, 7)
    for key in ("q_lens", "kv_lens", "q_starts", "kv_starts"):
        if key in options:
            options[key] = torch.tensor(options[key])
    shapes = [(2, 4, 5, 8), (2, heads, 7, 8), (2, heads, 7, 8)]
    if options.get("layout") == "bthd":
        shapes = [(b, t, h, d) for b, h, t, d in shapes]
    return *(torch.randn(s, requires_grad=grad) for s in shapes), options


def plain(q, k, v, options):
    """The formula, in the type of q."""
    o = dict(options)
    if o.get("layout") == "bthd":
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    groups = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(groups, 1) for x in (k, v))
    t_q, t_k = q.shape[2], k.shape[2]
    s = q @ k.mT * (o.get("scale") or q.shape[3] ** -0.5)
    if "bias" in o:
        s = s + o["bias"]
    row, col = torch.arange(t_q).view(1, 1, -1, 1), torch.arange(t_k).view(1, 1, 1, -1)
    row = row - o.get("q_starts", torch.tensor([0, 0])).view(-1, 1, 1, 1)
    lens_q = o.get("q_lens", torch.tensor([t_q, t_q])).view(-1, 1, 1, 1)
    starts = o.get("kv_starts", torch.tensor([0, 0])).view(-1, 1, 1, 1)
    lens_k = o["kv_lens"].view(-1, 1, 1, 1) if "kv_lens" in o else t_k - starts
    col = col - starts
    seen = (col >= 0) & (col < lens_k) & (row >= 0) & (row < lens_q)
    corner = {"bottom_right": lens_k - lens_q, "top_left": 0}
    causal, window = o.get("causal"), o.get("window")
    if isinstance(causal, str):
        row = row + corner[causal]
    elif causal is not None:
        row = row + torch.tensor(causal).view(-1, 1, 1, 1)
    if causal is not None:
        seen = seen & (col <= row)
    if window is not None:
        seen = seen & (col >= row - window[0])
        seen = seen if window[1] is None else seen & (col <= row + window[1])
    if "mask" in o:
        seen = seen & o["mask"]
    s = s.masked_fill(~seen, -torch.inf)
    p = torch.where(seen.any(-1, keepdim=True).expand_as(s), s, 0.0).softmax(-1) * seen.any(-1, keepdim=True)
    out = p @ v
    return out.transpose(1, 2) if (o.get("out_layout") or o.get("layout")) == "bthd" else out


@pytest.mark.parametrize("heads", [4, 2])
@pytest.mark.parametrize("name", SAMPLES)
def test_gradients(name, heads):
    q, k, v, options = sample(name, heads, grad=True)
    want = plain(q.double(), k.double(), v.double(), options)
    weight = torch.randn(want.shape)
    out = fovea.torch.attention(q, k, v, **options)
    assert (out - want).abs().max() < 3e-6 * want.abs().max()
    expected = torch.autograd.grad((want * weight).sum(), (q, k, v))
    grads = torch.autograd.grad((out * weight).sum(), (q, k, v))
    for got, wanted in zip(grads, expected):
        assert (got - wanted).abs().max() < 4e-6 * wanted.abs().max()
    with torch.no_grad():
        assert torch.equal(fovea.torch.attention(q, k, v, **options), out)


def operands(name, grad):
    from fovea.torch import compile as module

    q, k, v, options = sample(name, grad=grad)
    causal, offsets, window = module._to_op(options.pop("causal", None), options.pop("window", None))
    return (q, k, v), {"causal": causal, "offsets": offsets, "window": window, **options}


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", SAMPLES)
def test_opcheck(name, grad):
    args, options = operands(name, grad)
    torch.library.opcheck(torch.ops.fovea.attention.default, args, options)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["plain", "bias", "bhtd to bthd"])
def test_opcheck_of_16_bits(name, dtype):
    args, options = operands(name, False)
    args = [x.to(dtype) for x in args]
    torch.library.opcheck(torch.ops.fovea.attention.default, args, options)
    assert torch.ops.fovea.attention(*args, **options)[1].dtype is torch.float32


def test_gradients_that_do_not_exist_say_so():
    q, k, v, _ = sample("plain", grad=True)
    for name, value in (("softcap", 5.0), ("sinks", torch.zeros(4))):
        with pytest.raises(NotImplementedError, match=name):
            fovea.torch.attention(q, k, v, **{name: value})
    with pytest.raises(NotImplementedError, match="bias"):
        fovea.torch.attention(q, k, v, bias=torch.zeros(1, 1, 5, 7, requires_grad=True))
    assert not fovea.torch.attention(q, k, v, return_lse=True)[1].requires_grad
    with pytest.raises(ValueError, match="corner"):
        fovea.torch.attention(q, k, v, causal=True)


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.o = torch.nn.Linear(16, 48), torch.nn.Linear(16, 16)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, 2, 8)).unbind(2)
        out = fovea.torch.attention(q, k, v, causal="bottom_right", window=(4, 0), softcap=None, layout="bthd")
        return x + self.o(out.flatten(2))


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_a_model_compiled_whole(backend):
    """Slow is inductor, which runs a C++ compiler: aot_eager proves that there is one graph, and its gradients."""
    model = Layer()
    x = torch.randn(2, 9, 16)
    want = model(x)
    gradient = torch.autograd.grad(want.square().sum(), model.qkv.weight)[0]
    try:
        compiled = torch.compile(model, fullgraph=True, backend=backend)
        got = compiled(x)
    except Exception as error:
        if backend == "inductor" and "compiler" in str(error).lower():
            pytest.skip("inductor needs a C++ compiler")
        raise
    assert (got - want).abs().max() < 1e-6
    again = torch.autograd.grad(got.square().sum(), model.qkv.weight)[0]
    assert (again - gradient).abs().max() < 1e-5 * gradient.abs().max()
    with torch.no_grad():
        assert (compiled(x) - want).abs().max() < 1e-6
