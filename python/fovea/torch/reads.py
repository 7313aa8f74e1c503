"""Maps whose weights their module reads by itself stay torch's: a packed map unpacks its weight for each reader.

They are found in the bytecode of the module's methods: self.NAME.weight. A hint: only speed depends on it.
"""

import types
from typing import Any

from .bytecode import Program

_ABOUT = ("dtype", "device", "shape", "is_meta")


def _methods(module):
    """A class's methods that are neither torch's nor there to make parameters."""
    kinds = [kind for kind in type(module).__mro__ if not kind.__module__.startswith("torch.nn.")]
    for name in {name for kind in kinds for name in vars(kind)}:
        function = getattr(type(module), name, None)
        if type(function) is types.FunctionType and not any(word in name for word in ("init", "reset")):
            yield function


def _asks(node) -> bool:
    """Whether a node asks a tensor for its type: tensor.dtype, isinstance(tensor, torch.Tensor)."""
    return node.kind == "read" and node.name in _ABOUT or node.kind == "call" and node.inputs[0].name == "isinstance"


def weights_read(module) -> set[str]:
    """The children whose weight or bias `module` reads, for more than its type."""
    found: set[str] = set()
    for function in _methods(module):
        if not {"weight", "bias"} & set(function.__code__.co_names):
            continue
        nodes = Program(function).nodes
        for node in nodes:
            child: Any = node.inputs[0].name if node.kind == "read" and node.name in ("weight", "bias") else None
            users = [other for other in nodes if node in other.inputs]
            if child in module._modules and not (users and all(map(_asks, users))):
                found.add(child)
    return found
