"""Shared by guard.py and errors.py: all-MiniLM-L6-v2 and SmolLM2-135M-Instruct in bfloat16 read a text while their operations are
observed."""

import argparse
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests/support"))
import real_models  # noqa: E402

TEXT = (
    "Attention kernels spend their time in two matrix products and a softmax, and on a CPU the caches decide how fast these are. "
    "The sum of parts is less than the whole, she said, and laid the book aside. Numbers: 1, 22, 333, 4444; symbols: + - * / % $. "
)


def kind(name):
    return ".".join(part for part in name.split(".") if not part.isdigit()).removeprefix("model.").removeprefix("encoder.")


def run(name, model, tokens, result, watch):
    """watch(model, result) hooks into the model, and returns what stood for scaled_dot_product_attention before."""
    plain = watch(model, result)
    try:
        with torch.no_grad():
            model(input_ids=tokens)
    finally:
        torch.nn.functional.scaled_dot_product_attention = plain
    result.report(name)


def main(doc, make_result, watch):
    parser = argparse.ArgumentParser(description=doc.split("\n")[0])
    parser.add_argument("--tokens", type=int, default=200)
    options = parser.parse_args()
    torch.set_num_threads(1)
    from transformers import AutoModel, BertTokenizerFast

    folder = str(real_models.minilm())
    tokenizer = BertTokenizerFast(vocab_file=f"{folder}/vocab.txt")
    bert = AutoModel.from_pretrained(folder, dtype=torch.bfloat16, attn_implementation="sdpa").eval()
    ids = tokenizer(TEXT * 8, return_tensors="pt")["input_ids"][:, : options.tokens]
    run(f"all-MiniLM-L6-v2, {ids.shape[1]} tokens", bert, ids, make_result(), watch)
    llama = real_models.smollm2("sdpa").to(torch.bfloat16)
    ids = torch.tensor([real_models.smollm2_tokenizer().encode(TEXT * 8).ids[: options.tokens]])
    run(f"SmolLM2-135M-Instruct, {ids.shape[1]} tokens", llama, ids, make_result(), watch)
