"""report(model): which attention and which recurrent layers of a model of transformers run on Fovea.

What a model says of itself, attn_implementation="fovea", tells nothing of attention modules that never ask for it. Those that do read
transformers' ALL_ATTENTION_FUNCTIONS, which the compiled code of their class shows. What came of it is counted as they are called.
"""

import dataclasses
import re
from collections import Counter

from torch import nn

from fovea.transformers import recurrences
from fovea.transformers.counters import _calls
from fovea.transformers.source import names_read

_INTERFACE, _TORCH, _OWN, _SERVED = "ALL_ATTENTION_FUNCTIONS", "scaled_dot_product_attention", "", "served"
_KINDS = {
    _INTERFACE: "call the attention implementation",
    _TORCH: "call torch's scaled_dot_product_attention themselves: fovea.torch.enable() runs it on Fovea",
    _OWN: "have code of their own, which never runs on Fovea",
    _SERVED: "have code of their own, whose attention optimize() has put on Fovea",
}
_NAMED = re.compile(r"\w*Attention(?!\w*(Output|Pool|Embed|Norm|Dropout|Adapter))\w*")


def _kind(kind):
    """_INTERFACE or _TORCH for a class whose methods read it, else _OWN; torch's own class, and what optimize() makes of it."""
    if issubclass(kind, nn.MultiheadAttention):
        return _SERVED if kind.__module__.startswith("fovea.") else _TORCH
    read = names_read(kind)
    return _INTERFACE if _INTERFACE in read else _TORCH if _TORCH in read else _OWN


def is_served(module):
    """Whether optimize() has changed how a module computes its attention (own_attention.py)."""
    return getattr(getattr(vars(module).get("forward"), "func", None), "runs_class_forward", False)


def attentions(model):
    """[(name, module, kind)]: innermost modules of attention. kind says how they compute it, as above."""
    kinds = {kind: _kind(kind) for kind in {type(m) for m in model.modules() if not hasattr(m, "set_attn_implementation")}}
    found = [
        (name, module, _SERVED if is_served(module) else kinds[type(module)])
        for name, module in model.named_modules()
        if type(module) in kinds and (kinds[type(module)] == _INTERFACE or _NAMED.fullmatch(type(module).__name__))
    ]
    outer = {name[:end] for name, *_ in found for end in range(len(name)) if name[end] == "."}
    return [entry for entry in found if entry[2] == _INTERFACE or entry[0] not in outer]


@dataclasses.dataclass
class Report:
    """Where the attention and the recurrent layers of a model run. str() of it is some lines to read.

    implementation  the model's
    modules         {"call the attention implementation", ...: {class: how many of them}}
    recurrences     a line for each class of recurrent layers, and reason
    called, fused   modules that called Fovea's implementation so far, and their calls that it computed
    fallbacks       {reason: their calls that it did not}
    """

    implementation: str
    modules: dict
    recurrences: list = dataclasses.field(default_factory=list)
    called: int = 0
    fused: int = 0
    fallbacks: Counter = dataclasses.field(default_factory=Counter)

    def __str__(self):
        return "\n".join(self.lines())

    def lines(self):
        """The lines that str() joins."""
        asking = sum(self.modules.get(_KINDS[_INTERFACE], {}).values())
        total = sum(sum(classes.values()) for classes in self.modules.values())
        lines = [f"attention implementation {self.implementation} is set; {asking} of {total} attention modules call it"]
        if not total:
            lines = ["it has no attention modules"]
        for kind, classes in self.modules.items():
            if kind != _KINDS[_INTERFACE]:
                named = ", ".join(f"{count} {name}" for name, count in classes.items())
                lines.append(f"{named} {kind}")
        lines += self.recurrences
        if self.called:
            fell = "".join(f", {count} fell back ({reason})" for reason, count in self.fallbacks.items())
            lines.append(f"so far {self.called} modules called Fovea: {self.fused} calls ran on it{fell}")
        return lines


def report(model):
    """The Report of a model, or of a part of one: from its code before it was called, and from its calls since."""
    modules = {}
    implementation = getattr(getattr(model, "config", None), "_attn_implementation", None)
    made = Report(implementation or "of its parts", modules, recurrences.lines(model))
    for _, module, kind in attentions(model):
        modules.setdefault(_KINDS[kind], Counter())[type(module).__name__] += 1
    for module in model.modules():
        calls = _calls.get(module)
        if calls is not None:
            made.called += 1
            made.fused += calls.fused
            made.fallbacks.update(calls.fallbacks)
    return made
