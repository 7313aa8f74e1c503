"""optimize(model): a copy of a model for inference, with Fovea's packed weights and attention."""

import collections
import copy
import functools
import logging
from dataclasses import dataclass, field

import torch
from torch import nn

from .compared import check
from .exact import layout_of, why_not_linear, why_not_mha
from .fused import fuse
from .one_product import OneProduct, groups_of
from .packed import Conv1D, Linear, Packed, all_or_none
from .packed_mha import MultiheadAttention
from .reads import weights_read

_TOGETHER = 16  # maps that are packed together, at most: what a fovea.Linear takes
_logger = logging.getLogger(__name__)


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
        named = {"Attention": self.attention, "Packed": self.packed, "Fused": self.fused, "Left to torch": self.left}
        for title, entries in named.items():
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
    copied = copy.deepcopy(model, memo)
    for module, original in zip(copied.modules(), model.modules()):
        for name in module._modules.keys() & vars(module).keys() - vars(original).keys():
            del vars(module)[name]  # torch's decoder layers get an activation as they are copied, which hides their own
    return copied.eval().requires_grad_(False)


def _kind_of(module):
    """(class of what a module becomes, words for the report, why it does not or None), or None."""
    if isinstance(module, nn.MultiheadAttention):
        return MultiheadAttention, "{0.embed_dim} -> {0.embed_dim}; q, k, v, out_proj", why_not_mha(module)
    if layout_of(module) is not None:
        kind = Linear if layout_of(module) == "out_in" else Conv1D
        return kind, "{0.packed.in_features} -> {0._out}", why_not_linear(module)
    if isinstance(module, nn.Linear):
        return None, "", f"{type(module).__name__} is a class of its own"
    return None


def _decide(modules, inner) -> dict:
    """{id of a module: (class of what it becomes, words, why it does not or None)}. `inner` ones belong to another."""
    read = {id(parent._modules[n]): type(parent).__name__ for parent in modules.values() for n in weights_read(parent)}
    # Of one parameter in two modules both must see what is written. Embeddings are written in training alone.
    owners = collections.Counter(
        id(p) for m in modules.values() if type(m) is not nn.Embedding for p in m._parameters.values() if p is not None
    )
    found = {}
    for module in modules.values():
        what = None if id(module) in inner or isinstance(module, Packed) else _kind_of(module)
        if what is not None:
            kind, words, reason = what
            if reason is None and id(module) in read:
                reason = f"its weight is read by {read[id(module)]}"
            if reason is None and any(owners[id(p)] > 1 for p in module.parameters()):
                reason = "its weight is also a parameter of another module"
            found[id(module)] = kind, words, reason
    return found


def _packed_kind(found, child) -> tuple | None:
    """What maps that are packed together have in common, or None of other modules."""
    kind, _, reason = found.get(id(child), (None, "", ""))
    if kind not in (Linear, Conv1D) or reason is not None:
        return None
    return kind, child.weight.shape[0 if kind is Conv1D else 1], child.weight.dtype


def _groups(modules, found) -> list:
    """[(modules to pack together, their OneProduct or None)]: maps that are one product, other maps of one parent with
    as many inputs, which is only faster, and each other module alone."""
    places = collections.Counter(id(child) for parent in modules.values() for child in parent.children())
    alone = {id(m): m for m in modules.values() if id(m) in found and found[id(m)][2] is None}
    groups = []
    for parent in modules.values():
        together: dict = collections.defaultdict(list)
        for name, child in parent.named_children():
            common = _packed_kind(found, child)
            if common is not None and places[id(child)] == 1 and id(child) in alone:
                together[common].append(name)
        for (kind, *_), names in together.items():
            products = groups_of(parent, names) if kind is Linear and len(names) > 1 else []
            rest = [name for name in names if not any(name in group for group in products)]
            for group in [*products, rest]:
                for i in range(0, len(group), _TOGETHER):
                    some = group[i : i + _TOGETHER]
                    product = OneProduct(parent, some) if group in products and len(some) == len(group) else None
                    groups.append(([alone.pop(id(parent._modules[name])) for name in some], product))
    return groups + [([module], None) for module in alone.values()]


