/* Docstrings of fovea.MultiHead. Included by multihead.c alone. */
#ifndef PY_MULTIHEAD_DOC_H
#define PY_MULTIHEAD_DOC_H

/* clang-format off */
static const char type_doc[] =
"MultiHead(*, heads, kv_heads=None, q=None, k=None, v=None, o=None, fused=None, outer_q=None, outer_k=None, outer_v=None,\n"
"          q_bias=None, k_bias=None, v_bias=None, o_bias=None, fused_bias=None, outer_q_bias=None, outer_k_bias=None,\n"
"          outer_v_bias=None, merged=None, form=None, inputs=None, layout='out_in', order='qkv', fold_values='never',\n"
"          merge='queries', head_dim=None, value_dim=None, shape=(1, 512, 512), causal=None, window=None, scale=None,\n"
"          softcap=None, mask=None, bias=False, sinks=False, relative=None, dtype=None, arithmetic=None, packed=None, cache_dtype=None,\n"
"          q_norm=None, k_norm=None, norm_eps=1e-6)\n--\n\n"
"The layer Concat(head_1 .. head_h) W^O, head_i = attention(Q W_i^Q, K W_i^K, V W_i^V), with packed weights, for inference\n"
"only. The weights are copied here; later changes of them have no effect.\n\n"
"    layer = fovea.MultiHead(heads=12, fused=m.in_proj_weight, fused_bias=m.in_proj_bias,\n"
"                            o=m.out_proj.weight, o_bias=m.out_proj.bias)        # of a torch.nn.MultiheadAttention\n"
"    y = layer(x)                                                                # [batch, tokens, features]\n\n"
"The weights given say the form:\n"
"  factored   q, k, v: [heads * head_dim, features] as torch keeps them (layout='in_out': [features, heads * head_dim]), or\n"
"             head by head [heads, head_dim, features] ('in_out': [heads, features, head_dim])\n"
"  fused      fused: q, k and v in one; order 'qkv', as torch's in_proj_weight, or 'grouped': for each key head its queries,\n"
"             its key, its value\n"
"  tied       q alone serves all three\n"
"  folded     outer_q, outer_k, outer_v are applied first, and are multiplied into q, k, v here\n"
"  merged     merged: a tuple of one matrix [q_features, k_features] for each head, scores = Q W K^T, with head_dim for the\n"
"             scale; or form='merged': they are made of q and k. merge: 'queries' or 'keys' are multiplied by W\n"
"  projected  no weights but o: the inputs are heads [batch, heads, tokens, head_dim]\n"
"o: [out_features, heads * value_dim]; without it the heads are the result. Biases: vectors as long as their weight's output.\n"
"inputs: 'self' (x alone; the default), 'cross' (queries; keys and values), 'separate' (q, k, v; projected: the default).\n"
"fold_values: v and o become one matrix: 'always', or 'cheaper' where that takes fewer operations for shape = (batch, queries,\n"
"keys); shape limits nothing. head_dim, value_dim: where the weights do not say.\n"
"dtype: of inputs, heads and result, 'float32', 'bfloat16' or 'float16'; default: that of the first weight. Weights may be of any\n"
"of these, biases of one. Each step is computed in float32 and rounded to dtype once. arithmetic: of bfloat16, as for attention().\n"
"packed: the most tokens of all sequences (an int, or a pair: of queries and of keys) for calls with cu_seqlens.\n"
"causal, window, scale, softcap, mask, bias, sinks, relative: as for fovea.Plan; those that need arrays get them in execute().\n"
"q_norm, k_norm: [head_dim]: each head's queries, or keys, are divided by their root mean square (norm_eps is added to the mean square) and\n"
"multiplied by this, before they are rotated or multiplied (Qwen3; Gemma 3: 1 + its weight). Of one type with the biases.\n"
"cache_dtype: the layer is over a fovea.KVCache, see execute(): the dtype of its caches, or a pair (k_dtype, v_dtype). inputs is 'self', the\n"
"form factored, folded or fused, without fold_values. causal=True: a token sees those before it, in the cache and among the new ones.\n\n"
"Uses what fovea.config() says when it is made. Any thread may call it. Raises TypeError (another type, no array) or ValueError\n"
"(shapes or options that do not fit).";

static const char execute_doc[] =
"execute(q, k=None, v=None, *, mask=None, bias=None, sinks=None, alibi=None, relative=None, q_lens=None, kv_lens=None,\n"
"        q_starts=None, kv_starts=None, q_offsets=None, cu_seqlens_q=None, cu_seqlens_kv=None, cache=None, layer=None,\n"
"        sequences=None, out=None, return_lse=False, return_weights=False)\n--\n\n"
"Runs the layer. A call of the object is the same. q, k, v: [batch, tokens, features] or [tokens, features], or heads [batch,\n"
"heads, tokens, channels]; as many of them as inputs says. The result: [batch, queries, out_features] of q's kind; without o\n"
"heads [batch, heads, queries, value_dim]. The rest is as for attention(): lse [batch, heads, queries], weights [batch, heads,\n"
"queries, keys], a tuple of what was asked for. Rows past q_lens: o_bias, or +0. The packed weights are shared by all shapes.\n"
"cu_seqlens_q, cu_seqlens_kv: of a layer made with packed=, where sequences begin on the one axis of tokens, and the last ends: q, k\n"
"and v are [tokens, features], lse [heads, tokens], weights [heads, tokens, keys]. A layer of one input needs cu_seqlens_q alone. Tokens of no\n"
"sequence are zeros.\n\n"
"cache, layer, sequences: of a layer made with cache_dtype=, a fovea.KVCache with kv_heads, head_dim and value_dim of the layer, the number\n"
"of its layer, and an int, or a list or array of different ints. q holds their new tokens, [sequences, tokens, features], or [tokens, features]\n"
"of one: they are projected, normalised by q_norm and k_norm, rotated by the cache's rope, and appended; then each attends to all of its\n"
"sequence that causal and window let it see. q_lens: [sequences], fewer tokens of each. With packed=, cu_seqlens_q says where the tokens of\n"
"each begin. kv_lens, q_starts, kv_starts and cu_seqlens_kv are refused. Columns of mask, bias and weights are positions, as many as the longest\n"
"sequence then has. The bits do not depend on the pieces in which tokens come.\n\n"
"Raises what attention() raises; over a cache CacheFullError where no page is left, TypeError (a cache of other element types) and\n"
"ValueError (of other heads or channels, no such layer or sequence, one that another thread uses). The cache's layer is then as it was. Other\n"
"layers, to which this step was appended already, keep it: reserve() before the first makes sure that none is full, truncate() takes it back.";
/* clang-format on */

#endif
