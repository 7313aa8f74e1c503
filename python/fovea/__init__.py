"""Fovea: attention on CPUs, for numpy, torch and other arrays."""

from fovea._core import Mask, Plan, Relative, __version__, attention, config, info, merge

__all__ = ["Mask", "Plan", "Relative", "attention", "config", "info", "merge"]
