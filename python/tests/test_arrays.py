"""Inputs and outputs: kinds of arrays, strides, element types, read-only memory, out=."""

import array
import ctypes
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from memory import assert_no_growth

import fovea


@pytest.fixture
def qkv(normal):
    return normal(2, 4, 5, 16), normal(2, 2, 7, 16), normal(2, 2, 7, 16)


class Producer:
    """An array with __dlpack__ only."""

    def __init__(self, of):
        self.of = of

    def __dlpack__(self, **options):
        return self.of.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.of.__dlpack_device__()


class OldProducer(Producer):
    """DLPack before version 1: takes no max_version."""

    def __dlpack__(self):
        return self.of.__dlpack__()


class Namespace:
    @staticmethod
    def from_dlpack(of):
        return SomeArray(np.from_dlpack(of))


class SomeArray(Producer):
    def __array_namespace__(self):
        return Namespace


@pytest.mark.parametrize("kind", [Producer, OldProducer])
def test_dlpack(qkv, kind):
    before = [sys.getrefcount(x) for x in qkv]
    out = fovea.attention(*map(kind, qkv))
    assert isinstance(out, np.ndarray) and np.array_equal(out, fovea.attention(*qkv))
    assert [sys.getrefcount(x) for x in qkv] == before


class EditedProducer(Producer):
    """edit() changes its DLTensor as 64-bit words: data, device, dimensions and type, shape, strides, byte_offset."""

    def __init__(self, of, edit):
        super().__init__(of)
        self.edit = edit

    def __dlpack__(self):
        capsule = self.of.__dlpack__()
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
        self.edit((ctypes.c_uint64 * 6).from_address(pointer(capsule, b"dltensor")))
        return capsule


def test_dlpack_offsets_lanes_and_no_strides(qkv):
    """An array of a kind that numpy never exports."""
    expected = fovea.attention(*qkv)

    def move(words):
        words[0], words[5] = words[0] - 64, words[5] + 64

    def drop_strides(words):
        words[4] = 0

    def pair(words):
        words[2] += 1 << 48

    for edit in (move, drop_strides):
        assert np.array_equal(fovea.attention(*(EditedProducer(x, edit) for x in qkv)), expected)
    with pytest.raises(TypeError, match="k must be float32"):
        fovea.attention(qkv[0], EditedProducer(qkv[1], pair), qkv[2])


def test_dlpack_gives_the_callers_kind(qkv):
    out, lse = fovea.attention(*map(SomeArray, qkv), return_lse=True)
    expected = fovea.attention(*qkv, return_lse=True)
    assert isinstance(out, SomeArray) and np.array_equal(out.of, expected[0])
    assert isinstance(lse, SomeArray) and np.array_equal(lse.of, expected[1])
    merged = fovea.merge([out], [lse])
    assert isinstance(merged[0], SomeArray) and np.array_equal(merged[0].of, expected[0])


def test_dlpack_out(qkv):
    out = np.empty((2, 4, 5, 16), np.float32)
    producer = Producer(out)
    assert fovea.attention(*qkv, out=producer) is producer and np.array_equal(out, fovea.attention(*qkv))
    out.setflags(write=False)
    with pytest.raises(ValueError, match="out is read-only"):
        fovea.attention(*qkv, out=producer)


def test_dlpack_results_are_freed(qkv):
    def use():
        for _ in range(20):
            fovea.attention(*map(SomeArray, qkv))

    assert_no_growth(use)


def test_buffers():
    flat = array.array("f", range(24))
    x = memoryview(flat).cast("B").cast("f", (1, 2, 3, 4))
    assert np.array_equal(fovea.attention(x, x, x), fovea.attention(*[np.asarray(x)] * 3))


def test_subclasses(qkv):
    class Sub(np.ndarray):
        pass

    out = fovea.attention(*(x.view(Sub) for x in qkv))
    assert type(out) is np.ndarray and np.array_equal(out, fovea.attention(*qkv))


def test_read_only_inputs(qkv):
    for x in qkv:
        x.setflags(write=False)
    assert np.array_equal(fovea.attention(*qkv), fovea.attention(*(x.copy() for x in qkv)))
    assert np.array_equal(fovea.attention(*map(Producer, qkv)), fovea.attention(*qkv))


