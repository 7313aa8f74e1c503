"""Fovea: attention on CPUs, for numpy, torch and other arrays."""

from fovea._core import __version__, attention

__all__ = ["attention"]
