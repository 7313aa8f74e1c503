"""The ONNX operators Attention (opset 23 to 25), LinearAttention and CausalConvWithState (opset 27), and FlexAttention (preview 1),
computed by fovea.

    Y, present_key, present_value, scores = fovea.onnx.attention(Q, K, V, attn_mask, is_causal=1, scale=0.125)
    outputs = fovea.onnx.run_node(node, inputs)     # node: an onnx.NodeProto; needs the onnx package

Arrays are numpy's. Inputs, attributes and outputs have the names of the operator's specification, and its meaning:
is_causal and windows count from the tokens of past_key, or end at nonpad_kv_seqlen; a mask that is shorter than the keys hides
the rest.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

import fovea

__all__ = ["attention", "causal_conv_with_state", "flex_attention", "linear_attention", "run_node"]

INPUTS = ("Q", "K", "V", "attn_mask", "past_key", "past_value", "nonpad_kv_seqlen")
OUTPUTS = ("Y", "present_key", "present_value", "qk_matmul_output")
# The contents of qk_matmul_output, by qk_matmul_output_mode.
KINDS: Any = ("raw", "capped", "biased", "weights")


def attention(Q: Any, K: Any, V: Any, attn_mask: Any = None, past_key: Any = None, past_value: Any = None,
              nonpad_kv_seqlen: Any = None, *, is_causal: int = 0, kv_num_heads: int | None = None, left_window_size: int = -1,
              q_num_heads: int | None = None, qk_matmul_output_mode: int = 0, right_window_size: int = -1,
              scale: float | None = None, softcap: float = 0.0, softmax_precision: int | None = None,
              outputs: Iterable[str] = OUTPUTS[:3]) -> tuple[Any, ...]:  # fmt: skip
    """Returns (Y, present_key, present_value, qk_matmul_output), None for those that `outputs` does not name.

    Q, K, V: [batch, heads, tokens, channels], or [batch, tokens, heads * channels] with q_num_heads and kv_num_heads. attn_mask:
    boolean (True = attend) or float (added), aligned at its last axis; past_key, past_value: [batch, kv_heads, past, channels];
    nonpad_kv_seqlen: [batch] integers. softmax_precision is ignored: exponentials and sums are float32's at least.
    qk_matmul_output: return_scores of fovea.attention(), of Q's type.
    """
    outputs = list(outputs)
    for name, x in zip(INPUTS[:6], (Q, K, V, attn_mask, past_key, past_value)):
        if not isinstance(x, np.ndarray) and (x is not None or name in INPUTS[:3]):
            raise TypeError(f"{name} must be a numpy array, not {type(x).__name__}")
    if wrong := [name for name in outputs if name not in OUTPUTS]:
        raise ValueError(f"outputs has {wrong[0]!r}, it may have {', '.join(OUTPUTS)}")
    for name, value, most in (("qk_matmul_output_mode", qk_matmul_output_mode, 3), ("is_causal", is_causal, 1)):
        if value not in range(most + 1):
            raise ValueError(f"{name} is {value!r}, it must be from 0 to {most}")
    if (Q.ndim, K.ndim, V.ndim) not in ((3, 3, 3), (4, 4, 4)):
        raise ValueError(f"Q, K and V must have 3 or 4 dimensions, all as many; they have {Q.ndim}, {K.ndim} and {V.ndim}")
    flat = Q.ndim == 3
    for name, x, heads in (("Q", Q, q_num_heads), ("K", K, kv_num_heads), ("V", V, kv_num_heads)):
        if heads and (x.shape[2] % heads if flat else x.shape[1] != heads):
            raise ValueError(f"{name} has the shape {x.shape}, which is not that of {heads} heads")
    if flat and not (q_num_heads and kv_num_heads):
        raise ValueError("3-D inputs need q_num_heads and kv_num_heads")
    q = heads_apart(Q, q_num_heads) if flat else Q
    k, v = (heads_apart(x, kv_num_heads) if flat else x for x in (K, V))
    if (past_key is None) != (past_value is None):
        raise ValueError("past_key and past_value come together")
    if past_key is not None:
        if nonpad_kv_seqlen is not None:
            raise ValueError("nonpad_kv_seqlen and past_key exclude each other")
        k, v = np.concatenate([past_key, k], axis=2), np.concatenate([past_value, v], axis=2)

    # Where query 0 of each sequence stands among the keys.
    offset: Any = 0 if past_key is None else past_key.shape[2]
    if nonpad_kv_seqlen is not None:
        offset = np.asarray(nonpad_kv_seqlen, np.int64).reshape(-1) - q.shape[2]
    window = (left_window_size, right_window_size)
    mask, bias = mask_and_bias(attn_mask, k.shape[2])
    options: dict[str, Any] = {"mask": mask, "bias": bias, "scale": scale, "softcap": softcap or None, "kv_lens": nonpad_kv_seqlen}
    if is_causal:
        options["causal"] = offset
    elif window != (-1, -1):
        options["q_offsets"] = np.broadcast_to(offset, q.shape[0])
    if window != (-1, -1):
        options["window"] = window
    kind = KINDS[qk_matmul_output_mode] if "qk_matmul_output" in outputs else None
    # The operator has these scores of padding, too, where attention() has none.
    padded = kind in ("raw", "capped") and nonpad_kv_seqlen is not None
    y: Any = fovea.attention(q, k, v, **options, out_layout="bthd" if flat else "bhtd", return_scores=None if padded else kind)
    scores: Any = None
    if padded:
        _, scores = fovea.attention(q, k, v, scale=scale, softcap=options["softcap"], return_scores=kind)
    elif kind:
        y, scores = y
    scores = scores.astype(Q.dtype, copy=False) if kind else None
    found = (y.reshape(*y.shape[:2], -1) if flat else y, k, v, scores)
    return tuple(array if name in outputs else None for name, array in zip(OUTPUTS, found))


def flex_attention(Q: Any, K: Any, V: Any, *, scale: float | None = None, score_mod: Any = None, prob_mod: Any = None,
                   softmax_precision: int | None = None) -> Any:  # fmt: skip
    """Returns Y. Q, K, V: [batch, heads, tokens, channels]. Graphs that modify scores or probabilities are refused: attention() has
    masks, biases and softcap. float64 is computed in float32, whatever softmax_precision says: results are within its rounding.
    """
    for name, graph in (("score_mod", score_mod), ("prob_mod", prob_mod)):
        if graph is not None:
            raise ValueError(f"{name} is a graph, which fovea does not run; masks, biases and softcap are fovea.onnx.attention()'s")
    arrays = [x.astype(np.float32) if getattr(x, "dtype", None) == np.float64 else x for x in (Q, K, V)]
    if any(np.ndim(x) != 4 for x in arrays):
        raise ValueError(f"Q, K and V must have 4 dimensions; they have {', '.join(str(np.ndim(x)) for x in arrays)}")
    return attention(*arrays, scale=scale, softmax_precision=softmax_precision)[0].astype(V.dtype, copy=False)


def linear_attention(query: Any, key: Any, value: Any, past_state: Any = None, decay: Any = None, beta: Any = None, *,
                     kv_num_heads: int, q_num_heads: int, scale: float = 0.0, update_rule: str = "gated_delta",
                     chunk_size: int = 64) -> tuple[Any, Any]:  # fmt: skip
    """Returns (output, present_state). query, key, value: [batch, tokens, heads * channels]; past_state: [batch, kv_num_heads,
    d_k, d_v]; decay: [batch, tokens, kv_num_heads] or of d_k each; beta: [batch, tokens, kv_num_heads or 1]. The state is
    float32 within a call, and rounded to its type at the end; chunk_size has no effect.
    """
    gated, delta = update_rule in ("gated", "gated_delta"), update_rule in ("delta", "gated_delta")
    if not gated and not delta and update_rule != "linear":
        raise ValueError(f"update_rule is {update_rule!r}, it must be linear, gated, delta or gated_delta")
    for name, x, needed in (("decay", decay, gated), ("beta", beta, delta)):
        if (x is not None) != needed:
            raise ValueError(f"update_rule {update_rule} {'needs' if needed else 'has no'} {name}")
    q, k, v = heads_apart(query, q_num_heads), heads_apart(key, kv_num_heads), heads_apart(value, kv_num_heads)
    gate = None if decay is None else heads_apart(decay, kv_num_heads)
    rate = None if beta is None else heads_apart(beta, beta.shape[2])
    state = np.empty((q.shape[0], kv_num_heads, k.shape[3], v.shape[3]), (query if past_state is None else past_state).dtype)
    out = np.empty((q.shape[0], q.shape[2], q_num_heads * v.shape[3]), query.dtype)
    fovea.gated_delta_rule(q, k, v, gate, rate, delta=delta, scale=scale, state=past_state, state_out=state,
                           out=heads_apart(out, q_num_heads))  # fmt: skip
    return out, state


def causal_conv_with_state(input: Any, weight: Any, bias: Any = None, past_state: Any = None, *,
                           activation: str = "none") -> tuple[Any, Any]:  # fmt: skip
    """Returns (output, present_state). input: [batch, channels, length]; weight: [channels, 1, taps]; bias: [channels];
    past_state: [batch, channels, taps - 1]."""
    if activation not in ("none", "silu", "swish"):
        raise ValueError(f"activation is {activation!r}, it must be none, silu or swish")
    weight, bias = (None if x is None else x.astype(np.float32, copy=False) for x in (weight, bias))
    state = np.empty((*input.shape[:2], weight.shape[-1] - 1), input.dtype)
    return fovea.causal_conv(input, weight, bias, silu=activation != "none", channels_first=True, state=past_state,
                             state_out=state)  # fmt: skip


def run_node(node: Any, inputs: Iterable[Any]) -> list[Any]:
    """Runs a node of one of these operators. inputs: the arrays of those inputs that have a name, in order; returns the outputs
    likewise."""
    import onnx

    others: dict[Any, Any] = {("", "LinearAttention"): linear_attention, ("", "CausalConvWithState"): causal_conv_with_state,
                              ("ai.onnx.preview", "FlexAttention"): flex_attention}  # fmt: skip
    kind = (node.domain.removesuffix("ai.onnx"), node.op_type)
    if kind not in (("", "Attention"), *others):
        known = ", ".join(name for _, name in others)
        raise ValueError(f"this runs Attention, {known}, not {node.domain or 'ai.onnx'} {node.op_type}")
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    attributes = {name: x.decode() if isinstance(x, bytes) else x for name, x in attributes.items()}
    arrays = iter(inputs)
    given = [next(arrays) if name else None for name in node.input]
    if kind in others:
        outputs = others[kind](*given, **attributes)
        return [x for x, name in zip(outputs if isinstance(outputs, tuple) else (outputs,), node.output) if name]
    wanted = [place for place, name in zip(OUTPUTS, node.output) if name]
    found = attention(*given, **attributes, outputs=wanted)
    return [array for place, array in zip(OUTPUTS, found) if place in wanted]


def heads_apart(x: Any, heads: int | None) -> Any:
    """[batch, tokens, heads * channels] as [batch, heads, tokens, channels], without a copy."""
    return x.reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)


def mask_and_bias(attn_mask: Any, keys: int) -> tuple[Any, Any]:
    if attn_mask is None:
        return None, None
    boolean = attn_mask.dtype == bool
    if attn_mask.dtype.kind in "iuc":
        raise TypeError(f"attn_mask is of {attn_mask.dtype}: it must be boolean (True = attend) or float (added)")
    short = keys - attn_mask.shape[-1]
    if short > 0:
        width = [(0, 0)] * (attn_mask.ndim - 1) + [(0, short)]
        attn_mask = np.pad(attn_mask, width, constant_values=False if boolean else -np.inf)
    return (attn_mask, None) if boolean else (None, attn_mask.astype(np.float32, copy=False))
