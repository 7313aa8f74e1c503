"""Linear maps of a copy by optimize(): products with weights that were packed once.

pack() changes the class of a module, so that all who know the module see the same one. A packed map stays the same
function of its input, whatever stands around it. What follows a map may be computed with it only by a call that says so: fused().
Maps that are packed together are computed together only where that is proved (one_product.py).
"""

import functools
import secrets
import weakref

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._device import DeviceContext

import fovea

from .exact import GLOBAL_HOOKS, call_hooks
from .loaded import load_from_state_dict
from .packed_weight import Fixed, PackedWeight, no_gradient, parameter, refuse
from .types import arithmetic

PLAIN = (torch.Tensor, nn.Parameter)  # not the tensors of tracing, nor other classes with a will of their own
ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu, "gelu_tanh": functools.partial(F.gelu, approximate="tanh")}
_CALL, _FORWARD, _LINEAR = nn.Module.__call__, nn.Linear.forward, F.linear  # what replaces them later is called
_function_modes = torch._C._len_torch_function_stack
_dispatch_modes, _transforms = torch._C._len_torch_dispatch_stack, torch._C._functorch.peek_interpreter_stack
_autocast, _tracing = torch._C._is_any_autocast_enabled, torch._C._get_tracing_state


def _registry():
    """Maps by number. Graphs of torch.compile keep numbers: all imports of this module share them. They are random, so that
    no graph which torch has stored means another map of another process."""
    if not hasattr(torch.ops.fovea, "packed_linear"):
        maps = weakref.WeakValueDictionary()

        def get(number):
            if number not in maps:
                raise RuntimeError(
                    "this graph was compiled of a copy by fovea.torch.optimize() of another process, or that is gone: its"
                    " weights are not in the graph. Compile the copy here; or export the original, and optimize what is loaded"
                )
            return maps[number]

        def fake(x, number):
            if torch.compiler.is_exporting():
                refuse("and packed weights do not go with a graph: export the original, and optimize what is loaded")
            return x.new_empty((*x.shape[:-1], get(number)._out))

        library = torch.library.Library("fovea", "FRAGMENT")
        library.define("packed_linear(Tensor x, int number) -> Tensor")
        library.impl("packed_linear", lambda x, number: get(number)._execute(x), "CPU")
        torch.library.register_fake("fovea::packed_linear", fake, lib=library)
        torch.ops.fovea.packed_linear.fovea_registry = (maps, library)
    return torch.ops.fovea.packed_linear.fovea_registry[0]


_maps = _registry()


def ordinary() -> bool:
    """Whether tensors and functions are what they seem: no torch.func, autocast, jit.trace or mode is at work, and nobody
    has replaced what nn.Linear is made of."""
    return (
        not (_dispatch_modes() or _autocast() or _tracing() or (_function_modes() and _functions_are_seen()))
        and _transforms() is None
        and nn.Linear.forward is _FORWARD
        and F.linear is _LINEAR
        and nn.Module.__call__ is _CALL
    )


def _functions_are_seen() -> bool:
    """Whether a TorchFunctionMode is at work; that of torch.device() changes nothing that has an input."""
    return any(type(mode) is not DeviceContext for mode in torch.overrides._get_current_function_mode_stack())


class Packed(nn.Module):
    """A module with packed weights. It has the attributes, and is of the class, of the one that it was."""

    @classmethod
    def pack(cls, modules, **options):
        """Turns modules in eval mode into ones of this class."""
        for module, attributes in zip(modules, cls._packed_of(modules, **options)):
            vars(module).update(attributes)
            module.__class__ = cls
            module._fix()

    @staticmethod
    def _packed_of(modules) -> list[dict]:
        """For each module, the attributes that hold its packed weights."""
        raise NotImplementedError

    def _sources(self) -> dict:
        """{name of a parameter: (function that returns its numbers, a tensor like it) or None}."""
        raise NotImplementedError

    def _fix(self):
        sources = {name: None if of is None else parameter(*of) for name, of in self._sources().items()}
        self.__dict__["_parameters"] = Fixed(sources)

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if name != "_parameters"}

    def __setstate__(self, state):
        super().__setstate__(dict(state, _parameters={}))
        self._fix()

    def train(self, mode: bool = True):
        if mode:
            refuse("which is for inference: train the original")
        return super().train(False)

    def _apply(self, fn, recurse=True):
        for value in self._parameters.values():
            if value is not None:
                probe = fn(torch.empty(0, dtype=value.dtype))
                if probe.dtype is not value.dtype or probe.device.type != "cpu":
                    refuse(f"whose weights are packed in {value.dtype} on the CPU: convert and optimize the original")
        for child in self.children():
            child._apply(fn, recurse)
        return self

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        # Outside of inference_mode() torch refuses to write to tensors that were made there.
        with torch.inference_mode():
            for name, value in self._parameters.items():
                if value is not None:
                    destination[prefix + name] = value.unpacked().clone()

    _load_from_state_dict = load_from_state_dict


