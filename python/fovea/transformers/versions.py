"""The versions of transformers that this package is tested with."""

import importlib.metadata
import re

# Masks, caches and continuous batching are interfaces that transformers changes from one minor version to the next. With 5.23,
# static caches make matrices of masks, and continuous batching returns nothing.
TESTED = ("5.24",)


def check():
    """Raises ImportError unless transformers is there, in a tested version."""
    try:
        version = importlib.metadata.version("transformers")
    except importlib.metadata.PackageNotFoundError:
        raise ImportError("fovea.transformers needs the package transformers, which is not installed") from None
    if ".".join(re.findall(r"\d+", version)[:2]) not in TESTED:
        raise ImportError(
            f"fovea.transformers is tested with transformers {' and '.join(TESTED)}, and this is {version}: install "
            f"transformers=={TESTED[-1]}.*, or a Fovea that knows this one; fovea.attention and fovea.torch do not need it"
        )
