#!/usr/bin/env python3
"""Records what transformers answers: greedy tokens of SmolLM2-135M-Instruct from its GGUF file, upcast to float32.

    python3 make_reference.py > reference.txt      needs torch, transformers, tokenizers and gguf, and the model (fetch.py)

For each prompt three lines: the question, the ids of the chat that asks it, and the 64 ids that follow, the one with the
largest logit each time, whatever it is. test_smollm2.c reads them. The smallest distance of the two largest logits goes to stderr: the
order of float32 sums differs from program to program, and what is far larger than their error does not depend on it.
"""
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "python/tests/support"))
import real_models

PROMPTS = [
    "Tell me the story of a lighthouse keeper who learns to sail.",
    "What is the capital of France, and what is it known for?",
    "Explain in 3 steps how bread is made. Use numbers: 1, 2, 3.",
    "Write a short poem about the sea; don't rhyme.",
    "Wie heißt die Hauptstadt von Österreich? (2024)",
]
TOKENS = 64


def greedy(model, ids):
    from transformers import DynamicCache

    cache, answer, least = DynamicCache(config=model.config), [], float("inf")
    with torch.inference_mode():
        for _ in range(TOKENS):
            logits = model(ids, past_key_values=cache).logits[0, -1]
            best = logits.topk(2)
            least = min(least, float(best.values[0] - best.values[1]))
            answer.append(int(best.indices[0]))
            ids = best.indices[None, :1]
    return answer, least


def main():
    model = real_models.smollm2()
    for prompt in PROMPTS:
        ids = real_models.smollm2_prompt(prompt)
        answer, least = greedy(model, ids)
        print(f"{prompt}\n{' '.join(map(str, ids[0].tolist()))}\n{' '.join(map(str, answer))}", flush=True)
        print(f"{prompt}: {real_models.smollm2_tokenizer().decode(answer)!r}, at least {least:.4f} apart", file=sys.stderr)


if __name__ == "__main__":
    main()
