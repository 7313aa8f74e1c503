"""Cache layers that grow without copying.

transformers' dynamic layers join all cached keys and values with each new token: as much memory traffic as attention itself.
These layers keep them in buffers with room behind, and hand out views: an append copies the new tokens alone. When a buffer is
full, one of twice the size takes its place. They hold the same numbers as transformers' layers, in every operation.

A view that is kept while the cache is cropped and then grows again sees the new tokens.
"""

import torch
from transformers import cache_utils
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

_LEAST_ROOM = 64


class _Buffer:
    """Memory [batch, heads, capacity, channels] of keys or values, of which views were handed out."""

    __slots__ = ("data", "last", "spare", "start")

    def __init__(self):
        self.data = self.spare = None
        self.last, self.start = None, 0  # the view that append() gave last, and its first row

    def start_of(self, view):
        """The row of this buffer where a view of it begins, or None for another tensor."""
        if view is self.last:
            return self.start
        if (
            self.data is None
            or view.untyped_storage().data_ptr() != self.data.untyped_storage().data_ptr()
            or view.stride() != self.data.stride()
            or view.shape[:2] != self.data.shape[:2]
            or view.shape[3] != self.data.shape[3]
        ):
            return None
        return view.storage_offset() // view.stride(2)

    def append(self, old, new):
        """old and new, joined: a view. old is an earlier view, whole or cropped, or any other tensor, or empty."""
        length, count = old.shape[2] if old.dim() == 4 else 0, new.shape[2]
        start = self.start_of(old) if length else None
        if start is None or start + length + count > self.data.shape[2]:
            self._move(old, length, new)
            start = 0
        self.data.narrow(2, start + length, count).copy_(new)
        self.last, self.start = self.data.narrow(2, start, length + count), start
        return self.last

    def _move(self, old, length, new):
        """New memory, as long as what it is to hold again, with the old rows in it."""
        total = length + new.shape[2]
        # Pages of the room are not touched, hence not there, until they are needed.
        self.data = new.new_empty((*new.shape[:2], total + max(total, _LEAST_ROOM), new.shape[3]))
        self.spare = None
        if length:
            self.data.narrow(2, 0, length).copy_(old)

    def select(self, view, indices):
        """The rows of a batch that indices name. Two buffers take turns, as beams are selected with every token."""
        start = self.start_of(view)
        if start is None or indices.shape[0] != view.shape[0]:
            return view.index_select(0, indices)
        if self.spare is None:
            self.spare = torch.empty_like(self.data)
        selected = self.spare.narrow(2, start, view.shape[2])
        torch.index_select(view, 0, indices, out=selected)
        self.data, self.spare = self.spare, self.data
        self.last, self.start = selected, start
        return selected


def _in_place(states):
    """Whether states may be written into a buffer: not while gradients or a graph are recorded."""
    return not (torch.is_grad_enabled() and states.requires_grad) and not torch.compiler.is_compiling()


class _Growing:
    """Base of both layers. self.keys and self.values are views of the buffers, or whatever was assigned to them."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._key_buffer, self._value_buffer = _Buffer(), _Buffer()

    def _append(self, key_states, value_states):
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        return self._key_buffer.append(self.keys, key_states), self._value_buffer.append(self.values, value_states)

    def reorder_cache(self, beam_idx):
        """Selects the sequences that beam search goes on with."""
        if self.get_seq_length() == 0:
            return
        indices = beam_idx.to(self.keys.device)
        if torch.equal(indices, torch.arange(self.keys.shape[0], device=indices.device)):
            return
        self.keys = self._key_buffer.select(self.keys, indices)
        self.values = self._value_buffer.select(self.values, indices)

    def reset(self):
        """Forgets all tokens, and frees the buffers."""
        super().reset()
        self._key_buffer, self._value_buffer = _Buffer(), _Buffer()


class GrowingLayer(_Growing, DynamicLayer):
    """Keys and values of a layer that sees all tokens, [batch, heads, tokens, channels]."""

    def update(self, key_states, value_states, *args, **kwargs):
        """Appends tokens. Returns all keys and values, as views."""
        if not _in_place(key_states):
            return super().update(key_states, value_states, *args, **kwargs)
        self.keys, self.values = self._append(key_states, value_states)
        return self.keys, self.values


class GrowingWindowLayer(_Growing, DynamicSlidingWindowLayer):
    """Keys and values of a layer with a sliding window: the last sliding_window - 1 tokens are kept."""

    def update(self, key_states, value_states, *args, **kwargs):
        """Appends tokens. Returns the keys and values that these tokens can see, as views."""
        if not _in_place(key_states):
            return super().update(key_states, value_states, *args, **kwargs)
        keys, values = self._append(key_states, value_states)
        self.cumulative_length += key_states.shape[2]
        kept = slice(-self.sliding_window + 1, None)
        if self.record_past:
            self.keys, self.values = keys, values
            kept = slice(-(self.sliding_window - 1 + key_states.shape[2]), None)
            return keys[:, :, kept], values[:, :, kept]
        self.keys, self.values = keys[:, :, kept], values[:, :, kept]
        return keys, values


_LAYERS = {DynamicLayer: GrowingLayer, DynamicSlidingWindowLayer: GrowingWindowLayer}


def register():
    """Makes DynamicCache(config=...), and so generate(), use these layers."""
    mapping = cache_utils.DYNAMIC_LAYER_TYPE_MAPPING
    for name, layer in mapping.items():
        before = layer.__module__ == __name__  # this module was imported before
        mapping[name] = _LAYERS.get(layer.__base__ if before else layer, layer)


def unregister():
    """Undoes register(). Caches that exist keep their layers."""
    theirs = {ours: theirs for theirs, ours in _LAYERS.items()}
    mapping = cache_utils.DYNAMIC_LAYER_TYPE_MAPPING
    for name, layer in mapping.items():
        mapping[name] = theirs.get(layer, layer)