@pytest.mark.parametrize("layout, out_layout", [(a, b) for a in ("bhtd", "bthd") for b in (None, "bhtd", "bthd")])
def test_layouts(qkv, layout, out_layout):
    expected = fovea.attention(*qkv)
    given = qkv if layout == "bhtd" else [np.ascontiguousarray(x.swapaxes(1, 2)) for x in qkv]
    out, lse, weights = fovea.attention(*given, layout=layout, out_layout=out_layout, return_lse=True, return_weights=True)
    assert out.flags.c_contiguous and lse.shape == (2, 4, 5) and weights.shape == (2, 4, 5, 7)
    out = out if (out_layout or layout) == "bhtd" else out.swapaxes(1, 2)
    assert np.array_equal(out, expected)


def test_strides(normal):
    packed = normal(2, 5, 3, 4, 16)  # [batch, token, q k v, head, channel]
    q, k, v = (packed[:, :, i].swapaxes(1, 2) for i in range(3))
    expected = fovea.attention(*(np.ascontiguousarray(x) for x in (q, k, v)))
    assert np.array_equal(fovea.attention(q, k, v), expected)
    wide = [np.repeat(x, 2, -1)[..., ::2] for x in (q, k, v)]  # a channel stride of 2 is copied
    assert wide[0].strides[-1] == 8 and np.array_equal(fovea.attention(*wide), expected)
    shared = np.broadcast_to(k[:1, :1], k.shape)
    assert np.array_equal(fovea.attention(q, shared, shared), fovea.attention(q, shared.copy(), shared.copy()))
    one = q[:1, ::-1][:, :1, ::-1][:, :, :1]  # negative strides of axes of one element are none
    assert np.array_equal(fovea.attention(one, one, one), one)


@pytest.mark.parametrize("axis", range(4))
def test_negative_strides_are_refused(qkv, axis):
    with pytest.raises(ValueError, match=f"k has a negative stride in axis {axis}"):
        fovea.attention(qkv[0], np.flip(qkv[1], axis), qkv[2])


def test_strides_of_half_elements():
    record = np.zeros((1, 1, 4, 8), np.dtype([("x", "f4"), ("y", "u1")]))[..., :2]  # two elements are enough
    with pytest.raises(ValueError, match="stride of 5 bytes"):
        fovea.attention(record["x"], record["x"], record["x"])


def test_out(qkv):
    expected, expected_lse = fovea.attention(*qkv, return_lse=True)
    out = np.full(expected.shape, np.nan, np.float32)
    assert fovea.attention(*qkv, out=out) is out and np.array_equal(out, expected)
    part = np.full((2, 6, 5, 20), np.nan, np.float32)
    result, lse = fovea.attention(*qkv, out=part[:, 1:5, :, :16], return_lse=True)
    assert np.array_equal(part[:, 1:5, :, :16], expected) and np.array_equal(lse, expected_lse)
    assert np.isnan(part[:, 0]).all() and np.isnan(part[:, 5]).all() and np.isnan(part[..., 16:]).all()
    tokens_first = np.empty((2, 5, 4, 16), np.float32)
    fovea.attention(*qkv, out=tokens_first, out_layout="bthd")
    assert np.array_equal(tokens_first.swapaxes(1, 2), expected)


def test_out_that_does_not_do(qkv):
    out = np.empty((2, 4, 5, 16), np.float32)
    read_only = out.copy()
    read_only.setflags(write=False)
    for wrong, error, match in (
        (read_only, ValueError, "read-only"),
        (out[..., :8], ValueError, "out"),
        (out[0], ValueError, "out has 3 dimensions"),
        (out.astype(np.float64), TypeError, "out must be float32"),
        (np.empty((2, 4, 5, 32), np.float32)[..., ::2], ValueError, "stride"),
        (np.empty((1, 4, 5, 16), np.float32), ValueError, "out"),
        (qkv[0], ValueError, "overlap"),
        ([1.0], TypeError, "out must be an array"),
    ):
        with pytest.raises(error, match=match):
            fovea.attention(*qkv, out=wrong)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sixteen_bits(qkv, dtype, tiers):
    dtype = np.dtype(getattr(pytest.importorskip("ml_dtypes"), dtype) if dtype == "bfloat16" else dtype)
    narrow = [x.astype(dtype) for x in qkv]
    wide = fovea.attention(*(x.astype(np.float32) for x in narrow))
    out = tiers(lambda: fovea.attention(*narrow).view(np.uint16)).view(dtype)
    assert out.dtype == dtype and np.array_equal(out, wide.astype(dtype))
    into = np.empty(out.shape, np.float32)  # not rounded
    assert np.array_equal(fovea.attention(*narrow, out=into), wide)
    mixed = fovea.attention(qkv[0], narrow[1], qkv[2])
    assert mixed.dtype == np.float32 and np.array_equal(mixed, fovea.attention(qkv[0], narrow[1].astype(np.float32), qkv[2]))


