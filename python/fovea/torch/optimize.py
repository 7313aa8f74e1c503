"""optimize(model): a copy of a model for inference, with Fovea's packed weights and attention."""

import collections
import copy
import functools
import logging
from dataclasses import dataclass, field

import torch
from torch import nn

from . import quantized
from .adapters import for_inference
from .aliases import Memo, others_of, plain_tensors, writes_only_in_training
from .compared import check
from .encoders import approximates, call_modules, why_not
from .exact import layout_of, python_modules, why_not_linear, why_not_mha
from .fused import fuse
from .loaded import load_state_dict
from .one_product import OneProduct, groups_of
from .oracle import check_weights, is_quantized, oracle
from .packed import Conv1D, Linear, Packed, all_or_none
from .packed_mha import MultiheadAttention
from .reads import weights_read
from .weights import check_names, checked, choice, choices, cost, dtype_of

_TOGETHER = 16  # maps that are packed together, at most: what a fovea.Linear takes
_logger = logging.getLogger(__name__)


@dataclass
class Report:
    """The report of optimize(). str() formats it as a page."""

    packed: list[str] = field(default_factory=list)  # names of linear maps
    fused: list[str] = field(default_factory=list)  # those that compute what follows them, with what that is
    quantized: list[str] = field(default_factory=list)  # those whose weights were quantized, with the error; or were before
    not_quantized: list[str] = field(default_factory=list)  # those of which weights= asked for it, with why not
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
        named = {"Attention": self.attention, "Packed": self.packed, "Quantized": self.quantized}
        named |= {"Not quantized": self.not_quantized, "Fused": self.fused, "Left to torch": self.left}
        for title, entries in named.items():
            if entries:
                lines += [f"{title}:", *(f"  {entry}" for entry in entries)]
        return "\n".join(lines)


def _copy(model, memo=None):
    """A copy in eval mode that shares all parameters, as ones without gradients."""
    originals = python_modules(model).values()
    memo = {} if memo is None else memo
    memo.update({id(b): b for module in originals for b in quantized.shared(module)})
    for p in [p for module in originals for p in module._parameters.values()]:
        if type(p) is nn.Parameter:
            memo[id(p)] = nn.Parameter(p.detach(), requires_grad=False)
            vars(memo[id(p)]).update(vars(p))
    copied = copy.deepcopy(model, memo)
    for module, original in zip(python_modules(copied).values(), originals):
        for name in module._modules.keys() & vars(module).keys() - vars(original).keys():
            del vars(module)[name]  # torch's decoder layers get an activation as they are copied, which hides their own
    for p in copied.parameters():
        p.requires_grad_(False)
    return copied.eval()


def _kind_of(module):
    """(class of what a module becomes, words for the report, why it does not or None), or None."""
    stored = quantized.read(module)
    if stored is not None:
        return Linear, "{0.packed.in_features} -> {0._out}", stored if isinstance(stored, str) else None
    if isinstance(module, nn.MultiheadAttention):
        return MultiheadAttention, "{0.embed_dim} -> {0.embed_dim}; q, k, v, out_proj", why_not_mha(module)
    if layout_of(module) is not None:
        kind = Linear if layout_of(module) == "out_in" else Conv1D
        return kind, "{0.packed.in_features} -> {0._out}", why_not_linear(module)
    if isinstance(module, nn.Linear):
        return None, "", f"{type(module).__name__} is a class of its own"
    return None


def _decide(modules, inner, others) -> dict:
    """{id of a module: (class of what it becomes, words, why it does not or None)}. `inner` ones belong to another."""
    read = {id(parent._modules[n]): type(parent).__name__ for parent in modules.values() for n in weights_read(parent)}
    # Two modules that share a parameter must both see writes to it. For an embedding's, the version tells them.
    owners = collections.Counter(
        id(p) for m in modules.values() if not writes_only_in_training(m) for p in m._parameters.values() if p is not None
    )
    embedded = {id(m.weight) for m in modules.values() if writes_only_in_training(m)}
    places = collections.Counter(id(child) for parent in modules.values() for child in parent.children())
    encoders = why_not(modules.values())
    found = {}
    for module in modules.values():
        what = None if id(module) in inner or isinstance(module, Packed) else _kind_of(module)
        if what is not None:
            kind, words, reason = what
            reason = reason or encoders.get(id(module))
            if reason is None and id(module) in read:
                reason = f"its weight is read by {read[id(module)]}"
            if reason is None and any(owners[id(p)] > 1 for p in module.parameters()):
                reason = "its weight is also a parameter of another module"
            if reason is None and any(id(o) not in embedded for p in module.parameters() for o in others.get(id(p), ())):
                reason = "its weight is in memory that the model holds elsewhere, too"
            if reason is None and kind is MultiheadAttention and places[id(module.out_proj)] > 1:
                reason = "its out_proj is also a child of another module"
            found[id(module)] = kind, words, reason
    return found


