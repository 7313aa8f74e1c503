"""Calls with arguments of every kind: each raises one sentence, or gives what numpy gives on the same numbers."""

import decimal

import numpy as np
import pytest
import reference
import torch

import fovea

ERRORS = (TypeError, ValueError, OverflowError, MemoryError, NotImplementedError, RuntimeError)
BATCH, HEADS, TOKENS, DIM = 2, 4, 7, 8
_numbers = np.random.default_rng(44)
Q, K, V = (_numbers.standard_normal((BATCH, heads, TOKENS, DIM), np.float32) for heads in (HEADS, 2, 2))
W = _numbers.standard_normal((DIM, DIM), np.float32)


class Index:
    def __index__(self):
        return 3


class Sub(torch.Tensor):
    pass


def record(x):
    made = np.zeros(x.shape, np.dtype([("other", "f4"), ("x", "f4")]))
    made["x"] = x
    return made


def numbers():
    """Booleans, integers and numbers of all kinds, and what is none."""
    yield from (
        True,
        False,
        np.True_,
        np.False_,
        np.bool_(True),
        0,
        1,
        -1,
        3,
        -3,
        2**31,
        2**63 - 1,
        2**63,
        2**64,
        -(2**63) - 1,
        10**400,
    )
    yield from (
        1.0,
        0.5,
        -0.5,
        0.0,
        float("nan"),
        float("inf"),
        1e308,
        1e-320,
        1j,
        decimal.Decimal("0.5"),
        np.float32(0.5),
        np.float64(2),
    )
    yield from (
        np.int8(3),
        np.int64(-2),
        np.uint64(2**64 - 1),
        Index(),
        torch.tensor(3),
        torch.tensor(True),
        torch.tensor(0.5),
    )
    yield from (
        np.array(3),
        np.array(True),
        np.array(0.5),
        torch.tensor(3).to("meta"),
        np.datetime64("2020"),
        "x" * 3000,
        "a\nb",
        b"ab",
        "é",
    )
    yield from (None, object(), int, {}, set(), range(2), lambda: 0, iter([3, 3]), ..., np.ma.masked)


def lists():
    """Lists of two integers, one for each sequence, and values that are none."""
    yield from (
        [3, 7],
        (0, 5),
        [np.int32(2), 4],
        np.array([3, 6]),
        np.array([3, 6], np.uint8),
        torch.tensor([3, 6], dtype=torch.int32),
    )
    yield from (
        [],
        [1],
        [1, 2, 3],
        [2**70, 1],
        [1.5, 2],
        [None, 3],
        np.array([2**64 - 1, 3], np.uint64),
        np.array([3.0, 3.0]),
        [True, 2],
    )
    yield from (
        np.array([[3, 6]]),
        np.array(["a", "b"]),
        np.array([3, 3], object),
        np.array([3, 6], ">i8"),
        np.array([3, 6, 1, 1])[::2],
    )
    yield from (
        np.ma.array([3, 6], mask=[0, 1]),
        torch.tensor([3, 6]).to("meta"),
        torch.tensor([3, 6]).to_sparse(),
        np.array([6, 3])[::-1],
    )
    yield from (
        np.array([3, 3], "m8[s]"),
        torch.tensor([True, False]),
        np.zeros(0, np.int64),
        torch._neg_view(torch.tensor([-3, -6])),
    )


def arrays(x):
    """Arrays of x's numbers, rounded in some, and values that are none."""
    t = torch.from_numpy(x)
    yield from (
        x,
        x.copy("F"),
        np.broadcast_to(x[:1], x.shape),
        x.astype(np.float16),
        t,
        t.bfloat16(),
        torch._neg_view(-t),
        t.as_subclass(Sub),
    )
    yield from (
        torch.complex(t, -t).conj().imag,
        t.expand(x.shape),
        torch.nn.Parameter(t, False),
        memoryview(np.ascontiguousarray(x)),
    )
    yield from (
        record(x)["x"],
        t.mT.contiguous().mT,
        np.repeat(x, 2, -1)[..., ::2],
        np.lib.stride_tricks.as_strided(x, x.shape),
    )
    yield from (
        x[..., ::-1],
        record(x),
        x.astype(">f4"),
        x.astype(np.float64),
        x > 0,
        x.astype("O"),
        np.matrix(x[0, 0]),
        np.ma.array(x),
        x[0],
    )
    yield from (
        t.to("meta"),
        t.to_sparse(),
        t.to_mkldnn(),
        torch.nested.nested_tensor([t[0], t[0]]),
        torch.nn.Parameter(t),
        t.double(),
        t[0],
    )
    yield from (
        torch.quantize_per_tensor(t, 0.1, 0, torch.qint8),
        x.tolist(),
        x[:, :, :0],
        t[..., :0],
        t.to(torch.float8_e4m3fn),
        np.float32(1),
    )


