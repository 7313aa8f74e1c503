"""Mixtures of experts on fovea.Experts: an implementation for transformers' experts interface.

    model = AutoModelForCausalLM.from_pretrained(name, experts_implementation="fovea")
    model.set_experts_implementation("fovea")                   of a model that is there

Weights are packed at a module's first call (fovea.torch.optimize() packs those of its copy at once), a copy each, and again after
they changed. Which activation a family has is found by trying: its own gate is called on some numbers, and compared with what Fovea
computes. Experts of another kind run on transformers' own code, with a FallbackWarning. Gradients are refused.
"""

import weakref

import torch
from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

import fovea
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
    limit, alpha = getattr(module, "limit", None), getattr(module, "alpha", 1.0)
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
    names = ["gate_up_proj" if module.has_gate else "up_proj", "down_proj"]
    found = [getattr(module, name).detach() for name in names]
    return found + [getattr(module, f"{name}_bias").detach() if module.has_bias else None for name in names]


def pack(module, dtype):
    """fovea.Experts of a module, for inputs of dtype; or (reason, sentence) why there are none."""
    name = type(module).__name__
    if any(p.device.type != "cpu" or p.dtype not in _DTYPES for p in module.parameters()) or dtype not in _DTYPES:
        return "element type", f"{name} has another element type than fovea.Experts"
    if any(p.is_inference() for p in module.parameters()):
        return "inference tensors", f"{name} was made under torch.inference_mode(), where nobody sees writes: make it outside"
    up, down, up_bias, down_bias = weights = _weights(module)
    key = (dtype, *((w.data_ptr(), w._version, w.dtype) for w in weights if w is not None))
    kept = _packed.get(module)
    if kept is not None and kept[0] == key:
        return kept[1]
    options = None if getattr(module, "has_post_expert_norm", False) else _activation(module)
    made = "activation", f"{name} has another activation than fovea.Experts"
    if options is not None:
        if module.has_gate:
            options["gate_up"] = "concatenated" if module.is_concatenated else "interleaved"
        made = fovea.Experts(up, down, up_bias=up_bias, down_bias=down_bias, dtype=str(dtype).removeprefix("torch."),
                             layout="in_out" if module.is_transposed else "out_in", **options)  # fmt: skip
    _packed[module] = (key, made)
    return made


def forward(self, hidden_states, top_k_index, top_k_weights):
    """The experts of a module, for transformers' interface."""
    packed = pack(self, hidden_states.dtype)
    if isinstance(packed, tuple):
        fall_back(self, *packed, "experts fall")
        return type(self).forward.__wrapped__(self, hidden_states, top_k_index, top_k_weights)
    if torch.is_grad_enabled() and any(x.requires_grad for x in (hidden_states, top_k_weights, *self.parameters())):
        raise RuntimeError('experts_implementation="fovea" computes no gradients: call the model under torch.no_grad()')
    return packed(hidden_states, top_k_index, top_k_weights.detach())


def serve(model, report):
    """Has the experts of a copy by optimize() run here, if all can be packed, and tells the report."""
    modules = {n: m for n, m in model.named_modules() if hasattr(m, "has_post_expert_norm")}  # what transformers' decorator sets
    packed = {name: pack(module, next(module.parameters()).dtype) for name, module in modules.items()}
    left = [f"{name}: {reason[1]}" for name, reason in packed.items() if isinstance(reason, tuple)]
    report.left += left
    if not left and packed:
        model.set_experts_implementation(NAME)
        report.packed += [f"{name} ({p.experts} experts, {p.in_features} -> {p.out_features})" for name, p in packed.items()]
        report.packed_bytes += sum(p.nbytes for p in packed.values())


def register():
    """Makes experts_implementation="fovea" known."""
    ALL_EXPERTS_FUNCTIONS.register(NAME, forward)

