"""Fovea: attention on CPUs, for numpy, torch and other arrays."""

from fovea._core import (
    Linear,
    Mask,
    MultiHead,
    Plan,
    Relative,
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
    "Linear",
    "Mask",
    "MultiHead",
    "Plan",
    "Relative",
    "attention",
    "config",
    "get_num_threads",
    "info",
    "log_shapes",
    "merge",
    "set_num_threads",
    "tune",
]
