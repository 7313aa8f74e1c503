"""fovea.torch.attention under torch.func, in graphs of all kinds, under autocast, and with all kinds of tensors."""

import subprocess
import sys

import pytest
import torch
from torch import func

import fovea
import fovea.torch
from fovea.torch import attention


def qkv(*batch, keys=6, heads=2):
    return torch.randn(*batch, 4, 5, 8), torch.randn(*batch, heads, keys, 8), torch.randn(*batch, heads, keys, 8)


LENS, MASK = torch.tensor([3, 6]), torch.tensor([[True, False, True, True, True, True]])
# Options that are the same for all examples, and tensors of which each example has its own.
MAPPED = {
    "plain": ({}, {}),
    "lengths": ({"kv_lens": LENS, "causal": "bottom_right"}, {}),
    "own lengths": ({"window": (2, 0), "causal": 2}, {"kv_lens": torch.tensor([[3, 6], [1, 2], [5, 4]])}),
    "own masks": ({}, {"mask": torch.arange(18).view(3, 6) % 4 > 0}),
    "own biases": ({"mask": MASK}, {"bias": torch.arange(90.0).view(3, 5, 6) % 7}),
    "own sinks": ({"softcap": 2.0}, {"sinks": torch.arange(12.0).view(3, 4) / 6}),
    "own slopes": ({}, {"alibi": torch.arange(12.0).view(3, 4) / 12}),
    "bias of the batch": ({"bias": torch.arange(48.0).view(2, 4, 1, 6) % 5}, {}),
}


@pytest.mark.parametrize("name", MAPPED)
def test_vmap_is_a_loop(name):
    """Values, gradients of each example, gradients through vmap, and in the other order."""
    options, own = MAPPED[name]
    q, k, v = qkv(3, 2)
    q = q.movedim(0, 2)

    def one(q, k, own):
        return attention(q, k, v[0], **options, **own)

    def loss(q, k, own):
        return one(q, k, own).square().sum()

    calls = [(q[:, :, i], k[i], {n: x[i] for n, x in own.items()}) for i in range(3)]
    dims = (2, 0, 0)
    assert torch.equal(func.vmap(one, dims)(q, k, own), torch.stack([one(*c) for c in calls]))
    wanted = torch.stack([func.grad(loss)(*c) for c in calls])
    torch.testing.assert_close(func.vmap(func.grad(loss), dims)(q, k, own), wanted)
    through = func.grad(lambda q: func.vmap(loss, dims)(q, k, own).sum())(q)
    torch.testing.assert_close(through, wanted.movedim(0, 2))


def test_vmap_of_packed_sequences_and_of_gradients_of_a_bias():
    cu = torch.tensor([0, 2, 5])
    x = torch.randn(3, 4, 5, 8)
    packed = lambda x: attention(x, x, x, q_cu_seqlens=cu, kv_cu_seqlens=cu, layout="htd", causal=True)  # noqa: E731
    assert torch.equal(func.vmap(packed)(x), torch.stack([packed(x[i]) for i in range(3)]))
    q, k, v = qkv(3, 2)
    loss = lambda bias, q, k, v: attention(q, k, v, bias=bias).square().sum()  # noqa: E731
    bias = torch.zeros(5, 6)
    got = func.vmap(func.grad(loss), (None, 0, 0, 0))(bias, q, k, v)
    torch.testing.assert_close(got, torch.stack([func.grad(loss)(bias, q[i], k[i], v[i]) for i in range(3)]))


