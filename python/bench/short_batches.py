#!/usr/bin/env python3
"""Attention alone in padded short batches: attn_implementation="fovea" and "sdpa" in a BERT of MiniLM's size, in turns.

    OMP_WAIT_POLICY=passive PYTHONPATH=build/python build/venv/torch/bin/python python/bench/short_batches.py

Both models share their weights (6 layers, 384 channels, 12 heads of 32); nothing but attention differs. Each round times each once,
in an order that changes. Rows are the median time of sdpa, and the median over rounds of the ratio of its time to Fovea's: above 1
Fovea is faster. `mask` tells whether texts have different lengths. `attention` is the same for calls of the attention
function alone, 6 of them with one mask, as a model calls it.
"""

import argparse
import copy
import statistics
import time

import torch
import transformers

import fovea.transformers


def model():
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=1000, hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536
    )
    return transformers.BertModel(config, add_pooling_layer=False).eval()


def inputs(batch, length, padded):
    numbers = torch.Generator().manual_seed(batch * length)
    lengths = torch.randint(length // 4, length + 1, (batch, 1), generator=numbers) if padded else torch.full((batch, 1), length)
    lengths[0] = length
    ids = torch.randint(1, 1000, (batch, length), generator=numbers)
    return {"input_ids": ids, "attention_mask": (torch.arange(length) < lengths).long()}


def alone(attention, given):
    """Attention of 6 layers, with the mask that the model makes."""
    batch, length = given["input_ids"].shape
    module = attention.encoder.layer[0].attention.self
    qkv = [torch.randn(batch, length, 12, 32).transpose(1, 2) for _ in range(3)]
    name = attention.config._attn_implementation
    function = transformers.AttentionInterface()[name]
    embeds = torch.empty(batch, length, 384)

    def run():
        mask = transformers.masking_utils.create_bidirectional_mask(attention.config, embeds, given["attention_mask"])
        for _ in range(6):
            out, _ = function(module, *qkv, mask, dropout=0.0, scaling=32**-0.5, is_causal=False)
        return out

    return run


def compare(ways, rounds):
    """(median seconds of the first, median ratio of its time to the second's)."""
    times = {name: [] for name in ways}
    names = list(ways)
    for i in range(rounds + 2):
        for name in names[:: 1 if i % 2 else -1]:
            start = time.perf_counter()
            ways[name]()
            times[name].append(time.perf_counter() - start)
    first, second = (times[name][2:] for name in names)
    return statistics.median(first), statistics.median(a / b for a, b in zip(first, second, strict=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    arguments = parser.parse_args()
    theirs = model()
    ours = copy.deepcopy(theirs, {id(p): p for p in theirs.parameters()})
    theirs.set_attn_implementation("sdpa")
    ours.set_attn_implementation("fovea")
    print("threads batch tokens mask   model: ms, ratio    attention: ms, ratio")
    for threads in arguments.threads:
        torch.set_num_threads(threads)
        for batch, length in ((8, 16), (8, 32), (8, 64), (32, 16), (32, 32), (32, 64)):
            for padded in (True, False):
                given = inputs(batch, length, padded)
                with torch.inference_mode():
                    whole = compare({"sdpa": lambda: theirs(**given), "fovea": lambda: ours(**given)}, arguments.rounds)
                    part = compare({"sdpa": alone(theirs, given), "fovea": alone(ours, given)}, arguments.rounds * 4)
                print(
                    f"{threads:7} {batch:5} {length:6} {'yes' if padded else 'no':4}   {whole[0] * 1e3:9.2f}  {whole[1]:5.3f}    "
                    f"{part[0] * 1e3:13.3f}  {part[1]:5.3f}",
                    flush=True,
                )
    assert not fovea.transformers.counters.fallbacks


if __name__ == "__main__":
    main()