def all_or_none(name, model, *args, **options):
    """train() or _apply() of a model with packed maps. They are asked first: where one refuses, nothing has changed."""
    for module in model.modules():
        if isinstance(module, Packed):
            getattr(type(module), name)(module, *args, **options)
    return getattr(type(model), name)(model, *args, **options)


def numbers_of(linear, parts: range):
    """The weights of some parts, below each other: [out, in], of quantized ones the numbers that they stand for."""
    sizes = [linear.out_features[part] for part in parts]
    dtype = torch.float32 if linear.quantization else getattr(torch, linear.weight_dtype)
    weight = torch.empty(sum(sizes), linear.in_features, dtype=dtype)
    for part, rows in zip(parts, weight.split(sizes)):
        linear.unpack(rows, part=part)
    return weight


def unpack_weight(linear, in_first: bool, parts: range):
    """The same, rounded to the type that the map computes in, or as a transpose of that if in_first."""
    weight = numbers_of(linear, parts)
    weight = weight.to(getattr(torch, linear.dtype)) if linear.quantization else weight
    return weight.t().contiguous() if in_first else weight


def _any_float(execute, dtype, x, residual=None, **options):
    """A map of inputs of dtype, of others, as modules with quantized weights take all."""
    if x.dtype is dtype:
        return execute(x, residual, **options)
    y = execute(x.to(dtype), None if residual is None else residual.to(dtype), **options)
    return y.to(x.dtype)


def _unwritten(execute, weight, version, *args, **options):
    if weight._version != version:
        refuse("and a weight that an embedding shares with a packed map was written: optimize the original again")
    return execute(*args, **options)


