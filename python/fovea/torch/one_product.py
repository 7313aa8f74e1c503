"""Maps of one input, such as Q, K and V, computed as one product.

groups_of() finds them in the bytecode of the methods that call them: maps that are called one after the other on one
local name, with nothing between that could change its value. A OneProduct computes all of them at the call of
the first, and gives the others theirs only if they are called next, with that value, from those places of that same run
of the method. Whoever calls them in another way gets what the map alone computes. Sizes that view() is given are taken
for numbers.
"""

import inspect
import sys
import threading

from torch import nn

from .bytecode import Program
from .exact import call_hooks, changes_its_input_alone

_VIEWS = {"view", "reshape", "unflatten", "transpose", "permute", "contiguous", "squeeze", "unsqueeze"}  # of a result
_SIZES = {"shape", "dtype", "device", "ndim"}  # attributes of a tensor that tell nothing of its numbers


class _Groups:
    """Finds maps of one value among the nodes of a method. Of nodes it knows: "self", "local", "child", "fresh" (a new
    tensor), "method" (of one, that makes a view), "size" (a number, or some), "given" (a tuple with locals, which views
    alone are given), "tuple". Another one may do anything, which ends the group before it.
    """

    def __init__(self, program, own, module, maps, harmless):
        self.module, self.own, self.maps, self.harmless = module, own, maps, harmless
        self.found: list = []  # [(names of maps, places of the calls, other children called between)]
        self.numbers: set = set()  # attributes that were read as numbers
        self._begin(None)
        for node in program.nodes:
            known = self._kind(node)
            if known is None:
                self._begin(None)
            self._known[node] = known

    def _begin(self, value):
        """Ends the group before, and begins one of maps of a value."""
        calls = getattr(self, "_calls", ())
        if len(calls) > 1:
            others = [name for number, name in self._between if number < len(calls)]
            self.found.append(([name for name, _ in calls], [place for _, place in calls], others))
        if value is None:
            self._known: dict = {}
        self._calls, self._between, self._value = [], [], value

    def _value_kind(self, node):
        if node.kind in ("local", "constant"):
            return "size" if node.kind == "constant" else "self" if node.name == self.own else "local"
        known = self._known.get(node)
        return "local" if node.held and known in (None, "tuple") else known

    def _kind(self, node):
        if node.kind in ("local", "constant"):
            return self._value_kind(node)
        kinds = [*map(self._value_kind, node.inputs)]
        if node.kind == "tuple":
            return "size" if {*kinds} <= {"size"} else "given" if {*kinds} <= {"size", "local"} else "tuple"
        if node.kind == "operation" and node.name in ("+", "-", "*", "/") and {*kinds} <= {"fresh", "size"}:
            return "fresh" if "fresh" in kinds else "size"
        if node.kind == "operation" and node.name == "[]" and {*kinds} == {"size"}:
            return "size"
        if node.kind == "read":
            return self._read(kinds[0], *node.inputs, node.name)
        return self._call(node, kinds) if node.kind == "call" else None

    def _read(self, kind, owner, name):
        own, of_class = vars(self.module), type(self.module)
        if kind == "self" and name in self.module._modules:
            return None if name in own or hasattr(of_class, name) else "child"
        if kind == "self" and type(own.get(name)) in (int, float) and not hasattr(of_class, name):
            self.numbers.add(name)
            return "size"
        if kind == "fresh" and name in _VIEWS:
            return "method"
        return "size" if name in _SIZES and (kind == "fresh" or owner is self._value) else None

    def _call(self, node, kinds):
        kind, *given = kinds
        name, by_name = node.inputs[0].name, node.name not in ((), "*")
        if kind == "child" and name in self.maps and given in (["local"], [None]) and not node.name:
            if node.inputs[1] is not self._value or name in dict(self._calls):
                self._begin(node.inputs[1])
            self._calls.append((name, node.place))
        elif kind == "child" and name in self.harmless and given == ["fresh"] and not node.name:
            self._between.append((len(self._calls), name))
        elif kind != "method" or by_name or not {*given} <= {"size", "given", "local"}:
            return None
        return "fresh"


