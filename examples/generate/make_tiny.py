#!/usr/bin/env python3
"""Makes tiny models with random weights, in several files, and what transformers computes with them in float64.

    python3 make_tiny.py           needs torch and transformers; writes tiny/ beside it

tiny/llama and tiny/gpt2 are what save_pretrained() writes: LLaMA's and GPT-2's names, shards with an index, bfloat16. LLaMA has
grouped heads, a head of its own, and a rotary embedding scaled as in Llama 3. tiny/NAME.txt: the ids, and for each the logits that follow.
test_decoder.c reads them.
"""
import pathlib

import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

WORDS, TOKENS = 61, 23
FOLDER = pathlib.Path(__file__).parent / "tiny"


def llama():
    rope = {"rope_type": "llama3", "rope_theta": 500.0, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 16}
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=WORDS, hidden_size=48, intermediate_size=80, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2,
        max_position_embeddings=64, rms_norm_eps=1e-5, rope_parameters=rope, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2))


def gpt2():
    return GPT2LMHeadModel(GPT2Config(vocab_size=WORDS, n_embd=40, n_layer=2, n_head=4, n_positions=64, bos_token_id=1, eos_token_id=2))


def main():
    for name, make in (("llama", llama), ("gpt2", gpt2)):
        torch.manual_seed(37)
        model = make().eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_((parameter + torch.randn_like(parameter) * 0.1).bfloat16())
        model.bfloat16().save_pretrained(FOLDER / name, max_shard_size="20KB")
        ids = torch.randint(WORDS, (1, TOKENS))
        model.double()
        if name == "llama":  # whose frequencies bfloat16() rounded, too
            model.model.rotary_emb = type(model.model.rotary_emb)(model.config)
        with torch.inference_mode():
            logits = model(ids).logits[0]
        for file in (FOLDER / name).iterdir():
            file.chmod(0o644)
        (FOLDER / name / "generation_config.json").unlink()
        with open(FOLDER / f"{name}.txt", "w") as file:
            print(" ".join(map(str, ids[0].tolist())), file=file)
            for row in logits.tolist():
                print(" ".join(f"{x:.9g}" for x in row), file=file)


if __name__ == "__main__":
    main()
