"""Activations and residual additions computed by the linear map before them.

fuse() finds them on a recording (recorded.py) of a method, and puts a Fused in the method's place. A map takes in only
what follows it directly, with nothing between that is not proved to do nothing: so no module moves across another,
whatever either does. At each call a Fused makes sure that all is as it was when it was recorded; if not, the method runs as it is written.
"""

import functools
import operator
import types

import torch
import torch.nn.functional as F
from torch import nn

from .exact import GLOBAL_HOOKS, activation_of, call_hooks, is_no_op
from .packed import PLAIN, Conv1D, Linear, ordinary
from .recorded import HOMES, Step, Value, record

_ADD = (operator.add, torch.add)
_CALLED = {nn.ReLU: F.relu, nn.GELU: F.gelu, nn.Dropout: F.dropout}  # by forward() of these classes
_forward_of = operator.attrgetter("forward")


class _Plan:
    """A recording in which maps take in what follows them, and what must be as it is now for that."""

    def __init__(self, module, name, recording):
        self.module, self.name, self.recording = module, name, recording
        self.function = getattr(type(module), name)
        self.fused: dict = {}  # name of a map: (activation or None, has a residual)
        self.watched: list = []  # (attributes of a module, a name, the value that it must have)
        self.attributes: list = []  # vars() of modules that must have no hooks
        self.kinds: list = []  # classes of modules that are not called
        self.steps: list = []  # (target, inputs, options, number of the result)
        self._merge()

    def _target(self, step):
        """The callable of a step: an attribute, which takes precedence over a child of that name, as in Python."""
        if not isinstance(step.target, str):
            return step.target
        return vars(self.module).get(step.target) or self.module._modules[step.target]

    def _users(self, place) -> int:
        uses = sum(v.place == place for step in self.recording.steps for v in step.inputs if isinstance(v, Value))
        return uses + (self.recording.result == place)

    def _watch(self, module, attributes):
        own = {**attributes, "forward": None}
        if isinstance(module, Linear):
            own |= {"weight": None, "bias": None}
        else:
            self.kinds.append(type(module))
            self._watch_function(_CALLED.get(type(module)))
        self.watched += [(vars(module), name, value) for name, value in own.items()]
        self.attributes.append(vars(module))

    def _watch_function(self, function):
        if function in HOMES:
            self.watched.append((*HOMES[function], function))

    def _activation(self, step) -> str | None:
        target = self._target(step)
        if isinstance(target, nn.Module):
            found = activation_of(target)
            if found is not None:
                self._pending.append((target, found[1]))
            return found and found[0]
        if target in (F.relu, torch.relu):
            return "relu"
        if target is F.gelu:
            return {"none": "gelu", "tanh": "gelu_tanh"}[step.options.get("approximate", "none")]
        return None

    def _is_no_op(self, step) -> bool:
        if step.target is F.dropout:
            return not self.module.training
        child = self._target(step)
        if not isinstance(child, nn.Module) or not is_no_op(child):
            return False
        self._pending.append((child, {"training": False}))
        return True

    def _take_in(self, number) -> tuple:
        """(activation, residual, how many steps follow) that the map of step `number` takes in."""
        recording, watch = self.recording, []
        self._pending: list[tuple] = []
        activation = None
        place, taken = recording.arguments + number, 0
        for ahead, step in enumerate(recording.steps[number + 1 :], 1):
            if self._users(place) != 1 or not any(isinstance(v, Value) and v.place == place for v in step.inputs):
                break
            found = self._activation(step) if activation is None else None
            if found is not None:
                activation, taken, watch = found, ahead, list(self._pending)
            elif step.target in _ADD:
                other = [v for v in step.inputs if isinstance(v, Value) and v.place != place]
                if other:  # not a number
                    return activation, other[0], ahead, list(self._pending)
                break
            elif not self._is_no_op(step):
                break
            place = recording.arguments + number + ahead
        return activation, None, taken, watch

    def _merge(self):
        recording, number = self.recording, 0
        names, code = self.function.__globals__, self.function.__code__
        if type(self.module) is not nn.Sequential:
            self.watched += [(names, name, names[name]) for name in code.co_names if name in names]
        for step in recording.steps:  # what is read of the module itself, and of torch
            self._watch_function(None if isinstance(step.target, str) else step.target)
            if step.target is F.dropout:
                self.watched.append((vars(self.module), "training", False))
            elif isinstance(step.target, str) and not isinstance(self._target(step), nn.Module):
                self.watched.append((vars(self.module), step.target, self._target(step)))
        while number < len(recording.steps):
            step = recording.steps[number]
            child = self._target(step)
            taken = 0
            if type(child) in (Linear, Conv1D) and len(step.inputs) == 1:
                activation, residual, taken, watch = self._take_in(number)
            if taken:
                self.fused[step.target] = (activation, residual is not None)
                for module, attributes in [(child, {}), *watch]:
                    self._watch(module, attributes)
                inputs = step.inputs if residual is None else (*step.inputs, residual)
                step = Step(functools.partial(child.fused, activation), inputs)
            number += taken
            self.steps.append((step, recording.arguments + number))
            number += 1

    def guard(self):
        """A function without arguments: whether all is as it is now."""
        module, name, function, code = self.module, self.name, self.function, self.function.__code__
        children = dict(module._modules)
        names = [*children] if type(module) is nn.Sequential else None  # whose order counts
        classes = [*map(type, children.values())]
        kinds = [*dict.fromkeys(self.kinds)]
        forwards, attributes = [*map(_forward_of, kinds)], self.attributes
        owners, keys, values = map(list, zip(*self.watched))

        def holds() -> bool:
            now = module._modules
            return (
                now == children
                and (names is None or [*now] == names)
                and [*map(type, now.values())] == classes
                and [*map(_forward_of, kinds)] == forwards
                and [*map(dict.get, owners, keys)] == values
                and not any(map(any, map(call_hooks, attributes)))
                and not any(GLOBAL_HOOKS)
                and getattr(type(module), name) is function
                and function.__code__ is code
                and ordinary()
            )

        return holds

    def bind(self):
        """The program of Fused: [(function, places of inputs, place of the result, places no longer needed)]."""
        size = self.recording.arguments + len(self.recording.steps)
        constants, bound, seen = [], [], {self.recording.result}
        for step, place in reversed(self.steps):
            inputs = []
            for v in step.inputs:
                if isinstance(v, Value):
                    inputs.append(v.place)
                else:
                    inputs.append(size + len(constants))
                    constants.append(v)
            target = self._target(step)
            if step.options:
                target = functools.partial(target, **step.options)
            dead = tuple({i for i in inputs if i < size} - seen)
            seen.update(inputs)
            bound.append((target, tuple(inputs), place, dead))
        return bound[::-1], [None] * len(self.recording.steps), constants


