"""fovea.MultiHead over a fovea.KVCache: the bits of its steps, in any chunks; errors that lose nothing."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import fovea

HEADS, KV, D, VALUES, FEATURES, OUT, T = 4, 2, 16, 8, 24, 20, 270
TYPES = ["float32", "bfloat16", "float16", "int8", "int4", ("int8", "float32"), ("float16", "int8"), ("int8", "int4")]


@pytest.fixture
def w(normal):
    sizes = dict(q=(HEADS * D, FEATURES), k=(KV * D, FEATURES), v=(KV * VALUES, FEATURES), o=(OUT, HEADS * VALUES))
    return {name: normal(*size) / 4 for name, size in sizes.items()}


@pytest.fixture
def norms(normal):
    return dict(q_norm=1 + normal(D) / 4, k_norm=1 + normal(D) / 4, norm_eps=1e-5)


def make(w, types="float32", **options):
    return fovea.MultiHead(q_heads=HEADS, kv_heads=KV, **{"causal": True, "cache_dtype": types} | w | options)


def cache_of(types="float32", **options):
    k, v = types if isinstance(types, tuple) else (types, types)
    return fovea.KVCache(2, KV, D, value_dim=VALUES, k_dtype=k, v_dtype=v, **{"max_pages": 12} | options)


def in_chunks(layer, x, size, types, **options):
    """Each row of x is a sequence, whose tokens come `size` at a time."""
    cache = cache_of(types, **options)
    sequences = [cache.add() for _ in x]
    parts = [layer(x[:, i : i + size], cache=cache, layer=1, sequences=sequences) for i in range(0, x.shape[1], size)]
    assert [cache.length(s, 1) for s in sequences] == [x.shape[1]] * len(x) and cache.length(sequences[0]) == 0
    return parts


@pytest.mark.parametrize("types", TYPES, ids=str)
def test_chunks_have_equal_bits(w, norms, normal, tiers, types):
    layer, x, rope = make(w, types, **norms), normal(2, T, FEATURES), fovea.Rope(D)
    whole = tiers(lambda: in_chunks(make(w, types, **norms), x, T, types, rope=rope)[0])
    for size in (1, 7):
        assert np.array_equal(np.concatenate(in_chunks(layer, x, size, types, rope=rope), 1), whole)


@pytest.mark.parametrize("types", TYPES, ids=str)
def test_has_the_bits_of_its_steps(w, normal, types):
    x, rope, cache = normal(1, T, FEATURES), fovea.Rope(D), cache_of(types, rope=fovea.Rope(D))
    q, k, v = fovea.Linear([w["q"], w["k"], w["v"]], heads=[HEADS, KV, KV])(x)
    s = cache.add()
    cache.append(0, s, k, v)
    heads = cache.attend(0, s, rope.apply(q, 0), causal="bottom_right", out_layout="bthd")
    expected = fovea.Linear(w["o"])(heads.reshape(1, T, -1))
    assert np.array_equal(in_chunks(make(w, types), x, T, types, rope=rope)[0], expected)
    fused = make(dict(fused=np.concatenate([w["q"], w["k"], w["v"]]), o=w["o"], head_dim=D, value_dim=VALUES), types)
    assert np.array_equal(np.concatenate(in_chunks(fused, x[0][None], 50, types, rope=rope), 1), expected)


@pytest.mark.parametrize("over", [False, True])
def test_norms_against_float64(w, norms, normal, over):
    x = normal(2, 9, FEATURES)
    q, k, v = ((x.astype(float) @ w[n].T).reshape(2, 9, -1, D if n in "qk" else VALUES).swapaxes(1, 2) for n in "qkv")
    q, k = (a / np.sqrt((a**2).mean(-1, keepdims=True) + 1e-5) * norms[n] for a, n in ((q, "q_norm"), (k, "k_norm")))
    scores = q @ k.repeat(2, 1).swapaxes(-1, -2) / np.sqrt(D) + np.triu(np.full((9, 9), -np.inf), 1)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    out = (p / p.sum(-1, keepdims=True)) @ v.repeat(2, 1)
    expected = out.swapaxes(1, 2).reshape(2, 9, -1) @ w["o"].T
    got = in_chunks(make(w, **norms), x, 9, "float32")[0] if over else make(w, types=None, **norms)(x)
    np.testing.assert_allclose(got, expected, atol=5e-6)
    with pytest.raises(TypeError, match="one type"):
        make(w, **norms, o_bias=np.zeros(OUT, np.float16))


def test_lengths_packed_and_columns(w, normal):
    """Padded, packed, with masks: a prefill and a decode."""
    x = normal(2, 10, FEATURES)
    options = dict(mask="key_padding", sinks=True)
    layer, packed, cache = make(w, **options), make(w, q_tokens=32), cache_of()
    a, b = cache.add(), cache.add()
    sinks, mask = normal(HEADS), np.ones((2, 1, 1, 10), bool)
    mask[0, ..., 3] = False
    y, lse, weights = layer(x, cache=cache, layer=0, sequences=[a, b], q_lens=[10, 4], mask=mask, sinks=sinks, return_lse=True,
                            return_weights=True)  # fmt: skip
    assert [cache.length(s) for s in (a, b)] == [10, 4] and weights.shape == (2, HEADS, 10, 10) and not weights[0, ..., 3].any()
    plain = make(w, types=None, **options)
    for i, n in ((0, 10), (1, 4)):
        want = plain(x[i : i + 1, :n], mask=mask[i : i + 1, ..., :n], sinks=sinks, return_lse=True)
        assert np.array_equal(y[i, :n], want[0][0]) and np.array_equal(lse[i, :, :n], want[1][0])
    more = normal(6, FEATURES)
    want = make(w, types=None)
    y = packed(more, cache=cache, layer=0, sequences=np.array([b, a]), q_cu_seqlens=[0, 5, 6])
    assert [cache.length(s) for s in (a, b)] == [11, 9]
    assert np.array_equal(y[:5], want(np.concatenate([x[1, :4], more[:5]]))[4:])
    assert np.array_equal(y[5], want(np.concatenate([x[0], more[5:]]))[10])
    cache.truncate(b, 2)
    mask = np.ones((2, 1, 1, 11), bool)  # columns of 11 tokens, of which the longer sequence gets none
    layer(x, cache=cache, layer=0, sequences=[a, b], q_lens=[0, 9], mask=mask, sinks=sinks)
    assert [cache.length(s) for s in (a, b)] == [11, 11]
    assert layer(x[0, :0], cache=cache, layer=0, sequences=a, mask=np.ones((1, 1, 1, 11), bool), sinks=sinks).shape == (0, OUT)


def test_torch(w, normal):
    torch = pytest.importorskip("torch")
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        name = str(dtype).split(".")[1]
        x = torch.from_numpy(normal(2, 40, FEATURES)).to(dtype)
        typed = {n: torch.from_numpy(a).to(dtype) for n, a in w.items()}
        layer = make(typed, name)
        with pytest.raises(ValueError, match="requires a gradient"):
            layer(x.clone().requires_grad_(), cache=cache_of(name), layer=0, sequences=[0, 1])
        whole = layer(x, cache=(cache := cache_of(name)), layer=0, sequences=[cache.add(), cache.add()])
        assert whole.dtype == dtype and torch.equal(whole, make(typed, None)(x))
        for size in (1, 7):
            assert torch.equal(torch.cat(in_chunks(layer, x, size, name), 1), whole)
        smaller = make(typed, "int8")
        at_once = in_chunks(smaller, x, 40, "int8")[0]
        assert torch.equal(torch.cat(in_chunks(smaller, x, 7, "int8"), 1), at_once)
        torch.testing.assert_close(at_once.float(), whole.float(), atol=0.1, rtol=0.1)


def test_full_cache_loses_nothing(w, normal):
    layer, x = make(w), normal(1, 300, FEATURES)
    expected = make(w, types=None)(x)
    cache = cache_of(max_pages=2)
    s = cache.add()
    y = [layer(x[:, :200], cache=cache, layer=i, sequences=s) for i in range(2)][0]
    info, out = cache.stats(), np.full((1, 100, OUT), 7, np.float32)
    with pytest.raises(fovea.CacheFullError, match="2 pages"):
        layer(x[:, 200:], cache=cache, layer=0, sequences=s, out=out)
    assert cache.stats() == info and (cache.length(s), cache.length(s, 1)) == (200, 200) and (out == 7).all()
    more = layer(x[:, 200:256], cache=cache, layer=0, sequences=s)
    assert np.array_equal(np.concatenate([y, more], 1), expected[:, :256])


X = np.ones((2, 3, FEATURES), np.float32)


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda f, c, s: f(X, cache=c, layer=0), TypeError, "give cache, layer and sequences"),
        (lambda f, c, s: f(X), TypeError, "give cache, layer and sequences"),
        (lambda f, c, s: f(X, cache=c, layer=2, sequences=s), ValueError, "layer"),
        (lambda f, c, s: f(X, cache=c, layer="x", sequences=s), TypeError, "int"),
        (lambda f, c, s: f(X, cache=c, layer=0, sequences=s[0]), ValueError, "sequences are 1, tokens are of 2"),
        (lambda f, c, s: f(X, cache=c, layer=0, sequences=[s[0], 99]), ValueError, "no sequence 99"),
        (lambda f, c, s: f(X, cache=c, layer=0, sequences=[s[0]] * 2), ValueError, "."),
        (lambda f, c, s: f(X[..., 1:], cache=c, layer=0, sequences=s), ValueError, "rows of 23 channels, not 24"),
        (lambda f, c, s: f(X.astype(np.float16), cache=c, layer=0, sequences=s), TypeError, "q must be float32"),
        (lambda f, c, s: f(X, X, cache=c, layer=0, sequences=s), TypeError, "inputs='cross'"),
        (lambda f, c, s: f(X, cache="c", layer=0, sequences=s), TypeError, "must be a fovea.KVCache"),
        (lambda f, c, s: f(X, cache=cache_of("int8"), layer=0, sequences=s), TypeError, "the cache keeps int8 and int8"),
        (lambda f, c, s: f(X, cache=fovea.KVCache(1, 1, D, max_pages=1), layer=0, sequences=s), ValueError, "kv_heads of the layer"),
        (lambda f, c, s: f(X, cache=fovea.KVCache(1, KV, D, max_pages=1), layer=0, sequences=s), ValueError, "value_dim of the"),
        (lambda f, c, s: f(X, cache=c, layer=0, sequences=s, kv_lens=[3, 3]), ValueError, "q_lens or q_cu_seqlens alone"),
        (lambda f, c, s: f(X, cache=c, layer=0, sequences=s, q_lens=[3, 4]), ValueError, "q_lens"),
        (lambda f, c, s: f(X, cache=c, layer=0, sequences=s, q_lens=[3, -(2**63)]), ValueError, "q_lens"),
        (lambda f, c, s: f(X, cache=c, layer=0, sequences=s, out=np.zeros((2, 3, 3), np.float32)), ValueError, "out"),
        (lambda f, c, s: f(X, cache=c, layer=0, sequences=s, mask=np.ones((3, 6), bool)), ValueError, "mask is given"),
        (lambda f, c, s: f(X[0], cache=c, layer=0, sequences=s, q_cu_seqlens=[0, 1, 3]), TypeError, "q_tokens="),
    ],
)
def test_errors_append_nothing(w, call, error, match):
    layer, cache = make(w), cache_of()
    s = [cache.add(), cache.add()]
    first = layer(X, cache=cache, layer=0, sequences=s)
    before = cache.stats()
    with pytest.raises(error, match=match):
        call(layer, cache, s)
    assert cache.stats() == before and [cache.length(i) for i in s] == [3, 3]
    cache.truncate(s[0], 0), cache.truncate(s[1], 0)
    assert np.array_equal(layer(X, cache=cache, layer=0, sequences=s), first)


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        (dict(cache_dtype="int7"), ValueError, "cache_dtype must be 'float32', .* not 'int7'"),
        (dict(cache_dtype=("int8",)), ValueError, "a pair"),
        (dict(cache_dtype=8), TypeError, "cache_dtype must be"),
        (dict(inputs="cross", causal=None), ValueError, "a layer over a cache has inputs"),
        (dict(fold_values="always"), ValueError, "fold"),
        (dict(q_norm=np.ones(D + 1, np.float32)), ValueError, "q_norm"),
        (dict(k_norm=np.ones(D)), TypeError, "k_norm must be float32"),
        (dict(norm_eps=-1), ValueError, "norm_eps"),
    ],
)
def test_errors_of_making(w, options, error, match):
    with pytest.raises(error, match=match):
        make(w, **options)


def test_only_layers_that_were_made_for_it(w):
    with pytest.raises(TypeError, match="made with cache_dtype="):
        make(w, types=None)(X, cache=cache_of(), layer=0, sequences=[0, 1])


def test_a_sequence_that_changes_is_refused(w, normal):
    """The mask of a call that appends is exported in the middle of it: who uses the cache then is another one."""
    layer, cache = make(w, mask="boolean"), cache_of()
    s, other, q = cache.add(), cache.add(), normal(1, HEADS, 1, D)
    layer(X[:1], cache=cache, layer=0, sequences=s, mask=np.ones((3, 3), bool))
    refused = []

    class Mask:
        def __dlpack__(self, **options):
            assert not cache.attend(0, other, q).any()
            for use in (lambda: cache.attend(0, s, q), lambda: cache.remove(s), lambda: cache.fork(s)):
                with pytest.raises(ValueError, match=f"another thread changes sequence {s}") as error:
                    use()
                refused.append(error)
            return np.ones((3, 6), bool).__dlpack__(**options)

    layer(X[:1], cache=cache, layer=0, sequences=s, mask=Mask())
    assert len(refused) == 3 and cache.length(s) == 6
    cache.attend(0, s, q)


def test_threads(w, normal):
    """Sequences of one cache at once; one that another thread changes is refused, and never torn."""
    layer, cache, x = make(w), cache_of(max_pages=100), normal(1, 200, FEATURES)
    together, expected = cache.add(), make(w, types=None)(x)
    refused, wrong = [], []

    def work():
        for _ in range(6):
            s = cache.add()
            wrong.append(not np.array_equal(layer(x, cache=cache, layer=0, sequences=s), expected))
            cache.remove(s)
            try:
                layer(x, cache=cache, layer=0, sequences=together)
            except ValueError as error:
                refused.append(str(error))

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: work(), range(3)))
    assert not any(wrong) and all("another thread changes sequence" in sentence for sentence in refused)
    assert cache.length(together) == 200 * (18 - len(refused))
