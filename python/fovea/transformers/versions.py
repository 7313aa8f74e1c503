"""The versions of transformers that this package is tested with, and what is off with the one that is here.

Features are looked for, not versions: an adapter that lacks what it needs of transformers is off, and the others work.
"""

import contextlib
import importlib.metadata
import re
import warnings

# Both are tested, and venv.sh reads these two lines.
OLDEST = "5.20"
NEWEST = "5.24"

unavailable: dict[str, str] = {}  # adapter: why it is off


def installed():
    """The version of transformers, as text. Raises ImportError if there is none."""
    try:
        return importlib.metadata.version("transformers")
    except importlib.metadata.PackageNotFoundError:
        raise ImportError("fovea.transformers needs the package transformers, which is not installed") from None


@contextlib.contextmanager
def adapter(what):
    """The lines that set an adapter up: if they fail, it is off."""
    try:
        yield
    except Exception as error:  # whatever a transformers that nobody knew may raise
        unavailable[what] = f"{type(error).__name__}: {error}"


def tell():
    """Warns, in one sentence, of a version that was not tested, and of what is off."""
    version = installed()
    number = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    oldest, newest = (tuple(map(int, text.split("."))) for text in (OLDEST, NEWEST))
    off = "; ".join(f"{what} is off ({why})" for what, why in unavailable.items())
    if off or not oldest <= number <= newest:
        warnings.warn(
            f"fovea.transformers is tested with transformers {OLDEST} to {NEWEST}, and this is {version}: "
            f"{off or 'all that it needs is there'}",
            stacklevel=3,
        )