class Linear(Packed, nn.Linear):
    """Replaces nn.Linear, under the same name and as a subclass, as models ask for both."""

    in_first = False  # weight is [in, out]
    _product = None  # the OneProduct that this map is a part of
    _watched: list = []  # weights of embeddings with the memory that this map was packed from
    _was_quantized = False  # the module had quantized weights, which its state_dict() would be of

    @classmethod
    def _packed_of(cls, modules, quantization=None):
        weights = [module.weight.detach() for module in modules]
        biases = [None if module.bias is None else module.bias.detach() for module in modules]
        options = {"layout": "in_out" if cls.in_first else "out_in", "quantization": quantization}
        options["arithmetic"] = None if quantization else arithmetic(weights[0].dtype)
        return cls._parts(fovea.Linear(weights, None if biases == [None] * len(biases) else biases, **options), biases)

    @classmethod
    def become(cls, module, packed):
        """Turns a module in eval mode into one of this class, whose weight and bias `packed` has."""
        (attributes,) = cls._parts(packed, [None if module.bias is None else module.bias.detach()])
        vars(module).update(attributes)
        module.__class__ = cls
        module._fix()

    @classmethod
    def pack_quantized(cls, modules, stored, dtype):
        """Turns modules whose quantized weights are `stored` (quantized.py) into ones of this class, of inputs of dtype."""
        lists = {name: [getattr(s, name) for s in stored] for name in ("scales", "zeros", "g_idx", "bias")}
        lists = {name: None if values == [None] * len(values) else values for name, values in lists.items()}
        word, options = str(dtype).removeprefix("torch."), stored[0].options
        packed = fovea.Linear.quantized([s.weight for s in stored], stored[0].kind, dtype=word, **lists, **options)
        for module, s, attributes in zip(modules, stored, cls._parts(packed, [s.bias for s in stored])):
            plain = vars(nn.Module()) | {"in_features": s.in_features, "out_features": s.out_features}
            training = module.training
            vars(module).clear()
            vars(module).update(plain, **attributes, training=training, _was_quantized=True)
            module.__class__ = cls
            module._fix()

    @staticmethod
    def _parts(packed, biases) -> list[dict]:
        return [
            {"packed": packed, "_part": part, "_bias": None if bias is None else bias.clone()}
            for part, bias in enumerate(biases)
        ]

    def _sources(self):
        linear, parts = self.packed, range(self._part, self._part + 1)
        shape = (linear.out_features[self._part], linear.in_features)[:: -1 if self.in_first else 1]
        like = torch.empty(shape, dtype=getattr(torch, linear.dtype if linear.quantization else linear.weight_dtype), device="meta")
        weight = (functools.partial(unpack_weight, linear, self.in_first, parts), like)
        return {"weight": weight, "bias": None if self._bias is None else (self._bias, self._bias)}

    def _fix(self):
        super()._fix()
        execute = functools.partial(self.packed.apply, part=self._part)
        if self._was_quantized:
            execute = functools.partial(_any_float, execute, getattr(torch, self.packed.dtype))
        for weight in self._watched:
            execute = functools.partial(_unwritten, execute, weight, weight._version)
        out = self.packed.out_features[self._part]
        vars(self).update(_execute=execute, _out=out, _number=secrets.randbits(62))
        _maps[self._number] = self

    def watch(self, weights):
        """Has calls refused once somebody has written to one of these parameters."""
        vars(self)["_watched"] = weights
        self._fix()

    def __getstate__(self):
        return {name: value for name, value in super().__getstate__().items() if name != "_execute"}

    def __call__(self, *args, **kwargs):
        """As nn.Module's, but for what is one product with other maps, where forward() and no hook would be called."""
        product = self._product
        if (
            product is not None
            and not torch.compiler.is_compiling()
            and len(args) == 1
            and not kwargs
            and type(args[0]) in PLAIN
            and not (self._was_quantized and args[0].dtype is not self._parameters["weight"].dtype)
            and not (args[0].requires_grad and torch.is_grad_enabled())
            and type(self) is Linear
            and "forward" not in (own := self.__dict__)
            and not ("weight" in own or "bias" in own)
            and not any(call_hooks(own))
            and not any(GLOBAL_HOOKS)
            and ordinary()
        ):
            y = product.part(self._part, args[0])
            if y is not None:
                return y
        return super().__call__(*args, **kwargs)

    def forward(self, input):  # attributes called weight and bias hide the parameters
        if torch.compiler.is_compiling():
            return torch.ops.fovea.packed_linear(input, self._number)
        own = self.__dict__
        if type(input) in PLAIN and ordinary() and not ("weight" in own or "bias" in own):
            if input.requires_grad and torch.is_grad_enabled():
                no_gradient()
            return self._execute(input)
        if not self.in_first and nn.Linear.forward is not _FORWARD:
            return nn.Linear.forward(self, input)
        weight, bias = (x.unpacked() if isinstance(x, PackedWeight) else x for x in (self.weight, self.bias))
        return F.linear(input, weight.t() if self.in_first else weight, bias)

    def fused(self, activation, x, residual=None):
        """activation(self(x)) + residual. The caller knows that forward() would be called, and no hook."""
        if type(x) not in PLAIN or x.requires_grad or (residual is not None and not self._fits(x, residual)):
            y = self.forward(x)
            y = y if activation is None else ACTIVATIONS[activation](y)
            return y if residual is None else y + residual
        return self._execute(x, residual, activation=activation)

    def _fits(self, x, residual) -> bool:
        """Whether the sum has the shape and type of the product alone, and no gradient."""
        return (
            type(residual) in PLAIN
            and residual.dtype is x.dtype
            and not residual.requires_grad
            and residual.shape == (*x.shape[:-1], self._out)
        )

    def extra_repr(self) -> str:
        sizes = f"in_features={self.packed.in_features}, out_features={self._out}"
        quant = f", weights {self.packed.quantization}" if self.packed.quantization else ""
        return f"{sizes}, bias={self._bias is not None}{quant}, packed by fovea"

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        if self._was_quantized:
            refuse("and its quantized weights are packed: save the original")
        super()._save_to_state_dict(destination, prefix, keep_vars)


class Conv1D(Linear):
    """Replaces transformers' class of that name."""

    in_first = True

    def forward(self, x):
        return super().forward(x)
