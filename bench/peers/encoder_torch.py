"""The sentence encoder by PyTorch's functions, or those of an extension that replaces some, and by its own module."""

import numpy as np

from encoder import EPSILON, HEADS, LAYERS, WIDTH, split_label


def forms(engine, data, timed):
    """Yields forms; timed(label, compute) makes one of a function that gives a tensor."""
    kinds = {"functions": Functions, "nn.TransformerEncoder": Module}
    for name in kinds if engine.name == "torch" else ("functions",):
        model = kinds[name](engine, data)
        for count in data.splits():
            yield timed(name + split_label(count), Batches(engine.torch, data, model, count))


class Batches:
    def __init__(self, torch, data, model, count):
        self.torch, self.model, self.batches = torch, model, []
        places = np.concatenate([p for p, _, _ in data.rectangles(count)])
        self.back = torch.from_numpy(np.argsort(places)) if count > 1 or len(places) > 1 else None
        for _, ids, lens in data.rectangles(count):
            valid = np.arange(ids.shape[1])[None] < lens[:, None]
            self.batches.append((torch.from_numpy(ids).long(), None if valid.all() else torch.from_numpy(valid),
                                 torch.from_numpy(lens.astype(np.float32))[:, None]))

    def __call__(self):
        torch, vectors = self.torch, []
        for ids, valid, lens in self.batches:
            hidden = self.model(ids, valid)
            if valid is not None:
                hidden = hidden * valid[:, :, None]
            vectors.append(torch.nn.functional.normalize(hidden.sum(1, dtype=torch.float32) / lens, dim=1))
        return vectors[0] if self.back is None else torch.cat(vectors)[self.back]


class Functions:
    """BertModel's arithmetic in as few calls as there are: one product for queries, keys and values."""

    def __init__(self, engine, data):
        self.engine, torch = engine, engine.torch
        turn = lambda pair: tuple(engine.weight(np.array(a)) for a in pair)
        self.torch, w = torch, data.weights
        self.words = engine.of(np.array(w["embeddings.word_embeddings.weight"]))
        self.places = engine.of(w["embeddings.position_embeddings.weight"] + w["embeddings.token_type_embeddings.weight"][0])
        self.norm0 = turn((w["embeddings.LayerNorm.weight"], w["embeddings.LayerNorm.bias"]))
        self.layers = [{k: turn(pair) for k, pair in data.layer(i).items()} for i in range(LAYERS)]

    def embed(self, ids):
        x = self.torch.nn.functional.embedding(ids, self.words) + self.places[: ids.shape[1]]
        return self.torch.nn.functional.layer_norm(x, (WIDTH,), *self.norm0, EPSILON)

    def __call__(self, ids, valid):
        engine, norm, (batch, tokens) = self.engine, self.torch.nn.functional.layer_norm, ids.shape
        mask = None if valid is None else self.torch.zeros(valid.shape, dtype=engine.dtype).masked_fill(~valid, -np.inf)[:, None, None, :]
        x = self.embed(ids)
        for layer in self.layers:
            qkv = engine.linear(x, *layer["qkv"]).view(batch, tokens, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
            heads = engine.attention(*qkv.unbind(0), attn_mask=mask).transpose(1, 2).reshape(batch, tokens, WIDTH)
            x = norm(engine.linear(heads, *layer["o"]) + x, (WIDTH,), *layer["norm1"], EPSILON)
            inner = engine.linear(x, *layer["inner"], gelu=True)
            x = norm(engine.linear(inner, *layer["outer"]) + x, (WIDTH,), *layer["norm2"], EPSILON)
        return x


class Module(Functions):
    """The same layers as PyTorch's own module, whose fast path fuses a layer and packs what a mask leaves."""

    def __init__(self, engine, data):
        super().__init__(engine, data)
        torch = engine.torch
        inner = self.layers[0]["inner"][0].shape[0]
        layer = torch.nn.TransformerEncoderLayer(WIDTH, HEADS, inner, 0.0, "gelu", EPSILON, batch_first=True, dtype=engine.dtype)
        self.module = torch.nn.TransformerEncoder(layer, LAYERS).eval()
        names = {"qkv": ("self_attn.in_proj_weight", "self_attn.in_proj_bias"), "o": "self_attn.out_proj",
                 "inner": "linear1", "outer": "linear2", "norm1": "norm1", "norm2": "norm2"}
        state = {}
        for i, weights in enumerate(self.layers):
            for short, name in names.items():
                pair = name if isinstance(name, tuple) else (f"{name}.weight", f"{name}.bias")
                state.update({f"layers.{i}.{n}": tensor for n, tensor in zip(pair, weights[short])})
        self.module.load_state_dict(state)

    def __call__(self, ids, valid):
        return self.module(self.embed(ids), src_key_padding_mask=None if valid is None else ~valid)
