"""`weight` and `bias` of packed maps: parameters that tell the truth and cannot be written.

A PackedWeight has the shape, type and device of the parameter it stands for, and no memory of its own. What computes
with it, or copies it, gets the numbers, unpacked for that call. What writes raises a RuntimeError, through views, too.
"""

import contextlib
import sys
import threading

import torch
from torch import nn
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map_only

_TRACER = torch._C._dispatch_key_parse("Tracer")
_DETACH = (torch.ops.aten.detach.default, torch.ops.aten.alias.default)


class _Marks(threading.local):
    ignored = False


_marks = _Marks()


@contextlib.contextmanager
def unmarked():
    """Where asking a packed weight for gradients does nothing."""
    before, _marks.ignored = _marks.ignored, True
    try:
        yield
    finally:
        _marks.ignored = before


def refuse(what: str):
    raise RuntimeError(f"this model was made by fovea.torch.optimize(), {what}")


def _no_writing(*_, **__):
    refuse("and its packed weights cannot be written: change the original, and optimize that")


def same_bits(mine, value) -> bool:
    """Whether a tensor has the bits of `mine`, as that type."""
    if not isinstance(value, torch.Tensor) or value.shape != mine.shape or value.is_meta or mine.is_meta:
        return False
    mine = mine.unpacked() if isinstance(mine, PackedWeight) else mine
    mine, its = (x.detach().to(mine).contiguous().flatten().view(torch.uint8) for x in (mine, value))
    return torch.equal(mine, its)


class PackedWeight(torch.Tensor):
    """`source` is a function without arguments that returns the numbers, or a tensor that has them."""

    __torch_function__ = torch._C._disabled_torch_function_impl  # attributes cost what those of plain tensors do

    @staticmethod
    def __new__(cls, source, shape, stride, dtype):
        self = torch.Tensor._make_wrapper_subclass(cls, shape, strides=stride, dtype=dtype, device="cpu")
        self._source = source
        torch._C._set_throw_on_mutable_data_ptr(self)  # torch's to_dlpack() calls no method, and would give null
        return self

    def unpacked(self) -> torch.Tensor:
        """A plain tensor with the numbers."""
        if isinstance(self._source, torch.Tensor):
            return self._source
        # A trace is to have the numbers as a constant, and not memory that it saw nobody fill.
        tracing = None if torch._C._dispatch_tls_is_dispatch_key_excluded(_TRACER) else torch._C._get_tracing_state()
        if tracing is not None:
            torch._C._set_tracing_state(None)
        try:
            with torch._C._DisableFuncTorch(), _disable_current_modes():
                return self._source()
        finally:
            if tracing is not None:
                torch._C._set_tracing_state(tracing)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in _DETACH:
            return _stands_for(args[0]._source, args[0])
        schema = func._schema
        for index, argument in enumerate(schema.arguments):
            if argument.alias_info is not None and argument.alias_info.is_write:
                value = args[index] if index < len(args) else kwargs.get(argument.name)
                if any(isinstance(leaf, cls) for leaf in tree_leaves(value)):
                    _no_writing()
        args, kwargs = tree_map_only(cls, cls.unpacked, (args, kwargs))
        result = func(*args, **kwargs)
        if any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns):  # views
            result = tree_map_only(torch.Tensor, lambda view: _stands_for(view, view), result)
        return result

    def numpy(self, **options):
        array = self.unpacked().numpy(**options)
        array.flags.writeable = False
        return array

    def tolist(self):
        return self.unpacked().tolist()

    def __dlpack__(self, **options):
        """The numbers, marked as ones that are not to be written unless a copy is wanted; numpy can mark them."""
        if options.get("copy") or self.dtype is torch.bfloat16 or "numpy" not in sys.modules:
            return self.unpacked().__dlpack__(**options)
        return self.numpy().__dlpack__(**options)

    def data_ptr(self):
        refuse("and its packed weights are at no address: read them by .clone(), and export the original")

    def _use_count(self):  # torch.utils.swap_tensors() asks
        refuse("and its packed weights cannot be swapped: change the original, and optimize that")

    untyped_storage = storage = data_ptr

    def __repr__(self, **_):
        return f"PackedWeight({self.unpacked()!r})"

    def __deepcopy__(self, memo):
        return self

    def __reduce_ex__(self, protocol):
        return self.unpacked().__reduce_ex__(protocol)

    def share_memory_(self):
        return self

    def requires_grad_(self, requires_grad=True):
        if requires_grad and not _marks.ignored:
            no_gradient()
        return self

    requires_grad = property(lambda self: False, requires_grad_)
    data = property(torch.Tensor.detach, _no_writing)
    __setstate__ = set_ = resize_ = _no_writing


def _stands_for(source, like) -> PackedWeight:
    with torch.inference_mode(False):  # an inference tensor has no version, and views of it fail
        return PackedWeight(source, like.shape, like.stride(), like.dtype)


def no_gradient():
    refuse("which has no gradients: use torch.no_grad(), or the original")


def parameter(source, like) -> nn.Parameter:
    """A parameter that stands for `like`, whose numbers `source` returns."""
    with torch.inference_mode(False):
        return nn.Parameter(_stands_for(source, like), requires_grad=False)


class Fixed(dict):
    """Parameters of a module, by name, that stay those they are. torch.func.functional_call() puts tensors in their
    place for a call: it may put the same numbers there."""

    def __setitem__(self, name, value):
        mine = self.get(name)
        if mine is value and name in self:
            return
        if mine is None or type(value) not in (torch.Tensor, PackedWeight) or value.requires_grad:
            _no_writing()
        if torch._C._functorch.peek_interpreter_stack() is not None or not same_bits(mine, value):
            refuse("and functional_call() cannot replace its packed weights: call it with the original")

    __delitem__ = pop = popitem = clear = update = setdefault = __ior__ = _no_writing
