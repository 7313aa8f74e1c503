"""Folders of models: damaged ones, names on the hub and in its cache, shards and types of weights."""

import json
import shutil

import embedding_models
import pytest
import torch

from fovea.sentence_transformers import CrossEncoder, SentenceTransformer


TEXTS = embedding_models.texts()


def damaged(folder, tmp_path, name, content):
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    if content is None:
        (copy / name).unlink()
    else:
        (copy / name).write_bytes(content)
    return str(copy)


@pytest.mark.parametrize(
    "name, content, sentence",
    [
        ("config.json", None, "copy lacks modules.json and config.json: it is no folder of a model"),
        ("model.safetensors", None, "copy lacks model.safetensors"),
        ("tokenizer.json", None, "copy lacks tokenizer.json, which transformers makes of other files: AutoTokenizer.from"),
        ("config.json", b"{", "config.json is no JSON"),
        ("config.json", b"[]", "config.json has no JSON object"),
        ("config.json", b'{"model_type": "t5"}', "the backbone 't5' is not served: bert, roberta"),
        ("config.json", b'{"model_type": "bert"}', "config.json in .*copy lacks hidden_size"),
        ("tokenizer.json", b"{}", "tokenizer.json cannot be read"),
        ("model.safetensors", b"", "model.safetensors is empty"),
        ("model.safetensors", b"\xff" * 20, "model.safetensors is no whole file of safetensors"),
        ("modules.json", b'{"a": 1}', "modules.json is no list of modules"),
        ("modules.json", b'[{"idx": 0, "path": "../x", "type": "a.Transformer"}]', "a path leaves the folder"),
        ("modules.json", b"[]", "a model that begins with nothing is not served"),
    ],
)
def test_damaged_folders(name, content, sentence, folder, tmp_path):
    with pytest.raises((OSError, ValueError, NotImplementedError), match=sentence) as raised:
        SentenceTransformer(damaged(folder, tmp_path, name, content))
    assert "\n" not in str(raised.value)


def test_damaged_weights(folder, tmp_path):
    """Headers that lie about sizes, and weights of other shapes or names."""
    whole = open(f"{folder}/model.safetensors", "rb").read()
    size = int.from_bytes(whole[:8], "little")
    header, data = json.loads(whole[8 : 8 + size]), whole[8 + size :]
    name = "embeddings.word_embeddings.weight"
    cases = [
        (lambda e: e | {"data_offsets": [0, 10**15]}, "is no whole file"),
        (lambda e: e | {"data_offsets": [-4, 0]}, "is no whole file"),
        (lambda e: e | {"shape": [10**9, 10**9]}, "is no whole file"),
        (lambda e: e | {"shape": [60, 128]}, "has the shape|channels"),
        (lambda e: e | {"dtype": "I32"}, "has the type I32, not that of floats"),
    ]
    for i, (change, sentence) in enumerate(cases):
        text = json.dumps(header | {name: change(header[name])}).encode()
        content = len(text).to_bytes(8, "little") + text + data
        with pytest.raises(ValueError, match=sentence):
            model = SentenceTransformer(damaged(folder, tmp_path / str(i), "model.safetensors", content))
            model.encode("w1")
    del header["encoder.layer.1.output.dense.weight"]
    text = json.dumps(header).encode()
    content = len(text).to_bytes(8, "little") + text + data
    with pytest.raises(ValueError, match="lack encoder.layer.1.output.dense.weight"):
        SentenceTransformer(damaged(folder, tmp_path / "name", "model.safetensors", content))


def test_names_offline(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for name, sentence in [
        (
            "all-none",
            "there is no folder all-none, and sentence-transformers/all-none of the hub .*: not in the local cache",
        ),
        ("a/none", "a/none of the hub cannot be had: not in the local cache, and downloading is off"),
        ("./none", "there is no folder ./none"),
        (__file__, "is a file: pass the folder"),
    ]:
        with pytest.raises(OSError, match=sentence):
            SentenceTransformer(name, cache_folder=str(tmp_path))
    with pytest.raises(OSError, match="cross-encoder/none of the hub"):
        CrossEncoder("none", cache_folder=str(tmp_path))


def test_name_in_the_cache(folder, model, tmp_path):
    snapshot = tmp_path / "models--a--b/snapshots/0123"
    shutil.copytree(folder, snapshot)
    (tmp_path / "models--a--b/refs").mkdir()
    (tmp_path / "models--a--b/refs/main").write_text("0123")
    cached = SentenceTransformer("a/b", cache_folder=str(tmp_path), local_files_only=True)
    assert cached.encode(TEXTS).tobytes() == model.encode(TEXTS).tobytes()


def test_shards_and_types(folder, model, tmp_path):
    """Sharded weights give the same vectors, those of 16 bits the vectors of their numbers."""
    import transformers

    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    (tmp_path / "model.safetensors").unlink()
    whole = transformers.AutoModel.from_pretrained(folder)
    whole.save_pretrained(tmp_path, max_shard_size="60KB")
    assert (tmp_path / "model.safetensors.index.json").is_file()
    assert SentenceTransformer(str(tmp_path)).encode(TEXTS).tobytes() == model.encode(TEXTS).tobytes()
    for dtype in (torch.bfloat16, torch.float16):
        half = tmp_path / str(dtype)
        shutil.copytree(folder, half)
        whole.to(dtype).save_pretrained(half)
        found = SentenceTransformer(str(half)).encode(TEXTS)
        whole.float().save_pretrained(half)
        assert found.tobytes() == SentenceTransformer(str(half)).encode(TEXTS).tobytes()
