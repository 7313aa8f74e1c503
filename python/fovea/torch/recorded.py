"""What a method of a module does, proved: a list of calls, or nothing.

record() runs the plain function with a stand-in for self and values that stand for its arguments. Nothing of the real
module is run or changed, as the function is run only if it cannot do anything else than what is recorded:
  - its bytecode is straight: no jumps, no stores but to local names, no closures, defaults, or operators in place;
  - the names that it reads are those of the module's children, of `training`, and of a few functions of torch;
  - a value can be added, multiplied, and given to these functions and to children. Everything else is an error.
What does not fit is left as it is written.
"""

import dis
import inspect
import operator
import types
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import nn

_OPCODES = frozenset(
    "RESUME NOP CACHE EXTENDED_ARG PUSH_NULL PRECALL CALL KW_NAMES CALL_KW RETURN_VALUE RETURN_CONST COPY SWAP POP_TOP "
    "LOAD_FAST STORE_FAST LOAD_FAST_LOAD_FAST STORE_FAST_LOAD_FAST STORE_FAST_STORE_FAST LOAD_FAST_BORROW "
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW LOAD_FAST_CHECK LOAD_CONST LOAD_SMALL_INT LOAD_GLOBAL LOAD_ATTR LOAD_METHOD "
    "BINARY_OP".split()
)
_MODULES = (torch, nn, F)
HOMES = {  # {a known function: (names of the module of torch that has it, its name there)}
    getattr(home, name): (vars(home), name)
    for home, names in ((F, ("relu", "gelu", "dropout")), (torch, ("relu", "add", "mul")))
    for name in names
}
_FUNCTIONS = (*HOMES,)
_SEQUENTIAL = nn.Sequential.forward
_NAMES = {"nn", "functional", "relu", "gelu", "dropout", "add", "mul", "training"}
# Of code: optimized, new locals, nested, no free names, annotations, docstring.
_FLAGS = 0x1 | 0x2 | 0x10 | 0x40 | 0x1000000 | 0x4000000
_TRAINING = object()  # self.training of a recording


@dataclass
class Step:
    """target(*inputs). target: the name of a child, or of an attribute that is a function, or a function of torch."""

    target: object
    inputs: tuple  # values: places in the list of arguments and results; constants: themselves
    options: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Value:
    """The argument or result of this number."""

    recording: "Recording"
    place: int

    def __add__(self, other):
        return self.recording.step(operator.add, (self, other))

    def __radd__(self, other):
        return self.recording.step(operator.add, (other, self))

    def __mul__(self, other):
        return self.recording.step(operator.mul, (self, other))

    def __rmul__(self, other):
        return self.recording.step(operator.mul, (other, self))

    @classmethod
    def __torch_function__(cls, function, kinds, args=(), kwargs=None):
        return next(v for v in args if isinstance(v, cls)).recording.step(function, args, **(kwargs or {}))


class Unknown(Exception):
    """The function does what is not recorded."""


class Recording:
    """Steps of a function of `arguments` values, and the place of its result."""

    def __init__(self, arguments: int):
        self.arguments, self.result = arguments, -1
        self.steps: list[Step] = []

    def step(self, target, inputs, **options):
        if not isinstance(target, str):
            inputs = self._known(target, inputs, options)
        elif options or not all(isinstance(v, Value) for v in inputs):
            raise Unknown
        self.steps.append(Step(target, tuple(inputs), options))
        return Value(self, self.arguments + len(self.steps) - 1)

    @staticmethod
    def _known(function, inputs, options):
        """The inputs of a function that has no effect but its result."""
        numbers = [type(v) in (int, float) for v in inputs]
        if function in (operator.add, operator.mul, torch.add, torch.mul):
            if len(inputs) == 2 and not options and all(isinstance(v, Value) or n for v, n in zip(inputs, numbers)):
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
            plain = not options.pop("inplace", False) and not options
            if plain and training in (_TRAINING, False) and 0 <= inputs[1] <= 1:
                options["training"] = False
                return inputs
        raise Unknown


class _Self:
    """Stands for the module while its function is recorded."""

    def __init__(self, recording, targets):
        self.__dict__.update({name: self._call(recording, name) for name in targets}, training=_TRAINING)

    @staticmethod
    def _call(recording, name):
        return lambda *inputs, **options: recording.step(name, inputs, **options)


def _is_straight(function, names) -> bool:
    code = function.__code__
    flags = code.co_flags & ~_FLAGS
    if flags or code.co_exceptiontable or code.co_kwonlyargcount or function.__closure__ or function.__defaults__:
        return False
    for i in dis.get_instructions(code):
        if i.opname not in _OPCODES or (i.opname == "BINARY_OP" and i.argrepr not in ("+", "*")):
            return False
        if i.opname == "LOAD_GLOBAL":
            value = function.__globals__.get(i.argval)
            if not any(value is known for known in (*_MODULES, *_FUNCTIONS)):
                return False
        if i.opname in ("LOAD_ATTR", "LOAD_METHOD") and i.argval not in names:
            return False
    return True


def attribute_functions(module) -> dict:
    """Activations that are functions among the attributes of a module, by name: torch's own layers keep theirs so."""
    return {n: f for n, f in vars(module).items() if f is F.relu or f is F.gelu}


def record(module, name: str) -> Recording | None:
    """What the method `name` of the class of `module` does, or None. Targets that the class shadows are unknown."""
    if any(home[function] is not known for known, (home, function) in HOMES.items()):
        return None
    if type(module) is nn.Sequential and name == "forward":
        if None in module._modules.values() or nn.Sequential.forward is not _SEQUENTIAL:
            return None
        recording = Recording(1)
        for child in module._modules:
            value = recording.step(child, (Value(recording, len(recording.steps)),))
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
    if not _is_straight(function, targets | _NAMES):
        return None
    recording = Recording(function.__code__.co_argcount - 1)
    values = [Value(recording, place) for place in range(recording.arguments)]
    try:
        result = function(_Self(recording, targets), *values)
    except Exception:  # of the recording, or of torch that does not know its values
        return None
    if not isinstance(result, Value):
        return None
    recording.result = result.place
    return recording
