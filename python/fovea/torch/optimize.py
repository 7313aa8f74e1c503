"""optimize(model): a copy of a model for inference, with Fovea's packed weights and attention."""

import copy
import importlib
import logging
from dataclasses import dataclass, field

import torch
from torch import nn

from .packed import PackedLinear, SharedLinear, SharedPart
from .packed_mha import PackedMultiheadAttention, layer_activation
from .packed_mha import why_not as why_not_mha
from .structure import fuse, same_input
from .types import FLOATS

_logger = logging.getLogger(__name__)
_ADAPTERS = {"transformers": "fovea.transformers.optimized"}  # library: the module whose attention(model, report) serves it


@dataclass
class Report:
    """What optimize() did. str() of it is a page to read."""

    packed: list[str] = field(default_factory=list)  # names of linear maps, with what was fused into them
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
        for title, entries in (("Attention", self.attention), ("Packed", self.packed), ("Left to torch", self.left)):
            if entries:
                lines += [f"{title}:", *(f"  {entry}" for entry in entries)]
        return "\n".join(lines)


def _copy(model):
    """A copy in eval mode that shares all parameters, as ones without gradients."""
    memo = {id(p): nn.Parameter(p.detach(), requires_grad=False) for p in model.parameters()}
    return copy.deepcopy(model, memo).eval()


def _layout(module) -> str | None:
    """Of the weight, "out_in" or "in_out", of what is a linear map; None of other modules."""
    if type(module) is nn.Linear:
        return "out_in"
    if type(module).__name__ == "Conv1D" and type(module).__module__ == "transformers.pytorch_utils":
        return "in_out"
    return None


def _in_features(module) -> int:
    return module.weight.shape[1 if _layout(module) == "out_in" else 0]


def _why_not(module) -> str | None:
    """Why a linear map stays torch's, or None."""
    weight = module.weight
    if weight.dtype not in FLOATS:
        return f"its weights are {weight.dtype}; packed are those of torch.float32, bfloat16 and float16"
    if weight.device.type != "cpu":
        return f"its weights are on {weight.device}"
    if weight.numel() == 0:
        return "it has no weights"
    if module._forward_hooks or module._forward_pre_hooks:
        return "it has hooks"
    return None


class _Optimizer:
    def __init__(self, model):
        self.model, self.report = model, Report()
        self.places: dict = {}  # id of a linear map: how many parents have it
        self.made: dict = {}  # id of what was replaced: what stands for it
        self.kept: list = []  # what was replaced, so that no id comes twice
        self.projections = {id(m.out_proj) for m in model.modules() if isinstance(m, nn.MultiheadAttention)}
        for parent in model.modules():
            for child in parent._modules.values():
                if child is not None and _layout(child) is not None:
                    self.places[id(child)] = self.places.get(id(child), 0) + 1

    def run(self):
        parents = [(name, module) for name, module in self.model.named_modules() if _layout(module) is None]
        for name, module in parents:
            prefix = f"{name}." if name else ""
            if isinstance(module, nn.Linear):
                if id(module) not in self.projections:
                    self.report.left.append(f"{name}: {type(module).__name__} is a class of its own")
            elif isinstance(module, nn.MultiheadAttention):
                reason = why_not_mha(module)
                if reason is not None:
                    self.report.left.append(f"{name}: {reason}")
            else:
                if isinstance(module, nn.TransformerEncoder):
                    module.use_nested_tensor = False  # which reads the weights
                self._attentions(prefix, module)
                self._children(prefix, module)

    def _attentions(self, prefix, parent):
        """Replaces nn.MultiheadAttention among the children of `parent`."""
        for name, child in list(parent._modules.items()):
            if not isinstance(child, nn.MultiheadAttention) or why_not_mha(child) is not None:
                continue
            if id(child) not in self.made:
                self.made[id(child)] = PackedMultiheadAttention(child)
                self.kept.append(child)
                size = child.embed_dim
                self.report.packed.append(f"{prefix}{name} ({size} -> {size}; q, k, v, out_proj)")
                self.report.packed_bytes += sum(p.numel() * p.element_size() for p in child.parameters())
                self.report.attention.append(f"{prefix}{name}: fovea.attention")
            setattr(parent, name, self.made[id(child)])

    def _children(self, prefix, parent):
        """Replaces the linear maps among the children of `parent`."""
        names = []
        for name, child in list(parent._modules.items()):
            if child is None or _layout(child) is None:
                continue
            reason = _why_not(child)
            if reason is not None:
                self.report.left.append(f"{prefix}{name}: {reason}")
            elif id(child) in self.made:
                setattr(parent, name, self.made[id(child)])
            else:
                names.append(name)
        alone = [name for name in names if self.places[id(getattr(parent, name))] == 1]
        activation = layer_activation(parent) if "linear1" in alone else None
        if activation is not None:
            fused = {"linear1": (activation, False)}
        elif isinstance(parent, (nn.ModuleList, nn.ModuleDict)):
            fused = {}
        else:
            fused = fuse(parent, alone)
        kinds: dict = {}
        for name in alone:
            if name not in fused:
                child = getattr(parent, name)
                kinds.setdefault((_layout(child), _in_features(child), child.weight.dtype), []).append(name)
        groups = [group[:16] for kind in kinds.values() if len(kind) > 1 for group in same_input(parent, kind)]
        for group in groups:
            self._share(prefix, parent, group)
        for name in names:
            if not any(name in group for group in groups):
                self._pack(prefix, parent, name, *fused.get(name, (None, False)))

    def _pack(self, prefix, parent, name, activation, residual):
        child = getattr(parent, name)
        packed = PackedLinear(child.weight.detach(), _bias(child), activation, _layout(child))
        self.made[id(child)] = packed
        self.kept.append(child)
        extra = [x for x in (activation, "residual" if residual else None) if x]
        self._note(prefix + name, packed, child, extra)
        setattr(parent, name, packed)

    def _share(self, prefix, parent, names):
        children = [getattr(parent, name) for name in names]
        layout = _layout(children[0])
        shared = SharedLinear([child.weight.detach() for child in children], [_bias(child) for child in children], layout)
        for index, (name, child) in enumerate(zip(names, children)):
            part = SharedPart(shared, index, child.weight, child.bias, layout)
            self._note(prefix + name, part, child, [f"one product with {', '.join(n for n in names if n != name)}"])
            setattr(parent, name, part)

    def _note(self, name, module, child, extra):
        self.report.packed.append(f"{name} ({module.in_features} -> {module.out_features}{''.join(f'; {x}' for x in extra)})")
        self.report.packed_bytes += sum(p.numel() * p.element_size() for p in (child.weight, child.bias) if p is not None)


def _bias(module):
    return None if module.bias is None else module.bias.detach()


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
    whole = nn.ModuleDict({"model": _copy(model)})
    alone = _layout(model) is not None or isinstance(model, nn.MultiheadAttention)
    work = _Optimizer(whole if alone else whole["model"])
    _attention(whole["model"], work.report)
    with torch.no_grad():
        work.run()
    optimized = whole["model"]
    work.report.shared_bytes = sum(p.numel() * p.element_size() for p in optimized.parameters())
    optimized.fovea_report = work.report
    _logger.info("%s", work.report)
    return optimized
