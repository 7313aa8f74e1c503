"""Requirements of this package on torch."""

import importlib

import torch

OLDEST = "2.14"  # tested are this one and 2.15
_NEEDED = (
    ("torch.nn.attention", "register_flash_attention_impl"),
    ("torch.nn.attention", "current_flash_attention_impl"),
    ("torch.nn.attention", "restore_flash_attention_impl"),
    ("torch.library", "get_kernel"),
    ("torch.library", "register_autograd"),
)


def check():
    """Raises ImportError unless torch has what is needed of it."""
    for module, name in _NEEDED:
        try:
            found = hasattr(importlib.import_module(module), name)
        except ImportError:
            found = False
        if not found:
            raise ImportError(
                f"fovea.torch needs PyTorch {OLDEST} or newer, and this is {torch.__version__}, which lacks {module}.{name}: "
                "upgrade it; fovea.attention, fovea.Linear and fovea.MultiHead take its tensors as they are"
            )
