#!/usr/bin/env python3
"""Makes tiny models with random weights, one of each backbone, and what transformers computes with them in float64.

    python3 make_tiny.py           needs torch, transformers and safetensors; writes tiny/ in its folder

tiny/NAME/ has config.json, model.safetensors (float32) and reference.safetensors: ids of sentences of mixed lengths, one behind
another, their lengths, and the mean of each one's last hidden states, divided by its length. test_backbones.c reads them.
"""

import pathlib

import torch
from safetensors.torch import save_file
from transformers import AutoModel, BertConfig, DistilBertConfig, ModernBertConfig, MPNetConfig, RobertaConfig, XLMRobertaConfig

FOLDER = pathlib.Path(__file__).parent / "tiny"
WORDS, LENGTHS = 43, (1, 2, 40, 7, 40, 13, 29, 2)
SIZES = dict(vocab_size=WORDS, hidden_size=16, intermediate_size=24, num_hidden_layers=3, num_attention_heads=2, pad_token_id=1)
MODELS = {
    "bert": BertConfig(**SIZES, max_position_embeddings=40),
    "roberta": RobertaConfig(**SIZES, max_position_embeddings=42, layer_norm_eps=1e-5),
    "xlm-roberta": XLMRobertaConfig(**SIZES, max_position_embeddings=42, layer_norm_eps=1e-5),
    "mpnet": MPNetConfig(**SIZES, max_position_embeddings=42, layer_norm_eps=1e-5),
    "distilbert": DistilBertConfig(vocab_size=WORDS, dim=16, hidden_dim=24, n_layers=3, n_heads=2, max_position_embeddings=40),
    "modernbert": ModernBertConfig(**SIZES | dict(hidden_size=32, intermediate_size=32), max_position_embeddings=40,
                                   local_attention=6, global_attn_every_n_layers=3,
                                   bos_token_id=2, eos_token_id=3, cls_token_id=2, sep_token_id=3),
}

for name, config in MODELS.items():
    torch.manual_seed(len(name))
    config._attn_implementation = "eager"
    model = AutoModel.from_config(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.4 + (1.0 if parameter.dim() == 1 else 0.0) * 0.2)
    (FOLDER / name).mkdir(parents=True, exist_ok=True)
    save_file({k: v.contiguous() for k, v in model.state_dict().items() if v.dtype == torch.float32 and "pooler" not in k},
              FOLDER / name / "model.safetensors")
    (FOLDER / name / "config.json").write_text(config.to_json_string())
    model = model.double()
    ids = [torch.randint(4, WORDS, (n,)) for n in LENGTHS]
    with torch.no_grad():
        means = [model(input_ids=i[None], attention_mask=torch.ones_like(i)[None]).last_hidden_state[0].mean(0) for i in ids]
    save_file({"ids": torch.cat(ids).int(), "lengths": torch.tensor(LENGTHS).int(),
               "vectors": torch.stack([m / m.norm() for m in means]).float()}, FOLDER / name / "reference.safetensors")
