"""Attention that modules of transformers write out themselves, on Fovea.

Some families never call transformers' attention interface: their modules multiply queries and keys, scale, add biases,
take the softmax and multiply by the values on their own. serve() runs these steps on Fovea, in a copy that optimize()
makes.

The module's own forward() still runs, line by line, with other matrix products and another softmax in place of torch's.
A product of queries and keys is not computed: it becomes a Scores (scores.py), which notes what is done with it, and
its product with the values is one call of fovea.attention(). Only forwards whose source is listed here are served:
nothing in these changes a tensor that Scores are made of. Calls that Fovea cannot compute run the class's own.
"""

import contextvars
import functools
import hashlib
import inspect
import types

import torch
import torch.nn.functional as F
from torch import nn

from transformers.utils import output_capturing

from fovea.torch.types import FLOATS
from fovea.transformers import scores
from fovea.transformers.attention import _wants_weights, _why_not
from fovea.transformers.counters import fall_back, fuse, leave
from fovea.transformers.scores import Operand, Scores

# Attention modules, by their modules in transformers.models, and SHA-256 of the sources of their forwards, cut short.
# To add those of another version: read what changed, and run python/tests/transformers/test_own_attention.py with it.
_SERVED = {
    ("blip.modeling_blip", "BlipAttention"): ("7c204e9f015b",),
    ("blip.modeling_blip_text", "BlipTextSelfAttention"): ("499279aed422", "3c3aade98d4f", "960bf8d9f132"),
    ("bloom.modeling_bloom", "BloomAttention"): ("34225381cf82",),
    ("falcon.modeling_falcon", "FalconAttention"): ("5a79ce8af412",),
    ("mpnet.modeling_mpnet", "MPNetSelfAttention"): ("8e2c44e25640",),
    ("mpt.modeling_mpt", "MptAttention"): ("acd08620f748", "c38160120bf5"),
    ("mpt.modeling_mpt", "MptBlock"): ("a59dca07027d", "907141dd75e9"),
    ("swinv2.modeling_swinv2", "Swinv2SelfAttention"): ("45e0ab1be182", "23b643e595b9"),
}
# Calls of fewer tokens go back to the class: noting steps costs more than one call of Fovea saves. In CPU time, own by
# served: BLOOM, one token 0.86; MPNet-base, 16 tokens 0.96 to 0.99, 1024 tokens 1.01 (AMD family 25 model 1, busy).
_FEW = 32
_weights_wanted = contextvars.ContextVar("weights wanted", default=False)  # by a block that does not tell its attention


class _Namespace:
    """A module of which some names are others."""

    def __init__(self, target, **names):
        self.__dict__.update(names, _target=target)

    def __getattr__(self, name):
        return getattr(self._target, name)


class _Globals(dict):
    """A module's variables as they are now, of which some are others."""

    def __init__(self, target, names):
        super().__init__({name: value for name, value in names.items() if name in target})
        self._target = target

    def __missing__(self, name):
        return self._target[name]


def _rotated(function):
    """A function that rotates queries and keys, whose queries know their product with @."""

    def rotated(*args, **kwargs):
        q, k = function(*args, **kwargs)
        return Operand(q), k

    return rotated


def _normalize(*args, **kwargs):
    return Operand(F.normalize(*args, **kwargs))


_functional = _Namespace(F, softmax=scores.softmax, scaled_dot_product_attention=scores.sdpa, normalize=_normalize)
_nn = _Namespace(nn, functional=_functional)
_torch = _Namespace(torch, nn=_nn, matmul=scores.matmul, bmm=scores.bmm)


def _key(cls):
    return cls.__module__.removeprefix("transformers.models."), cls.__name__


@functools.cache
def _with_scores(own, sources):
    """A forward() whose products of queries and keys are Scores; None if its source is none of `sources`."""
    written = inspect.unwrap(own)
    try:
        source = hashlib.sha256(inspect.getsource(written).encode()).hexdigest()[:12]
    except (OSError, TypeError):
        return None
    if source not in sources:
        return None
    variables = written.__globals__
    names = {"torch": _torch, "nn": _nn, "F": _functional}
    if "apply_rotary_pos_emb" in variables:
        names["apply_rotary_pos_emb"] = _rotated(variables["apply_rotary_pos_emb"])
    made = types.FunctionType(
        written.__code__, _Globals(variables, names), written.__name__, written.__defaults__, written.__closure__
    )
    made.__kwdefaults__ = written.__kwdefaults__
    made.names = set(written.__code__.co_varnames[: written.__code__.co_argcount])
    return made