def _pack(model, report):
    """Packs the maps of `model`, a copy."""
    modules = dict(model.named_modules())
    inner = {id(m.out_proj) for m in modules.values() if isinstance(m, nn.MultiheadAttention)}
    found = _decide(modules, inner)
    report.packed += [f"{n} (before)" for n, m in modules.items() if isinstance(m, Packed) and id(m) not in inner]
    for group, product in _groups(modules, found):
        report.packed_bytes += sum(p.numel() * p.element_size() for module in group for p in module.parameters())
        found[id(group[0])][0].pack(group)
        for module in group if product is not None else ():
            module._product = product
    for name, module in modules.items():
        if id(module) not in found:
            continue
        kind, words, reason = found[id(module)]
        name = name or type(module).__name__
        if reason is not None:
            report.left.append(f"{name}: {reason}")
            continue
        product = getattr(module, "_product", None)
        if product is not None:
            others = [n for n in product.names if product.module._modules[n] is not module]
            words += f"; one product with {', '.join(others)}"
        report.packed.append(f"{name} ({words.format(module)})")
        if kind is MultiheadAttention:
            report.attention.append(f"{name}: fovea.attention")


def _fuse(model, report):
    """Puts what follows maps into them, and keeps torch's layers from their fast path, which calls no module."""
    for name, module in model.named_modules():
        if isinstance(module, nn.TransformerEncoder):
            module.use_nested_tensor = False
        if isinstance(module, nn.TransformerEncoderLayer) and any(isinstance(m, Packed) for m in module.children()):
            module.activation_relu_or_gelu = 0
        for child, (activation, residual) in fuse(module).items():
            words = "; ".join(x for x in (activation, "residual" if residual else None) if x)
            report.fused.append(f"{name}.{child}: {words}".removeprefix("."))


def _attention(model, report):
    """Puts the attention of transformers' models on Fovea."""
    if any(base.__module__.startswith("transformers.") for module in model.modules() for base in type(module).__mro__):
        try:
            from fovea.transformers import optimized  # which needs modules of this package, but not this one

            optimized.attention(model, report)
        except ImportError as error:
            report.attention.append(f"as the model computes it: {error}")
    if not report.attention:
        report.attention.append("as the model calls it: fovea.torch.enable() runs F.scaled_dot_product_attention on Fovea")


def optimize(model: nn.Module, example=None) -> nn.Module:
    """Returns a copy of `model` for inference on the CPU in float32, bfloat16 or float16; `model` itself stays as it is.

    In the copy
      - every nn.Linear (and GPT-2's Conv1D) is a product with weights packed once;
      - maps of one input (Q, K and V; gate and up) are one product, where that is proved;
      - GELU, ReLU and residual additions are part of the product before them, where that is proved;
      - attention of transformers' models runs on Fovea (fovea.transformers), nn.MultiheadAttention as a whole.
    What is not exactly known stays as it is: subclasses, modules with hooks, with a forward of their own, with attributes
    that their class does not have. The copy has no gradients and cannot be trained: asking for either raises RuntimeError.
    Packed weights are memory of the copy's own, can be read as ever (copy.state_dict() is the original's) and not be
    written; all other parameters are shared.

    example: a tensor, a tuple of arguments or a dict of keywords. The copy and the original in eval mode are run on it, and
    RuntimeError names the first module whose result differs by more than 1e-4 (float32), 1e-2 (float16) or 5e-2 (bfloat16)
    of its largest number.

    `copy.fovea_report` (a Report) tells what was packed and what was left, and why.
    """
    if isinstance(getattr(model, "fovea_report", None), Report):
        return copy.deepcopy(model)
    with torch.inference_mode(False), torch.no_grad():
        optimized, report = _copy(model), Report()
        _attention(optimized, report)
        _pack(optimized, report)
        _fuse(optimized, report)
    packed = {id(p) for m in optimized.modules() if isinstance(m, Packed) for p in m.parameters()}
    report.shared_bytes = sum(p.numel() * p.element_size() for p in optimized.parameters() if id(p) not in packed)
    optimized.fovea_report = report
    for name in ("train", "_apply") if packed else ():
        setattr(optimized, name, functools.partial(all_or_none, name, optimized))
    if example is not None:
        check(_copy(model), optimized, example)
    _logger.info("%s", report)
    return optimized