def test_func_equals_autograd():
    q, k, v = qkv(2)
    f = lambda q: attention(q, k, v, softcap=1.0, causal="bottom_right")  # noqa: E731
    leaf = q.clone().requires_grad_()
    want = torch.autograd.grad(f(leaf).square().sum(), leaf)[0]
    assert torch.equal(func.grad(lambda q: f(q).square().sum())(q), want)
    out, pull = func.vjp(f, q)
    assert torch.equal(pull(2 * out)[0], want)
    small = lambda x: attention(x, x, x).flatten()  # noqa: E731
    x = torch.randn(1, 1, 2, 3)
    jacobian = func.jacrev(small)(x)
    assert torch.equal(jacobian[4], func.grad(lambda x: small(x)[4])(x))
    module = torch.nn.Linear(8, 8)
    call = lambda p: attention(func.functional_call(module, p, (q,)), k, v).sum()  # noqa: E731
    assert func.grad(call)(dict(module.named_parameters()))["weight"].abs().max() > 0


def test_derivatives_that_do_not_exist_say_so():
    q, k, v = qkv(2)
    leaf = q.clone().requires_grad_()
    first = torch.autograd.grad(attention(leaf, k, v).square().sum(), leaf, create_graph=True)[0]
    with pytest.raises(NotImplementedError, match="fovea.torch.attention.*second derivative"):
        first.sum().backward()
    with pytest.raises(NotImplementedError, match="fovea.torch.attention.*second derivative"):
        func.jacrev(func.grad(lambda q: attention(q, k, v).square().sum()))(q)
    with pytest.raises(NotImplementedError, match="fovea.torch.attention.*forward"):
        func.jvp(lambda q: attention(q, k, v), (q,), (q,))
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(q, q)
        for mode in (torch.enable_grad, torch.no_grad):
            with pytest.raises(NotImplementedError, match="fovea.torch.attention.*forward"), mode():
                attention(dual, k, v)


class Many(torch.nn.Module):
    """Calls of many kinds in one graph."""

    def __init__(self):
        super().__init__()
        self.sinks, self.slopes = torch.nn.Parameter(torch.randn(4)), torch.nn.Parameter(torch.rand(4))
        self.table = torch.nn.Parameter(torch.randn(4, 8))
        self.relative = fovea.Relative.t5(self.table, bidirectional=True, max_distance=9)

    def forward(self, q, k, v, lens, mask):
        out = attention(q, k, v, kv_lens=lens, causal="bottom_right", softcap=2.0, sinks=self.sinks)
        more, lse = attention(q, k, v, mask=mask, window=(3, None), alibi=self.slopes, scale=0.3, return_lse=True)
        starts = torch.ones_like(lens)
        last = attention(q, k, v, relative=self.relative, causal=q.shape[2] - 3, kv_starts=starts, out_layout="bthd")
        return out + more * lse.exp()[..., None] + last.transpose(1, 2)


def inputs(batch=2, rows=5):
    torch.manual_seed(batch)
    q, k, v = torch.randn(batch, 4, rows, 8), torch.randn(batch, 2, 6, 8), torch.randn(batch, 2, 6, 8)
    return q, k, v, 3 + torch.arange(batch) % 4, torch.rand(batch, 1, rows, 6) > 0.3


def same_with_gradients(model, compiled, arguments):
    want, got = model(*arguments), compiled(*arguments)
    torch.testing.assert_close(got, want, rtol=0, atol=2e-6)
    parameters = list(model.parameters())
    wanted = torch.autograd.grad(want.square().sum(), parameters)
    for a, b in zip(torch.autograd.grad(got.square().sum(), parameters), wanted):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_one_graph_with_all_options_and_dynamic_shapes(backend):
    model = Many()
    compiled = torch.compile(model, fullgraph=True, backend=backend, dynamic=True)
    same_with_gradients(model, compiled, inputs(3))
    with torch._dynamo.config.patch(error_on_recompile=True):
        same_with_gradients(model, compiled, inputs(7, 9))


def test_compiled_functions_of_torch_func():
    q, k, v = qkv(2)
    f = lambda q: attention(q, k, v, causal="bottom_right").square().sum()  # noqa: E731
    for function, x in ((func.grad(f), q), (func.vmap(f), qkv(3, 2)[0])):
        torch.testing.assert_close(torch.compile(function, fullgraph=True, backend="eager")(x), function(x))


