"""The versions of transformers that this package is tested with."""

import importlib.metadata
import re

# Masks, caches and continuous batching are interfaces that transformers changes from one minor version to the next.
FIRST, LAST = (5, 23), (5, 24)


def check():
    """Raises ImportError unless transformers is there, in a tested version."""
    try:
        version = importlib.metadata.version("transformers")
    except importlib.metadata.PackageNotFoundError:
        raise ImportError("fovea.transformers needs the package transformers, which is not installed") from None
    numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:2])
    if not FIRST <= numbers <= LAST:
        raise ImportError(
            f"fovea.transformers is tested with transformers {FIRST[0]}.{FIRST[1]} to {LAST[0]}.{LAST[1]}, and this is "
            f"{version}. Install one of these, or a Fovea that knows this one; fovea.attention and fovea.torch do not "
            "depend on it"
        )
