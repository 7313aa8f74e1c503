"""Tensors that are more, or less, than memory: negative bits, gradients, versions, layouts and wrappers."""

import contextlib

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import fovea
import fovea.torch

MADE = torch.Generator().manual_seed(8)


def normal(*shape):
    return torch.randn(shape, generator=MADE)


def negative_view(x):
    """x's numbers, by a tensor whose memory holds their negatives."""
    return torch._neg_view(-x)


def imaginary(x):
    """The same, by torch's public way: the imaginary part of a conjugate."""
    return torch.complex(x, -x).conj().imag


Q, K, V = normal(2, 4, 5, 16), normal(2, 2, 7, 16), normal(2, 2, 7, 16)
X, W, B = normal(3, 16), normal(16, 16), normal(16)


def appended(k, v):
    cache = fovea.KVCache(1, 2, 16, max_pages=8)
    sequences = [cache.add(), cache.add()]
    cache.append(0, sequences, k, v)
    return cache.attend(0, sequences, Q)


def merged(out, lse, sinks):
    return fovea.merge([out, out], [lse, lse], sinks=sinks)[0]


# name: (call, tensors that it reads)
READERS = {
    "attention": (fovea.attention, (Q, K, V)),
    "bias": (
        lambda *x: fovea.attention(Q, K, V, bias=x[0], sinks=x[1], alibi=x[2]),
        (normal(5, 7), normal(4), normal(4).abs()),
    ),
    "relative": (lambda x: fovea.attention(Q, K, V, relative=fovea.Relative.toeplitz(x)), (normal(4, 5),)),
    "lens": (lambda x: fovea.attention(Q, K, V, kv_lens=x), (torch.tensor([3, 6]),)),
    "plan": (fovea.Plan(batch=2, q_heads=4, kv_heads=2, q_len=5, kv_len=7, head_dim=16).execute, (Q, K, V)),
    "Linear": (fovea.Linear, (W, B)),
    "linear": (fovea.Linear(W, B), (X, normal(3, 16))),
    "MultiHead": (lambda *x: fovea.MultiHead(q_heads=2, q=x[0], k=W, v=W, o=W, o_bias=x[1]), (W, B)),
    "multihead": (fovea.MultiHead(q_heads=2, q=W, k=W, v=W, o=W), (X[None],)),
    "cache": (appended, (K, V)),
    "attend": (lambda x: fovea.torch.attention(x, K, V), (Q,)),
    "rope": (lambda x: fovea.Rope(16).apply(x, 3), (Q,)),
    "merge": (merged, (Q, normal(2, 4, 5), normal(4))),
    "op": (lambda *x: torch.ops.fovea.attention(*x)[0], (Q, K, V)),
}


@pytest.mark.parametrize("kind", [negative_view, imaginary])
@pytest.mark.parametrize("name", READERS)
def test_negative_bits_are_resolved(name, kind):
    call, tensors = READERS[name]
    if kind is imaginary and not tensors[0].is_floating_point():
        kind = negative_view
    results = [call(*tensors), call(*map(kind, tensors))]
    assert all(kind(x).is_neg() for x in tensors)
    if callable(results[0]):
        results = [layer(X[None]) for layer in results]
    assert torch.equal(*results)


@pytest.mark.parametrize("kind", [negative_view, imaginary])
def test_negative_bits_in_torchs_attention(kind):
    with fovea.torch.enable(), torch.no_grad():
        torch.testing.assert_close(F.scaled_dot_product_attention(*[kind(Q)] * 3), fovea.attention(Q, Q, Q))
        layer = torch.nn.MultiheadAttention(16, 2, batch_first=True).eval()
        for weights in (True, False):
            given, plain = (layer(x, x, x, need_weights=weights) for x in (kind(X[None]), X[None]))
            torch.testing.assert_close(given, plain)


def test_parameters_and_subclasses_with_negative_bits():
    class Sub(torch.Tensor):
        pass

    with torch.no_grad():
        for kind in (torch.nn.Parameter, lambda x: x.as_subclass(Sub)):
            assert torch.equal(fovea.attention(kind(negative_view(Q)), K, V), fovea.attention(Q, K, V))


def rotated(x, out):
    return fovea.Rope(16).apply(x, 0, out=out)


def attended(q, out):
    cache = fovea.KVCache(1, 2, 16, max_pages=2)
    sequences = [cache.add(), cache.add()]
    cache.append(0, sequences, K, V)
    return cache.attend(0, sequences, q, out=out)


# name: (call with out=, its first argument, the shape of out)
WRITERS = {
    "attention": (lambda q, out: fovea.attention(q, K, V, out=out), Q),
    "plan": (lambda q, out: READERS["plan"][0](q, K, V, out=out), Q),
    "linear": (lambda x, out: fovea.Linear(W)(x, out=out), X),
    "several": (lambda x, out: fovea.Linear([W])(x, out=[out])[0], X),
    "multihead": (lambda x, out: READERS["multihead"][0](x, out=out), X[None]),
    "attend": (attended, Q),
    "rope": (rotated, Q),
}


@pytest.mark.parametrize("name", WRITERS)
def test_out_is_seen_by_autograd(name):
    call, x = WRITERS[name]
    out = torch.zeros_like(x)
    scale = torch.ones((), requires_grad=True)
    product = scale * out  # whose gradient needs what out is now
    before = out._version
    assert call(x, out) is out and out._version > before
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()
    for leaf in (torch.zeros_like(x).requires_grad_(), torch.zeros_like(x).requires_grad_() * 1):
        with pytest.raises(ValueError, match="out requires a gradient, and writing to it is not recorded"):
            call(x, leaf)
        assert not leaf.any()
        with torch.no_grad():
            assert torch.equal(call(x, leaf), out)
    with pytest.raises(ValueError, match="out has torch's negative bit"):
        call(x, negative_view(torch.zeros_like(x)))
    with torch.inference_mode():
        assert torch.equal(call(x, torch.zeros_like(x)), out)


