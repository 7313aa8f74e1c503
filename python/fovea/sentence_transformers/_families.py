"""Which backbones are served, and how config.json and the weights of each make a Backbone."""

import numpy as np

import fovea

from . import _operations as op
from ._backbone import Backbone, Layer, Norm

_ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
}


def activation_of(word):
    if word not in _ACTIVATIONS:
        raise NotImplementedError(f"the activation {word!r} is not served: {', '.join(sorted(_ACTIVATIONS))} are")
    return _ACTIVATIONS[word]


class Source:
    """A model's config and weights, and the options by which maps are packed."""

    def __init__(self, config, weights, quant=None, dtype=np.float32):
        self.config, self.weights, self.quant, self.dtype = config, weights, quant, dtype
        self.prefix = ""

    def of(self, *names, default=...):
        """The config's number or word by the first of its names that it has."""
        for name in names:
            if self.config.get(name) is not None:
                return self.config[name]
        if default is ...:
            raise ValueError(f"config.json in {self.weights.folder} lacks {names[0]}")
        return default

    def look_for(self, name):
        """Finds what stands before the backbone's names: nothing, "bert.", "model." ..."""
        found = [n for n in self.weights if n == name or n.endswith("." + name)]
        if not found:
            raise ValueError(f"the weights in {self.weights.folder} lack {name}")
        self.prefix = min(found, key=len)[: -len(name)]

    def has(self, name):
        return self.prefix + name in self.weights

    def tensor(self, name, *shape, optional=False):
        return self.weights.get(self.prefix + name, shape or None, optional)

    def table(self, name, rows=None):
        """Of embeddings. Beside quantised maps it takes 16 bits: float16, which rounds less than these do."""
        table = self.tensor(name, *([rows, self.width] if rows else []))
        most = np.finfo(np.float16).max
        half = self.quant and self.dtype == np.float32 and -most < table.min(initial=0) <= table.max(initial=0) < most
        return table.astype(np.float16) if half else self.typed(table)

    def typed(self, array):
        return np.ascontiguousarray(array, dtype=self.dtype)

    def norm(self, name, size, eps, rms=False, one=False):
        """one: the stored weight lacks 1."""
        weight = self.tensor(f"{name}.weight", size, optional=True)
        if weight is None:
            weight = self.tensor(f"{name}.gamma", size, optional=True)
        if weight is None:
            weight = self.tensor(f"{name}.weight", size)
        bias = self.tensor(f"{name}.bias", size, optional=True)
        if bias is None:
            bias = self.tensor(f"{name}.beta", size, optional=True)
        return Norm(weight + np.float32(1) if one else weight, bias, eps, rms)

    def map(self, *names, activation=None, heads=None, parts=None):
        """The maps of these names, of one input, as one product. parts: sizes into which a stored map is split."""
        weights, biases = [], []
        for name in names:
            weight = self.tensor(f"{name}.weight")
            if weight.ndim != 2:
                raise ValueError(f"{self.prefix}{name}.weight in {self.weights.folder} is no matrix")
            bias = self.tensor(f"{name}.bias", len(weight), optional=True)
            ends = np.cumsum(parts or [len(weight)])
            if ends[-1] != len(weight):
                raise ValueError(f"{self.prefix}{name}.weight has {len(weight)} rows, not {ends[-1]}")
            weights += np.split(weight, ends[:-1])
            biases += [None] * len(ends) if bias is None else np.split(bias, ends[:-1])
        options = {"dtype": "float32" if self.dtype == np.float32 else "bfloat16", "activation": activation}
        if self.quant:
            options["quant"] = self.quant
        if self.dtype != np.float32:
            weights = [self.typed(weight) for weight in weights]
        if heads:
            return op.linear(weights, biases, heads=heads, **options)
        several = activation and activation.endswith("_gated")
        return op.linear(weights if several else weights[0], biases if several else biases[0], **options)

    def rope(self, theta, kind=None):
        """kind: of layer whose rope it is, where a model has several."""
        given = self.of("rope_parameters", default=None) or {}
        given = given.get(kind, given) if kind else given
        scaling = self.of("rope_scaling", default=None) or given
        word = scaling.get("rope_type", scaling.get("type", "default"))
        if word not in ("default", "linear"):
            raise NotImplementedError(f"rotary embedding scaled by {word!r} is not served")
        factor = {"scaling": "linear", "factor": float(scaling["factor"])} if word == "linear" else {}
        return fovea.Rope(self.head_dim, base=float(given.get("rope_theta", theta)), **factor)

    def sizes(self, *heads_names, kv_heads=(), head_dim=()):
        self.width = self.of("hidden_size", "dim", "n_embd")
        self.heads = self.of(*heads_names)
        self.kv_heads = self.of(*kv_heads, default=self.heads) if kv_heads else self.heads
        self.head_dim = self.of(*head_dim, default=self.width // self.heads) if head_dim else self.width // self.heads
        self.all_heads = [self.heads, self.kv_heads, self.kv_heads]
        return {
            "width": self.width,
            "heads": self.heads,
            "kv_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "dtype": self.dtype,
        }


def _bert(s, types=True, pad=False, names=None):
    if s.of("position_embedding_type", default="absolute") != "absolute":
        raise NotImplementedError(f"positions of the kind {s.config['position_embedding_type']!r} are not served")
    if s.of("is_decoder", default=False):
        raise NotImplementedError("a BERT that is a decoder is not served")
    s.look_for("embeddings.word_embeddings.weight")
    sizes, eps = s.sizes("num_attention_heads"), s.of("layer_norm_eps", default=1e-12)
    activation = activation_of(s.of("hidden_act", default="gelu"))
    names = names or (
        "attention.self.query",
        "attention.self.key",
        "attention.self.value",
        "attention.output.dense",
        "attention.output.LayerNorm",
    )
    layers = []
    for i in range(s.of("num_hidden_layers")):
        at = f"encoder.layer.{i}."
        layers.append(
            Layer(
                s.map(*(at + name for name in names[:3]), heads=s.all_heads),
                s.map(at + names[3]),
                s.map(at + "intermediate.dense", activation=activation),
                s.map(at + "output.dense"),
                s.norm(at + names[4], s.width, eps),
                s.norm(at + "output.LayerNorm", s.width, eps),
            )
        )
    tables = {
        "words": s.table("embeddings.word_embeddings.weight"),
        "positions": s.table("embeddings.position_embeddings.weight"),
    }
    if types:
        tables["types"] = s.table("embeddings.token_type_embeddings.weight")
    first = 1 + s.of("pad_token_id", default=1) if pad else 0
    return Backbone(
        order="post", tables=tables, layers=layers, embedding_norm=s.norm("embeddings.LayerNorm", s.width, eps),
        pad=first - 1 if pad else None, limit=len(tables["positions"]) - first, **sizes,
    )  # fmt: skip


def _roberta(s):
    return _bert(s, pad=True)


def _mpnet(s):
    s.config = {**s.config, "pad_token_id": 1}  # which the model has whatever its config says
    q, k, v, o = (f"attention.attn.{name}" for name in "qkvo")
    backbone = _bert(s, types=False, pad=True, names=(q, k, v, o, "attention.LayerNorm"))
    table = s.tensor(
        "encoder.relative_attention_bias.weight", s.of("relative_attention_num_buckets", default=32), s.heads
    )
    relative = fovea.Relative.t5(np.ascontiguousarray(table.T), bidirectional=True, max_distance=128)
    for layer in backbone.layers:
        layer.options["relative"] = relative
    return backbone


def _distilbert(s):
    s.look_for("embeddings.word_embeddings.weight")
    sizes = s.sizes("n_heads")
    layers = []
    for i in range(s.of("n_layers")):
        at = f"transformer.layer.{i}."
        layers.append(
            Layer(
                s.map(*(f"{at}attention.{name}_lin" for name in "qkv"), heads=s.all_heads),
                s.map(at + "attention.out_lin"),
                s.map(at + "ffn.lin1", activation=activation_of(s.of("activation", default="gelu"))),
                s.map(at + "ffn.lin2"),
                s.norm(at + "sa_layer_norm", s.width, 1e-12),
                s.norm(at + "output_layer_norm", s.width, 1e-12),
            )
        )
    tables = {
        "words": s.table("embeddings.word_embeddings.weight"),
        "positions": s.table("embeddings.position_embeddings.weight"),
    }
    return Backbone(
        order="post", tables=tables, layers=layers, embedding_norm=s.norm("embeddings.LayerNorm", s.width, 1e-12),
        limit=len(tables["positions"]), **sizes,
    )  # fmt: skip


def _nomic(s):
    s.look_for("embeddings.word_embeddings.weight")
    sizes = s.sizes("num_attention_heads", "n_head")
    eps = s.of("layer_norm_eps", "layer_norm_epsilon", default=1e-12)
    for name, wanted in {
        "prenorm": False,
        "parallel_block": False,
        "use_rms_norm": False,
        "rotary_emb_interleaved": False,
        "moe_every_n_layers": 0,
        "rotary_emb_fraction": 1.0,
    }.items():
        if s.of(name, default=wanted) != wanted:
            raise NotImplementedError(f"a NomicBERT with {name} = {s.config[name]!r} is not served")
    activation = s.of("hidden_act", "activation_function", default="silu")
    gate = {"swiglu": "silu", "geglu": "gelu"}.get(activation) or activation_of(activation)
    rope = s.rope(s.of("rotary_emb_base", "rope_theta", default=1000.0))
    own = s.has("emb_ln.weight")  # the names of the model's own code, and those of transformers
    layers = []
    for i in range(s.of("num_hidden_layers", "n_layer")):
        at = f"encoder.layers.{i}." if own else f"layers.{i}."
        if own:
            size = s.heads * s.head_dim
            qkv = s.map(at + "attn.Wqkv", heads=s.all_heads, parts=[size] * 3)
        else:
            qkv = s.map(*(f"{at}self_attn.{name}_proj" for name in "qkv"), heads=s.all_heads)
        o, g, u, d, n1, n2 = (
            ("attn.out_proj", "mlp.fc12", "mlp.fc11", "mlp.fc2", "norm1", "norm2")
            if own
            else (
                "self_attn.o_proj",
                "mlp.gate_proj",
                "mlp.up_proj",
                "mlp.down_proj",
                "post_attention_layernorm",
                "post_mlp_layernorm",
            )
        )
        layers.append(
            Layer(
                qkv, s.map(at + o), s.map(at + g, at + u, activation=f"{gate}_gated"), s.map(at + d),
                s.norm(at + n1, s.width, eps), s.norm(at + n2, s.width, eps), rope=rope,
            )
        )  # fmt: skip
    tables = {
        "words": s.table("embeddings.word_embeddings.weight"),
        "types": s.table("embeddings.token_type_embeddings.weight"),
    }
    norm = s.norm("emb_ln" if own else "embeddings.LayerNorm", s.width, eps)
    return Backbone(order="post", tables=tables, layers=layers, embedding_norm=norm, **sizes)


def _modernbert(s):
    s.look_for("embeddings.tok_embeddings.weight")
    sizes, eps = s.sizes("num_attention_heads"), s.of("norm_eps", default=1e-5)
    gate = activation_of(s.of("hidden_activation", default="gelu")) + "_gated"
    count, every = s.of("num_hidden_layers"), s.of("global_attn_every_n_layers", default=3)
    kinds = s.of("layer_types", default=["sliding_attention" if i % every else "full_attention" for i in range(count)])
    ropes = {
        "full_attention": s.rope(s.of("global_rope_theta", default=160000.0), "full_attention"),
        "sliding_attention": s.rope(s.of("local_rope_theta", default=10000.0), "sliding_attention"),
    }
    side = s.of("local_attention", default=128) // 2
    inner, size = s.of("intermediate_size"), s.heads * s.head_dim
    layers = []
    for i in range(count):
        at = f"layers.{i}."
        layers.append(
            Layer(
                s.map(at + "attn.Wqkv", heads=s.all_heads, parts=[size] * 3),
                s.map(at + "attn.Wo"),
                s.map(at + "mlp.Wi", activation=gate, parts=[inner, inner]),
                s.map(at + "mlp.Wo"),
                s.norm(at + "attn_norm", s.width, eps) if i else None,  # the embeddings have a norm of their own
                s.norm(at + "mlp_norm", s.width, eps),
                rope=ropes[kinds[i]],
                options={"window": (side, side)} if kinds[i] == "sliding_attention" else {},
            )
        )
    return Backbone(
        order="pre", tables={"words": s.table("embeddings.tok_embeddings.weight")}, layers=layers,
        embedding_norm=s.norm("embeddings.norm", s.width, eps), final_norm=s.norm("final_norm", s.width, eps), **sizes,
    )  # fmt: skip


def _decoder(s, gemma=False):
    s.look_for("embed_tokens.weight")
    sizes = s.sizes("num_attention_heads", kv_heads=["num_key_value_heads"], head_dim=["head_dim"])
    eps = s.of("rms_norm_eps", default=1e-6)
    gate = (
        activation_of(s.of("hidden_activation", "hidden_act", default="gelu_pytorch_tanh" if gemma else "silu"))
        + "_gated"
    )
    count = s.of("num_hidden_layers")
    both_ways = gemma and s.of("use_bidirectional_attention", default=False)
    every = s.of("sliding_window_pattern", "_sliding_window_pattern", default=6) if gemma else None
    kinds = s.of(
        "layer_types",
        default=["sliding_attention" if every and (i + 1) % every else "full_attention" for i in range(count)],
    )
    ropes = {"full_attention": s.rope(s.of("rope_theta", default=1e6), "full_attention" if gemma else None)}
    options = {"full_attention": {}, "sliding_attention": {}}
    if "sliding_attention" in kinds:
        window = s.of("sliding_window")
        side = window // 2
        options["sliding_attention"]["window"] = (side, side) if both_ways else (window - 1, 0)
        ropes["sliding_attention"] = (
            s.rope(s.of("rope_local_base_freq", default=10000.0), "sliding_attention")
            if gemma
            else ropes["full_attention"]
        )
    if s.of("attn_logit_softcapping", default=None):
        options = {kind: {**o, "softcap": float(s.config["attn_logit_softcapping"])} for kind, o in options.items()}
    if not both_ways:
        options = {kind: {**o, "causal": True} for kind, o in options.items()}
    scale = s.of("query_pre_attn_scalar", default=s.head_dim) ** -0.5 if gemma else s.head_dim**-0.5
    norm = lambda name, size=s.width: s.norm(name, size, eps, rms=True, one=gemma)  # noqa: E731
    layers = []
    for i in range(count):
        at = f"layers.{i}."
        layers.append(
            Layer(
                s.map(*(f"{at}self_attn.{name}_proj" for name in "qkv"), heads=s.all_heads),
                s.map(at + "self_attn.o_proj"),
                s.map(at + "mlp.gate_proj", at + "mlp.up_proj", activation=gate),
                s.map(at + "mlp.down_proj"),
                norm(at + "input_layernorm"),
                norm(at + ("pre_feedforward_layernorm" if gemma else "post_attention_layernorm")),
                after_attention=norm(at + "post_attention_layernorm") if gemma else None,
                after_mlp=norm(at + "post_feedforward_layernorm") if gemma else None,
                q_norm=norm(at + "self_attn.q_norm", s.head_dim),
                k_norm=norm(at + "self_attn.k_norm", s.head_dim),
                rope=ropes[kinds[i]],
                options={**options[kinds[i]], "scale": scale},
            )
        )
    return Backbone(
        order="sandwich" if gemma else "pre", tables={"words": s.table("embed_tokens.weight")}, layers=layers,
        final_norm=norm("norm"), embedding_scale=s.width**0.5 if gemma else 1.0, **sizes,
    )  # fmt: skip


def _gemma(s):
    return _decoder(s, gemma=True)


FAMILIES = {
    "bert": _bert,
    "roberta": _roberta,
    "xlm-roberta": _roberta,
    "camembert": _roberta,
    "mpnet": _mpnet,
    "distilbert": _distilbert,
    "nomic_bert": _nomic,
    "modernbert": _modernbert,
    "qwen3": _decoder,
    "gemma3_text": _gemma,
}


def backbone_of(source):
    kind = source.of("model_type", default=None)
    if kind not in FAMILIES:
        raise NotImplementedError(f"the backbone {kind!r} is not served: {', '.join(FAMILIES)} are")
    return FAMILIES[kind](source)
