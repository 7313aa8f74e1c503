"""Maps of one input, such as Q, K and V, computed as one product.

groups_of() finds them in the bytecode of the methods that call them: maps that are called one after the other on one
local name, with nothing between that could change its value. A OneProduct computes all of them at the call of
the first, and gives the others theirs only if they are called next, with that value, from those places of that same run
of the method. Whoever calls them in another way gets what the map alone computes. Sizes that view() is given are taken
for numbers.
"""

import dis
import inspect
import sys
import threading

from torch import nn

from .exact import call_hooks, changes_its_input_alone

_VIEWS = {"view", "reshape", "unflatten", "transpose", "permute", "contiguous", "squeeze", "unsqueeze"}  # of a result
_SIZES = {"shape", "dtype", "device", "ndim"}  # attributes of a tensor that tell nothing of its numbers
_NOTHING = set("RESUME NOP CACHE EXTENDED_ARG PRECALL MAKE_CELL COPY_FREE_VARS".split())


class _End(Exception):
    """An instruction after which no more is known."""


def _names(argval):
    """Those of the locals of an instruction, which are two in what Python 3.13 joins."""
    return argval if isinstance(argval, tuple) else (argval,)


class _Stack(list):
    def take(self, count=1):
        """The topmost values, which are None where they are not known."""
        taken = [self.pop() if self else None for _ in range(count)]
        return taken[::-1]


class _Reader:
    """Reads a function from top to bottom. Values on its stack: ("self",), ("local", name), ("attribute", name of a
    child), ("fresh",) for a new tensor, ("method",) of one that makes a view, ("size",) for a number or some,
    ("given",) for a tuple with locals, which views alone are given, ("null",).
    """

    def __init__(self, function, module, maps, harmless):
        self.code, self.module, self.maps, self.harmless = function.__code__, module, maps, harmless
        self._own = self.code.co_varnames[0]
        self.groups: list = []  # [(names of maps, places of the calls, other children called between, numbers read)]
        self.numbers: set = set()  # attributes that were read as numbers
        self._forget()
        for i in (instructions := [*dis.get_instructions(function)]):
            if i.is_jump_target:
                self._forget()
            try:
                self._step(i)
            except _End:
                self._forget()
        self._forget()
        # In a loop, what was not taken would still be held when the places come again. Another self has other children.
        jumps = dis.hasjrel + dis.hasjabs
        loops = [(i.argval, i.offset) for i in instructions if i.opcode in jumps and i.argval <= i.offset]
        again = lambda places: any(top <= place <= end for top, end in loops for place in places)  # noqa: E731
        rebound = any(i.opname.startswith("STORE_FAST") and self._own in _names(i.argval) for i in instructions)
        self.groups = [] if rebound else [(*g, sorted(self.numbers)) for g in self.groups if not again(g[1])]

    def _forget(self):
        self._close()
        self.stack, self.locals = _Stack(), {}

    def _close(self):
        if len(getattr(self, "calls", ())) > 1:
            others = [name for number, name in self.between if number < len(self.calls)]
            self.groups.append(([name for name, _ in self.calls], [place for _, place in self.calls], others))
        self.calls, self.between, self.input = [], [], None

    def _step(self, i):
        name, stack = i.opname, self.stack
        if name in _NOTHING:
            return
        if name == "PUSH_NULL":
            stack.append(("null",))
        elif name in ("LOAD_CONST", "LOAD_SMALL_INT"):
            stack.append(("size",))
        elif name.startswith(("LOAD_FAST", "STORE_FAST")):
            self._fast(name, i.argval)
        elif name in ("LOAD_ATTR", "LOAD_METHOD"):
            (owner,) = stack.take()
            stack.append(self._attribute(owner, i.argval))
            if name == "LOAD_METHOD" or (sys.version_info >= (3, 12) and i.arg & 1):
                stack.append(("null",))
        elif name == "CALL":
            arguments, pair = stack.take(i.arg), stack.take(2)
            self._call([v for v in pair if v != ("null",)], arguments, i.offset)
        elif name == "CALL_FUNCTION_EX" and not i.arg and sys.version_info < (3, 14):
            *pair, arguments = stack.take(3)
            self._call([v for v in pair if v == ("method",)], [arguments], i.offset)
        elif name == "BINARY_OP" and i.argrepr in ("+", "-", "*", "/"):
            operands = set(stack.take(2))
            if not operands <= {("fresh",), ("size",)}:
                raise _End
            stack.append(("fresh",) if ("fresh",) in operands else ("size",))
        elif name == "BUILD_TUPLE" and None not in (items := stack.take(i.arg)):
            kinds = {v[0] for v in items}
            stack.append(("size",) if kinds <= {"size"} else ("given",) if kinds <= {"size", "local"} else None)
        elif name == "BINARY_SUBSCR" and set(stack.take(2)) == {("size",)}:
            stack.append(("size",))
        elif name == "POP_TOP":
            stack.take()
        else:
            raise _End

    def _fast(self, name, names):
        for kind, local in zip(name.split("_FAST")[:-1], _names(names)):
            if "LOAD" in kind:
                own = ("self",) if local == self._own else ("local", local)
                self.stack.append(self.locals.get(local, own))
            else:
                (value,) = self.stack.take()
                self.locals[local] = value or ("local", local)

    def _attribute(self, owner, name):
        if owner == ("self",) and name in self.module._modules:
            if hasattr(type(self.module), name) or name in vars(self.module):
                raise _End
            return ("attribute", name)
        number = type(vars(self.module).get(name)) in (int, float)
        if owner == ("self",) and number and not hasattr(type(self.module), name):
            self.numbers.add(name)
            return ("size",)
        if owner == ("fresh",) and name in _VIEWS:
            return ("method",)
        if owner in (("fresh",), ("local", self.input)) and name in _SIZES:
            return ("size",)
        raise _End

    def _call(self, function, arguments, place):
        if len(function) != 1 or not function[0] or None in arguments:
            raise _End
        kind, *name = function[0]
        if kind == "attribute" and name[0] in self.maps and len(arguments) == 1 and arguments[0][0] == "local":
            if self.input != arguments[0][1] or name[0] in dict(self.calls):
                self._close()
            self.input = arguments[0][1]
            self.calls.append((name[0], place))
        elif kind == "attribute" and name[0] in self.harmless and arguments == [("fresh",)]:
            self.between.append((len(self.calls), name[0]))
        elif kind != "method" or not all(a[0] in ("size", "given", "local") for a in arguments):
            raise _End
        self.stack.append(("fresh",))


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
        if code is not None and code.co_argcount and len(set(names) & set(code.co_names)) > 1:
            found += [(code, *group) for group in _Reader(function, module, set(names), harmless).groups]
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
    """What a thread has computed and not yet given: (run of the method, value, number of the next map, results)."""

    held = (None, None, 0, ())


_local = _Held()


class OneProduct:
    """The maps `names` of a module, which are the parts of one fovea.Linear."""

    def __init__(self, module, names):
        self.module, self.names, self._bound = module, names, None

    # What was proved is proved again where a copy runs; a map that is copied alone has no product.
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
                    return maps[0].packed.execute, code, places, guard
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
            run, value, following, ys = _local.held
            if run is not frame or value is not x or following != number:
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
