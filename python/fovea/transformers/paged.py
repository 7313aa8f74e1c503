"""A cache of transformers in pages: KVCache, on fovea.KVCache.

    cache = fovea.transformers.KVCache(model.config)
    model.generate(**inputs, cache=cache)    # or by its older name, past_key_values=

Layers append their new keys and values to pages, and attention reads the pages where they lie: nothing is joined, copied or
repeated. What update() gives a model in place of tensors is a Pages, which the attention implementation "fovea" takes; everything
else gets an error that says so. Tokens of padding on the left are not kept: a sequence begins with its first token.
"""

import copy
import os
import weakref

import torch
from transformers import cache_utils
from transformers.cache_utils import Cache, CacheLayerMixin, get_layer_types_and_kwargs

import fovea
from fovea.transformers.pages import Pages
from fovea.transformers.visible import Visible

_NAMES = {torch.float32: "float32", torch.bfloat16: "bfloat16", torch.float16: "float16"}
_KINDS = ("full_attention", "sliding_attention", "chunked_attention", "dummy")


class PagedLayer(CacheLayerMixin):
    """One layer of a KVCache. columns counts the tokens that it was given, padding included."""

    is_croppable = True
    record_past = False

    def __init__(self, cache, index, window):
        super().__init__()
        self.cache, self.index, self.window, self.columns = weakref.ref(cache), index, window, 0
        self.is_sliding = window is not None

    def lazy_initialization(self, key_states, value_states):
        """Makes the cache's pages, which are for all layers."""
        self.cache()._open(key_states, value_states)

    def update(self, key_states, value_states, *args, **kwargs):
        """New tokens [batch, heads, tokens, channels]. Returns a Pages twice: in place of all keys, and of all values."""
        pages = Pages(self.cache(), self, key_states, value_states)
        return pages, pages

    def get_mask_sizes(self, query_length):
        """As many columns as tokens, from the first: masks are described, so that columns behind a window cost nothing."""
        return self.columns + query_length, 0

    def get_seq_length(self):
        """Tokens so far, padding included."""
        return self.columns

    def get_max_length(self):
        """No limit but that of the pages."""
        return -1


