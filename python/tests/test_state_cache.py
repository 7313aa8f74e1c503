"""StateCache: the bits of states by hand, forks, taking tokens back, errors that lose nothing, saving, threads, processes."""

import os
import pickle
import threading

import numpy as np
import pytest
from processes import fork_while

import fovea

DELTA, SCAN, CONV = (2, 16, 8), (2, 8, 4), (3, 6)
FLOATS = [int(np.prod(shape)) for shape in (DELTA, SCAN, CONV)]


def make(**options):
    return fovea.StateCache(FLOATS, **{"max_sequences": 6, "slots": 4} | options)


@pytest.fixture
def calls(normal):
    """run(tokens, **states) for each of the three functions, over the same 40 tokens of two sequences."""
    q, k, v, gate = normal(2, 2, 40, 16), normal(2, 2, 40, 16), normal(2, 2, 40, 8), -(normal(2, 2, 40) ** 2)
    x, dt, b, c, a = normal(2, 2, 40, 8), normal(2, 2, 40), normal(2, 1, 40, 4), normal(2, 1, 40, 4), -(normal(2) ** 2)
    u, weight = normal(2, 40, 6), normal(6, 4)

    def delta(part, batch=slice(None), **states):
        return fovea.gated_delta_rule(*(y[batch, :, part] for y in (q, k, v, gate)), norm="rsqrt", **states)

    def scan(part, batch=slice(None), **states):
        return fovea.selective_scan(x[batch, :, part], dt[batch, :, part], a, b[batch, :, part], c[batch, :, part], **states)

    def conv(part, batch=slice(None), **states):
        return fovea.causal_conv(u[batch, part], weight, silu=True, **states)

    return [(delta, 2), (scan, 2), (conv, 1)]


PARTS = [slice(0, 25), slice(25, 26), slice(26, 40)]


def test_chunks_have_the_bits_of_one_call(calls, tiers):
    def through_cache():
        cache, outs = make(), []
        sequences = [cache.add(), cache.add()]
        for i, (call, axis) in enumerate(calls):
            parts = [call(part, cache=cache, cache_state=i, sequences=sequences) for part in PARTS]
            assert all(state is None for _, state in parts)
            outs.append(np.concatenate([out for out, _ in parts], axis))
            assert [cache.length(s, i) for s in sequences] == [40, 40]
        return tuple(outs)

    for got, (call, _) in zip(tiers(through_cache), calls, strict=True):
        assert np.array_equal(got, call(slice(None))[0])


def test_states_by_hand(calls):
    """Sequences of different lengths, in another order, given as an array; and one alone, as an int."""
    cache = make()
    first, second = cache.add(), cache.add()
    for i, (call, _) in enumerate(calls):
        _, state = call(slice(0, 9), lens=[9, 4])
        call(slice(0, 9), lens=[9, 4], cache=cache, cache_state=i, sequences=np.array([second, first]))
        assert (cache.length(second, i), cache.length(first, state=i)) == (9, 4)
        want, _ = call(slice(9, 12), slice(1, 2), state=state[1:])
        got, _ = call(slice(9, 12), slice(1, 2), cache=cache, cache_state=i, sequences=first)
        assert np.array_equal(got, want)


def test_packed_sequences(normal):
    q, v, cache = normal(1, 2, 11, 16), normal(1, 2, 11, 8), make()
    sequences = [cache.add(), cache.add()]
    want, state = fovea.gated_delta_rule(q, q, v, cu_seqlens=[0, 4, 11])
    options = dict(cache=cache, cache_state=0, sequences=sequences)
    got, _ = fovea.gated_delta_rule(q, q, v, cu_seqlens=[0, 4, 11], **options)
    assert np.array_equal(got, want) and [cache.length(s) for s in sequences] == [4, 7]
    more, _ = fovea.gated_delta_rule(q[:, :, :2], q[:, :, :2], v[:, :, :2], cu_seqlens=[0, 1, 2], **options)
    by_hand, _ = fovea.gated_delta_rule(q[:, :, :2], q[:, :, :2], v[:, :, :2], cu_seqlens=[0, 1, 2], state=state)
    assert np.array_equal(more, by_hand)


