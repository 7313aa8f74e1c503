"""Calls of F.scaled_dot_product_attention: shapes of query, key and value, and options. attn_mask is the shape of one."""

CASES = {
    "plain": ((2, 3, 17, 16), (2, 3, 19, 16), (2, 3, 19, 16), {}),
    "3-D": ((3, 17, 16), (3, 19, 16), (3, 19, 16), {}),
    "causal": ((2, 3, 17, 16), (2, 3, 17, 16), (2, 3, 17, 16), {"is_causal": True}),
    "causal, fewer keys": ((2, 3, 17, 16), (2, 3, 9, 16), (2, 3, 9, 16), {"is_causal": True}),
    "scale": ((2, 3, 17, 16), (2, 3, 17, 16), (2, 3, 17, 16), {"scale": 0.3}),
    "grouped": ((2, 6, 17, 16), (2, 2, 17, 16), (2, 2, 17, 16), {"enable_gqa": True}),
    "boolean mask": ((2, 3, 5, 16), (2, 3, 7, 16), (2, 3, 7, 16), {"attn_mask": (2, 1, 5, 7)}),
    "2-D boolean mask": ((2, 3, 5, 16), (2, 3, 7, 16), (2, 3, 7, 16), {"attn_mask": (5, 7)}),
    "row mask": ((2, 3, 5, 16), (2, 3, 7, 16), (2, 3, 7, 16), {"attn_mask": (2, 1, 1, 7)}),
    "3-D mask": ((2, 3, 5, 16), (2, 3, 7, 16), (2, 3, 7, 16), {"attn_mask": (3, 5, 7)}),
    "value dim": ((2, 3, 5, 16), (2, 3, 7, 16), (2, 3, 7, 24), {}),
    "value dim, mask": ((2, 3, 5, 16), (2, 3, 7, 16), (2, 3, 7, 24), {"attn_mask": (2, 1, 5, 7)}),
}
