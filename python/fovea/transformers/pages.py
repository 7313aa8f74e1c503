"""Placeholders for the keys and values of a layer whose cache is a KVCache (paged.py)."""


class Pages:
    """Keys or values of a layer: those in the cache, and new ones that attention appends before it reads them."""

    __slots__ = ("cache", "keys", "layer", "values")

    def __init__(self, cache, layer, keys, values):
        self.cache, self.layer, self.keys, self.values = cache, layer, keys, values

    def __getattr__(self, name):
        raise TypeError(
            'keys and values are in pages of fovea.transformers.KVCache, which only attn_implementation="fovea" reads, and here tensors '
            f'are wanted (.{name}). Choose it by model.set_attn_implementation("fovea"); for a model that itself works on what is '
            "cached (DeepSeek-V3), take a DynamicCache"
        )

    def new_tensors(self, like):
        """Keys and values that are not appended yet; where all are, tensors of no less use to a check."""
        return (like, like) if self.keys is None else (self.keys, self.values)

    def __getitem__(self, index):
        return self.__getattr__("__getitem__")

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return cls.__getattr__(None, function.__name__)
