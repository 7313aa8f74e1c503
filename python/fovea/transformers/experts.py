"""Mixtures of experts on fovea.Experts: an implementation for transformers' experts interface.

    model = AutoModelForCausalLM.from_pretrained(name, experts_implementation="fovea")
    model.set_experts_implementation("fovea")                   of a model that is there

Weights are packed at a module's first call (fovea.torch.optimize() packs those of its copy at once), a copy each, and again after
they changed. Which activation a family has is found by trying: its own gate is called on some numbers, and compared with what Fovea
computes. Experts of another kind run on transformers' own code, with a FallbackWarning. Gradients are refused.
Quantized experts are quantized_experts.py's.
"""

import inspect
import weakref

import torch
from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

import fovea
from fovea.transformers import quantized_experts as quantized
from fovea.transformers.counters import fall_back

NAME = "fovea"
_DTYPES = (torch.float32, torch.bfloat16, torch.float16)
_WORDS = ("silu", "gelu", "gelu_tanh", "relu")
_FUNCTIONS = (
    torch.nn.functional.silu,
    torch.nn.functional.gelu,
    lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    torch.relu,
)
_packed: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # module: (what its weights were, fovea.Experts or None)


def _same(a, b):
    return a.shape == b.shape and torch.allclose(a, b, rtol=1e-5, atol=1e-5)


def _activation(module):
    """The arguments of fovea.Experts for a module's activation, or None if there are none."""
    limit = getattr(module, "limit", getattr(module, "swiglu_limit", None))
    alpha = getattr(module, "alpha", None) or getattr(module, "swiglu_alpha", None) or 1.0
    most = max(12.0, 2.0 * limit) if isinstance(limit, (int, float)) and limit < 1e30 else 12.0  # so that a limit shows
    numbers = torch.linspace(-most, most, 2 * 67)[torch.randperm(134, generator=torch.Generator().manual_seed(0))][None]
    if not module.has_gate:
        made = module.act_fn(numbers)
        return next(({"activation": word} for word, f in zip(_WORDS, _FUNCTIONS) if _same(made, f(numbers))), None)
    gate, up = numbers.chunk(2, -1) if module.is_concatenated else (numbers[..., ::2], numbers[..., 1::2])
    made = module._apply_gate(numbers)
    for word, f in zip(_WORDS[:3], _FUNCTIONS):
        if _same(made, f(gate) * up):
            return {"activation": word + "_gated"}
    if not isinstance(limit, (int, float)) or not isinstance(alpha, (int, float)):
        return None
    low, between = gate.clamp(max=limit), up.clamp(-limit, limit)
    for offset in (0.0, 1.0):
        if _same(made, low * torch.sigmoid(alpha * low) * (between + offset)):
            return {"limit": float(limit), "alpha": float(alpha), "up_offset": offset}
    return None


def _weights(module):
    """{argument of fovea.Experts: tensor}."""
    first = "gate_up_proj" if module.has_gate else "up_proj"
    names = {"up": first, "down": "down_proj"}
    names |= {"up_bias": f"{first}_bias", "down_bias": "down_proj_bias"} if module.has_bias else {}
    return {to: getattr(module, name).detach() for to, name in names.items()}


def _arguments(module, weights):
    """The arguments of fovea.Experts for weights of floats."""
    options = None if getattr(module, "has_post_expert_norm", False) else _activation(module)
    if options is None:
        raise quantized.Left("has another activation than fovea.Experts")
    if module.has_gate:
        options["gate_up"] = "concatenated" if module.is_concatenated else "interleaved"
    return {**weights, **options, "layout": "in_out" if module.is_transposed else "out_in"}


