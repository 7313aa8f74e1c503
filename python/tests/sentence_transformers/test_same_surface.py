"""Methods of sentence-transformers' models besides encode(): modules, types, saving, empty inputs, similarities, tokens; against the
package itself."""

import copy
import json
import pickle
import shutil

import embedding_models
import numpy as np
import pytest
import sentence_transformers
import torch
import transformers
from embedding_models import changed
from sentence_transformers.sentence_transformer import modules as st

from fovea.sentence_transformers import CrossEncoder, SentenceTransformer

TEXTS = embedding_models.texts()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("saved"))
    transformer = st.Transformer(str(embedding_models.backbone("bert")))
    modules = [transformer, st.Pooling(64, "mean"), st.Dense(64, 32), st.Normalize()]
    prompts = {"query": "w1 w2 ", "passage": "w3 "}
    options = {"prompts": prompts, "similarity_fn_name": "dot", "truncate_dim": 24}
    sentence_transformers.SentenceTransformer(modules=modules, device="cpu", **options).save(path)
    return path


@pytest.fixture
def both(folder):
    return SentenceTransformer(folder), sentence_transformers.SentenceTransformer(folder, device="cpu")


def close(found, expected):
    assert found.shape == tuple(expected.shape)
    np.testing.assert_allclose(found, np.asarray(expected), atol=1e-5)


def test_the_configured_truncation(both, folder):
    ours, theirs = both
    assert ours.truncate_dim == theirs.truncate_dim == 24 == ours.get_embedding_dimension()
    close(ours.encode(TEXTS), theirs.encode(TEXTS))
    assert SentenceTransformer(folder, truncate_dim=5).encode("w1").shape == (5,)
    with ours.truncate_embeddings(None):
        assert ours.encode("w1").shape == (32,)
    with pytest.raises(TypeError, match="truncate_dim is '5', it must be a whole number"):
        ours.truncate_dim = "5"


def test_modules(both):
    ours, theirs = both
    assert len(ours) == len(theirs) == 4 and ours
    names = [type(module).__name__ for module in theirs]
    assert [type(module).__name__ for module in ours] == names == [type(module).__name__ for module in ours.children()]
    assert [type(module).__name__ for module in ours.modules()] == ["SentenceTransformer", *names]
    assert [name for name, _ in ours.named_modules()] == ["", "0", "1", "2", "3"] and next(ours.modules()) is ours
    assert dict(ours.named_children())["1"] is ours[1]
    for ours_is, theirs_is in zip(list(ours)[:3], list(theirs)[:3], strict=True):
        assert ours_is.get_embedding_dimension() == theirs_is.get_embedding_dimension()
    assert (ours[1].pooling_mode, ours[1].include_prompt) == (theirs[1].pooling_mode, theirs[1].include_prompt)
    assert (ours[2].in_features, ours[2].out_features) == (theirs[2].in_features, theirs[2].out_features)
    assert ours[0].tokenizer is ours.tokenizer and ours[0].config is ours.config and ours[-1] is ours[3]
    ours[0].max_seq_length = theirs[0].max_seq_length = 9
    close(ours.encode(TEXTS), theirs.encode(TEXTS))
    with pytest.raises(TypeError, match="a SentenceTransformer of some modules is not served"):
        ours[:2]
    assert len(CrossEncoder(str(embedding_models.classifier("bert")))) == 1


@pytest.mark.parametrize("kind", embedding_models.CONFIGS)
def test_half(kind, tiers):
    """Vectors of 16 bits are near those of 32, have one value in any batch and on any tier, and the way back loses none."""
    model = SentenceTransformer(str(embedding_models.backbone(kind)))
    before = model.encode(TEXTS)
    assert model.half() is model and model.dtype == np.float16
    halves = tiers(lambda: model.encode(TEXTS))
    assert 0 < np.abs(halves - before).max() < 2e-2 * np.abs(before).max()
    assert np.stack([model.encode(text) for text in TEXTS]).tobytes() == halves.tobytes()
    assert SentenceTransformer(model.folder, dtype="float16").encode(TEXTS).tobytes() == halves.tobytes()
    assert model.float().encode(TEXTS).tobytes() == before.tobytes()


