"""Folders that sentence-transformers saved: pooling, Dense, Normalize, prompts, against itself in double."""

import embedding_models
import numpy as np
import pytest
import sentence_transformers
import torch
from sentence_transformers.sentence_transformer import modules as st

from fovea.sentence_transformers import SentenceTransformer
from fovea.sentence_transformers._heads import Pooling

MODES = ["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]


def saved(tmp_path, *after, pooling="mean", kind="bert", **options):
    """A folder, and its model in double."""
    transformer = st.Transformer(str(embedding_models.backbone(kind)))
    pool = st.Pooling(64, pooling) if isinstance(pooling, (str, tuple)) else pooling
    torch.manual_seed(2)
    sentence_transformers.SentenceTransformer(modules=[transformer, pool, *after], device="cpu", **options).save(
        str(tmp_path)
    )
    return str(tmp_path), sentence_transformers.SentenceTransformer(str(tmp_path), device="cpu").double()


def compare(folder, doubles, call=lambda model, texts: model.encode(texts)):
    texts = embedding_models.texts()
    expected, found = call(doubles, texts), call(SentenceTransformer(folder), texts)
    assert found.dtype == np.float32 and found.shape == expected.shape
    assert np.abs(found - expected).max() < 5e-6 * np.abs(expected).max()
    return found


@pytest.mark.parametrize("mode", [*MODES, ("cls", "mean", "max")])
def test_pooling(mode, tmp_path):
    compare(*saved(tmp_path, pooling=mode))


@pytest.mark.parametrize("mode", MODES)
def test_prompt_left_out(mode, tmp_path):
    prompts = {"query": "w1 w2 w3 ", "long": "w4 " * 300}
    folder, doubles = saved(tmp_path, pooling=st.Pooling(64, mode, include_prompt=False), prompts=prompts)
    compare(folder, doubles, lambda model, texts: model.encode_query([t for t in texts if t]))


@pytest.mark.parametrize("mode, rows", [("cls", [0, 6]), ("lasttoken", [2, 7])])
def test_text_that_is_only_its_prompt(mode, rows):
    """As of a tokenizer that puts nothing behind a text."""
    x = np.random.default_rng(1).normal(size=(8, 5)).astype(np.float32)
    pooling = Pooling({"pooling_mode": mode, "include_prompt": False}, 5)
    assert np.array_equal(pooling(x, np.array([0, 3, 8]), prompt_length=3), x[rows])


@pytest.mark.parametrize("activation", ["Tanh", "Identity", "ReLU", "GELU", "SiLU", "Sigmoid"])
def test_dense(activation, tmp_path):
    dense = st.Dense(64, 72, activation_function=getattr(torch.nn, activation)())
    compare(*saved(tmp_path, dense, st.Normalize()))


def test_several_after_pooling(tmp_path):
    """As EmbeddingGemma has them, and residuals."""
    wide = st.Dense(128, 192, bias=False, activation_function=torch.nn.Identity(), use_residual=True)
    same = st.Dense(192, 192, use_residual=True)
    narrow = st.Dense(192, 40, bias=False, activation_function=torch.nn.Identity())
    found = compare(*saved(tmp_path, wide, same, st.LayerNorm(192), narrow, st.Normalize(), pooling=("mean", "cls")))
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6)


def test_prompts_and_truncation(tmp_path):
    prompts = {"query": "w1 w2 ", "passage": "w3 ", "own": "w9 "}
    folder, doubles = saved(tmp_path, prompts=prompts, default_prompt_name="own", truncate_dim=None)
    model = SentenceTransformer(folder)
    assert model.prompts == {"document": "", **prompts} and model.default_prompt_name == "own"
    both = lambda call: compare(folder, doubles, call).tobytes()  # noqa: E731
    different = {
        both(lambda m, t: m.encode(t)),
        both(lambda m, t: m.encode(t, prompt_name="query")),
        both(lambda m, t: m.encode(t, prompt="w5 w6 ")),
        both(lambda m, t: m.encode_document(t)),
        both(lambda m, t: m.encode(t, prompt="")),
        both(lambda m, t: m.encode(t, truncate_dim=16, normalize_embeddings=True)),
    }
    assert len(different) == 5  # encode_document() finds the empty prompt "document"
    assert both(lambda m, t: m.encode_query(t)) in different
    with pytest.raises(ValueError, match="prompt_name is 'other', prompts are"):
        model.encode("w1", prompt_name="other")


def test_modules_that_are_not_served(tmp_path):
    folder, _ = saved(tmp_path, st.CNN(64, out_channels=16))
    with pytest.raises(NotImplementedError, match="the module CNN is not served: Dense, Normalize"):
        SentenceTransformer(folder)
