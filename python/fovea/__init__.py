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
    merge,
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
    "log_shapes",
    "merge",
    "set_num_threads",
    "tune",
]