def test_conversions(both):
    model, _ = both
    whole = model.encode(TEXTS)
    assert model.to("cpu") is model.to(torch.device("cpu")) is model.to(torch.float32) is model.to(device="cpu", dtype=None)
    for convert in (
        lambda: model.to(torch.bfloat16),
        lambda: model.to(dtype="bfloat16"),
        lambda: model.to("cpu", torch.bfloat16),
        model.bfloat16,
    ):
        pytest.importorskip("ml_dtypes")
        convert()
        assert model.dtype.name == "bfloat16" and not np.array_equal(model.encode(TEXTS), whole)
        model.float()
    assert np.array_equal(model.encode(TEXTS), whole)
    with pytest.raises(NotImplementedError, match="dtype is 'float64': 'float32'"):
        model.to(torch.float64)
    with pytest.raises(ValueError, match="device is 'cuda'"):
        model.to("cuda")


def test_empty(both):
    ours, theirs = both
    for options in (
        {}, {"convert_to_tensor": True}, {"convert_to_numpy": False}, {"output_value": "token_embeddings"}, {"output_value": None},
        {"precision": "int8"}, {"normalize_embeddings": True, "convert_to_tensor": True},
    ):  # fmt: skip
        found, expected = ours.encode([], **options), theirs.encode([], **options)
        assert type(found) is type(expected) and getattr(found, "shape", None) == getattr(expected, "shape", None), options


@pytest.mark.parametrize("kind", ["cosine", "dot", "euclidean", "manhattan"])
def test_similarities(kind, both):
    ours, theirs = both
    ours.similarity_fn_name = theirs.similarity_fn_name = kind
    random = np.random.default_rng(0)
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        a, b = (torch.from_numpy(random.standard_normal((n, 12))).to(dtype) for n in (5, 3))
        for left, right in ((a, b), (a[0], b), (list(a), list(b)), (a.requires_grad_(), b)):
            found, expected = ours.similarity(left, right), theirs.similarity(left, right).detach()
            assert found.dtype is expected.dtype and found.shape == expected.shape
            tolerance = 1e-12 if dtype is torch.float64 else 1e-4
            torch.testing.assert_close(found, expected, atol=tolerance, rtol=tolerance)
            found, expected = (model.similarity_pairwise(a[:3], b).detach() for model in both)
            torch.testing.assert_close(found, expected, atol=tolerance, rtol=tolerance)
    double = a.detach().double().numpy()
    assert ours.similarity(double, double).dtype == np.float64
    assert np.abs(ours.similarity(double * (1 + 1e-12), double) - ours.similarity(double, double)).max() < 1e-9
    assert ours.similarity(double[:0], double).shape == (0, 5) and ours.similarity(double, double[:0]).shape == (5, 0)
    assert ours.similarity([[1.0, 2.0]], [[1.0, 2.0]]).dtype == np.float32  # as numbers become tensors
    for wrong in ("text", None, [["a"]], [[1.0], [1.0, 2.0]], double * 1j, torch.ones(5, 12) * 1j, 3.0, np.array([[None] * 12])):
        with pytest.raises((TypeError, ValueError), match="embeddings"):
            ours.similarity(wrong, double)
    with pytest.raises(ValueError, match=r"embeddings have the shape \(1, 5, 12\), not \[rows, channels\]"):
        ours.similarity(double[None], double)
    with pytest.raises(ValueError, match="embeddings1 has 12 channels, embeddings2 11"):
        ours.similarity(double, double[:, :11])


# ----------------------------------------------------------------------------------------------------------------- saving


def test_save(both, tmp_path):
    """Changes to a model are in the folder that it saves, for both packages."""
    model, _ = both
    model.max_seq_length, model.similarity_fn_name, model.truncate_dim = 9, "euclidean", 20
    model.prompts["own"], model.default_prompt_name = "w7 w8 ", "own"
    model.set_pooling_include_prompt(False)
    expected = model.encode(TEXTS)
    model.save_pretrained(tmp_path / "a/b")
    model.save(str(tmp_path / "a/b"))  # again, over it
    again, theirs = SentenceTransformer(tmp_path / "a/b"), sentence_transformers.SentenceTransformer(str(tmp_path / "a/b"), device="cpu")
    assert again.encode(TEXTS).tobytes() == expected.tobytes()
    close(expected[[i for i, t in enumerate(TEXTS) if t]], theirs.encode([t for t in TEXTS if t]))
    for one in (again, theirs):
        assert (one.max_seq_length, one.similarity_fn_name, one.truncate_dim) == (9, "euclidean", 20)
        assert one.default_prompt_name == "own" and one.prompts == model.prompts and not one[1].include_prompt
    again.max_seq_length = 12
    again.save(again.folder)  # over its own files
    assert SentenceTransformer(tmp_path / "a/b").max_seq_length == 12
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]


