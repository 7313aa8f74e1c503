"""Switching Fovea on and off as torch's attention on the CPU.

The switch is torch's own: torch.nn.attention.register_flash_attention_impl() knows the implementation "FOVEA", and
activate_flash_attention_impl("FOVEA") does the same as enable(). One implementation is active at a time; disable()
activates the one that enable() found.
"""

import contextlib
import threading

from torch.nn import attention as _torch_registry
from torch.library import Library

from . import mha, sdpa

NAME = "FOVEA"
_lock = threading.RLock()
_before: str | None = None  # the implementation that enable() found active


class _Handle:
    """The registry's handle, which removes the kernels."""

    def __init__(self) -> None:
        self._library = Library("aten", "IMPL")
        sdpa.install(self._library)
        mha.install(self._library)

    def remove(self) -> None:
        mha.uninstall()
        self._library._destroy()


def enabled() -> bool:
    """Tells whether torch's attention runs on Fovea."""
    return _torch_registry.current_flash_attention_impl() == NAME


def disable() -> None:
    """Gives torch its own kernels back, or the implementation that was active before. Does nothing if not enabled."""
    with _lock:
        if enabled():
            _torch_registry.restore_flash_attention_impl()
            if _before is not None:
                _torch_registry.activate_flash_attention_impl(_before)


def enable() -> contextlib.ExitStack:
    """Runs torch's attention on the CPU on Fovea, in the whole process, until disable().

    Reached are F.scaled_dot_product_attention, nn.MultiheadAttention (both of its paths, with and without weights),
    nn.TransformerEncoderLayer and compiled models that call them. float32, bfloat16 and float16 run on Fovea; other
    types, dropout, nested tensors and the few cases that Fovea does not have go to torch and are counted. Gradients are
    torch's own: its backward kernel gets Fovea's logarithms of the row sums.

    The result may be used as a context manager: `with fovea.torch.enable(): ...` disables at the end, unless it was
    enabled before.
    """
    global _before
    with _lock:
        if enabled():
            return contextlib.ExitStack()
        before = _torch_registry.current_flash_attention_impl()
        _torch_registry.activate_flash_attention_impl(NAME)
        _before = before
        scope = contextlib.ExitStack()
        scope.callback(disable)
        return scope


_torch_registry.register_flash_attention_impl(NAME, register_fn=_Handle)
if enabled():  # by this module, imported before
    _torch_registry.restore_flash_attention_impl()
    enable()