def test_programs_run_in_another_process(tmp_path):
    """torch.export, strict and not, and jit.trace: saved here, loaded where only torch and fovea.torch were imported"""

    class Few(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.sinks = torch.nn.Parameter(torch.randn(4))

        def forward(self, q, k, v, lens, mask):
            return attention(q, k, v, kv_lens=lens, mask=mask, causal=q.shape[2] - 3, sinks=self.sinks)

    model, arguments = Few(), inputs()
    batch = torch.export.Dim("batch", max=1024)
    shapes = tuple({0: batch} for _ in arguments)
    for strict in (False, True):
        program = torch.export.export(model, arguments, dynamic_shapes=shapes, strict=strict)
        assert "fovea.attention.default" in [str(node.target) for node in program.graph.nodes]
        torch.export.save(program, str(tmp_path / f"{strict}.pt2"))
    traced = torch.jit.trace(model, arguments)
    traced.save(str(tmp_path / "traced.pt"))
    other = inputs(3)
    torch.save([x.detach() for x in (*other, model(*other))], tmp_path / "values.pt")
    code = (
        "import sys, torch, fovea.torch\n"
        "*x, want = torch.load(sys.argv[1] + '/values.pt')\n"
        "programs = [torch.export.load(f'{sys.argv[1]}/{strict}.pt2').module() for strict in (False, True)]\n"
        "for run in (*programs, torch.jit.load(sys.argv[1] + '/traced.pt')):\n"
        "    assert torch.equal(run(*x), want)\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code, str(tmp_path)], check=True)


def test_tracers_keep_the_call():
    from torch._subclasses import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    first, other = (*qkv(2), LENS), (*qkv(2), LENS - 1)
    f = lambda q, k, v, lens: attention(q, k, v, kv_lens=lens, q_starts=[0, 1])  # noqa: E731
    for mode in ("real", "fake", "symbolic"):
        assert torch.equal(make_fx(f, tracing_mode=mode)(*first)(*other), f(*other)), mode
    gradient = func.grad(lambda *x: f(*x).square().sum())
    graph = make_fx(gradient)(*first)
    torch.testing.assert_close(graph(*other), gradient(*other))
    assert torch.equal(torch.fx.symbolic_trace(f)(*other), f(*other))
    with FakeTensorMode() as mode:
        assert f(*(mode.from_tensor(x) for x in first)).shape == first[0].shape
    meta = [x.to("meta").requires_grad_() for x in first[:3]]
    out = attention(*meta, out_layout="bthd", causal="bottom_right")
    out.sum().backward()
    assert out.is_meta and out.shape == (2, 5, 4, 8) and meta[1].grad.shape == first[1].shape


def test_script_takes_the_operation():
    def f(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor):
        return torch.ops.fovea.attention(q, k, v, causal="bottom_right")[0]

    arguments = qkv(2)
    assert torch.equal(torch.jit.script(f)(*arguments), attention(*arguments, causal="bottom_right"))


KINDS = {
    "sparse_coo": lambda q: q.to_sparse(),
    "sparse_csr": lambda q: q[0, 0].to_sparse_csr(),
    "mkldnn": lambda q: q.to_mkldnn(),
    "nested": lambda q: torch.nested.nested_tensor([q[0], q[1]]),
    "quantized": lambda q: torch.quantize_per_tensor(q, 0.1, 0, torch.qint8),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_tensors_that_it_does_not_take(kind):
    """The sentence is that of fovea.attention(), whether gradients are wanted or not."""
    q, k, v = qkv(2)
    leaf = q.clone().requires_grad_()
    make = KINDS[kind]
    for name, tensors in (("q", (make(q), k, v)), ("k", (q, make(k), v)), ("k", (leaf, make(k), v))):
        with pytest.raises(TypeError, match=f"^{name} (has the layout|is) .*{kind}.*: pass "):
            attention(*tensors)


WRONG = [
    {"kv_lens": [1.5, 2]}, {"kv_lens": 3}, {"kv_lens": "ab"}, {"kv_lens": [1, 2, 3]}, {"kv_lens": [6, 9]},
    {"kv_lens": [10**30, 1]}, {"layout": "abcd"}, {"layout": 3}, {"out_layout": "htd"}, {"window": 3},
    {"window": (1, 2, 3)}, {"window": (1.5, 2)},
    {"causal": "foo"}, {"causal": 1.5}, {"causal": [1, 2, 3]}, {"causal": 10**30}, {"causal": 1, "q_offsets": [1, 1]},
    {"scale": "a"}, {"softcap": -1.0}, {"mask": torch.zeros(5, 6)}, {"mask": [[True] * 6] * 5}, {"sinks": [1.0] * 4},
    {"bias": torch.zeros(5, 6, dtype=torch.bfloat16)}, {"arithmetic": "x"}, {"q_cu_seqlens": [0, 3]},
    {"is_causal": True}, {"atn": None},
    {"relative": 1}, {"relative": fovea.Relative.toeplitz(torch.zeros(3)), "alibi": torch.zeros(4)},
]  # fmt: skip


@pytest.mark.parametrize("options", WRONG, ids=str)
def test_wrong_arguments_have_one_sentence(options):
    """With gradients it is that of fovea.attention()."""
    q, k, v = qkv(2)
    with pytest.raises((TypeError, ValueError, OverflowError)) as plain:
        fovea.attention(q, k, v, **options)
    with pytest.raises(plain.type) as recorded:
        attention(q.requires_grad_(), k, v, **options)
    assert str(recorded.value) == str(plain.value)


def test_subclasses_inference_and_views():
    class Mine(torch.Tensor):
        pass

    q, k, v = qkv(2)
    want = attention(q, k, v)
    got = attention(q.as_subclass(Mine), k, v)
    assert type(got) is Mine and torch.equal(got.as_subclass(torch.Tensor), want)
    leaf = q.clone().requires_grad_()
    attention(leaf.as_subclass(Mine), k, v).as_subclass(torch.Tensor).sum().backward()
    assert leaf.grad.abs().max() > 0
    with torch.inference_mode():
        out = attention(q.clone(), k, v)
        assert out.is_inference() and torch.equal(out, want)
    assert torch.equal(attention(torch._neg_view(q), k, v), attention(-q, k, v))
    with pytest.raises(TypeError, match="q must be an array"):
        attention([1.0], k, v)


def test_what_has_no_gradient_says_so():
    q, k, v = qkv(2)
    leaf = q.clone().requires_grad_()
    outputs = {"out": torch.empty_like(q), "return_weights": True, "return_scores": "raw", "top_keys": 1}
    for name, value in outputs.items():
        with pytest.raises(NotImplementedError, match=f"fovea.torch.attention: {name} has no gradient"):
            attention(leaf, k, v, **{name: value})


@pytest.mark.parametrize("grad", [False, True])
def test_causal_true_means_the_same(grad):
    """As in fovea.attention: as many queries as keys, or a sentence; packed, for each sequence."""
    q, k, v = qkv(2)
    q.requires_grad_(grad)
    with pytest.raises(ValueError, match="causal=True is ambiguous for 5 queries and 6 keys"):
        attention(q, k, v, causal=True)
    x = torch.randn(4, 5, 8, requires_grad=grad)
    packed = {"q_cu_seqlens": [0, 2, 5], "layout": "htd", "causal": True}
    with pytest.raises(ValueError, match="causal=True is ambiguous"):
        attention(x, x, x, kv_cu_seqlens=[0, 3, 5], **packed)
    out = attention(x, x, x, kv_cu_seqlens=[0, 2, 5], **packed)
    assert torch.equal(out, attention(x, x, x, kv_cu_seqlens=[0, 2, 5], **packed | {"causal": "top_left"}))
    y = torch.randn(2, 5, 4, 8, requires_grad=grad)
    for causal in (True, "top_left", "bottom_right", 0, [0, 0]):
        want = fovea.attention(*[y.detach()] * 3, causal=causal, layout="bthd")
        assert torch.equal(attention(y, y, y, causal=causal, layout="bthd"), want)
    assert torch.equal(attention(y, y, y, causal=False), fovea.attention(*[y.detach()] * 3))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_is_that_of_torch(dtype):
    q, k, v = qkv(2, heads=4)
    k = k.to(dtype)
    leaf = q.clone().requires_grad_()
    sdpa = torch.nn.functional.scaled_dot_product_attention
    bias = torch.randn(5, 6)
    with torch.autocast("cpu", dtype=dtype):
        want, got = sdpa(leaf, k, v, bias), attention(leaf, k, v, bias=bias)
        wanted, gradient = (torch.autograd.grad(x.float().square().sum(), leaf)[0] for x in (want, got))
        with torch.no_grad():
            assert torch.equal(attention(q, k, v, bias=bias), got)
        again = attention(leaf, k, v, softcap=2.0).sum()  # in float32, also where backward runs under autocast
        inside = torch.autograd.grad(again, leaf, retain_graph=True)[0]
        with torch.autocast("cpu", enabled=False):
            assert attention(q, k, v).dtype is torch.float32
            assert torch.equal(torch.autograd.grad(again, leaf)[0], inside)
    assert got.dtype is want.dtype is dtype and gradient.dtype is wanted.dtype is torch.float32
    torch.testing.assert_close(got, want, rtol=0.02, atol=0.02)
    torch.testing.assert_close(gradient, wanted, rtol=0.05, atol=0.05)
    assert attention(q, k, v).dtype is torch.float32  # mixed types, as without autocast


def tangent(f, x):
    with torch.autograd.forward_ad.dual_level():
        return torch.autograd.forward_ad.unpack_dual(f(torch.autograd.forward_ad.make_dual(x, x))).tangent


def torch_does_it(f, x):
    from torch.fx.experimental.proxy_tensor import make_fx

    return {
        "vmap": lambda: func.vmap(f)(torch.stack([x, 2 * x])),
        "jvp": lambda: func.jvp(f, (x,), (x,))[1],
        "forward mode": lambda: tangent(f, x),
        "make_fx": lambda: make_fx(f)(x)(2 * x),
        "jit.trace": lambda: torch.jit.trace(f, (x,), check_trace=False)(2 * x),
        "vmap of grad": lambda: func.vmap(func.grad(lambda x: f(x).square().sum()))(torch.stack([x, 2 * x])),
        "compiled": lambda: torch.compile(f, fullgraph=True, backend="eager")(x),
        "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16)(f)(x).float(),
    }


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("how", torch_does_it(None, None))
@pytest.mark.parametrize("what", ["fused", "value dim", "module with weights"])
def test_enabled_attention_is_that_of_torch(what, how):
    """Under what watches or maps calls: torch's numbers, or the exception that torch raises."""
    module = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval().requires_grad_(False)
    k, v = torch.randn(2, 4, 6, 8), torch.randn(2, 4, 6, 12)
    sdpa = torch.nn.functional.scaled_dot_product_attention
    f, x = {
        "fused": (lambda q: sdpa(q, k, k), torch.randn(2, 4, 5, 8)),
        "value dim": (lambda q: sdpa(q, k, v), torch.randn(2, 4, 5, 8)),
        "module with weights": (lambda x: module(x, 2 * x, x)[1], torch.randn(2, 5, 8)),
    }[what]
    run = torch_does_it(f, x)[how]
    try:
        want = run()
    except (NotImplementedError, RuntimeError) as error:
        with fovea.torch.enable(), pytest.raises(type(error)) as raised:
            run()
        assert str(raised.value)[:60] == str(error)[:60]
    else:
        with fovea.torch.enable():
            got = run()
        assert got.stride() == want.stride()
        torch.testing.assert_close(got, want, rtol=0, atol=0.02 if how == "autocast" else 2e-5)