def plain(value):
    """As Python or numpy write it: 0-d arrays as numbers, others as arrays of numpy, of float64 where they are floats."""
    if isinstance(value, torch.Tensor):
        value = value.detach().resolve_neg()
        value = value.float().numpy() if value.is_floating_point() else value.numpy()
    elif isinstance(value, memoryview):
        value = np.asarray(value)
    if isinstance(value, np.ndarray | np.generic) and value.ndim == 0:
        return value.item()
    return value


def expected(q=Q, k=K, v=V, causal=None, window=None, scale=None, softcap=None, kv_lens=None, mask=None, bias=0.0):
    """Attention in float64, by the meaning of the arguments."""
    row, col = np.arange(q.shape[2])[:, None], np.arange(k.shape[2])[None, :]
    seen = np.ones((q.shape[0], 1, q.shape[2], k.shape[2]), bool) & (True if mask is None else mask)
    if causal is not None and causal is not False:
        offset = np.array(
            0
            if causal is True or isinstance(causal, str)
            else [int(x) for x in causal] if np.ndim(causal) else int(causal)
        )
        seen &= col <= row + offset.reshape(-1, 1, 1, 1).clip(-99, 99)
    if kv_lens is not None:
        seen &= col < np.asarray([int(x) for x in kv_lens]).reshape(-1, 1, 1, 1)
    for side, inside in zip(window or (), (row - col, col - row)):
        seen &= inside <= (99 if side is None or side == -1 else side)
    scale = None if scale is None else float(scale)
    return reference.attention(q, k, v, scale=scale, mask=seen, bias=bias, softcap=float(softcap) if softcap else None)[
        0
    ]


def fails_in_one_sentence(error):
    sentence = str(error)
    return sentence and "\n" not in sentence and len(sentence) < 400 and ".cpp" not in sentence


PAIRS = [
    (1, 2),
    [0, None],
    (-1, 3),
    (-2, 3),
    (2**63, 1),
    (1.5, 1),
    (np.int64(1), True),
    3,
    "ab",
    (1,),
    (1, 2, 3),
    np.array([1, 2]),
]
CHOICES = {
    "causal": [*numbers(), *lists(), "top_left", "bottom_right"],
    "window": PAIRS,
    "scale": list(numbers()),
    "softcap": list(numbers()),
    "kv_lens": [*lists(), *numbers()],
    "mask": [_numbers.random((TOKENS, TOKENS)) < 0.7, torch.rand(BATCH, 1, 1, TOKENS) < 0.7, *numbers(), *arrays(K)],
    "bias": [np.float32(0.5), _numbers.standard_normal((HEADS, 1, TOKENS), np.float32), *arrays(K), *lists()],
    "q": list(arrays(Q)),
    "k": list(arrays(K)),
    "v": list(arrays(V)),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CHOICES)
def test_attention(name):
    """Each value alone, and once together with a random one of another argument."""
    random, ran = np.random.default_rng(len(name)), 0
    for value in CHOICES[name]:
        other = str(random.choice([x for x in CHOICES if x != name]))
        for options in ({name: value}, {name: value, other: CHOICES[other][random.integers(len(CHOICES[other]))]}):
            try:
                out = fovea.attention(**{"q": Q, "k": K, "v": V} | options)
            except ERRORS as error:
                assert fails_in_one_sentence(error), (options, error)
                continue
            ran += 1
            want = expected(**{x: plain(y) for x, y in options.items()})
            rounds = options.get("q") is not None and out.dtype in (np.float16, torch.float16, torch.bfloat16)
            out = out.float().numpy() if isinstance(out, torch.Tensor) else out
            same = np.isclose(out, want, rtol=1e-2 if rounds else 2e-5, atol=1e-2 if rounds else 2e-5) | ~np.isfinite(
                want
            )
            assert same.all() and out.shape == want.shape, options
    assert ran > 3