@pytest.mark.parametrize("dtype", ["float64", "int32", "complex64", "bool", ">f4", "object", "datetime64[s]"])
def test_other_elements_are_refused(qkv, dtype):
    with pytest.raises(TypeError, match="k (must be float32|has elements)"):
        fovea.attention(qkv[0], np.ones(qkv[1].shape, "i8").astype(dtype), qkv[2])


def test_nothing_is_kept(qkv, normal):
    """References and memory, after calls that succeed and calls that fail."""
    mask, bias, sinks, out = np.ones((5, 7), bool), normal(5, 7), normal(4), np.empty((2, 4, 5, 16), np.float32)
    lens, table = np.array([7, 3]), normal(4, 5)
    arrays = [*qkv, mask, bias, sinks, out, lens, table]
    options = dict(mask=mask, bias=bias, sinks=sinks, out=out, kv_lens=lens, return_lse=True, return_weights=True)
    relative = fovea.Relative.toeplitz(table)
    before = [sys.getrefcount(x) for x in arrays]
    for _ in range(50):
        fovea.attention(*qkv, **options, relative=relative)
        fovea.merge([out, out], [np.zeros((2, 4, 5), np.float32)] * 2)
        for wrong in (dict(window=3), dict(kv_starts=[99, 99]), dict(alibi=bias), dict(layout="x"), dict(q_offsets=[1, 2.5])):
            with pytest.raises((TypeError, ValueError)):
                fovea.attention(*qkv, **options | wrong)
    assert [sys.getrefcount(x) for x in arrays] == before
    result = fovea.attention(*qkv, return_lse=True)
    assert sys.getrefcount(result) == 2 and all(sys.getrefcount(result[i]) == 2 for i in range(2))


def test_memory_does_not_grow(normal):
    big = normal(1, 4, 64, 64)

    def use():
        for i in range(200):
            x = big[:, :, : 16 + i % 48]
            fovea.attention(x, x, x, q_lens=[9], mask=np.ones((x.shape[2],) * 2, bool), return_weights=True)
            fovea.attention(x.swapaxes(2, 3), x.swapaxes(2, 3), x.swapaxes(2, 3), causal=i)
            fovea.Mask.boolean(np.ones((64, 300), bool))
            fovea.Plan(q_heads=1, q_len=i + 1, kv_len=300, head_dim=64).describe()
            with fovea.config(threads=i % 7), pytest.raises(ValueError):
                fovea.attention(x, x, big[:, :1])

    assert_no_growth(use)


def test_threads_at_once(normal):
    """Several Python threads, several shapes, one cache of plans."""
    inputs = [[normal(1, 2, t, 32) for _ in range(3)] for t in (1, 40, 100, 300)]
    expected = [fovea.attention(*x, causal=True) for x in inputs]
    wrong = []

    def work(first):
        for i in range(200):
            at = (first + i) % len(inputs)
            if not np.array_equal(fovea.attention(*inputs[at], causal=True), expected[at]):
                wrong.append(at)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    assert not wrong


def test_the_gil_is_released(normal):
    """Another thread counts while a long call runs."""
    big = normal(1, 8, 1000, 64)
    count, running = 0, True

    def tick():
        nonlocal count
        while running:
            count += 1
            time.sleep(0.0002)

    with fovea.config(threads=1):
        thread = threading.Thread(target=tick)
        switch = sys.getswitchinterval()
        sys.setswitchinterval(3600)  # nobody gets the GIL but by its being released
        try:
            thread.start()
            for _ in range(1000):  # a busy machine may let the other thread sleep through a call
                before = count
                fovea.attention(big, big, big)
                during = count - before
                if during:
                    break
        finally:
            running = False
            sys.setswitchinterval(switch)
            thread.join()
    assert during
