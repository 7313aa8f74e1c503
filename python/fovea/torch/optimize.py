"""optimize(model): a copy of a model for inference, with Fovea's packed weights and attention."""

import copy
import importlib
import logging
from dataclasses import dataclass, field

import torch
from torch import nn

from .exact import layout_of, why_not_linear, why_not_mha
from .fused import fuse
from .packed import Packed, PackedLinear
from .packed_mha import PackedMultiheadAttention
from .reads import weights_read

_logger = logging.getLogger(__name__)
_ADAPTERS = {"transformers": "fovea.transformers.optimized"}  # library: the module whose attention(model, report) serves it


@dataclass
class Report:
    """What optimize() did. str() of it is a page to read."""

    packed: list[str] = field(default_factory=list)  # names of linear maps
    fused: list[str] = field(default_factory=list)  # those that compute what follows them, with what that is
    left: list[str] = field(default_factory=list)  # names of modules that torch computes as before, with the reason
    attention: list[str] = field(default_factory=list)  # where attention runs
    packed_bytes: int = 0  # of packed weights: memory that the copy has of its own
    shared_bytes: int = 0  # of parameters that the copy and the original share

    def __str__(self) -> str:
        megabytes = 1 / 2**20
        lines = [
            f"{len(self.packed)} linear maps on packed weights, {self.packed_bytes * megabytes:.1f} MiB of the copy's own. The"
            " originals of these weights are freed when the original model is; until then they are in memory twice.",
            f"{self.shared_bytes * megabytes:.1f} MiB of other parameters are shared with the original.",
        ]
        for title, entries in (("Attention", self.attention), ("Packed", self.packed), ("Fused", self.fused), ("Left to torch", self.left)):
            if entries:
                lines += [f"{title}:", *(f"  {entry}" for entry in entries)]
        return "\n".join(lines)


def _copy(model):
    """A copy in eval mode that shares all parameters, as ones without gradients."""
    memo = {}
    for p in model.parameters():
        if type(p) is nn.Parameter:
            memo[id(p)] = nn.Parameter(p.detach(), requires_grad=False)
            vars(memo[id(p)]).update(vars(p))
    return copy.deepcopy(model, memo).eval().requires_grad_(False)


class _Optimizer:
    """Replaces modules of `model`, a copy, and reports it."""

    def __init__(self, model, report):
        self.model, self.report = model, report
        self.made: dict = {}  # id of what was replaced: (it, what stands for it)

    def run(self):
        modules = dict(self.model.named_modules())
        inner = {id(m.out_proj) for m in modules.values() if isinstance(m, nn.MultiheadAttention)}
        for name, parent in modules.items():
            if id(parent) not in self.made and not isinstance(parent, nn.MultiheadAttention):
                self._replace(f"{name}." if name else "", parent, inner)
        for name, parent in modules.items():
            self._torch_layer(parent)
            for child, (activation, residual) in fuse(parent).items():
                extra = "; ".join(x for x in (activation, "residual" if residual else None) if x)
                self.report.fused.append(f"{name}.{child}: {extra}".removeprefix("."))

    def _replace(self, prefix, parent, inner):
        read = weights_read(parent)
        for name, child in list(parent._modules.items()):
            made = self.made.get(id(child), (None, None))[1]
            if made is None:
                made = self._packed(prefix + name, child, name in read, inner)
            if made is not None:
                self.made[id(child)] = (child, made)
                parent._modules[name] = made

    def _packed(self, name, child, is_read, inner):
        """What stands for a child, or None."""
        size = sum(p.numel() * p.element_size() for p in child.parameters()) if child is not None else 0
        if isinstance(child, nn.MultiheadAttention):
            reason, kind, words = why_not_mha(child), PackedMultiheadAttention, "{0.embed_dim} -> {0.embed_dim}; q, k, v, out_proj"
        elif layout_of(child) is not None:
            reason = "its weight is read by the module that has it" if is_read else why_not_linear(child)
            kind, words = PackedLinear, "{0.packed.in_features} -> {0.packed.out_features}"
        elif isinstance(child, Packed):
            self.report.packed.append(f"{name} (before)")
            return None
        else:
            if isinstance(child, nn.Linear) and id(child) not in inner:
                self.report.left.append(f"{name}: {type(child).__name__} is a class of its own")
            return None
        if reason is not None:
            self.report.left.append(f"{name}: {reason}")
            return None
        made = kind(child) if kind is PackedMultiheadAttention else kind(child, layout_of(child))
        self.report.packed.append(f"{name} ({words.format(made)})")
        self.report.packed_bytes += size
        if kind is PackedMultiheadAttention:
            self.report.attention.append(f"{name}: fovea.attention")
        return made

    @staticmethod
    def _torch_layer(module):
        """Keeps torch's own layers from their fast path, which reads all weights and calls no module."""
        if isinstance(module, nn.TransformerEncoder):
            module.use_nested_tensor = False
        if isinstance(module, nn.TransformerEncoderLayer):
            if any(isinstance(child, Packed) for child in module.children()):
                module.activation_relu_or_gelu = 0


def _attention(model, report):
    """Asks the adapters of the libraries that the model's classes are of to put its attention on Fovea."""
    libraries = {base.__module__.partition(".")[0] for module in model.modules() for base in type(module).__mro__}
    for library, adapter in _ADAPTERS.items():
        if library in libraries:
            try:
                importlib.import_module(adapter).attention(model, report)
            except ImportError as error:
                report.attention.append(f"as the model computes it: {error}")
    if not report.attention:
        report.attention.append("as the model calls it: fovea.torch.enable() runs F.scaled_dot_product_attention on Fovea")


def optimize(model: nn.Module) -> nn.Module:
    """Returns a copy of `model` for inference on the CPU in float32, bfloat16 or float16; `model` itself stays as it is.

    In the copy
      - every nn.Linear (and GPT-2's Conv1D) is a product with weights packed once;
      - maps of the same input (Q, K and V; gate and up) are one product, where the source of forward() shows it;
      - GELU, ReLU and residual additions are part of the product before them, where tracing forward() shows it;
      - attention of transformers' models runs on Fovea (fovea.transformers), nn.MultiheadAttention as a whole.
    The copy has no gradients and cannot be trained: asking for either raises RuntimeError. Its packed weights are memory
    of its own, and those of the original are freed with the original; all other parameters are shared. state_dict()
    and load_state_dict() of the copy raise RuntimeError, as its packed weights are in none: save and load the original.

    `copy.fovea_report` (a Report) tells what was packed and what was left, and why.
    """
    if isinstance(getattr(model, "fovea_report", None), Report):
        return copy.deepcopy(model)
    whole, report = nn.ModuleDict({"model": _copy(model)}), Report()
    _attention(whole["model"], report)
    alone = layout_of(model) is not None or isinstance(model, nn.MultiheadAttention)
    with torch.no_grad():
        _Optimizer(whole if alone else whole["model"], report).run()
    optimized = whole["model"]
    packed = {id(p) for m in optimized.modules() if isinstance(m, Packed) for p in m.parameters()}
    report.shared_bytes = sum(p.numel() * p.element_size() for p in optimized.parameters() if id(p) not in packed)
    optimized.fovea_report = report
    _logger.info("%s", report)
    return optimized
