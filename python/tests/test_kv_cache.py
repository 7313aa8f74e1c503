"""KVCache and Rope: the bits of contiguous arrays, forks, errors that lose nothing, saving, threads, processes."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from processes import fork_while

import fovea

HEADS, DIM, VALUES = 2, 16, 8


def make(**options):
    return fovea.KVCache(2, HEADS, DIM, value_dim=VALUES, **{"max_pages": 40} | options)


@pytest.fixture
def tokens(normal):
    """tokens(sequences, count): k and v."""
    return lambda n, count: (normal(n, HEADS, count, DIM), normal(n, HEADS, count, VALUES))


@pytest.fixture
def filled(tokens, normal):
    """A cache with one sequence of 600 tokens in both layers, and what it holds."""
    cache = make()
    k, v = tokens(1, 600)
    s = cache.add()
    for layer in range(2):
        cache.append(layer, s, k, v)
    return cache, s, k, v, normal(1, 4, 5, DIM)


def test_chunks_have_the_bits_of_one_call(tokens, normal, tiers):
    (k, v), q = tokens(2, 300), normal(2, 4, 300, DIM)
    expected = fovea.attention(q, k, v, causal=True)

    def run():
        cache, outs = make(), []
        sequences = [cache.add(), cache.add()]
        for part in (slice(0, 200), slice(200, 257), slice(257, 258), slice(258, 300)):
            cache.reserve(sequences, [part.stop - part.start] * 2)
            cache.append(1, sequences, k[:, :, part], v[:, :, part])
            outs.append(cache.attend(1, sequences, q[:, :, part], causal="bottom_right"))
        assert [cache.length(s, 1) for s in sequences] == [300, 300] and cache.length(sequences[0]) == 0
        return np.concatenate(outs, 2)

    assert np.array_equal(tiers(run), expected)


def test_layouts_strides_and_lens(tokens, normal):
    (k, v), q = tokens(3, 40), normal(3, 4, 40, DIM)
    lens = [40, 0, 17]
    expected = fovea.attention(q, k, v, kv_lens=lens, causal=[lens[b] - 40 for b in range(3)], return_lse=True)
    cache = make()
    plain, packed = ([cache.add() for _ in range(3)] for _ in range(2))
    cache.append(0, np.array(plain, np.uint64), k.transpose(0, 2, 1, 3).copy(), v.transpose(0, 2, 1, 3), lens=lens, layout="bthd")
    starts = np.concatenate([[0], np.cumsum(lens)])
    cache.append(0, packed, *(np.concatenate([x[b, :, :n] for b, n in enumerate(lens)], 1) for x in (k, v)), cu_seqlens=starts,
                 layout="htd")  # fmt: skip
    for sequences in (plain, packed):
        got = cache.attend(0, sequences, q, causal="bottom_right", return_lse=True)
        assert all(map(np.array_equal, got, expected))
    # Queries on one axis: a prefill and a decode.
    q_starts = [0, 40, 41]
    mixed = np.concatenate([q[0], q[2, :, -1:]], 1).transpose(1, 0, 2)
    got = cache.attend(0, [plain[0], packed[2]], mixed, q_cu_seqlens=q_starts, causal="bottom_right", layout="thd")
    assert np.array_equal(got[:40].transpose(1, 0, 2), expected[0][0])
    assert np.array_equal(got[40], expected[0][2, :, -1])


def test_options_of_attention(filled, normal, rng):
    cache, s, k, v, q = filled
    for options in (
        dict(mask=rng.random((5, 600)) < 0.5),
        dict(mask=fovea.Mask.key_padding(rng.random(600) < 0.5), bias=normal(5, 600)),
        dict(window=(30, 0), causal="bottom_right", softcap=2.0, scale=0.3, sinks=normal(4)),
        dict(alibi=normal(4) ** 2, kv_lens=[300], q_lens=[3], q_offsets=[297], return_weights=True),
        dict(causal=[7], return_scores="capped", score_keys=(0, 9), return_summary=True, top_keys=2),
    ):
        got, expected = cache.attend(0, [s], q, **options), fovea.attention(q, k, v, **options)
        np.testing.assert_equal(got, expected)
    out = np.empty((1, 5, 4, VALUES), np.float32)
    assert cache.attend(0, s, q, out=out, out_layout="bthd") is out
    assert np.array_equal(out.transpose(0, 2, 1, 3), fovea.attention(q, k, v))


def test_fork_truncate_evict(filled, tokens):
    cache, s, k, v, q = filled
    fork = cache.fork(s)
    info = cache.stats()
    assert (info["used_pages"], info["shared_pages"], info["sequences"], info["appended_tokens"]) == (6, 6, 2, 1200)
    more = tokens(1, 3)
    cache.append(0, fork, *more)
    assert cache.stats()["copied_pages"] == 1
    longer = [np.concatenate(both, 2) for both in zip((k, v), more, strict=True)]
    assert np.array_equal(cache.attend(0, fork, q), fovea.attention(q, *longer))
    assert np.array_equal(cache.attend(0, s, q), fovea.attention(q, k, v))
    cache.truncate(fork, 301)
    short = fovea.attention(q, k[:, :, :301], v[:, :, :301])
    assert np.array_equal(cache.attend(0, fork, q), short)
    for pair in ([s, fork], [fork, s]):  # columns are those of the longest, whichever it is
        out, weights = cache.attend(0, pair, q.repeat(2, 0), mask=np.ones(600, bool), return_weights=True)
        assert weights.shape == (2, 4, 5, 600) and np.array_equal(out[pair.index(fork)], short[0])
    cache.remove(fork)
    with pytest.raises(ValueError, match=f"no sequence {fork}"):
        cache.length(fork)
    cache.evict(s, 10, 520)
    mask = np.r_[np.ones(10, bool), np.zeros(510, bool), np.ones(80, bool)]
    assert np.array_equal(cache.attend(0, s, q), fovea.attention(q, k, v, mask=mask))
    assert cache.stats()["evicted_pages"] == 2 and cache.length(s) == 600
    cache.clear()
    assert cache.stats()["used_pages"] == 0 and cache.add() not in (s, fork)


def test_window(tokens, normal):
    cache, (k, v), q = make(windows=[20, None]), tokens(1, 700), normal(1, 4, 700, DIM)
    s, outs = cache.add(), []
    for part in (slice(0, 600), slice(600, 650), slice(650, 700)):
        cache.append(0, s, k[:, :, part], v[:, :, part])
        outs.append(cache.attend(0, s, q[:, :, part], causal="bottom_right", window=(20, None)))
    assert np.array_equal(np.concatenate(outs, 2), fovea.attention(q, k, v, causal=True, window=(20, None)))
    assert cache.stats()["window_pages"] == 2
    with pytest.raises(ValueError, match="gone behind its window"):
        cache.attend(0, s, q[:, :, -1:], causal="bottom_right")
    with pytest.raises(ValueError, match="window"):
        cache.truncate(s, 100)


def test_full_cache_loses_nothing(tokens, normal):
    cache, (k, v), q = make(max_pages=3), tokens(1, 500), normal(1, 4, 1, DIM)
    s = cache.add()
    cache.append(0, s, k, v)
    before, info = cache.attend(0, s, q), cache.stats()
    for call in (lambda: cache.append(0, s, k, v), lambda: cache.reserve(s, 256), lambda: cache.load(saved)):
        saved = cache.save(s)
        with pytest.raises(fovea.CacheFullError, match="3 pages"):
            call()
        assert cache.stats() == info and cache.length(s) == 500
    assert np.array_equal(cache.attend(0, s, q), before)
    assert issubclass(fovea.CacheFullError, MemoryError)
    cache.append(0, s, k[:, :, :12], v[:, :, :12])


def test_element_types(normal):
    types = pytest.importorskip("ml_dtypes")
    k, v, q = normal(1, HEADS, 70, DIM), normal(1, HEADS, 70, DIM), normal(1, 4, 2, DIM)
    cast = {"float32": np.float32, "float16": np.float16, "bfloat16": types.bfloat16}
    for k_dtype, kind in cast.items():
        for v_dtype, other in cast.items():
            cache = fovea.KVCache(1, HEADS, DIM, k_dtype=k_dtype, v_dtype=v_dtype, max_bytes=1 << 20)
            assert (cache.k_dtype, cache.v_dtype) == (k_dtype, v_dtype)
            s = cache.add()
            cache.append(0, s, k.astype(other), v)
            kept = k.astype(other).astype(kind).astype(np.float32), v.astype(other).astype(np.float32)
            assert np.array_equal(cache.attend(0, s, q), fovea.attention(q, *kept))


def test_torch(normal):
    torch = pytest.importorskip("torch")
    k, v, q = (torch.from_numpy(normal(1, 9, 2, DIM)).transpose(1, 2).bfloat16() for _ in range(3))
    cache = fovea.KVCache(1, 2, DIM, dtype="bfloat16", max_pages=1)
    s = cache.add()
    with pytest.raises(ValueError, match="k requires a gradient"):
        cache.append(0, s, k.clone().requires_grad_(), v)
    cache.append(0, s, k, v)
    assert torch.equal(cache.attend(0, s, q, causal="bottom_right"), fovea.attention(q, k, v, causal=True))


def test_save_and_load(filled, tmp_path):
    cache, s, k, v, q = filled
    saved, path = cache.save(s), tmp_path / "sequence"
    assert cache.save(s, path) is None and path.read_bytes() == saved
    other = make()
    for source in (saved, bytearray(saved), path, str(path)):
        assert np.array_equal(other.attend(1, other.load(source), q), fovea.attention(q, k, v))
    used = other.stats()["used_pages"]
    for damaged in (saved[:-1], saved[:99] + b"\0\1\2" + saved[102:], b"", b"nothing of the kind"):
        with pytest.raises(ValueError):
            other.load(damaged)
    assert other.stats()["used_pages"] == used
    with pytest.raises(ValueError, match="layers"):
        fovea.KVCache(3, HEADS, DIM, value_dim=VALUES, max_pages=40).load(saved)
    with pytest.raises(FileNotFoundError):
        other.load(tmp_path / "none")
    with pytest.raises(FileNotFoundError):
        cache.save(s, tmp_path / "none" / "sequence")


def turned(x, positions, base=10000.0):
    """As transformers writes it, in float64: channels i and i + 8 of 16 turn together."""
    angles = np.asarray(positions)[:, None] * base ** (-np.arange(8) / 8)
    angles = np.concatenate([angles, angles], 1)
    half = np.concatenate([-x[..., 8:], x[..., :8]], -1)
    return x * np.cos(angles) + half * np.sin(angles)


def test_rope(normal, tokens, tiers):
    rope, x = fovea.Rope(16), normal(2, 3, 9, 16)
    for positions, places in ((0, range(9)), (70000, range(70000, 70009)), ([5] * 9, [5] * 9), (np.arange(3, 12), range(3, 12))):
        got = tiers(lambda: rope.apply(x, positions))
        np.testing.assert_allclose(got, turned(x.astype(float), places), atol=2e-6)
        assert np.array_equal(rope.apply(x.transpose(0, 2, 1, 3), positions, layout="bthd").transpose(0, 2, 1, 3), got)
    each = rope.apply(x, list(range(9)) + list(range(100, 109)))
    assert np.array_equal(each[1], rope.apply(x[1:], 100)[0])
    assert rope.apply(x, 4, out=x) is x
    # A cache turns keys at their positions.
    cache, plain, (k, v), q = make(rope=rope), make(), tokens(1, 20), normal(1, 4, 20, DIM)
    s, p = cache.add(), plain.add()
    plain.append(0, p, rope.apply(k, 0), v)
    for part in (slice(0, 13), slice(13, 20)):
        cache.append(0, s, k[:, :, part], v[:, :, part])
    assert np.array_equal(cache.attend(0, s, q), plain.attend(0, p, q))
    again = cache.add()
    cache.append(0, again, rope.apply(k, 0), v, rotated=True)
    assert np.array_equal(cache.attend(0, again, q), plain.attend(0, p, q))


X = np.ones((1, HEADS, 3, DIM), np.float32)
V = np.ones((1, HEADS, 3, VALUES), np.float32)


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda c, s: make(max_pages=None), ValueError, "max_pages is 0 and max_bytes 0"),
        (lambda c, s: make(max_bytes=5), ValueError, "one of them"),
        (lambda c, s: make(max_pages=None, max_bytes=5), ValueError, "less than one page"),
        (lambda c, s: make(dtype="int7"), ValueError, "dtype must be 'float32', .* not 'int7'"),
        (lambda c, s: make(v_dtype=np.float32), TypeError, "v_dtype must be"),
        (lambda c, s: make(windows=[3]), ValueError, "windows has 1 numbers, not 2"),
        (lambda c, s: make(windows=[3, "x"]), TypeError, "int"),
        (lambda c, s: make(windows=-2), ValueError, "windows"),
        (lambda c, s: make(rope=16), TypeError, "must be a fovea.Rope"),
        (lambda c, s: make(rope=fovea.Rope(32)), ValueError, "rotates 32 channels"),
        (lambda c, s: fovea.Rope(15), ValueError, "rotary_dim"),
        (lambda c, s: fovea.Rope(16, scaling="so"), ValueError, "scaling must be None, 'linear'"),
        (lambda c, s: fovea.Rope(16, pairing="so"), ValueError, "pairing must be 'halves' or"),
        (lambda c, s: fovea.Rope(16).apply(X, [1, 2]), ValueError, "positions are 2 numbers, not 3"),
        (lambda c, s: fovea.Rope(16).apply(X, -1), ValueError, "position"),
        (lambda c, s: c.append(2, s, X, V), ValueError, "layer"),
        (lambda c, s: c.append(0, s + 1, X, V), ValueError, "no sequence"),
        (lambda c, s: c.append(0, [s, s], X, V), ValueError, "."),
        (lambda c, s: c.append(0, [s, c.fork(s)], X.repeat(2, 0), V), ValueError, "v"),
        (lambda c, s: c.append(0, s, V, V), ValueError, "k"),
        (lambda c, s: c.append(0, s, X.astype(np.float64), V), TypeError, "k must be float32"),
        (lambda c, s: c.append(0, s, X, V, lens=[4]), ValueError, "lens"),
        (lambda c, s: c.append(0, s, X, V, lens=[1, 2]), ValueError, "lens has 2 numbers, not 1"),
        (lambda c, s: c.append(0, s, X[0], V[0], layout="htd"), ValueError, "give cu_seqlens"),
        (lambda c, s: c.append(0, s, X), TypeError, "append.. needs 'v'"),
        (lambda c, s: c.attend(0, s, X, causal=True), ValueError, "bottom_right"),
        (lambda c, s: c.attend(0, [s, s], X), ValueError, "sequences are 2, queries are of 1"),
        (lambda c, s: c.attend(0, s, V), ValueError, "q has 8 channels, the cache's keys have 16"),
        (lambda c, s: c.attend(0, s, X, kv_starts=[0]), ValueError, "kv_starts is of keys in tensors"),
        (lambda c, s: c.attend(0, s, X, kv_lens=[4]), ValueError, "kv_lens"),
        (lambda c, s: c.attend(-1, s, X), ValueError, "layer"),
        (lambda c, s: c.attend(0, "x", X), TypeError, "sequences"),
        (lambda c, s: c.evict(s, 2, 9), ValueError, "."),
        (lambda c, s: c.truncate(s, -1), ValueError, "length"),
    ],
)
def test_errors_change_nothing(call, error, match):
    cache = make()
    s = cache.add()
    for layer in range(2):
        cache.append(layer, s, X, V)
    before = cache.stats()
    with pytest.raises(error, match=match):
        call(cache, s)
    after = cache.stats()
    assert (after["appended_tokens"], after["used_pages"]) == (before["appended_tokens"], before["used_pages"])
    assert cache.length(s) == 3


def test_threads(normal):
    """Each thread has sequences of its own, and all read one; one that is being changed is refused, and never torn."""
    k, v, q = normal(1, 8, 2000, 64), normal(1, 8, 2000, 64), normal(1, 8, 1, 64)
    cache = fovea.KVCache(1, 8, 64, max_pages=200)
    shared, together = cache.add(), cache.add()
    cache.append(0, shared, k, v)
    expected = fovea.attention(q, k, v)
    refused, wrong = [], []

    def work():
        for _ in range(6):
            own = cache.fork(shared)
            cache.append(0, own, k[:, :, :300], v[:, :, :300])
            if not np.array_equal(cache.attend(0, shared, q), expected):
                wrong.append("shared")
            cache.truncate(own, 2000)
            if not np.array_equal(cache.attend(0, own, q), expected):
                wrong.append("own")
            cache.remove(own)
            try:
                cache.append(0, together, k, v)
            except ValueError as error:
                refused.append(str(error))

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: work(), range(3)))
    assert not wrong
    assert all("another thread changes sequence" in sentence for sentence in refused)
    assert cache.length(together) == 2000 * (18 - len(refused))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_processes_while_threads_use_it(normal):
    """A child may change what the parent's threads were reading, and go on with what they were not changing."""
    k, v, q = (normal(1, 8, n, 64) for n in (2000, 2000, 50))
    cache = fovea.KVCache(1, 8, 64, max_pages=200)
    read, changed = cache.add(), cache.add()
    cache.append(0, read, k, v)
    expected = fovea.attention(q, np.concatenate([k, k], 2), np.concatenate([v, v], 2))

    def work():
        cache.attend(0, read, q)
        cache.append(0, changed, k, v)
        cache.truncate(changed, 0)

    def in_child():
        threads = [threading.Thread(target=cache.add) for _ in range(4)]
        for thread in threads:
            thread.start()
        cache.append(0, read, k, v)
        cache.remove(changed)
        return np.array_equal(cache.attend(0, read, q), expected)

    assert fork_while(work, in_child)