def _packed_kind(found, quants, child) -> tuple | None:
    """The properties that maps must share to be packed together, or None for other modules."""
    kind, _, reason = found.get(id(child), (None, "", ""))
    if kind not in (Linear, Conv1D) or reason is not None:
        return None
    quant = quants.get(id(child))
    if isinstance(quant, quantized.Stored):
        return kind, quant.alike()
    return kind, child.weight.shape[0 if kind is Conv1D else 1], child.weight.dtype, quant


def _quants(modules, found, chosen, report) -> dict:
    """{id of a map: the word of quantization=, or the Stored of a module that was quantized before; of attention: words of its
    weights, by name}."""
    embedded = {id(m.weight) for m in modules.values() if type(m) is nn.Embedding}
    quants: dict = {}
    for name, module in modules.items():
        kind, _, reason = found.get(id(module), (None, "", ""))
        if reason is not None or kind is None:
            continue
        stored = quantized.read(module)
        if stored is not None:
            quants[id(module)] = stored
        elif kind in (Linear, Conv1D):
            inner = module.weight.shape[0 if kind is Conv1D else 1]
            quants[id(module)], why = choice(chosen, name, inner, id(module.weight) in embedded)
            if why is not None:
                report.not_quantized.append(f"{name}: {why}")
        else:
            quants[id(module)], reasons = choices(chosen, name, module)
            report.not_quantized += reasons
    return quants


def _embeddings_of(modules, found, others) -> dict:
    """{id of a map: the weights of embeddings that have its memory}."""
    embedded = {id(m.weight): m.weight for m in modules.values() if writes_only_in_training(m)}
    tied: dict = {}
    for module in modules.values():
        kind, _, reason = found.get(id(module), (None, "", ""))
        if kind in (Linear, Conv1D) and reason is None:
            ids = {id(x) for p in module.parameters() for x in (p, *others.get(id(p), ()))}
            weights = [weight for key, weight in embedded.items() if key in ids and not weight.is_inference()]
            if weights:
                tied[id(module)] = weights
    return tied


def _groups(modules, found, quants, tied) -> list:
    """[(modules to pack together, their OneProduct or None)]: maps that are one product, other maps of one parent with
    as many inputs, which is only faster, and each other module alone."""
    places = collections.Counter(id(child) for parent in modules.values() for child in parent.children())
    alone = {id(m): m for m in modules.values() if id(m) in found and found[id(m)][2] is None}
    groups = []
    for parent in modules.values():
        together: dict = collections.defaultdict(list)
        for name, child in parent.named_children():
            common = _packed_kind(found, quants, child)
            if common is not None and places[id(child)] == 1 and id(child) in alone and id(child) not in tied:
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


def _pack_group(group, kind, quant, dtype) -> dict:
    """Packs maps together. Quantized ones may be refused, for what their numbers are; then nothing has changed. Of
    attention this gives the weights that were, with the reason."""
    if kind is MultiheadAttention:
        return kind.pack_words(group[0], quant[0])
    if isinstance(quant[0], quantized.Stored):
        kind.pack_quantized(group, quant, dtype)
    else:
        kind.pack(group, **({"quantization": quant[0]} if quant[0] else {}))
    return {}


def _bytes_of(group, quant) -> int:
    """Bytes of packed weights: of quantized ones as they are in memory, of others as their numbers."""
    if quant and not isinstance(quant, dict):
        return group[0].packed.nbytes
    total = sum(p.numel() * p.element_size() for module in group for p in module.parameters())
    for name in [name for name, word in (quant or {}).items() if word]:
        weight, linear = group[0].get_parameter(name), group[0].packed_weights()[name]
        total += linear.nbytes - weight.numel() * weight.element_size()
    return total


def _pack_each(groups, found, quants, dtype, report, names):
    """Packs all groups. One that is refused is packed map by map, and such a map of floats without quantizing."""
    groups = groups[::-1]
    while groups:
        group, product = groups.pop()
        kind, words, _ = found[id(group[0])]
        quant = [quants.get(id(module)) for module in group]
        try:
            refused = _pack_group(group, kind, quant, dtype)
        except (TypeError, ValueError) as error:
            if quant[0] is None or kind is MultiheadAttention:
                raise
            if len(group) > 1:
                groups += [([module], None) for module in group]
            elif isinstance(quant[0], quantized.Stored):
                found[id(group[0])] = kind, words, str(error)
                del quants[id(group[0])]
            else:
                quants[id(group[0])] = None
                report.not_quantized.append(f"{names[id(group[0])]}: {error}")
                groups.append((group, None))
            continue
        report.not_quantized += [f"{names[id(group[0])]}.{weight}: {why}" for weight, why in refused.items()]
        report.packed_bytes += _bytes_of(group, quant[0])
        for module in group if product is not None else ():
            module._product = product


def _costs(name, module, quant) -> list:
    """The report's lines on the quantized weights of a packed module."""
    if isinstance(quant, quantized.Stored):
        return [f"{name}: {module.packed.quantization}, as it was"]
    if isinstance(quant, dict):
        packed = module.packed_weights().items()
        return [f"{name}.{n}: {cost(p, range(len(p.out_features)))}" for n, p in packed if quant[n]]
    return [f"{name}: {cost(module.packed, [module._part])}"] if quant else []