def test_save_without_modules(tmp_path):
    model = SentenceTransformer(str(embedding_models.backbone("modernbert")), weights="int8")
    model.save_pretrained(tmp_path / "copy")
    expected = SentenceTransformer(str(embedding_models.backbone("modernbert"))).encode(TEXTS)
    assert SentenceTransformer(tmp_path / "copy").encode(TEXTS).tobytes() == expected.tobytes()
    close(expected, sentence_transformers.SentenceTransformer(str(tmp_path / "copy"), device="cpu").encode(TEXTS))


def test_save_a_classifier(tmp_path):
    model = CrossEncoder(str(embedding_models.classifier("bert", 3)), activation_fn=torch.nn.Tanh(), max_length=11)
    pairs = [("w1 w2", "w3"), ("w4", "w5 " * 30)]
    model.save_pretrained(tmp_path / "copy")
    again = CrossEncoder(tmp_path / "copy")
    assert again.predict(pairs).tobytes() == model.predict(pairs).tobytes() and again.max_length == 11
    theirs = sentence_transformers.CrossEncoder(str(tmp_path / "copy"), device="cpu")
    close(again.predict(pairs), np.stack([theirs.predict(pair) for pair in pairs]))
    model.activation_fn = lambda x: x
    with pytest.raises(ValueError, match="which no file can name"):
        model.save_pretrained(tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_save_where_it_cannot(both, tmp_path):
    (tmp_path / "file").write_text("kept")
    with pytest.raises(NotADirectoryError, match="file is a file: pass a folder"):
        both[0].save_pretrained(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "kept"
    with pytest.raises(ValueError, match="safe_serialization is False"):
        both[0].save_pretrained(tmp_path / "model", safe_serialization=False)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


# ----------------------------------------------------------------------------------------------------------------- tokens


def test_truncation_on_the_left(tmp_path):
    folder = changed(embedding_models.backbone("bert"), tmp_path / "a", "tokenizer_config.json", truncation_side="left")
    ours, theirs = SentenceTransformer(folder), sentence_transformers.SentenceTransformer(folder, device="cpu")
    ours.max_seq_length = theirs.max_seq_length = 7
    texts = ["w1 w2 w3 w4 w5 w6 w7 w8 w9"]
    assert ours.tokenize(texts)["input_ids"].tolist() == theirs.preprocess(texts)["input_ids"].tolist()
    close(ours.encode(texts), theirs.encode(texts))


def test_types_of_tokens_that_a_tokenizer_does_not_give(tmp_path):
    names = ["input_ids", "attention_mask"]
    folder = changed(embedding_models.classifier("bert"), tmp_path / "a", "tokenizer_config.json", model_input_names=names)
    pairs = list(zip(TEXTS, TEXTS[::-1], strict=True))
    expected = [sentence_transformers.CrossEncoder(folder, device="cpu").predict(pair) for pair in pairs]
    close(CrossEncoder(folder).predict(pairs), np.array(expected))


def test_lower_case(folder, tmp_path):
    """As a normalizer, before which special tokens are found."""
    path = changed(folder, tmp_path / "a", "sentence_bert_config.json", do_lower_case=True)
    ours, theirs = SentenceTransformer(path), sentence_transformers.SentenceTransformer(path, device="cpu")
    texts = ["W1 w2 <mask> W3", "ΟΔΟΣ W4", "İ W5"]
    assert ours.tokenize(texts)["input_ids"].tolist() == theirs.preprocess(texts)["input_ids"].tolist()
    close(ours.encode(texts), theirs.encode(texts))


@pytest.mark.parametrize("files", ["tokenizer.json", "vocab.txt"])
@pytest.mark.parametrize(
    "values", [{}, {"do_lower_case": False}, {"do_lower_case": True}, {"strip_accents": False}, {"tokenize_chinese_chars": False}]
)
def test_what_tokenizers_of_bert_normalize(values, files, tmp_path):
    """By tokenizer_config.json, also where tokenizer.json says otherwise."""
    folder = tmp_path / "a"
    shutil.copytree(embedding_models.word_pieces(), folder)
    words = (folder / "vocab.txt").read_text()
    for word, other in (("w114", "é你"), ("w113", "e"), ("w112", "你"), ("w111", "W9")):
        words = words.replace(word, other)
    (folder / "vocab.txt").write_text(words)
    transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(folder)
    if files == "vocab.txt":
        (folder / "tokenizer.json").unlink()
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    texts = ["W1 w2 W9", "é e", "w1你w2", "é你"]
    for kind in (settings["tokenizer_class"], *(["TokenizersBackend"] if files == "tokenizer.json" else [])):
        (folder / "tokenizer_config.json").write_text(json.dumps(settings | values | {"tokenizer_class": kind}))
        ours, theirs = SentenceTransformer(folder), sentence_transformers.SentenceTransformer(str(folder), device="cpu")
        assert ours.tokenize(texts)["input_ids"].tolist() == theirs.preprocess(texts)["input_ids"].tolist()


def test_tokens_with_a_prompt(both):
    ours, theirs = both
    texts = ["w4 w5", "w6"]
    found, expected = ours.preprocess(texts, prompt="w1 "), theirs.preprocess(texts, prompt="w1 ")
    assert all(found[name].tolist() == expected[name].tolist() for name in found)
    with pytest.raises(TypeError, match="takes texts, not tuple"):
        ours.tokenize([("w1", "w2")])


def test_the_prompt_s_length_follows_the_limit(folder, tmp_path):
    path = changed(folder, tmp_path / "a", "1_Pooling/config.json", include_prompt=False)
    ours, theirs = SentenceTransformer(path), sentence_transformers.SentenceTransformer(path, device="cpu")
    for limit in (4, 40):
        ours.max_seq_length = limit
        fresh = SentenceTransformer(path)
        fresh.max_seq_length = limit
        assert ours.encode("w9 w8", prompt="w1 w2 w3 w4 w5 ").tobytes() == fresh.encode("w9 w8", prompt="w1 w2 w3 w4 w5 ").tobytes()
    close(ours.encode("w9 w8", prompt="w1 w2 w3 w4 w5 "), theirs.encode("w9 w8", prompt="w1 w2 w3 w4 w5 "))


def test_prompts_that_are_none(folder):
    """None stands for the saved prompt, an empty text for no prompt."""
    for kind in (SentenceTransformer, sentence_transformers.SentenceTransformer):
        prompts = kind(folder, prompts={"query": None, "passage": ""}, device="cpu").prompts
        assert prompts == {"query": "w1 w2 ", "document": "", "passage": ""}


def test_a_language_model_s_last_token(tmp_path):
    """Without modules.json a causal language model is pooled by its last token."""
    folder = changed(embedding_models.backbone("qwen3"), tmp_path / "a", "config.json", architectures=["Qwen3ForCausalLM"])
    ours, theirs = SentenceTransformer(folder), sentence_transformers.SentenceTransformer(folder, device="cpu")
    assert ours[1].pooling_mode == theirs[1].pooling_mode == "lasttoken"
    close(np.stack([ours.encode(t) for t in TEXTS]), np.stack([theirs.encode(t) for t in TEXTS]))


def test_one_text_in_an_array(both):
    for model in both:
        assert model.encode(np.str_("w1 w2")).shape == (24,)
    assert both[0].encode(np.array("w1 w2")).tobytes() == both[0].encode("w1 w2").tobytes()


@pytest.mark.parametrize("again", [copy.deepcopy, copy.copy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies(again, both):
    model, _ = both
    model.prompts["own"], model.default_prompt_name, model.max_seq_length, model.truncate_dim = "w7 ", "own", 9, 20
    model.half().similarity_fn_name = "manhattan"
    copied = again(model)
    assert copied is not model and copied.encode(TEXTS).tobytes() == model.encode(TEXTS).tobytes()
    assert copied.similarity_fn_name == "manhattan" and copied.prompts == model.prompts
    classifier = CrossEncoder(str(embedding_models.classifier("bert", 3)), activation_fn="Tanh", max_length=5)
    pairs = [("w1 w2 w3", "w4 w5 w6")]
    assert again(classifier).predict(pairs).tobytes() == classifier.predict(pairs).tobytes()


def test_pools_compute_with_what_was_changed(both):
    """Whatever is set after the pool was started, and before a call."""
    model, _ = both
    prompt = "w1 w2 w3 "
    pool = model.start_multi_process_pool(["cpu"])
    try:
        before = model.encode(TEXTS, pool=pool, prompt=prompt)
        model.max_seq_length = 9
        model.set_pooling_include_prompt(False)
        found = model.encode(TEXTS, pool=pool, prompt=prompt)
        assert found.tobytes() == model.encode(TEXTS, prompt=prompt).tobytes() != before.tobytes()
        assert model.encode_multi_process(TEXTS, pool, None, prompt).tobytes() == found.tobytes()
        assert model.encode([], pool=pool, convert_to_tensor=True).shape == (0,)
    finally:
        model.stop_multi_process_pool(pool)
    with pytest.raises(TypeError, match="target_devices is 'cpu', it must be a list"):
        model.start_multi_process_pool("cpu")