def appended(**changed):
    cache = fovea.KVCache(1, 2, DIM, max_pages=8)
    given = {"layer": 0, "sequences": [cache.add(), cache.add()], "k": K, "v": V} | changed
    cache.append(**given)
    cache.length(given["sequences"][0], given["layer"])


CACHE = fovea.KVCache(1, 2, DIM, max_pages=8)
SEQUENCES = [CACHE.add(), CACHE.add()]
CACHE.append(0, SEQUENCES, K, V)
MAKERS = {
    "Plan": (
        fovea.Plan,
        dict(q_heads=4, q_len=7, kv_len=7, head_dim=8),
        "batch kv_heads value_dim causal window scale mask bias relative dtype",
    ),
    "Linear": (fovea.Linear, dict(weight=W), "weight bias activation layout scale heads dtype arithmetic"),
    "Rope": (
        fovea.Rope,
        dict(rotary_dim=8, scaling="yarn", factor=2.0, original_positions=16),
        "rotary_dim base pairing scaling factor divisors",
    ),
    "KVCache": (
        fovea.KVCache,
        dict(layers=1, kv_heads=2, head_dim=8, max_pages=2),
        "layers head_dim value_dim dtype max_pages windows rope",
    ),
    "MultiHead": (
        fovea.MultiHead,
        dict(q_heads=2, q=W, k=W, v=W, o=W),
        "q_heads kv_heads q o q_bias form causal window q_tokens kv_tokens cache_dtype shape",
    ),
    "boolean": (fovea.Mask.boolean, dict(mask=np.ones((7, 7), bool)), "mask prepare"),
    "key_padding": (fovea.Mask.key_padding, dict(mask=np.ones(7, bool)), "mask q_len"),
    "blocks": (
        fovea.Mask.blocks,
        dict(starts=np.array([0, 1]), blocks=[0], block_rows=7, block_keys=7, q_len=7, kv_len=7),
        "starts blocks block_rows block_keys q_len kv_len",
    ),
    "t5": (fovea.Relative.t5, dict(table=W, bidirectional=True), "table bidirectional max_distance"),
    "linear": (fovea.Linear(W).apply, dict(x=W), "x residual out lens part activation"),
    "rope": (fovea.Rope(8).apply, dict(x=Q, positions=0), "x positions layout out"),
    "append": (appended, {}, "layer sequences k v lens cu_seqlens layout rotated"),
    "attend": (
        CACHE.attend,
        dict(layer=0, sequences=SEQUENCES, q=Q),
        "layer sequences q causal kv_lens out q_cu_seqlens",
    ),
    "cache": (
        lambda length=0, **x: CACHE.evict(0, **{"begin": 0, "end": 0} | x) or CACHE.length(length),
        {},
        "begin end length",
    ),
    "file": (CACHE.save, dict(sequence=0, path=None), "sequence path"),
    "load": (CACHE.load, {}, "source"),
    "merge": (fovea.merge, dict(outs=[Q], lses=[Q[..., 0]]), "outs lses sinks layout"),
}
SPARE = [*numbers(), *lists(), *arrays(Q), *PAIRS]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MAKERS)
def test_objects(name, tmp_path, monkeypatch):
    """Works, or says why not."""
    monkeypatch.chdir(tmp_path)  # where a word is a file's name
    call, right, arguments = MAKERS[name]
    if right:
        call(**right)
    for argument in arguments.split():
        for value in SPARE:
            try:
                call(value) if name == "load" else call(**right | {argument: value})
            except (*ERRORS, OSError) as error:
                assert isinstance(error, OSError) or fails_in_one_sentence(error), (argument, value, error)
