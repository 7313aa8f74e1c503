"""tools/embed/compare.py, which make run runs: vectors of C and of Python have the same bytes."""

import pathlib
import shutil
import subprocess
import sys

import embedding_models
import numpy as np
import pytest
import transformers

from fovea.sentence_transformers import SentenceTransformer

FILE = pathlib.Path(__file__).parents[3] / "tools/embed/compare.py"
TEXTS = embedding_models.texts()


@pytest.fixture
def text(tmp_path):
    (tmp_path / "texts").write_text("".join(text + "\n" for text in TEXTS))
    return tmp_path / "texts"


def compare(*arguments):
    done = subprocess.run([sys.executable, FILE, *arguments], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def test_fovea_embed(text, tmp_path):
    folder, vectors = embedding_models.word_pieces(), tmp_path / "vectors.npy"
    embedding_models.fovea_embed(folder, text, vectors)
    expected = (
        "Python: the vectors of 11 lines in batches of 64 have the same bytes with 2 threads, in reverse order, "
        "from fovea-embed and alone (11 lines)\n"
    )
    assert compare(folder, text, vectors) == (0, expected, "")


def test_other_bytes(text, tmp_path):
    folder = embedding_models.backbone("bert")
    vectors = SentenceTransformer(str(folder)).encode(TEXTS, normalize_embeddings=True)
    vectors[3, 5] = np.nextafter(vectors[3, 5], 1)
    np.save(tmp_path / "vectors.npy", vectors)
    status, out, error = compare(folder, text, tmp_path / "vectors.npy")
    assert (status, out) == (1, "")
    assert error == "compare.py: the vectors of 1 of 11 lines have other bytes from fovea-embed than in batches of 64\n"
    np.save(tmp_path / "vectors.npy", vectors[1:])
    assert compare(folder, text, tmp_path / "vectors.npy")[::2] == (
        1,
        "compare.py: vectors from fovea-embed are float32 (10, 64), not float32 (11, 64)\n",
    )
    assert compare(tmp_path, text)[2].endswith("lacks modules.json and config.json: it is no folder of a model\n")


def test_sentence_pieces(text, tmp_path):
    """A model with SentencePiece's file alone is refused; what the sentence says makes it one that both programs read."""
    import sentencepiece

    folder = tmp_path / "model"
    shutil.copytree(embedding_models.backbone("xlm-roberta"), folder)
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").unlink()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS), model_prefix=str(tmp_path / "pieces"), vocab_size=100, minloglevel=2, hard_vocab_limit=False
    )
    shutil.copy(tmp_path / "pieces.model", folder / "sentencepiece.bpe.model")
    with pytest.raises(OSError, match="lacks tokenizer.json, which transformers makes of other files: Auto") as raised:
        SentenceTransformer(str(folder))
    assert "\n" not in str(raised.value)
    transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(folder)
    embedding_models.fovea_embed(folder, text, tmp_path / "vectors.npy")
    assert compare(folder, text, tmp_path / "vectors.npy")[0] == 0
