"""What the extension says of arguments that it cannot take. It asks here once a call has failed."""

import sys
from typing import Any

_MASK = "give booleans as mask=, True = attend, and numbers that are added to the scores as bias="
_NONE = "leave it out"
_LENGTHS = f"{_NONE}: cu_seqlens_q and cu_seqlens_kv say it"
_WINDOW = "window=(left, right) is how many keys before and after its own a query sees"

# Arguments of torch, flash-attn, transformers, xformers, Keras and JAX, and what they are here.
_ARGUMENTS = {
    "query": "it is q",
    "key": "it is k",
    "value": "it is v",
    "queries": "it is q",
    "keys": "it is k",
    "values": "it is v",
    "attn_mask": _MASK,
    "attention_mask": f"{_MASK}; one of padding [batch, keys] is mask=attention_mask.bool()[:, None, None]",
    "key_padding_mask": "it is mask=~key_padding_mask[:, None, None], as True = attend",
    "attn_bias": "it is bias=",
    "attention_bias": "it is bias=",
    "position_bias": "it is bias=",
    "is_causal": "is_causal=True is causal='top_left'",
    "use_causal_mask": "it is causal='top_left'",
    "dropout_p": f"{_NONE}: there is no dropout",
    "dropout": f"{_NONE}: there is no dropout",
    "p": f"{_NONE}: there is no dropout",
    "training": f"{_NONE}: there is no dropout",
    "enable_gqa": f"{_NONE}: k and v may have fewer heads than q",
    "num_key_value_groups": f"{_NONE}: k and v may have fewer heads than q",
    "softmax_scale": "it is scale=",
    "sm_scale": "it is scale=",
    "scaling": "it is scale=",
    "window_size": _WINDOW,
    "local_window_size": _WINDOW,
    "sliding_window": "sliding_window=n, which counts the query's own key, is window=(n - 1, 0)",
    "alibi_slopes": "it is alibi=",
    "logit_cap": "it is softcap=",
    "attn_logit_softcapping": "it is softcap=",
    "s_aux": "it is sinks=",
    "sink": "it is sinks=",
    "learnable_sink": "it is sinks=",
    "cu_seqlens_k": "it is cu_seqlens_kv=",
    "cu_seq_lens_q": "it is cu_seqlens_q=",
    "cu_seq_lens_k": "it is cu_seqlens_kv=",
    "cu_seq_q": "it is cu_seqlens_q=",
    "cu_seq_k": "it is cu_seqlens_kv=",
    "max_seqlen_q": _LENGTHS,
    "max_seqlen_k": _LENGTHS,
    "max_q": _LENGTHS,
    "max_k": _LENGTHS,
    "max_length_q": _LENGTHS,
    "max_length_k": _LENGTHS,
    "seqused_k": "it is kv_lens=",
    "cache_seqlens": "it is kv_lens=",
    "key_value_seq_lengths": "it is kv_lens=",
    "query_seq_lengths": "it is q_lens=",
    "leftpad_k": "it is kv_starts=",
    "block_table": "pages of keys are those of a fovea.KVCache",
    "need_weights": "it is return_weights=",
    "average_attn_weights": "return_weights=True gives the weights of each head: take their mean over axis 1",
    "output_attentions": "it is return_weights=",
    "return_attn_probs": "return_lse=True and return_weights=True say what to return",
    "return_softmax_lse": "it is return_lse=",
    "deterministic": f"{_NONE}: results are always the same",
    "num_heads": "it is heads=",
    "num_kv_heads": "it is kv_heads=",
    "num_key_value_heads": "it is kv_heads=",
    "embed_dim": f"{_NONE}: the weights say it",
    "in_features": f"{_NONE}: the weights say it",
    "out_features": f"{_NONE}: the weights say it",
    "batch_first": f"{_NONE}: the batch is the first axis",
    "device": f"{_NONE}: it is the CPU",
}


def argument(function: str, name: str) -> str:
    """What TypeError says of an argument that a function does not have."""
    hint = _ARGUMENTS.get(name)
    return f"{function}() has no argument '{name}'" + (f": {hint}" if hint else "")


def arguments(function: str, names: dict[str, object]) -> str | None:
    """That of the first of names that another library has, if any."""
    return next((argument(function, name) for name in names if name in _ARGUMENTS), None)


def _tensor(name: str, tensor: Any, torch: Any) -> str | None:
    """Of a tensor of torch whose memory is not that of its numbers."""
    kind = type(tensor).__name__
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        return f"{name} belongs to a transform of torch.func (vmap, grad, jvp): use fovea.torch.attention there"
    if kind in ("FakeTensor", "FunctionalTensor") or tensor.is_meta:
        return f"{name} has no numbers ({kind}, device {tensor.device}): call with tensors that have, or use fovea.torch.attention"
    if tensor.is_nested:
        return f"{name} is a nested tensor: pass its values with cu_seqlens_q and cu_seqlens_kv, or pad it and give q_lens and kv_lens"
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