def _pack(model, chosen, report, others) -> dict:
    """Packs the maps of `model`, a copy; returns what _quants() does."""
    modules = python_modules(model)
    check_names(chosen, dict(model.named_modules()))
    for name, module in model.named_modules():
        if name not in modules and (not name or name.rpartition(".")[0] in modules):
            report.left.append(f"{name or type(module).__name__}: it is compiled by torch.jit")
    inner = {id(m.out_proj) for m in modules.values() if isinstance(m, nn.MultiheadAttention)}
    found = _decide(modules, inner, others)
    tied = _embeddings_of(modules, found, others)
    report.packed += [f"{n} (before)" for n, m in modules.items() if isinstance(m, Packed) and id(m) not in inner]
    quants = _quants(modules, found, chosen, report)
    dtype = dtype_of(model, {key for key, quant in quants.items() if isinstance(quant, quantized.Stored)})
    names = {id(module): name for name, module in modules.items()}
    _pack_each(_groups(modules, found, quants, tied), found, quants, dtype, report, names)
    for module in modules.values():
        if isinstance(module, Linear) and id(module) in tied:
            module.watch(tied[id(module)])
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
        report.quantized += _costs(name, module, quants.get(id(module)))
        if kind is MultiheadAttention:
            report.attention.append(f"{name}: fovea.attention")
    return quants


def _fuse(model, report):
    """Puts what follows maps into them, and has torch's layers call them."""
    call_modules(model, lambda layer: any(isinstance(child, Packed) for child in layer.children()))
    for name, module in python_modules(model).items():
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


def optimize(model: nn.Module, example=None, weights=None) -> nn.Module:
    """Returns a copy of `model` for inference on the CPU in float32, bfloat16 or float16; `model` itself stays as it is.

    In the copy
      - every nn.Linear (and GPT-2's Conv1D) is a product with weights packed once;
      - maps of one input (Q, K and V; gate and up) are one product, where that is proved;
      - GELU, ReLU and residual additions are part of the product before them, where that is proved;
      - attention of transformers' models runs on Fovea (fovea.transformers), nn.MultiheadAttention as a whole.
      - linear modules that were quantized before (GPTQ, AWQ, compressed-tensors, FP8), and transformers' experts in FP8 and MXFP4,
        compute on their weights as they are.
    What is not exactly known stays as it is: subclasses, modules with hooks, with a forward of their own, with attributes
    that their class does not have. The copy has no gradients and cannot be trained: asking for either raises RuntimeError.
    Packed weights are memory of the copy's own, can be read as ever (copy.state_dict() is the original's) and not be
    written; all other parameters are shared.

    example: a tensor, a tuple of arguments or a dict of keywords. The copy and the original in eval mode are run on it, and
    RuntimeError names the first module whose result differs by more than 1e-4 (float32), 1e-2 (float16) or 5e-2 (bfloat16)
    of its largest number. With quantized weights the original is one that computes as they are defined, and it is asked
    whether the numbers that they stand for are its own. That needs memory for these numbers as float32.

    weights: "int8", "int4", "q8_0", "q4_0", "q4_1" or "q4_k" quantizes the weights of linear maps and of
    nn.MultiheadAttention as they are packed, as fovea.Linear(quantization=) does. A dict chooses by names of modules, the longest
    that fits; "" is for all others: {"": "int4", "lm_head": "int8", "model.embed": None}. A weight that is an embedding's,
    too, is quantized only where the dict has its own name. Maps whose sizes do not divide keep their floats.
    copy.state_dict() has the rounded weights. Raises ValueError for another word.

    `copy.fovea_report` (a Report) tells what was packed and what was left, and why.
    """
    chosen = checked(weights)
    if isinstance(getattr(model, "fovea_report", None), Report):
        if any(chosen.values()):
            raise ValueError("this model was made by fovea.torch.optimize(): quantize the weights of the original")
        return copy.deepcopy(model)
    with torch.inference_mode(False), torch.no_grad():
        report, memo = Report(), Memo()
        optimized = _copy(model, memo)
        others = others_of(model, memo)
        if kept := plain_tensors(others):
            memo = Memo(kept)
            optimized = _copy(model, memo)
            others = others_of(model, memo)
        del memo
        _attention(optimized, report)
        quants = _pack(optimized, chosen, report, others)
        del others
        _fuse(optimized, report)
        for_inference(optimized)
    packed = {id(p) for m in optimized.modules() if isinstance(m, Packed) for p in m.parameters()}
    report.shared_bytes = sum(p.numel() * p.element_size() for p in optimized.parameters() if id(p) not in packed)
    optimized.fovea_report = report
    for name in ("train", "_apply") if packed else ():
        setattr(optimized, name, functools.partial(all_or_none, name, optimized))
    if packed:
        optimized.load_state_dict = functools.partial(load_state_dict, optimized, Packed)
    if example is not None:
        with torch.inference_mode(False), torch.no_grad():
            check_weights(_copy(model), optimized, quants)
            defined = _copy(model)
            if any(map(is_quantized, quants.values())):
                defined = oracle(defined, optimized, quants)
            call_modules(defined, approximates)
            check(defined, optimized, example)
    _logger.info("%s", report)
    return optimized
