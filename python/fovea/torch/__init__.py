"""Fovea under PyTorch.

    with fovea.torch.enable():            # attention of torch itself runs on Fovea, on the CPU
        y = model(x)
    fast = fovea.torch.optimize(model)    # a copy for inference, its weights packed once
    out = fovea.torch.attention(q, k, v)  # fovea.attention with gradients, and under torch.compile

Nothing in torch changes on import. `enable()` replaces three kernels of torch's dispatcher by torch's own registry of
attention implementations; `disable()` puts back what was there. `counters()` tells which calls ran on Fovea and which
went to torch, with the reason.
"""

from . import versions

versions.check()

from .compile import attention  # noqa: E402: only of a torch that was checked
from .counts import counters, reset_counters  # noqa: E402
from .optimize import Report, optimize  # noqa: E402
from .registry import disable, enable, enabled  # noqa: E402

__all__ = ["Report", "attention", "counters", "disable", "enable", "enabled", "optimize", "reset_counters"]