class KVCache(Cache):
    """A cache for model.generate(cache=...) and model(..., cache=...) of models with attn_implementation="fovea".

    config    that of the model
    max_bytes the most that pages may take; default: half of the machine's memory. Memory comes from the system page by page. A full
              cache raises fovea.CacheFullError before the first layer of a call has changed.
    dtype, k_dtype, v_dtype
              as which keys and values are kept, as of fovea.KVCache; default: the model's type

    Pages wholly behind a layer's window are freed, so crop() may find keys gone there (ValueError): call activate_past_recording()
    first, before the first token, as assisted decoding does. copy.deepcopy() makes a cache that goes on by itself and shares the
    pages that are there: one for each continuation of a prompt.
    """

    def __init__(self, config, *, max_bytes=None, dtype=None, k_dtype=None, v_dtype=None):
        kinds, settings = get_layer_types_and_kwargs(config.get_text_config(decoder=True))
        unknown = sorted(set(kinds) - set(_KINDS))
        if unknown:
            raise ValueError(f"layers of type {', '.join(unknown)} have more than keys and values: take DynamicCache for this model")
        super().__init__(
            layers=[
                cache_utils.DummyLayer()
                if kind == "dummy"
                else PagedLayer(self, i, setting["sliding_window"] - 1 if kind == "sliding_attention" else None)
                for i, (kind, setting) in enumerate(zip(kinds, settings, strict=True))
            ]
        )
        self._options = {"max_bytes": max_bytes, "dtype": dtype, "k_dtype": k_dtype, "v_dtype": v_dtype}
        self._columns = 0  # tokens of the layer that has most
        self.pages = None  # a fovea.KVCache, shared by copies
        self.sequences = []  # their numbers, in the order of the batch
        self._first = []  # the column of each sequence's first token; None: only padding so far

    def _paged(self):
        return [layer for layer in self.layers if isinstance(layer, PagedLayer)]

    def _open(self, keys, values):
        """Pages for tokens like these, and a sequence for each of the batch."""
        if self.pages is None:
            options = dict(self._options)
            if options["max_bytes"] is None:
                options["max_bytes"] = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
            if options["dtype"] is None:
                options["dtype"] = _NAMES[keys.dtype]
            windows = [None if getattr(layer, "record_past", True) else layer.window for layer in self.layers]
            self.pages = fovea.KVCache(
                len(self.layers), keys.shape[1], keys.shape[3], value_dim=values.shape[3], windows=windows, **options
            )
        if not self.sequences:
            self._take([self.pages.add() for _ in range(keys.shape[0])], [None] * keys.shape[0])
            for layer in self._paged():
                layer.is_initialized = True

    def _take(self, sequences, first):
        """These are the cache's sequences from now on; they are removed with it."""
        if not self.sequences:
            weakref.finalize(self, _remove, self.pages, sequences).atexit = False
            self.sequences = sequences
        self.sequences[:] = sequences
        self._first = first

    # ------------------------------------------------------------------------------------------------------- tokens

    def _append(self, pages, mask):
        """The new tokens of a layer. mask tells which of them are padding."""
        layer, keys, values = pages.layer, pages.keys, pages.values
        self._open(keys, values)
        batch, tokens = keys.shape[0], keys.shape[2]
        if batch != len(self.sequences):
            raise ValueError(f"the cache has {len(self.sequences)} sequences, and the model gives it tokens of {batch}")
        self._find_first(mask, layer.columns, batch)
        skipped = [tokens if first is None else max(first - layer.columns, 0) for first in self._first]
        if layer.columns == self._columns:  # the first layer of a call
            self.pages.reserve(self.sequences, [tokens - skip for skip in skipped])
        if any(skipped):
            for sequence, skip, key, value in zip(self.sequences, skipped, keys, values, strict=True):
                if skip < tokens:
                    self.pages.append(layer.index, sequence, key[None, :, skip:], value[None, :, skip:])
        else:
            self.pages.append(layer.index, self.sequences, keys, values)
        layer.columns += tokens
        self._columns = max(self._columns, layer.columns)
        pages.keys = pages.values = None

    def _find_first(self, mask, columns, batch):
        if not any(first is None for first in self._first):
            return
        found = [columns] * batch
        if isinstance(mask, Visible) and mask.padding is not None:
            some = mask.padding.any(-1).tolist()
            places = mask.padding.to(torch.int8).argmax(-1).tolist()
            found = [max(place, columns) if is_some else None for place, is_some in zip(places, some, strict=True)]
        self._first = [now if first is None else first for first, now in zip(self._first, found, strict=True)]

    def attend(self, pages, query, mask, causal, bias, arguments):
        """Attention of queries [batch, heads, queries, channels] over a layer, after its new tokens were appended.

        mask: a Visible, a boolean tensor or None: then causal at the last token, if causal says so. bias: None, or numbers that
        are added to the scores. Columns of both are those of the model, with padding. arguments: others of fovea.KVCache.attend().
        Returns out, or (out, weights) with the model's columns, as arguments say.
        """
        if pages.keys is not None:
            self._append(pages, mask)
        layer = pages.layer
        first = [layer.columns if begin is None else begin for begin in self._first]
        keys = layer.columns - min(first)
        arguments = dict(arguments)
        if isinstance(mask, Visible):
            arguments.update(self._limits(mask, first, keys))
        elif mask is not None:
            arguments["mask"] = _positions(mask, first, keys, False)
        elif causal:
            arguments["causal"] = "bottom_right"
        if bias is not None:
            arguments["bias"] = _positions(bias.detach().float(), first, keys, -torch.inf)
        result = self.pages.attend(layer.index, self.sequences, query, **arguments)
        if not arguments.get("return_weights"):
            return result
        out, found = result
        weights = found.new_zeros(*found.shape[:3], layer.columns)
        for b, begin in enumerate(first):
            weights[b, :, :, begin:] = found[b, :, :, : layer.columns - begin]
        return out, weights

    @staticmethod
    def _limits(visible, first, keys):
        """The arguments of Visible.arguments(), in positions of the sequences."""
        arguments = {}
        if visible.padding is not None:
            ends = None if visible.starts is None else [a + n for a, n in zip(visible.starts, visible.lens, strict=True)]
            if ends is None or any(n and a > begin for a, n, begin in zip(visible.starts, visible.lens, first, strict=True)):
                arguments["mask"] = _positions(visible.padding[:, None, None, :], first, keys, False)
            else:
                arguments["kv_lens"] = [max(end - begin, 0) for end, begin in zip(ends, first, strict=True)]
        return arguments | visible.limits.arguments([visible.offset - begin for begin in first])

    # ---------------------------------------------------------------------------------------------------- sequences

    def _select(self, indices):
        """Goes on with these sequences. One that is named again is a fork; one that is not named is removed."""
        if not self.sequences:
            return
        indices = [int(i) for i in indices]
        old, used = list(self.sequences), set()
        chosen = []
        for i in indices:
            chosen.append(self.pages.fork(old[i]) if i in used else old[i])
            used.add(i)
        for i, sequence in enumerate(old):
            if i not in used:
                self.pages.remove(sequence)
        self._take(chosen, [self._first[i] for i in indices])

    def reorder_cache(self, beam_idx):
        """Selects the sequences that beam search goes on with."""
        self._select(beam_idx)

    def batch_repeat_interleave(self, repeats):
        """Each sequence, repeats times."""
        self._select([i for i in range(len(self.sequences)) for _ in range(repeats)])

    def batch_select_indices(self, indices):
        """Keeps these sequences of the batch."""
        self._select(torch.arange(len(self.sequences))[indices])

    def crop(self, tokens_to_remove):
        """Takes back the last tokens: their number, negative, as of DynamicCache. All or nothing."""
        if tokens_to_remove > 0:
            raise ValueError(f"crop({tokens_to_remove}): give the number of tokens to remove as a negative one")
        if tokens_to_remove == 0 or not self.sequences:
            return
        columns = max(self._columns + tokens_to_remove, 0)
        cut = []
        try:
            for sequence, first in zip(self.sequences, self._first, strict=True):
                cut.append(self.pages.fork(sequence))
                self.pages.truncate(cut[-1], 0 if first is None else max(columns - first, 0))
        except BaseException:
            _remove(self.pages, cut)
            raise
        _remove(self.pages, self.sequences)
        self._take(cut, [None if first is None or first >= columns else first for first in self._first])
        self._columns = columns
        for layer in self._paged():
            layer.columns = min(layer.columns, columns)

    def reset(self):
        """Forgets all tokens."""
        if self.pages is not None:
            _remove(self.pages, self.sequences)
        self.sequences.clear()
        self._first, self._columns = [], 0
        for layer in self._paged():
            layer.columns, layer.is_initialized = 0, False

    def activate_past_recording(self):
        """Before the first token: pages behind windows are kept, so that crop() can take back any number of tokens."""
        for layer in self._paged():
            layer.record_past = True

    def __deepcopy__(self, memo):
        made = copy.copy(self)
        made.layers = [copy.copy(layer) for layer in self.layers]
        for layer in made._paged():
            layer.cache = weakref.ref(made)
        made.sequences = []
        if self.sequences:
            made._take([self.pages.fork(sequence) for sequence in self.sequences], list(self._first))
        return made


def _remove(pages, sequences):
    for sequence in sequences:
        pages.remove(sequence)


def _positions(tensor, first, keys, nothing):
    """Columns of the model as positions of the sequences: each batch's columns from its first token on, nothing behind."""
    if not any(first):
        return tensor
    shifted = tensor.new_full((len(first), *tensor.shape[1:3], keys), nothing)
    for b, begin in enumerate(first):
        columns = tensor[b if tensor.shape[0] > 1 else 0, :, :, begin:]
        shifted[b, :, :, : columns.shape[-1]] = columns
    return shifted
