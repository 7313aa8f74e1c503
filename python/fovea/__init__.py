"""Fovea: attention on CPUs, for numpy, torch and other arrays."""

from fovea._core import Mask, Plan, Relative, __version__, attention, config, info, merge
from fovea._core import Linear, MultiHead, get_num_threads, set_num_threads

__all__ = ["Linear", "Mask", "MultiHead", "Plan", "Relative", "attention", "config", "get_num_threads", "info", "merge", "set_num_threads"]
