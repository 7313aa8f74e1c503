"""Hidden states of each backbone against transformers in double, and the bits of vectors, whatever computes them."""

import embedding_models
import numpy as np
import pytest
import torch
import transformers

import fovea
from fovea.sentence_transformers import SentenceTransformer

KINDS = list(embedding_models.CONFIGS)


def doubles(kind, folder, texts):
    """The results of transformers for each text alone."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager", dtype=torch.float64).eval()
    for text in texts:
        with torch.no_grad():
            yield model(**tokenizer([text], return_tensors="pt", truncation=True)).last_hidden_state[0].numpy()


@pytest.mark.parametrize("kind", KINDS)
def test_against_double(kind):
    folder, texts = embedding_models.backbone(kind), embedding_models.texts()
    found = SentenceTransformer(str(folder)).encode(texts, output_value="token_embeddings")
    lengths = set()
    for expected, states in zip(doubles(kind, folder, texts), found, strict=True):
        assert states.dtype == np.float32 and states.shape == expected.shape
        assert np.abs(states - expected).max() < 3e-6 * np.abs(expected).max()
        lengths.add(len(states))
    assert lengths >= {2, embedding_models.LIMIT}


@pytest.mark.parametrize("kind", KINDS)
def test_bits(kind, tiers):
    model, texts = SentenceTransformer(str(embedding_models.backbone(kind))), embedding_models.texts()
    alone = np.stack([model.encode(text) for text in texts])
    order = np.random.default_rng(1).permutation(len(texts))
    assert len(np.unique(alone, axis=0)) == len(texts) - 1  # two texts are empty
    for size in (1, 3, 64):
        assert tiers(lambda size=size: model.encode(texts, batch_size=size)).tobytes() == alone.tobytes()
    for threads in (1, 2, 5):
        with fovea.config(threads=threads):
            assert model.encode([texts[i] for i in order], batch_size=4).tobytes() == alone[order].tobytes()


def test_pad_in_a_text():
    """As a word of the text it has no position of its own."""
    folder, texts = embedding_models.backbone("roberta"), ["w1 <pad> w2 w3 <pad>", "<pad>"]
    found = SentenceTransformer(str(folder)).encode(texts, output_value="token_embeddings")
    for expected, states in zip(doubles("roberta", folder, texts), found, strict=True):
        np.testing.assert_allclose(states, expected, atol=1e-5)


@pytest.mark.parametrize("kind", ["bert", "modernbert", "gemma3_text"])
@pytest.mark.parametrize("weights, least", [("int8", 0.998), ("int4", 0.9)])
def test_quantized(kind, weights, least):
    folder, texts = str(embedding_models.backbone(kind)), embedding_models.texts()
    plain, small = SentenceTransformer(folder), SentenceTransformer(folder, weights=weights)
    a, b = (model.encode(texts, normalize_embeddings=True) for model in (plain, small))
    assert least < (a * b).sum(1).min() < 1 and small.nbytes < 0.5 * plain.nbytes
    assert all(table.dtype == np.float16 for table in small[0].backbone.tables.values())
    assert 0 < small.weight_error < 0.2 and plain.weight_error is None
    assert small.encode(texts[2]).tobytes() == small.encode(texts, batch_size=3)[2].tobytes()
    least_by, vectors = {"q8": 0.99 * least, "q16": least}, {"q16": b}
    for arithmetic, bound in least_by.items():
        one = SentenceTransformer(folder, weights=weights, arithmetic=arithmetic)
        vectors[arithmetic] = one.encode(texts, normalize_embeddings=True)
        assert bound < (a * vectors[arithmetic]).sum(1).min() and one.encode(texts[2]).shape
    assert vectors["q16"].tobytes() == b.tobytes() != vectors["q8"].tobytes()


@pytest.mark.parametrize("kind", ["bert", "qwen3", "gemma3_text"])
def test_bfloat16(kind, tiers):
    pytest.importorskip("ml_dtypes")
    folder, texts = str(embedding_models.backbone(kind)), embedding_models.texts()
    plain, small = SentenceTransformer(folder), SentenceTransformer(folder, model_kwargs={"dtype": "bfloat16"})
    a = plain.encode(texts, normalize_embeddings=True)
    b = tiers(lambda: small.encode(texts, normalize_embeddings=True))
    assert b.dtype == np.float32 and 0.998 < (a * b).sum(1).min() < 1 and small.nbytes < 0.6 * plain.nbytes