def pack(module, dtype):
    """fovea.Experts of a module, for inputs of dtype; or (reason, sentence) why there are none."""
    name = type(module).__name__
    try:
        stored = quantized.stored(module)
    except Exception as error:  # of tensors of other packages
        return "quantized weights", f"{name} {error if isinstance(error, quantized.Left) else f'cannot be read: {error}'}"
    weights = _weights(module) if stored is None else stored
    tensors = weights.values() if stored else [*module.parameters()]
    if any(w.device.type != "cpu" or not (stored or w.dtype in _DTYPES) for w in tensors) or dtype not in _DTYPES:
        return "element type", f"{name} has another element type than fovea.Experts"
    if any(w.is_inference() for w in tensors):
        return "inference tensors", f"{name} was made under torch.inference_mode(), where nobody sees writes: make it outside"
    key = (dtype, *((w.data_ptr(), w._version, w.dtype) for w in weights.values()))
    kept = _packed.get(module)
    if kept is not None and kept[0] == key:
        return kept[1]
    try:
        options = quantized.arguments(module, stored, _activation) if stored else _arguments(module, weights)
        made = fovea.Experts(**options, dtype=str(dtype).removeprefix("torch."))
    except quantized.Left as why:
        made = "activation" if stored is None else "quantized weights", f"{name} {why}"
    except (TypeError, ValueError) as error:
        if stored is None:
            raise
        made = "quantized weights", f"{name}: {error}"
    _packed[module] = (key, made)
    return made


def _own(module):
    """The forward of a module's class. Of FP8Experts the interface's function is around it once for each module."""
    forward = type(module).forward
    return inspect.unwrap(forward, stop=lambda f: f.__code__ is not forward.__code__)


def forward(self, hidden_states, top_k_index, top_k_weights):
    """The experts of a module, for transformers' interface."""
    packed = pack(self, hidden_states.dtype)
    if isinstance(packed, tuple):
        fall_back(self, *packed, "experts fall")
        return _own(self)(self, hidden_states, top_k_index, top_k_weights)
    if torch.is_grad_enabled() and any(x.requires_grad for x in (hidden_states, top_k_weights, *self.parameters())):
        raise RuntimeError('experts_implementation="fovea" computes no gradients: call the model under torch.no_grad()')
    return packed(hidden_states, top_k_index, top_k_weights.detach())


def _packed_of(model, module, mlp):
    if quantized.is_mxfp4(module):
        why = quantized.why_not_mxfp4(mlp)
        if why is not None:
            return "quantized weights", why
    elif "forward" in vars(module):
        return "own forward", "it has a forward of its own"
    ours = model if quantized.is_quantized(module) else module  # quantized weights do not tell of what type inputs are
    return pack(module, next((p.dtype for p in ours.parameters() if p.dtype in _DTYPES), torch.float32))


def serve(model, report):
    """Has the experts of a copy by optimize() run here, if all can be packed, and tells the report."""
    modules = {
        f"{name}.{child}".removeprefix("."): (module, mlp)
        for name, mlp in model.named_modules()
        for child, module in mlp.named_children()
        if hasattr(module, "has_post_expert_norm") or quantized.is_mxfp4(module)  # the first is what transformers' decorator sets
    }
    packed = {name: _packed_of(model, *pair) for name, pair in modules.items()}
    left = [f"{name}: {reason[1]}" for name, reason in packed.items() if isinstance(reason, tuple)]
    report.left += left
    if left or not packed:
        return
    model.set_experts_implementation(NAME)
    for module, mlp in modules.values():
        if quantized.is_mxfp4(module):
            from fovea.transformers import mxfp4

            mxfp4.serve(mlp)
    report.packed += [f"{name} ({p.experts} experts, {p.in_features} -> {p.out_features})" for name, p in packed.items()]
    report.packed_bytes += sum(p.nbytes for p in packed.values())


def register():
    """Makes experts_implementation="fovea" known."""
    ALL_EXPERTS_FUNCTIONS.register(NAME, forward)


def register_quantized():
    """The same for FP8Experts, which have an interface of their own."""
    from transformers.integrations.finegrained_fp8 import ALL_FP8_EXPERTS_FUNCTIONS

    ALL_FP8_EXPERTS_FUNCTIONS.register(NAME, forward)