def _readings(module, names):
    """[(code, names of maps, places, other children, numbers)] of a module's methods that call maps of these names."""
    found: list = []
    kind = type(module)
    if kind.__getattr__ is not nn.Module.__getattr__ or kind.__getattribute__ is not object.__getattribute__:
        return found
    harmless = {n for n, child in module._modules.items() if changes_its_input_alone(child)}
    kinds = [kind for kind in kind.__mro__ if kind is not nn.Module and issubclass(kind, nn.Module)]
    for method in sorted({name for kind in kinds for name in vars(kind)}):
        function = inspect.unwrap(getattr(type(module), method))
        code = getattr(function, "__code__", None)
        if code is None or not code.co_argcount or len(set(names) & set(code.co_names)) < 2:
            continue
        program, own = Program(function), code.co_varnames[0]
        groups = _Groups(program, own, module, set(names), harmless)
        for calls, places, others in groups.found if own not in program.stored else ():  # another self has other children
            # In a loop, what was not taken would still be held when the places come again.
            if not any(top <= place <= end for top, end in program.loops for place in places):
                found.append((code, calls, places, others, sorted(groups.numbers)))
    return found


def groups_of(module, names) -> list[list[str]]:
    """Those of the maps `names` of a module that its methods call on one value, in the order of the calls."""
    taken: set = set()
    groups = []
    for _, group, *_ in _readings(module, names):
        if not taken & set(group):
            groups.append(group)
            taken.update(group)
    return groups


class _Held(threading.local):
    """A thread's results that no map has returned yet: (run of the method, value, number of the next map, results)."""

    held = (None, None, 0, ())


_local = _Held()


class OneProduct:
    """The maps `names` of a module, which are the parts of one fovea.Linear."""

    def __init__(self, module, names):
        self.module, self.names, self._bound = module, names, None

    # A copy proves again what was proved when it runs; a map that is copied alone has no product.
    def __deepcopy__(self, memo):
        module = memo.get(id(self.module))
        return None if module is None else OneProduct(module, self.names)

    def __getstate__(self):
        return {"module": self.module, "names": self.names, "_bound": None}

    def _bind(self):
        children = self.module._modules
        maps = [children.get(name) for name in self.names]
        if all(vars(m or self).get("_product") is self and m._part == number for number, m in enumerate(maps)):
            for code, names, places, others, numbers in _readings(self.module, self.names):
                if names == self.names:
                    between = [children[name] for name in others]
                    forwards = [type(child).forward for child in between]
                    guard = (others, between, [*map(type, between)], forwards, [*map(vars, between)], numbers)
                    guard = guard if others or numbers else ()
                    return maps[0].packed.apply, code, places, guard
        return None, None, (), ()

    def part(self, number, x):
        """The result of a map that was called with x, of itself and without hooks, by the caller's caller; None where
        it is to be computed alone."""
        if self._bound is None:
            self._bound = self._bind()
        execute, code, places, guard = self._bound
        frame = sys._getframe(2)
        if frame.f_code is not code or frame.f_lasti != places[number]:
            return None
        if number:
            run, value, next_map, ys = _local.held
            if run is not frame or value is not x or next_map != number:
                return None
        elif not guard or (frame.f_locals.get(code.co_varnames[0]) is self.module and self._holds(*guard)):
            ys = execute(x)
        else:
            return None
        number += 1
        _local.held = _Held.held if number == len(places) else (frame, x, number, ys)
        return ys[number - 1]

    def _holds(self, names, children, kinds, forwards, attributes, numbers) -> bool:
        """Whether what is called and read between the maps is as it was proved to be."""
        own, of_class = vars(self.module), type(self.module)
        return (
            not any(map(any, map(call_hooks, attributes)))
            and [*map(self.module._modules.get, names)] == children
            and [*map(type, children)] == kinds
            and [kind.forward for kind in kinds] == forwards
            and not any("forward" in own for own in attributes)
            and not any(name in own or hasattr(of_class, name) for name in names)
            and not any(type(own.get(name)) not in (int, float) or hasattr(of_class, name) for name in numbers)
        )
