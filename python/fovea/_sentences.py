"""Sentences for arguments that the extension cannot take. It calls these functions once a call has failed."""

import sys
from typing import Any

_MASK = "give booleans as mask=, True = attend, and numbers that are added to the scores as bias="

# Arguments of torch, flash-attn, transformers, xformers, Keras and JAX, by what they are here.
_HINTS = {
    "it is q": "query queries",
    "it is k": "key keys",
    "it is v": "value values",
    _MASK: "attn_mask attention_mask",
    "it is mask=~key_padding_mask[:, None, None], as True = attend": "key_padding_mask",
    "it is bias=": "attn_bias attention_bias position_bias",
    "is_causal=True is causal='top_left'": "is_causal use_causal_mask",
    "leave it out: there is no dropout": "dropout_p dropout training p",
    "leave it out: k and v may have fewer heads than q": "enable_gqa num_key_value_groups",
    "it is scale=": "softmax_scale sm_scale scaling",
    "window=(left, right) is how many keys before and after its own a query sees": "window_size local_window_size",
    "sliding_window=n, which counts the query's own key, is window=(n - 1, 0)": "sliding_window",
    "it is alibi=": "alibi_slopes",
    "it is softcap=": "logit_cap attn_logit_softcapping",
    "it is sinks=": "s_aux sink learnable_sink",
    "it is q_cu_seqlens=": "cu_seqlens_q cu_seq_lens_q cu_seq_q",
    "it is kv_cu_seqlens=": "cu_seqlens_k cu_seqlens_kv cu_seq_lens_k cu_seq_k",
    "leave it out: cu_seqlens say it": "max_seqlen_q max_seqlen_k max_q max_k max_length_q max_length_k",
    "it is kv_lens=": "seqused_k cache_seqlens key_value_seq_lengths",
    "it is q_lens=": "seqused_q query_seq_lengths",
    "it is kv_starts=": "leftpad_k",
    "pages of keys are those of a fovea.KVCache": "block_table",
    "it is return_weights=": "need_weights output_attentions",
    "return_weights=True gives the weights of each head: take their mean over axis 1": "average_attn_weights",
    "return_lse=True and return_weights=True say what to return": "return_attn_probs",
    "it is return_lse=": "return_softmax_lse",
    "leave it out: results are always the same": "deterministic",
    "it is q_heads=": "num_heads",
    "it is kv_heads=": "num_kv_heads num_key_value_heads",
    "leave it out: the weights say it": "embed_dim in_features out_features",
    "leave it out: the batch is the first axis": "batch_first",
    "leave it out: it is the CPU": "device",
}
_ARGUMENTS = {name: hint for hint, names in _HINTS.items() for name in names.split()}


def argument(function: str, name: str) -> str:
    """The sentence of the TypeError for an argument that a function does not have."""
    hint = _ARGUMENTS.get(name)
    return f"{function}() has no argument '{name}'" + (f": {hint}" if hint else "")


def arguments(function: str, names: dict[str, object]) -> str | None:
    """That of the first of names that another library has, if any."""
    return next((argument(function, name) for name in names if name in _ARGUMENTS), None)


def _tensor(name: str, tensor: Any, torch: Any) -> str | None:
    """The sentence for a torch tensor whose memory does not hold its numbers, or None."""
    kind = type(tensor).__name__
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        return f"{name} belongs to a transform of torch.func (vmap, grad, jvp): only fovea.torch.attention works there"
    if kind in ("FakeTensor", "FunctionalTensor") or tensor.is_meta:
        return f"{name} has no numbers ({kind}, device {tensor.device}): only fovea.torch.attention takes such tensors"
    if tensor.is_nested:
        return f"{name} is a nested tensor: pass its values() with cu_seqlens, or pad it and give q_lens and kv_lens"
    if tensor.layout is not torch.strided:
        return f"{name} has the layout {tensor.layout}: pass {name}.to_dense()"
    if tensor.is_quantized:
        return f"{name} is quantized: pass {name}.dequantize()"
    if tensor.device.type != "cpu":
        return f"{name} is on the device {tensor.device}: pass {name}.cpu()"
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        return f"{name} is a {kind}, which has no memory of its own: pass a plain torch.Tensor"
    return None


def unreadable(name: str, array: Any, cause: Exception | None) -> Exception:
    """The exception to raise for an argument whose memory cannot be read. cause: what its producer raised."""
    kind = type(array).__name__
    first_line = str(cause).partition("\n")[0]
    if kind == "MaskedArray":
        return TypeError(f"{name} is a masked array: pass {name}.filled(0), and say by mask= what is masked")
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        return TypeError(_tensor(name, array, torch) or f"{name} cannot be read: {first_line}")
    if cause is None:
        return TypeError(f"{name} must be an array (numpy, torch, or one with __dlpack__), not {kind}")
    return TypeError(f"{name}, a {kind}, cannot be read: {first_line}")
