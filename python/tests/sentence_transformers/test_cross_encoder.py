"""CrossEncoder against sentence-transformers in double: heads of each backbone, activations, rank, bits."""

import embedding_models
import numpy as np
import pytest
import sentence_transformers
import torch

import fovea
from fovea.sentence_transformers import CrossEncoder


def pairs(seed=0):
    texts = embedding_models.texts(seed)
    return list(zip(texts, texts[::-1], strict=True))


def both(kind, labels=1):
    folder = str(embedding_models.classifier(kind, labels))
    doubles = sentence_transformers.CrossEncoder(folder, device="cpu").double()
    doubles.model.config._attn_implementation = "eager"
    return CrossEncoder(folder), doubles


def doubles_of(model, pairs, **options):
    """One pair at a time, since padding changes no double by more than its last digits but models by their bugs."""
    return np.stack([model.predict(pair, convert_to_tensor=True, **options).numpy() for pair in pairs])


@pytest.mark.parametrize("kind", embedding_models.CONFIGS)
@pytest.mark.parametrize("labels", [1, 3])
def test_against_double(kind, labels):
    model, doubles = both(kind, labels)
    assert model.num_labels == labels and model.max_length == embedding_models.LIMIT
    expected, found = doubles_of(doubles, pairs()), model.predict(pairs())
    assert found.shape == expected.shape == ((11,) if labels == 1 else (11, 3)) and found.dtype == np.float32
    assert np.abs(found - expected).max() < 5e-6 * max(1, np.abs(expected).max())


def test_activations_and_softmax():
    model, doubles = both("bert", 3)
    for activation in (torch.nn.Sigmoid(), torch.nn.Tanh(), None):
        np.testing.assert_allclose(
            model.predict(pairs(), activation_fn=activation),
            doubles_of(doubles, pairs(), activation_fn=activation),
            atol=1e-5,
        )
    soft = model.predict(pairs(), apply_softmax=True)
    np.testing.assert_allclose(soft, torch.softmax(doubles.predict(pairs(), convert_to_tensor=True), 1), atol=1e-6)
    np.testing.assert_array_equal(model.predict(pairs(), activation_fn=lambda x: x + 1), model.predict(pairs()) + 1)
    np.testing.assert_array_equal(
        model.predict(pairs(), activation_fn=torch.relu), np.maximum(model.predict(pairs()), 0)
    )
    with pytest.raises(NotImplementedError, match="torch.nn.Softplus is not served"):
        model.predict(pairs(), activation_fn="torch.nn.modules.activation.Softplus")


def test_bits(tiers):
    model, _ = both("xlm-roberta")
    alone = np.array([model.predict(pair) for pair in pairs()])
    for size in (1, 4, 64):
        assert tiers(lambda size=size: model.predict(pairs(), batch_size=size)).tobytes() == alone.tobytes()
    with fovea.config(threads=1):
        assert model.predict(pairs()[::-1]).tobytes() == alone[::-1].tobytes()


def test_rank():
    model, doubles = both("bert")
    query, documents = "w1 w2 w3", embedding_models.texts()
    found = model.rank(query, documents, return_documents=True)
    expected = doubles.rank(query, documents)
    assert [f["corpus_id"] for f in found if f["text"]] == [
        e["corpus_id"] for e in expected if documents[e["corpus_id"]]
    ]
    assert [f["text"] for f in found] == [documents[f["corpus_id"]] for f in found]
    np.testing.assert_allclose([f["score"] for f in found], [e["score"] for e in expected], atol=1e-5)
    assert model.rank(query, documents, top_k=2) == [{k: f[k] for k in ("corpus_id", "score")} for f in found[:2]]
    with pytest.raises(ValueError, match="rank.. needs a model with one label, this one has 3"):
        both("bert", 3)[0].rank(query, documents)


def test_what_a_function_says_of_itself():
    """GELU by tanh, and classes in the place of objects."""
    model, doubles = both("bert", 3)
    gelu = torch.nn.GELU(approximate="tanh")
    expected = doubles_of(doubles, pairs(), activation_fn=gelu)
    np.testing.assert_allclose(model.predict(pairs(), activation_fn=gelu), expected, atol=1e-6)
    assert not np.array_equal(model.predict(pairs(), activation_fn="GELU"), model.predict(pairs(), activation_fn=gelu))
    with pytest.raises(TypeError, match=r"activation_fn is the class Sigmoid: pass an object, Sigmoid\(\)"):
        model.predict(pairs(), activation_fn=torch.nn.Sigmoid)
    for wrong in (lambda x: x[:1], lambda x: None, lambda x: "text", lambda x: x.sum()):
        with pytest.raises(ValueError, match=r"activation_fn gave \w+ \[.*\] for 11 pairs"):
            model.predict(pairs(), activation_fn=wrong)
    with pytest.raises(NotImplementedError, match="the activation own.Sigmoid is not served: it is not of torch.nn"):
        model.predict(pairs(), activation_fn="own.Sigmoid")


def test_lengths():
    """The constructor's limit of length, by either name, and in processes."""
    folder = str(embedding_models.classifier("bert"))
    long = [("w1 " * 300, "w2 " * 300)]
    for options in ({"max_length": 20}, {"processor_kwargs": {"model_max_length": 20}}):
        model = CrossEncoder(folder, **options)
        assert model.max_length == 20
        assert model.predict(long, device=["cpu"]).tobytes() == model.predict(long).tobytes()
    assert not np.array_equal(model.predict(long), CrossEncoder(folder).predict(long))
    for wrong in (0, -1):
        with pytest.raises(ValueError, match=f"model_max_length is {wrong}, it must be at least 1"):
            CrossEncoder(folder, max_length=wrong)
    with pytest.raises(NotImplementedError, match="processor_kwargs has 'colour'"):
        CrossEncoder(folder, max_length=20, processor_kwargs={"colour": 1})


def test_kinds_of_results():
    model, _ = both("bert")
    with pytest.raises(TypeError, match=r"rank\(\) takes a text, the query, and a list of texts"):
        model.rank("w1", "w2 w3")
    with pytest.raises(TypeError, match=r"rank\(\) takes a text"):
        model.rank("w1", 5)
    with pytest.raises(TypeError, match="top_k is 1.5, it must be a whole number"):
        model.rank("w1", ["w2"], top_k=1.5)
    with pytest.raises(ValueError, match="top_k is -1, it must be at least 0"):
        model.rank("w1", ["w2"], top_k=-1)
    assert np.isscalar(model.predict(("w1", "w2"))) and model.predict([]).shape == (0,)
    assert isinstance(model.predict(pairs(), convert_to_tensor=True), torch.Tensor)
    assert isinstance(model.predict(pairs(), convert_to_numpy=False), list)
    for wrong in ("w1", ["w1"], [("w1", "w2", "w3")], None):
        with pytest.raises(TypeError, match=r"predict\(\) takes"):
            model.predict(wrong)
    model.max_length = 20
    cut = model.predict([("w1 " * 300, "w2 " * 300)])
    assert not np.array_equal(cut, both("bert")[0].predict([("w1 " * 300, "w2 " * 300)]))
    with pytest.raises(NotImplementedError, match="a CrossEncoder with BertModel is not served"):
        CrossEncoder(str(embedding_models.backbone("bert")))
