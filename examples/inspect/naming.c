/* naming.h. A family that is missing is a row more here. */
#include "naming.h"

const naming namings[NAMINGS] = {
    {"BERT",
     {"attention.self.query.weight", "attention.self.key.weight", "attention.self.value.weight"},
     NAMING_SEPARATE,
     0},
    {"ViT",
     {"attention.attention.query.weight", "attention.attention.key.weight", "attention.attention.value.weight"},
     NAMING_SEPARATE,
     0},
    {"DistilBERT", {"attention.q_lin.weight", "attention.k_lin.weight", "attention.v_lin.weight"}, NAMING_SEPARATE, 0},
    {"LLaMA", {"self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight"}, NAMING_SEPARATE, 0},
    {"LLaMA (Meta's names)", {"attention.wq.weight", "attention.wk.weight", "attention.wv.weight"}, NAMING_SEPARATE, 0},
    {"GPT-J", {"attn.q_proj.weight", "attn.k_proj.weight", "attn.v_proj.weight"}, NAMING_SEPARATE, 0},
    {"GPT-2", {"attn.c_attn.weight"}, NAMING_QKV, 1},
    {"LLaMA, fused", {"self_attn.qkv_proj.weight"}, NAMING_QKV, 0},
    {"nn.MultiheadAttention", {"self_attn.in_proj_weight"}, NAMING_QKV, 0},
    {"timm", {"attn.qkv.weight"}, NAMING_QKV, 0},
    {"MPT", {"attn.Wqkv.weight"}, NAMING_QKV, 0},
    {"GPT-NeoX", {"attention.query_key_value.weight"}, NAMING_GROUPED, 0},
    {"BLOOM, Falcon", {"self_attention.query_key_value.weight"}, NAMING_GROUPED, 0},
    {"InternLM2", {"attention.wqkv.weight"}, NAMING_GROUPED, 0},
};
