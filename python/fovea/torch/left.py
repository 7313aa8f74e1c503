"""Maps that models do more with than call: they stay torch's.

A packed map unpacks its weight for each reader, which only costs time, and is of a subclass of nn.Linear, which code may see that asks
for the class itself. Both are found in the bytecode of the methods of a model's classes.
"""

import dis
import types

_ABOUT = ("dtype", "device", "shape", "is_meta")
_KINDS = {"Linear", "Conv1D", "MultiheadAttention"}


def _methods(module):
    """(name, code) of the methods of a module's class that are neither torch's nor there to make parameters."""
    kinds = [kind for kind in type(module).__mro__ if not kind.__module__.startswith("torch.nn.")]
    for name in {name for kind in kinds for name in vars(kind)}:
        function = getattr(type(module), name, None)
        if type(function) is types.FunctionType and not any(word in name for word in ("init", "reset")):
            yield name, function.__code__


def _weights_read(module) -> set[str]:
    """The children whose weight or bias a module reads, for more than its type: self.NAME.weight."""
    found = set()
    for _, code in _methods(module):
        if not {"weight", "bias"} & set(code.co_names):
            continue
        read = [(i.opname, i.argval) for i in dis.get_instructions(code) if i.opname != "CACHE"]
        for (_, child), (_, weight), *after in zip(read, read[1:], read[2:], read[3:]):
            asks = after[0][1] in _ABOUT or after[1] == ("LOAD_ATTR", "Tensor")  # isinstance(weight, torch.Tensor)
            if weight in ("weight", "bias") and child in module._modules and not asks:
                found.add(child)
    return found


def _asks_for_class(module) -> bool:
    """Whether a method compares type(...) with a class that is packed."""
    return any("type" in code.co_names and _KINDS & set(code.co_names) for _, code in _methods(module))


def why_left(model) -> dict[int, str]:
    """{id of a module: why it stays as it is}."""
    left = {}
    for module in model.modules():
        words = type(module).__name__
        left |= {id(module._modules[child]): f"its weight is read by {words}" for child in _weights_read(module)}
        if _asks_for_class(module):
            left |= {id(child): f"{words} asks for its type" for child in module.modules()}
    return left
