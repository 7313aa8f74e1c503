"""Fovea: attention on CPUs, for numpy, torch and other arrays."""

from fovea._core import (
    CacheFullError,
    KVCache,
    Linear,
    Mask,
    MultiHead,
    Plan,
    Relative,
    Rope,
    __version__,
    attention,
    config,
    get_num_threads,
    info,
    layer_norm,
    merge,
    rms_norm,
    set_num_threads,
)
from fovea.tuning import log_shapes, tune

__all__ = [
    "CacheFullError",
    "KVCache",
    "Linear",
    "Mask",
    "MultiHead",
    "Plan",
    "Relative",
    "Rope",
    "attention",
    "config",
    "get_num_threads",
    "info",
    "layer_norm",
    "log_shapes",
    "merge",
    "rms_norm",
    "set_num_threads",
    "tune",
]
