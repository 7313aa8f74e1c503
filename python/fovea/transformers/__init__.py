"""Models of transformers on Fovea's attention, on CPUs.

    import fovea.transformers
    model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="fovea")
    model.generate(...)

The import registers the first three of these in transformers:

  "fovea"        an attention implementation with its mask function (attention.py, masks.py). Causal masks, windows and padding
                 on either side are described by a few numbers; no mask matrix is made. Softcaps, sinks, position biases and
                 output_attentions=True are supported.
  cache layers   what generate() caches keys and values in no longer copies all of them for each token (cache.py).
  KVCache        a cache in pages, for generate(cache=...): attention reads it where it lies (paged.py).
  generate_batch continuous batching of models with "fovea", without padding and without masks (batching.py).

Calls that need gradients, dropout or other element types fall back to transformers' own attention: a FallbackWarning says so
once for each reason, and counters counts them.

Raises ImportError if transformers is missing, or of a version that this package was not tested with.
"""

from fovea.transformers import versions

versions.check()

from fovea.transformers import attention, batching, cache  # noqa: E402: only versions that were checked are touched
from fovea.transformers.cache import GrowingLayer, GrowingWindowLayer  # noqa: E402
from fovea.transformers.counters import FallbackWarning, counters  # noqa: E402
from fovea.transformers.masks import Visible  # noqa: E402
from fovea.transformers.paged import KVCache  # noqa: E402

__all__ = ["FallbackWarning", "GrowingLayer", "GrowingWindowLayer", "KVCache", "Visible", "counters"]

attention.register()
cache.register()
batching.register()