def _hooked(module):
    """Whether a module has hooks that get its output, besides those by which transformers collects attentions."""
    hooks = module._forward_hooks.values()
    return any(getattr(hook, "__module__", None) != output_capturing.__name__ for hook in hooks)


def _unsuitable(module, inner, x, args, kwargs):
    """None, or (reason, sentence) why a call runs as the class computes it."""
    if _weights_wanted.get() or _wants_weights(module, kwargs) or any(a is True for a in args):
        return "weights", "attention weights are wanted. Call the model without output_attentions"
    if _hooked(module) or any(child._forward_hooks or child._forward_pre_hooks for child in inner):
        return "hooks", f"{type(module).__name__} has hooks, which may read attention weights. Remove them"
    if torch.is_autocast_enabled("cpu"):
        return "autocast", "autocast is on. Load the model in the type to compute in"
    modes = torch._C._are_functorch_transforms_active() or torch._C._len_torch_dispatch_stack()
    if modes or type(x) is not torch.Tensor:
        return "kind of tensor", "a mode, transform or class of tensors is in use that Fovea does not see"
    if x.is_cpu and x.dtype in FLOATS and not (x.requires_grad and torch.is_grad_enabled()):
        return None
    part = x[..., :1]
    return _why_not(part, part, part, 0.0, ())


def forward(module, inner, *args, **kwargs):
    """What stands for the forward() of a module that is served. inner: the modules in it that Scores may pass."""
    cls = type(module)
    served = _with_scores(cls.forward, _SERVED[_key(cls)])
    traced = torch.compiler.is_compiling() or torch.jit.is_tracing()
    # Decorators, which are left out, may have other names for some arguments.
    if traced or served is None or not kwargs.keys() <= served.names:
        return cls.forward(module, *args, **kwargs)
    x = args[0] if args else kwargs.get("hidden_states")
    if isinstance(x, torch.Tensor) and x.shape[:-1].numel() < _FEW:
        leave(module, "few tokens")
        return cls.forward(module, *args, **kwargs)
    reason = _unsuitable(module, inner, x, args, kwargs)
    if reason is not None:
        fall_back(module, *reason)
        return cls.forward(module, *args, **kwargs)
    if type(kwargs.get("alibi")) is torch.Tensor:
        kwargs["alibi"] = Operand(kwargs["alibi"])
    before = scores.done.calls
    output = served(module, *args, **kwargs)
    if scores.done.calls > before:
        fuse(module)
    else:
        fall_back(module, "form", f"{cls.__name__} takes a step, such as dropout, that Fovea does not know")
    if isinstance(output, tuple):  # without weights, as other implementations have none
        output = tuple(None if type(y) is Scores else y for y in output)
    return output


def block(module, *args, **kwargs):
    """What stands for the forward() of a block that takes output_attentions, and does not tell its attention."""
    wanted = kwargs.get("output_attentions") or any(a is True for a in args) or _hooked(module)
    token = _weights_wanted.set(bool(wanted))
    try:
        return type(module).forward(module, *args, **kwargs)
    finally:
        _weights_wanted.reset(token)


forward.runs_class_forward = block.runs_class_forward = True  # type: ignore[attr-defined]


def serve(name, module):
    """Has a module that writes its attention out compute it by Fovea. Returns a line for the report, or None."""
    cls = type(module)
    if _key(cls) not in _SERVED:
        return None
    reason = None
    if "forward" in module.__dict__:
        reason = "it has a forward of its own"
    elif _with_scores(cls.forward, _SERVED[_key(cls)]) is None:
        reason = "the source of its forward is not one that Fovea knows"
    if reason is not None:
        return f"{name}: as {cls.__name__} computes it: {reason}"
    if cls.__name__.endswith("Block"):
        module.forward = functools.partial(block, module)
        return None
    inner = [child for child in module.modules() if child is not module and not isinstance(child, nn.Linear)]
    module.forward = functools.partial(forward, module, inner)
    return f"{name}: fovea.attention in the forward of {cls.__name__}"