def test_fork_and_truncate(calls):
    """A draft of four tokens, of which one is taken: as if the others had never been."""
    cache = make()
    s = cache.add()
    for i, (call, _) in enumerate(calls):
        call(slice(0, 20), slice(0, 1), cache=cache, cache_state=i, sequences=s)
    fork = cache.fork(s)
    for i, (call, axis) in enumerate(calls):
        call(slice(20, 24), slice(0, 1), cache=cache, cache_state=i, sequences=s)
    cache.truncate(s, 21)
    for i, (call, axis) in enumerate(calls):
        want = call(slice(None), slice(0, 1))[0]
        for number, begin in ((s, 21), (fork, 20)):
            assert cache.length(number, i) == begin
            got, _ = call(slice(begin, 40), slice(0, 1), cache=cache, cache_state=i, sequences=number)
            assert np.array_equal(got, want.take(range(begin, 40), axis))
    with pytest.raises(ValueError, match="state 0 after 30 of 40 tokens is no longer there: the cache keeps the last 4"):
        cache.truncate(s, 30)
    assert cache.length(s) == 40
    cache.truncate(s, 0)
    assert np.array_equal(calls[0][0](PARTS[0], slice(0, 1), cache=cache, cache_state=0, sequences=s)[0],
                          calls[0][0](PARTS[0], slice(0, 1))[0])  # fmt: skip


def test_check(calls, normal):
    cache, keys = make(), fovea.KVCache(2, 1, 8, max_pages=4)
    s, other = cache.add(), keys.add()
    cache.check(s)
    cache.check(s, keys, other)
    for i, (call, _) in enumerate(calls):
        call(slice(0, 5), slice(0, 1), cache=cache, cache_state=i, sequences=s)
        if i < 2:
            with pytest.raises(ValueError, match=f"state {i + 1} has seen 0 tokens, but state 0 5"):
                cache.check(s)
    keys.append(0, other, normal(1, 1, 5, 8), normal(1, 1, 5, 8))
    with pytest.raises(ValueError, match="layer 1 has 0 tokens of keys, but states have seen 5"):
        cache.check(s, keys, other)
    keys.append(1, other, normal(1, 1, 5, 8), normal(1, 1, 5, 8))
    cache.check(s, keys=keys, key_sequence=other)


def test_save_and_load(calls, tmp_path):
    cache = make()
    s = cache.add()
    for i, (call, _) in enumerate(calls):
        call(slice(0, 9), slice(0, 1), cache=cache, cache_state=i, sequences=s)
    saved, path = cache.save(s), tmp_path / "states"
    assert cache.save(s, path) is None and path.read_bytes() == saved
    for source in (saved, bytearray(saved), path, str(path)):
        again = make()
        number = again.load(source)
        again.truncate(number, 7)  # the last four states are there
        for i, (call, axis) in enumerate(calls):
            got, _ = call(slice(7, 40), slice(0, 1), cache=again, cache_state=i, sequences=number)
            assert np.array_equal(got, call(slice(None), slice(0, 1))[0].take(range(7, 40), axis))
    for damaged in (saved[:-1], saved[:40] + b"x" + saved[41:], b""):
        with pytest.raises(ValueError, match="."):
            cache.load(damaged)
    with pytest.raises(ValueError, match="state 0 was saved with 256 floats, but the cache has 9"):
        fovea.StateCache([9, 9, 9], max_sequences=1).load(saved)
    with pytest.raises(OSError, match="nowhere"):
        cache.load(tmp_path / "nowhere")


def test_full_cache_loses_nothing():
    cache = make(max_sequences=1)
    s = cache.add()
    saved = cache.save(s)
    for call in (cache.add, lambda: cache.fork(s), lambda: cache.load(saved)):
        with pytest.raises(fovea.CacheFullError, match="the cache has all of its 1 sequences"):
            call()
    cache.remove(s)
    assert cache.add() != s and repr(cache) == "<fovea.StateCache 3 states, 1 of 1 sequences, the last 4 of each>"
    assert (cache.states, cache.max_sequences, cache.slots) == (3, 1, 4)


Q = np.ones((1, 2, 3, 16), np.float32)
V = Q[..., :8].copy()


