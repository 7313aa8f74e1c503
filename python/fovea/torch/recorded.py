"""Proves what a method of a module does: a list of calls, or nothing.

record() reads the function's bytecode (bytecode.py), and runs nothing. A method fits if
  - it is straight: no jumps, no stores but to local names, no closures, defaults, or operators in place;
  - what it reads is the module's children, `training`, and a few functions of torch;
  - what it does with values is to add, to multiply, and to give them to these functions and to children.
What does not fit is left as it is written.
"""

import inspect
import operator
import types
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import nn

from .bytecode import Program

_MODULES = (torch, nn, F)
HOMES = {  # {a known function: (names of the module of torch that has it, its name there)}
    getattr(home, name): (vars(home), name)
    for home, names in ((F, ("relu", "gelu", "dropout")), (torch, ("relu", "add", "mul")))
    for name in names
}
_OPERATIONS = {"+": operator.add, "*": operator.mul}
_SEQUENTIAL = nn.Sequential.forward
# Allowed flags of code: optimized, new locals, nested, no free names, annotations, docstring.
_FLAGS = 0x1 | 0x2 | 0x10 | 0x40 | 0x1000000 | 0x4000000
_SELF, _TRAINING = object(), object()  # of a recording: self, self.training


@dataclass
class Step:
    """target(*inputs). target: the name of a child, or of an attribute that is a function, or a function of torch."""

    target: object
    inputs: tuple  # values: places in the list of arguments and results; constants: themselves
    options: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Value:
    """The argument or result of this number."""

    place: int

_DROPOUT = ([Value, float], [Value, int])


class Unknown(Exception):
    """The function does what is not recorded."""


class Recording:
    """Steps of a function of `arguments` values, and the place of its result."""

    def __init__(self, arguments: int):
        self.arguments, self.result = arguments, -1
        self.steps: list[Step] = []

    def step(self, target, inputs, options=()):
        options = dict(options)
        if not isinstance(target, str):
            inputs = self._known(target, inputs, options)
        elif options or not all(isinstance(v, Value) for v in inputs):
            raise Unknown
        self.steps.append(Step(target, tuple(inputs), options))
        return Value(self.arguments + len(self.steps) - 1)

    @staticmethod
    def _known(function, inputs, options):
        """The inputs of a function that has no effect but its result."""
        kinds = [*map(type, inputs)]
        if Value not in kinds:
            raise Unknown
        if function in (operator.add, operator.mul, torch.add, torch.mul):
            if len(inputs) == 2 and not options and {*kinds} <= {Value, int, float}:
                return inputs
        elif function is F.gelu:
            if len(inputs) == 1 and options in ({}, {"approximate": "none"}, {"approximate": "tanh"}):
                return inputs
        elif function in (F.relu, torch.relu):
            if len(inputs) == 1 and not options.pop("inplace", False) and not options:
                return inputs
        elif function is F.dropout:
            inputs = [*inputs, *(options.pop(name, default) for name, default in (("p", 0.5),) if len(inputs) < 2)]
            training = inputs.pop() if len(inputs) == 3 else options.pop("training", True)
            plain = not options.pop("inplace", False) and not options and [*map(type, inputs)] in _DROPOUT
            if plain and training in (_TRAINING, False) and 0 <= inputs[1] <= 1:
                options["training"] = False
                return inputs
        raise Unknown


def _read(owner, name, targets):
    """The value of an attribute: the name of a target, a known thing of torch, _TRAINING."""
    if owner is _SELF and name == "training":
        return _TRAINING
    if owner is _SELF and name in targets:
        return name
    if any(owner is module for module in _MODULES):
        return _known(vars(owner).get(name))
    raise Unknown


def _known(value):
    if not any(value is known for known in (*_MODULES, *HOMES)):
        raise Unknown
    return value


def _follow(function, targets) -> Recording:
    """The recording of a function, whose self has these targets."""
    program, code = Program(function), function.__code__
    if not program.straight:
        raise Unknown
    recording = Recording(code.co_argcount - 1)
    arguments: dict[str, object] = {name: Value(place - 1) for place, name in enumerate(code.co_varnames[: code.co_argcount])}
    arguments[code.co_varnames[0]] = _SELF
    values: dict = {}
    for node in program.nodes[1:]:
        inputs = [values[v] for v in node.inputs]
        value: object = None
        if node.kind == "local":
            value = arguments.get(node.name)
        elif node.kind == "constant":
            value = node.name
        elif node.kind == "global":
            value = _known(function.__globals__.get(node.name))
        elif node.kind == "read":
            value = _read(inputs[0], node.name, targets)
        elif node.kind == "call" and node.name != "*" and node.inputs[0].kind != "constant":
            by_name = len(inputs) - len(node.name)
            value = recording.step(inputs[0], inputs[1:by_name], zip(node.name, inputs[by_name:]))
        elif node.kind == "operation" and node.name in _OPERATIONS:
            value = recording.step(_OPERATIONS[node.name], inputs)
        elif node.kind == "return" and isinstance(inputs[0], Value):
            recording.result = inputs[0].place
        else:
            raise Unknown
        values[node] = value
    return recording


def attribute_functions(module) -> dict:
    """Activations that are functions among the attributes of a module, by name: torch's own layers keep theirs so."""
    return {n: f for n, f in vars(module).items() if f is F.relu or f is F.gelu}


def record(module, name: str) -> Recording | None:
    """The recording of the method `name` of the class of `module`, or None. Targets that the class shadows are unknown."""
    if any(home[function] is not known for known, (home, function) in HOMES.items()):
        return None
    if type(module) is nn.Sequential and name == "forward":
        if None in module._modules.values() or nn.Sequential.forward is not _SEQUENTIAL:
            return None
        recording = Recording(1)
        for child in module._modules:
            recording.step(child, (Value(len(recording.steps)),))
        recording.result = len(recording.steps)
        return recording
    kind = type(module)
    function = inspect.getattr_static(kind, name, None)  # a staticmethod has no self
    if type(function) is not types.FunctionType or kind.__getattribute__ is not object.__getattribute__:
        return None
    if kind.__getattr__ is not nn.Module.__getattr__:
        return None
    targets = {n for n, child in module._modules.items() if child is not None and n not in vars(module)}
    targets |= attribute_functions(module).keys()
    targets -= {n for n in targets if hasattr(kind, n)}
    code = function.__code__
    more = code.co_flags & ~_FLAGS or code.co_kwonlyargcount or function.__closure__ or function.__defaults__
    if more or not code.co_argcount:
        return None
    try:
        return _follow(function, targets)
    except Unknown:
        return None