class Fused:
    """Stands for the method `name` of `module`."""

    def __init__(self, module, name):
        self.module, self.name, self._bound = module, name, None

    def __getstate__(self):  # what was proved is proved again where a copy runs
        return {"module": self.module, "name": self.name, "_bound": None}

    @property
    def __wrapped__(self):
        return types.MethodType(getattr(type(self.module), self.name), self.module)

    @property
    def __code__(self):  # torch.export asks
        return self.__wrapped__.__code__

    def plan(self) -> _Plan | None:
        recording = record(self.module, self.name)
        return None if recording is None else _Plan(self.module, self.name, recording)

    def left_out(self) -> set[str]:
        """The children that are not called as modules."""
        plan = self.plan()
        called = {step.target for step, _ in plan.steps} if plan else set()
        steps = plan.recording.steps if plan else ()
        return {step.target for step in steps if isinstance(step.target, str)} - called

    def _bind(self):
        plan = self.plan()
        if plan is None or not plan.fused:
            self._bound = False
            return False
        self._bound = plan.guard(), plan.recording.arguments, plan.recording.result, *plan.bind()
        return self._bound

    def __call__(self, *args, **kwargs):
        if torch.compiler.is_compiling():
            return getattr(type(self.module), self.name)(self.module, *args, **kwargs)
        bound = self._bound
        if bound is None:
            bound = self._bind()
        if bound and not kwargs:
            holds, arguments, result, steps, results, constants = bound
            if len(args) == arguments and all(type(x) in PLAIN for x in args) and holds():
                at = [*args, *results, *constants]
                for call, inputs, place, dead in steps:
                    at[place] = call(*[at[i] for i in inputs])
                    for i in dead:
                        at[i] = None
                return at[result]
        return getattr(type(self.module), self.name)(self.module, *args, **kwargs)


def fuse(module) -> dict[str, tuple]:
    """Puts Fused in the place of methods of `module` whose packed maps can take in what follows them.

    Returns {name of a map: (activation or None, has a residual)}.
    """
    maps = {name for name, child in module._modules.items() if type(child) in (Linear, Conv1D)}
    fused: dict = {}
    if not maps or isinstance(module, (nn.ModuleList, nn.ModuleDict)):
        return fused
    kinds = [kind for kind in type(module).__mro__ if issubclass(kind, nn.Module) and kind is not nn.Module]
    methods = {name for kind in kinds for name in vars(kind)}
    for name in sorted(methods - vars(module).keys()):
        function = getattr(type(module), name, None)
        code = getattr(function, "__code__", None)
        if type(module) is not nn.Sequential and (code is None or not maps & set(code.co_names)):
            continue
        stand_in = Fused(module, name)
        plan = stand_in.plan()
        if plan is not None and plan.fused:
            fused.update(plan.fused)
            vars(module)[name] = stand_in
    return fused
