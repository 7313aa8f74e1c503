"""Tiny random models of each backbone of fovea.sentence_transformers, as folders that transformers and
sentence-transformers wrote."""

import functools
import json
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors

WORDS = 115
LIMIT = 200  # tokens of a text
BASE = {
    "vocab_size": WORDS + 5,
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 96,
    "max_position_embeddings": 256,
    "pad_token_id": 1,
}
_DISTILBERT = {"dim": 64, "n_layers": 3, "n_heads": 4, "hidden_dim": 96}
CONFIGS = {
    "bert": lambda: transformers.BertConfig(**BASE),
    "roberta": lambda: transformers.RobertaConfig(**BASE | {"max_position_embeddings": 258, "type_vocab_size": 1}),
    "xlm-roberta": lambda: transformers.XLMRobertaConfig(
        **BASE | {"max_position_embeddings": 258, "type_vocab_size": 1}
    ),
    "mpnet": lambda: transformers.MPNetConfig(**BASE | {"max_position_embeddings": 258}),
    "distilbert": lambda: transformers.DistilBertConfig(**BASE | _DISTILBERT),
    "modernbert": lambda: transformers.ModernBertConfig(**BASE, local_attention=16, **_ids()),
    "nomic_bert": lambda: transformers.NomicBertConfig(**BASE),
    "qwen3": lambda: transformers.Qwen3Config(**BASE, num_key_value_heads=2, head_dim=16),
    "gemma3_text": lambda: transformers.Gemma3TextConfig(
        **BASE | {"num_hidden_layers": 7},
        num_key_value_heads=1,
        head_dim=16,
        sliding_window=16,
        use_bidirectional_attention=True,
        query_pre_attn_scalar=20,
    ),
}
WITH_TYPES = ("bert", "nomic_bert")  # whose tokenizers tell the texts of a pair apart


def _ids():
    return {"bos_token_id": 0, "cls_token_id": 0, "eos_token_id": 2, "sep_token_id": 2}


def save_tokenizer(folder, kind):
    words = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *(f"w{i}" for i in range(WORDS))]
    raw = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    raw.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> $B:1 </s>:1", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    names = ["input_ids", "attention_mask", *(["token_type_ids"] if kind in WITH_TYPES else [])]
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw, pad_token="<pad>", unk_token="<unk>", cls_token="<s>", sep_token="</s>", bos_token="<s>",
        eos_token="</s>", mask_token="<mask>", model_max_length=LIMIT, model_input_names=names,
    ).save_pretrained(folder)  # fmt: skip


def randomize(model, kind):
    """Numbers of the size that trained models have, where what a layer adds is not lost in the residual."""
    torch.manual_seed(1)
    for name, p in model.named_parameters():
        near_one = "norm" in name.lower() and name.endswith("weight") and kind != "gemma3_text"
        p.data = torch.randn_like(p) * (0.3 if p.ndim == 1 else p.shape[-1] ** -0.5) + (1.0 if near_one else 0.0)
    return model


@functools.cache
def _folders():
    return tempfile.TemporaryDirectory(prefix="fovea-embeddings-")


@functools.cache
def backbone(kind):
    """The folder of a backbone, without modules.json."""
    folder = Path(_folders().name) / kind
    randomize(transformers.AutoModel.from_config(CONFIGS[kind]()), kind).save_pretrained(folder)
    save_tokenizer(folder, kind)
    return folder


@functools.cache
def classifier(kind, labels=1):
    folder = Path(_folders().name) / f"{kind}-{labels}"
    config = CONFIGS[kind]()
    config.num_labels = labels
    model = transformers.AutoModelForSequenceClassification.from_config(config)
    randomize(model, kind).save_pretrained(folder)
    save_tokenizer(folder, kind)
    return folder


@functools.cache
def word_pieces():
    """A BERT with vocab.txt, which fovea-embed reads, too."""
    folder = Path(_folders().name) / "bert-vocab"
    shutil.copytree(backbone("bert"), folder)
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").unlink()
    (folder / "vocab.txt").write_text("\n".join(["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]", *(f"w{i}" for i in range(WORDS))]))
    return folder


def fovea_embed(folder, text, output):
    """Vectors of a file's lines by the program of C."""
    programs = (Path(__file__).parents[3] / f"build/{preset}/tools/fovea-embed" for preset in ("test", "release"))
    program = next((program for program in programs if program.is_file()), None)
    if program is None:
        pytest.skip("fovea-embed is not built: make test builds it")
    subprocess.run([program, "--model", folder, "--text", text, "--output", output], check=True, capture_output=True)


def text(rng, words):
    return " ".join(f"w{rng.integers(WORDS)}" for _ in range(words))


def texts(seed=0):
    """Texts of mixed lengths: some empty, some past the limit."""
    rng = np.random.default_rng(seed)
    return [text(rng, n) for n in (3, 0, 40, 1, 150, 17, 300, 25, 0, 199, 2)]


def changed(source, folder, file, **values):
    """A copy of a model's folder, with other values in one of its JSON files; None takes one away."""
    shutil.copytree(source, folder)
    path = folder / file
    content = json.loads(path.read_text()) if path.is_file() else {}
    content = {name: value for name, value in (content | values).items() if value is not None}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content))
    return str(folder)
