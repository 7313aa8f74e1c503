"""Receipts of vectors: those of fovea-embed verify here and Python's there (tools/embed/test_receipts.py); tampered ones do not."""

import json
import random
import shutil
import sys
from pathlib import Path

import pytest

import fovea
from fovea.receipts import CannotTell, Differs, verify
from fovea.sentence_transformers import SentenceTransformer

ROOT = Path(__file__).resolve().parents[3]
KEPT = ROOT / "tests/data/receipts"
sys.path.insert(0, str(ROOT / "tools/receipts"))
from tampering import changed_bit, changed_bytes, changed_leaf, hostile, seal  # noqa: E402


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return shutil.copytree(ROOT / "tools/embed/tiny/bert", tmp_path_factory.mktemp("receipts") / "model")


@pytest.fixture(scope="module")
def model(folder):
    return SentenceTransformer(folder)


@pytest.fixture
def receipt():
    return json.loads((KEPT / "embed.receipt").read_text())


def test_kept(model, folder, tmp_path, receipt):
    for name in ("embed.receipt", "embed_python.receipt"):
        assert verify(KEPT / name, model) == verify(KEPT / name, folder) == 7
    again = tmp_path / "again"
    vectors = model.encode(receipt["texts"], normalize_embeddings=True, receipt=again, batch_size=2)
    assert vectors.tobytes() == model.encode(receipt["texts"], normalize_embeddings=True).tobytes()
    made = json.loads(again.read_text())
    assert {**made, "made": 0, "sha256": 0} == {**receipt, "made": 0, "sha256": 0}
    with pytest.raises(FileExistsError, match="never overwritten"):
        model.encode(receipt["texts"], receipt=again)


def test_settings(model, tmp_path):
    """Prompts, lengths, one text, private texts; the model's own length comes back."""
    model.max_seq_length = 7
    model.encode("a b c d e f g h", prompt="k ", receipt=tmp_path / "short")
    model.max_seq_length = 40
    made = json.loads((tmp_path / "short").read_text())
    assert made["texts"] == ["k a b c d e f g h"] and made["arithmetic"]["tokens"] == "7"
    assert verify(tmp_path / "short", model) == 1 and model.max_seq_length == 40
    model.encode(["a", "b"], receipt=tmp_path / "private", private_texts=True)
    with pytest.raises(CannotTell, match="its texts are private"):
        verify(tmp_path / "private", model)
    assert verify(tmp_path / "private", model, ["a", "b"]) == 2
    with pytest.raises(CannotTell, match="text 2 has another SHA-256"):
        verify(tmp_path / "private", model, ["a", "c"])
    for options, sentence in (
        ({"truncate_dim": 3}, "of whole float32 vectors"), ({"precision": "binary"}, "whole float32 vectors"),
        ({"output_value": None}, "of whole float32 vectors"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=sentence):
            model.encode(["a"], receipt=tmp_path / "none", **options)
    with pytest.raises(ValueError, match="only float32 has the same bits"):
        SentenceTransformer(model.folder, weights="int8").encode(["a"], receipt=tmp_path / "none")
    with pytest.raises(ValueError, match="there are no texts"):
        model.encode([], receipt=tmp_path / "none")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["private", "short"]


def test_answers(model, tmp_path, receipt):
    def check(kind, sentence, sealed=True, **changes):
        made = {**receipt, **changes}
        (tmp_path / "made").write_text(json.dumps(seal(made) if sealed else made))
        with pytest.raises(kind, match=sentence):
            verify(tmp_path / "made", model)

    def third(name):
        vectors = json.loads(json.dumps(receipt["vectors"]))
        vectors[2][name] = "0" * 64
        return vectors

    check(CannotTell, "version 2 of the bits", bits=fovea.BITS_VERSION + 1)
    check(CannotTell, "which is unknown", new=1)
    check(CannotTell, "of another model", model={**receipt["model"], "arrays": "0" * 64})
    check(CannotTell, "type is 'bf16' in the receipt", arithmetic={**receipt["arithmetic"], "type": "bf16"})
    check(CannotTell, "divided by their length 2 times", arithmetic={**receipt["arithmetic"], "normalized": "2"})
    check(Differs, "weights: arrays", model={**receipt["model"], "weights": "0" * 64})
    check(Differs, "the tokenizer", model={**receipt["model"], "template": "0" * 64})
    check(Differs, "text 3: its vector is another", vectors=third("vector"))
    check(Differs, "text 3: its tokens", False, vectors=third("tokens"))
    check(CannotTell, "text 3: tokens of the package", vectors=third("tokens"))
    check(Differs, "its own SHA-256", False, made={**receipt["made"], "seconds": "0"})
    (tmp_path / "made").write_text(json.dumps(seal({**receipt, "vectors": third("vector")})))
    found = []
    for seed in range(20):
        try:
            found.append(verify(tmp_path / "made", model, sample=3, seed=seed))
        except Differs:
            found.append(0)
    assert set(found) == {0, 3}


def test_hostile(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in hostile((KEPT / "embed.receipt").read_text()):
        with pytest.raises(CannotTell):
            verify(name, model)


def test_tampered(model, folder, tmp_path, receipt):
    chance, text = random.Random(3), (KEPT / "embed.receipt").read_text()
    weights = (folder / "model.safetensors").read_bytes()
    bad = shutil.copytree(folder, tmp_path / "other")
    for i in range(60):
        new = changed_bytes(text, chance) if i % 3 == 0 else json.dumps(changed_leaf(receipt, chance))
        if i % 10 == 1:
            new = text
            (bad / "model.safetensors").write_bytes(changed_bit(weights, chance)[0])
        if new is None:
            continue
        (tmp_path / "tampered").write_text(new)
        with pytest.raises((CannotTell, Differs)):
            verify(tmp_path / "tampered", bad if i % 10 == 1 else model)