def delta(cache, s, q=Q, **more):
    return fovea.gated_delta_rule(q, q, V, **dict(cache=cache, cache_state=0, sequences=s) | more)


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda c, s: fovea.StateCache([], max_sequences=1), ValueError, "all must be at least 1"),
        (lambda c, s: fovea.StateCache([0], max_sequences=1), ValueError, r"floats\[0\] is 0"),
        (lambda c, s: fovea.StateCache([4], max_sequences=0), ValueError, "0 sequences"),
        (lambda c, s: fovea.StateCache([4], max_sequences=1, slots=1025), ValueError, "at most 1024"),
        (lambda c, s: fovea.StateCache([4]), TypeError, "max_sequences"),
        (lambda c, s: fovea.StateCache(4, max_sequences=1), TypeError, "floats must be a list"),
        (lambda c, s: c.length(s + 1), ValueError, "there is no sequence 1"),
        (lambda c, s: c.length(s, 3), ValueError, "state 3 is not one of the cache's 3"),
        (lambda c, s: c.truncate(s, -1), ValueError, "length is -1"),
        (lambda c, s: c.truncate(s, 1), ValueError, "state 0 after 1 of 9 tokens is no longer there"),
        (lambda c, s: c.remove(s + 1), ValueError, "there is no sequence 1"),
        (lambda c, s: c.fork("a"), TypeError, "sequence must be an integer"),
        (lambda c, s: c.check(s, fovea.KVCache(1, 1, 8, max_pages=1)), TypeError, "keys and key_sequence come together"),
        (lambda c, s: c.check(s, c, s), TypeError, "keys must be a fovea.KVCache"),
        (lambda c, s: c.save(s, 3), TypeError, "a path must be a string"),
        (lambda c, s: delta(c, s, cache_state=None), TypeError, "cache, cache_state and sequences come together"),
        (lambda c, s: delta(None, s), TypeError, "cache, cache_state and sequences come together"),
        (lambda c, s: delta(fovea.KVCache(1, 1, 8, max_pages=1), s), TypeError, "cache must be a fovea.StateCache"),
        (lambda c, s: delta(c, s, state=np.zeros((1, *DELTA), np.float32)), ValueError, "leave state and state_out out"),
        (lambda c, s: delta(c, s, state_out=np.zeros((1, *DELTA), np.float32)), ValueError, "leave state and state_out out"),
        (lambda c, s: delta(c, [s, s]), ValueError, "sequences has 2 numbers, not 1"),
        (lambda c, s: delta(c, [s, s], cu_seqlens=[0, 1, 2]), ValueError, "sequence 0 is named twice"),
        (lambda c, s: delta(c, s + 1), ValueError, "there is no sequence 1"),
        (lambda c, s: delta(c, s, cache_state=3), ValueError, "state 3 is not one"),
        (lambda c, s: delta(c, s, cache_state=1), ValueError, "state 1 of the cache has 64 floats, but this call's have 256"),
        (lambda c, s: delta(c, s, out=np.empty((1, 2, 3, 9), np.float32)), ValueError, "out"),
        (lambda c, s: delta(c, s, q=Q.astype(np.float64)), TypeError, "float32"),
    ],
)  # fmt: skip
def test_errors_change_nothing(call, error, match):
    cache = make()
    s = cache.add()
    delta(cache, s, q=np.ones((1, 2, 3, 16), np.float32), lens=[3])
    delta(cache, s)
    delta(cache, s)
    before = cache.save(s)
    with pytest.raises(error, match=match):
        call(cache, s)
    assert cache.save(s) == before


def work_of(normal):
    """A call that takes a while, and the states of a cache that it needs."""
    q, v = normal(1, 8, 500, 64), normal(1, 8, 500, 64)
    return [8 * 64 * 64], lambda cache, s: fovea.gated_delta_rule(q, q, v, norm="max", cache=cache, cache_state=0, sequences=s)[0]


def test_threads(normal):
    """Each thread has sequences of its own; one that is being changed is refused, and never torn."""
    floats, run = work_of(normal)
    cache = fovea.StateCache(floats, max_sequences=5)
    together, expected = cache.add(), run(cache, cache.add())
    refused, wrong, gate = [], [], threading.Barrier(3)

    def work():
        own = cache.add()
        gate.wait()
        for _ in range(6):
            wrong.append(not np.array_equal(run(cache, own), expected))
            cache.truncate(own, 0)
            try:
                run(cache, together)
            except ValueError as error:
                refused.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(wrong) == 18 and not any(wrong)
    assert all("another thread changes sequence" in sentence for sentence in refused)
    assert cache.length(together) == 500 * (18 - len(refused))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_processes_while_threads_use_it(normal):
    """A child goes on with what the parent's threads were not changing, and removes what they were."""
    floats, run = work_of(normal)
    cache = fovea.StateCache(floats, max_sequences=20)
    kept, changed = cache.add(), cache.add()
    run(cache, kept)
    expected = run(cache, cache.fork(kept))

    def work():
        run(cache, changed)
        cache.remove(cache.add())
        cache.truncate(changed, 0)

    def in_child():
        cache.remove(changed)
        return np.array_equal(run(cache, kept), expected)

    assert fork_while(work, in_child)


def test_pickled_as_it_was_made():
    """Neither a list that its maker changes nor a number of another kind changes what a pickle has."""
    for kind in (list, np.array):
        floats = kind(FLOATS)
        cache = fovea.StateCache(floats, max_sequences=2)
        cache.add()
        floats[0] = 9
        assert repr(pickle.loads(pickle.dumps(cache))) == repr(cache)

    class Number:
        def __index__(self):
            return cache.add()

    cache.remove(Number())
    pickle.loads(pickle.dumps(cache))