def test_no_gradient_is_lost():
    leaf = torch.zeros(4, requires_grad=True)
    lse = normal(2, 4, 5)
    for call in (
        lambda: fovea.attention(Q, K, V, sinks=leaf),
        lambda: fovea.attention(Q, K, V, alibi=leaf),
        lambda: fovea.attention(Q, K, V, relative=fovea.Relative.toeplitz(leaf[:, None])),
        lambda: fovea.merge([Q], [lse], sinks=leaf),
        lambda: fovea.merge([Q.clone().requires_grad_()], [lse]),
        lambda: fovea.Linear(W)(X.clone().requires_grad_()),
        lambda: fovea.Linear(W)(X, X.clone().requires_grad_()),
        lambda: fovea.MultiHead(q_heads=2, q=W)(X[None].clone().requires_grad_()),
        lambda: fovea.rms_norm(X, W[0].clone().requires_grad_()),
        lambda: fovea.activate(X, up=X.clone().requires_grad_()),
        lambda: fovea.Rope(16).apply(Q.clone().requires_grad_(), 0),
    ):
        with pytest.raises(ValueError, match="requires a gradient"):
            call()
        with torch.no_grad():
            call()
    import torch.autograd.forward_ad as forward

    with forward.dual_level():
        with pytest.raises(ValueError, match="q requires a gradient"):
            fovea.attention(forward.make_dual(Q, Q), K, V)
        assert torch.equal(fovea.attention(Q, K, V), READERS["plan"][0](Q, K, V))


class Wrapper(torch.Tensor):
    @staticmethod
    def __new__(cls, of):
        return torch.Tensor._make_wrapper_subclass(cls, of.shape, dtype=of.dtype, strides=of.stride())

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise AssertionError("no memory")


def emptied(x):
    x = x.clone()
    x.untyped_storage().resize_(0)
    return x


def fake(x):
    from torch._subclasses.fake_tensor import FakeTensorMode

    return FakeTensorMode().from_tensor(x)


KINDS = {
    "meta": (lambda x: x.to("meta"), "has no numbers"),
    "fake": (fake, "has no numbers"),
    "sparse": (lambda x: x.to_sparse(), "layout torch.sparse_coo: pass k.to_dense()"),
    "mkldnn": (lambda x: x.to_mkldnn(), "layout torch._mkldnn: pass k.to_dense()"),
    "nested": (lambda x: torch.nested.nested_tensor([x[0], x[0]]), "is a nested tensor: .*cu_seqlens"),
    "jagged": (lambda x: torch.nested.nested_tensor([x[0], x[0]], layout=torch.jagged), "is a nested tensor"),
    "quantized": (lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8), "is quantized: pass k.dequantize()"),
    "wrapper": (Wrapper, "is a Wrapper, which has no memory of its own"),
    "emptied": (emptied, "k cannot be read: it has no memory"),
    "conjugate": (lambda x: torch.complex(x, x).conj(), "must be float32, bfloat16 or float16, not complex64"),
    "float4": (lambda x: x.to(torch.uint8).view(torch.float4_e2m1fn_x2), "must be float32"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", KINDS)
def test_one_sentence_for_each_kind(name):
    make, sentence = KINDS[name]
    k = make(K)
    for call in (lambda: fovea.attention(Q, k, V), lambda: appended(k, V)):
        with pytest.raises(TypeError, match=sentence) as caught:
            call()
        assert "\n" not in str(caught.value)
    for call in (lambda: fovea.Linear(k), lambda: fovea.Mask.boolean(k), lambda: fovea.Rope(16).apply(Q, k)):
        with pytest.raises((TypeError, ValueError)) as caught:
            call()
        assert "\n" not in str(caught.value)


def test_one_sentence_in_transforms():
    from torch.func import functionalize, grad, jvp, vmap

    def call(q):
        return fovea.attention(q, K, V)

    for transformed in (
        lambda: vmap(call)(Q[None]),
        lambda: grad(lambda q: call(q).sum())(Q),
        lambda: jvp(call, (Q,), (Q,)),
        lambda: functionalize(call)(Q),
    ):
        for mode in (contextlib.nullcontext, torch.no_grad):
            with (
                mode(),
                pytest.raises(TypeError, match="q belongs to a transform of torch.func.*fovea.torch.attention"),
            ):
                transformed()


def test_tensors_without_symbols_of_torch():
    """Where symbols of torch do not serve, methods are called: for a type whose first tensor is odd."""

    class Odd(torch.Tensor):
        first = True

        def _neg_view(self):
            raise RuntimeError("not this time")

    with torch.no_grad():
        for _ in range(2):
            assert torch.equal(fovea.attention(negative_view(Q).as_subclass(Odd), K, V), fovea.attention(Q, K, V))
    out = torch.zeros_like(Q).as_subclass(Odd)
    before = out._version
    fovea.attention(Q, K, V, out=out)
    assert out._version > before and torch.equal(out.as_subclass(torch.Tensor), fovea.attention(Q, K, V))
    with torch.inference_mode():
        fovea.attention(Q, K, V, out=torch.zeros_like(Q).as_subclass(Odd))
    with pytest.raises(ValueError, match="out requires a gradient"):
        fovea.attention(Q, K, V, out=out.requires_grad_())
    assert np.array_equal(fovea.attention(Q, K, V), fovea.attention(Q.numpy(), K.numpy(), V.numpy()))
