"""Which weights a module reads by itself, beside calling the map that they belong to. A hint: only speed depends on it.

A packed map unpacks its weight for each such reader. So maps whose weights are read for more than their type stay torch's.
"""

import dis
import types

_ABOUT = ("dtype", "device", "shape", "is_meta")


def weights_read(module) -> set[str]:
    """The children of `module` whose weight or bias its methods read, by their bytecode: self.NAME.weight."""
    found = set()
    kinds = [kind for kind in type(module).__mro__ if not kind.__module__.startswith("torch.nn.")]  # those call modules
    for name in {name for kind in kinds for name in vars(kind)}:
        function = getattr(type(module), name, None)
        if type(function) is types.FunctionType and not any(word in name for word in ("init", "reset")):
            read = [(i.opname, i.argval) for i in dis.get_instructions(function) if i.opname != "CACHE"]
            for (_, child), (_, weight), *after in zip(read, read[1:], read[2:], read[3:]):
                asks = after[0][1] in _ABOUT or after[1] == ("LOAD_ATTR", "Tensor")  # isinstance(weight, torch.Tensor)
                if weight in ("weight", "bias") and child in module._modules and not asks:
                    found.add(child)
    return found
