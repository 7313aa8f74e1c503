"""Small models of transformers with experts."""

import torch
from transformers import AutoModelForCausalLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

SMALL = dict(
    vocab_size=64, hidden_size=32, intermediate_size=48, moe_intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, head_dim=8, num_local_experts=8, num_experts=8, n_routed_experts=8, num_experts_per_tok=3,
    max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2,
)
OWN = {
    "deepseek_v3": dict(n_group=4, topk_group=2, first_k_dense_replace=0, q_lora_rank=16, kv_lora_rank=16, qk_rope_head_dim=8,
                        qk_nope_head_dim=8, v_head_dim=8, num_key_value_heads=4),
    "gpt_oss": dict(sliding_window=16),
}


def model_of(name, **more):
    torch.manual_seed(0)
    config = CONFIG_MAPPING[name](**{**SMALL, **OWN.get(name, {}), **more})
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager", experts_implementation="eager").eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, 0.2)
            elif not torch.isfinite(parameter).all():
                parameter.fill_(0.1)
    return model
