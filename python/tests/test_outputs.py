"""Results of a call besides out, lse and weights."""

import numpy as np
import pytest
import reference

import fovea


@pytest.fixture
def qkv(normal):
    return normal(2, 4, 9, 16), normal(2, 2, 300, 16), normal(2, 2, 300, 16)


def raw(q, k, scale=0.25):
    return q.astype(np.float64) @ k.astype(np.float64).repeat(2, 1).swapaxes(2, 3) * scale


def test_scores(qkv, normal, tiers):
    q, k, v = qkv
    bias = normal(9, 300)
    mask = reference.causal(9, 300, 100)
    call = dict(softcap=2.0, bias=bias, causal=100)
    expected = {"raw": raw(q, k)}
    expected["capped"] = 2 * np.tanh(expected["raw"] / 2)
    expected["biased"] = np.where(mask, expected["capped"] + bias, -np.inf)
    for kind, want in expected.items():
        out, scores = tiers(lambda: fovea.attention(*qkv, **call, return_scores=kind))
        assert np.array_equal(out, fovea.attention(*qkv, **call)) and scores.dtype == np.float32
        seen = np.isfinite(want)
        assert np.array_equal(np.isfinite(scores), seen) and np.abs(scores[seen] - want[seen]).max() < 2e-6 * 10
    _, weights, scores = fovea.attention(*qkv, **call, return_weights=True, return_scores="weights")
    assert np.array_equal(weights, scores)


@pytest.mark.parametrize("kind", ["raw", "weights"])
def test_chosen_scores(qkv, kind):
    whole = fovea.attention(*qkv, return_scores=kind)[1]
    part = fovea.attention(
        *qkv, return_scores=kind, score_heads=[0, 3], score_queries=(4, 6), score_keys=(250, 300)
    )[1]
    assert part.shape == (2, 2, 2, 50) and np.array_equal(part, whole[:, [0, 3], 4:6, 250:])
    bthd = [np.ascontiguousarray(x.swapaxes(1, 2)) for x in qkv]
    assert np.array_equal(fovea.attention(*bthd, layout="bthd", return_scores=kind)[1], whole)


def test_summary(qkv, tiers):
    _, weights = fovea.attention(*qkv, causal=100, return_weights=True)
    out, summary = fovea.attention(*qkv, causal=100, return_summary=True, top_keys=5)
    assert np.array_equal(out, fovea.attention(*qkv, causal=100)) and list(summary) == [
        "key_sums", "entropy", "max_weight", "top_keys", "top_weights",
    ]  # fmt: skip
    assert np.abs(summary["key_sums"] - weights.sum(2, dtype=np.float64)).max() < 2e-6
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = -np.where(weights > 0, weights * np.log(weights.astype(np.float64)), 0).sum(-1)
    assert np.abs(summary["entropy"] - entropy).max() < 2e-5
    assert np.array_equal(summary["max_weight"], weights.max(-1))
    order = np.argsort(-weights, -1, kind="stable")[..., :5]
    assert summary["top_keys"].dtype == np.int64 and np.array_equal(summary["top_keys"], order)
    assert np.array_equal(summary["top_weights"], np.take_along_axis(weights, order, -1))
    keys = ("key_sums", "entropy", "max_weight")
    tiers(lambda: tuple(fovea.attention(*qkv, return_summary=True)[1][key] for key in keys))
    _, lse, again = fovea.attention(*qkv, causal=100, return_lse=True, return_summary=True)
    assert list(again) == list(keys) and np.array_equal(again["key_sums"], summary["key_sums"]) and lse.shape == (2, 4, 9)


def test_everything_at_once(qkv):
    out = np.empty((2, 4, 9, 16), np.float32)
    result = fovea.attention(
        *qkv, out=out, return_lse=True, return_weights=True, return_scores="raw", return_summary=True
    )
    assert len(result) == 5 and result[0] is out and isinstance(result[4], dict)


def test_packed(normal):
    q = normal(12, 2, 8)
    call = dict(q_cu_seqlens=[1, 4, 12], kv_cu_seqlens=[0, 4, 11], layout="thd")
    _, weights, scores, summary = fovea.attention(
        q, q, q, **call, return_weights=True, return_scores="weights", return_summary=True, top_keys=9
    )
    assert scores.shape == (2, 12, 12) and np.array_equal(scores, weights)
    assert summary["key_sums"].shape == (2, 12) and np.abs(summary["key_sums"] - weights.sum(1)).max() < 1e-6
    assert summary["top_keys"].shape == (2, 12, 9)
    assert (summary["top_keys"][:, 0] == -1).all() and not summary["top_weights"][:, 0].any()
    raw_scores = fovea.attention(q, q, q, **call, return_scores="raw")[1]
    assert np.isneginf(raw_scores[:, 0]).all() and np.isfinite(raw_scores[:, 1:4, :4]).all()


@pytest.mark.parametrize(
    "options, error, match",
    [
        (dict(return_scores="softmax"), ValueError, "return_scores must be 'raw'"),
        (dict(return_scores=True), TypeError, "return_scores must be 'raw'"),
        (dict(score_heads=[1]), ValueError, "need return_scores"),
        (dict(return_scores="raw", score_heads=[3, 1]), ValueError, "."),
        (dict(return_scores="raw", score_heads=[4]), ValueError, "."),
        (dict(return_scores="raw", score_queries=(4, 10)), ValueError, r"score_queries is \(4, 10\), which is no part of 9"),
        (dict(return_scores="raw", score_keys=7), TypeError, r"score_keys must be a pair"),
        (dict(return_summary=True, top_keys=-1), ValueError, "top_keys"),
        (dict(top_keys=3), ValueError, "needs return_summary"),
    ],
)
def test_wrong_outputs(qkv, options, error, match):
    with pytest.raises(error, match=match):
        fovea.attention(*qkv, **options)
