"""Models of transformers on Fovea's attention, on CPUs.

    import fovea.transformers
    model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="fovea")
    model.generate(...)

The import sets adapters up, each for itself; most register something in transformers:

  "fovea"        an attention implementation with its mask function (attention.py, masks.py). Causal masks, windows and padding
                 on either side are described by a few numbers; no mask matrix is made. Softcaps, sinks, position biases and
                 output_attentions=True are supported.
  cache layers   what generate() caches keys and values in no longer copies all of them for each token (cache.py).
  "fovea"        an experts implementation, too: experts_implementation="fovea" packs mixtures of experts (experts.py).
  recurrences    set_recurrence_implementation(model, "fovea") has the recurrent layers of hybrid models run on Fovea (recurrences.py).
  generate_batch continuous batching of models with "fovea", without padding and without masks (batching.py).
  KVCache        a cache in pages, for generate(cache=...): attention reads it where it lies (paged.py).

Calls that need gradients, dropout or other element types fall back to transformers' own attention: a FallbackWarning says so
once for each reason, and counters counts them. report(model) says which attention and recurrent layers of a model run on Fovea.

transformers may be of any version: an adapter that does not find what it needs is off. `unavailable` says which and why, and the
import warns of it, as of versions that were not tested (versions.py). Raises ImportError if transformers is missing.
"""

from fovea.transformers import versions

versions.installed()

import fovea.torch.versions  # noqa: E402, F401: with an older torch this is the error, not an adapter that is off
from fovea.transformers.counters import FallbackWarning, counters  # noqa: E402
from fovea.transformers.recurrences import set_recurrence_implementation  # noqa: E402
from fovea.transformers.report import Report, report  # noqa: E402
from fovea.transformers.versions import unavailable  # noqa: E402
from fovea.transformers.visible import Visible  # noqa: E402

with versions.adapter('attn_implementation="fovea"'):
    from fovea.transformers import attention

    attention.register()
with versions.adapter('experts_implementation="fovea"'):
    from fovea.transformers import experts

    experts.register()
    with versions.adapter("experts in FP8"):
        experts.register_quantized()
with versions.adapter("growing cache layers"):
    from fovea.transformers import cache

    cache.register()
    from fovea.transformers.cache import GrowingLayer, GrowingWindowLayer
with versions.adapter("continuous batching"):
    from fovea.transformers import batching

    batching.register()
with versions.adapter("KVCache"):
    from fovea.transformers.paged import KVCache
versions.tell()

__all__ = [
    "FallbackWarning", "GrowingLayer", "GrowingWindowLayer", "KVCache", "Report", "Visible", "counters", "report",
    "set_recurrence_implementation", "unavailable",
]  # fmt: skip


def __getattr__(name):
    why = f": {'; '.join(f'{what} is off ({why})' for what, why in unavailable.items())}" if name in __all__ else ""
    raise AttributeError(f"module 'fovea.transformers' has no attribute '{name}'{why}")
