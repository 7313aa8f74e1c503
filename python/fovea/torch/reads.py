"""Maps whose weights their module reads by itself stay torch's: a packed map unpacks its weight for each reader.

They are found in the bytecode of the module's methods: self.NAME.weight. A hint: only speed depends on it.
"""

import dis
import types

_ABOUT = ("dtype", "device", "shape", "is_meta")


def _methods(module):
    """The code of a class's methods that are neither torch's nor there to make parameters."""
    kinds = [kind for kind in type(module).__mro__ if not kind.__module__.startswith("torch.nn.")]
    for name in {name for kind in kinds for name in vars(kind)}:
        function = getattr(type(module), name, None)
        if type(function) is types.FunctionType and not any(word in name for word in ("init", "reset")):
            yield function.__code__


def weights_read(module) -> set[str]:
    """The children whose weight or bias `module` reads, for more than its type."""
    found = set()
    for code in _methods(module):
        if not {"weight", "bias"} & set(code.co_names):
            continue
        read = [(i.opname, i.argval) for i in dis.get_instructions(code) if i.opname != "CACHE"]
        for (_, child), (_, weight), *after in zip(read, read[1:], read[2:], read[3:]):
            asks = after[0][1] in _ABOUT or after[1] == ("LOAD_ATTR", "Tensor")  # isinstance(weight, torch.Tensor)
            if weight in ("weight", "bias") and child in module._modules and not asks:
                found.add(child)
    return found
