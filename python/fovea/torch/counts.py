"""Counts of the calls that ran on Fovea and of those that went to torch, by reason.

The counts are of this process. A count may miss calls that other threads make at the same instant.
"""

from collections import Counter

_fovea: Counter = Counter()
_torch: Counter = Counter()


def ran(operation: str) -> None:
    """Counts a call of `operation` that ran on Fovea."""
    _fovea[operation] += 1


def went_to_torch(operation: str, reason: str) -> None:
    """Counts a call of `operation` that torch ran itself."""
    _torch[f"{operation}: {reason}"] += 1


def counters() -> dict[str, dict[str, int]]:
    """Returns {"fovea": {operation: calls}, "torch": {"operation: reason": calls}} since the last reset."""
    return {"fovea": dict(_fovea), "torch": dict(_torch)}


def reset_counters() -> None:
    """Sets all counts to 0."""
    _fovea.clear()
    _torch.clear()
