"""Which backbones are served, and how config.json and the weights of each make a Backbone."""

import numpy as np

import fovea

from ._backbone import Backbone, Layer
from ._source import activation_of


def _bert(s, types=True, pad=False, names=None):
    if (kind := s.word("position_embedding_type", default="absolute")) != "absolute":
        raise NotImplementedError(f"positions of the kind {kind!r} are not served")
    if s.flag("is_decoder", default=False):
        raise NotImplementedError("a BERT that is a decoder is not served")
    s.look_for("embeddings.word_embeddings.weight")
    sizes, eps = s.sizes("num_attention_heads"), s.number("layer_norm_eps", default=1e-12)
    activation, inner = activation_of(s.word("hidden_act", default="gelu")), s.count("intermediate_size", default=None)
    names = names or (
        "attention.self.query",
        "attention.self.key",
        "attention.self.value",
        "attention.output.dense",
        "attention.output.LayerNorm",
    )
    layers = []
    for i in range(s.count("num_hidden_layers")):
        at = f"encoder.layer.{i}."
        layers.append(
            Layer(
                s.map(*(at + name for name in names[:3]), rows=s.rows, columns=s.width, heads=s.all_heads),
                s.map(at + names[3], rows=s.width, columns=s.width),
                s.map(at + "intermediate.dense", rows=inner, columns=s.width, activation=activation),
                s.map(at + "output.dense", rows=s.width, columns=inner),
                s.norm(at + names[4], s.width, eps),
                s.norm(at + "output.LayerNorm", s.width, eps),
            )
        )
    tables = {
        "words": s.table("embeddings.word_embeddings.weight", "vocab_size"),
        "positions": s.table("embeddings.position_embeddings.weight", "max_position_embeddings"),
    }
    if types:
        tables["types"] = s.table("embeddings.token_type_embeddings.weight", "type_vocab_size")
    first = 1 + s.count("pad_token_id", default=1, least=0) if pad else 0
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
        "encoder.relative_attention_bias.weight", s.count("relative_attention_num_buckets", default=32), s.heads
    )
    relative = fovea.Relative.t5(np.ascontiguousarray(table.T), bidirectional=True, max_distance=128)
    for layer in backbone.layers:
        layer.options["relative"] = relative
    return backbone


def _distilbert(s):
    s.look_for("embeddings.word_embeddings.weight")
    sizes, inner = s.sizes("n_heads"), s.count("hidden_dim", default=None)
    activation = activation_of(s.word("activation", default="gelu"))
    layers = []
    for i in range(s.count("n_layers")):
        at = f"transformer.layer.{i}."
        layers.append(
            Layer(
                s.map(
                    *(f"{at}attention.{name}_lin" for name in "qkv"), rows=s.rows, columns=s.width, heads=s.all_heads
                ),
                s.map(at + "attention.out_lin", rows=s.width, columns=s.width),
                s.map(at + "ffn.lin1", rows=inner, columns=s.width, activation=activation),
                s.map(at + "ffn.lin2", rows=s.width, columns=inner),
                s.norm(at + "sa_layer_norm", s.width, 1e-12),
                s.norm(at + "output_layer_norm", s.width, 1e-12),
            )
        )
    tables = {
        "words": s.table("embeddings.word_embeddings.weight", "vocab_size"),
        "positions": s.table("embeddings.position_embeddings.weight", "max_position_embeddings"),
    }
    return Backbone(
        order="post", tables=tables, layers=layers, embedding_norm=s.norm("embeddings.LayerNorm", s.width, 1e-12),
        limit=len(tables["positions"]), **sizes,
    )  # fmt: skip


def _nomic(s):
    s.look_for("embeddings.word_embeddings.weight")
    sizes = s.sizes("num_attention_heads", "n_head")
    eps = s.number("layer_norm_eps", "layer_norm_epsilon", default=1e-12)
    inner = s.count("intermediate_size", "n_inner", default=None)
    for name, wanted in {
        "prenorm": False,
        "parallel_block": False,
        "use_rms_norm": False,
        "rotary_emb_interleaved": False,
        "moe_every_n_layers": 0,
        "rotary_emb_fraction": 1.0,
    }.items():
        if (given := s.config.get(name)) not in (None, wanted):
            raise NotImplementedError(f"a NomicBERT with {name} = {given!r} is not served")
    activation = s.word("hidden_act", "activation_function", default="silu")
    gate = {"swiglu": "silu", "geglu": "gelu"}.get(activation) or activation_of(activation)
    rope = s.rope(s.number("rotary_emb_base", "rope_theta", default=1000.0))
    own = s.has("emb_ln.weight")  # the names of the model's own code, and those of transformers, which has no biases
    biases = [own and s.flag(name, default=False) for name in ("qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias")]
    layers = []
    for i in range(s.count("num_hidden_layers", "n_layer")):
        at = f"encoder.layers.{i}." if own else f"layers.{i}."
        if own:
            qkv = s.map(at + "attn.Wqkv", columns=s.width, bias=biases[0], heads=s.all_heads, parts=s.rows)
        else:
            names = (f"{at}self_attn.{name}_proj" for name in "qkv")
            qkv = s.map(*names, rows=s.rows, columns=s.width, bias=False, heads=s.all_heads)
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
                qkv, s.map(at + o, rows=s.width, columns=s.width, bias=biases[0]),
                s.map(at + g, at + u, rows=inner, columns=s.width, bias=biases[1], activation=f"{gate}_gated"),
                s.map(at + d, rows=s.width, columns=inner, bias=biases[2]),
                s.norm(at + n1, s.width, eps), s.norm(at + n2, s.width, eps), rope=rope,
            )
        )  # fmt: skip
    tables = {
        "words": s.table("embeddings.word_embeddings.weight", "vocab_size"),
        "types": s.table("embeddings.token_type_embeddings.weight", "type_vocab_size"),
    }
    norm = s.norm("emb_ln" if own else "embeddings.LayerNorm", s.width, eps)
    return Backbone(order="post", tables=tables, layers=layers, embedding_norm=norm, **sizes)


def _modernbert(s):
    s.look_for("embeddings.tok_embeddings.weight")
    sizes, eps = s.sizes("num_attention_heads"), s.number("norm_eps", default=1e-5)
    gate = activation_of(s.word("hidden_activation", default="gelu")) + "_gated"
    count, every = s.count("num_hidden_layers"), s.count("global_attn_every_n_layers", default=3)
    kinds = s.layer_types(count, ["sliding_attention" if i % every else "full_attention" for i in range(count)])
    ropes = {
        "full_attention": s.rope(s.number("global_rope_theta", default=160000.0), "full_attention"),
        "sliding_attention": s.rope(s.number("local_rope_theta", default=10000.0), "sliding_attention"),
    }
    side, inner = s.count("local_attention", default=128) // 2, s.count("intermediate_size")
    names = ("attention_bias", "mlp_bias", "norm_bias")
    of_attention, of_mlp, of_norm = (s.flag(name, default=False) for name in names)
    norm = lambda name: s.norm(name, s.width, eps, bias=of_norm)  # noqa: E731
    layers = []
    for i in range(count):
        at = f"layers.{i}."
        layers.append(
            Layer(
                s.map(at + "attn.Wqkv", columns=s.width, bias=of_attention, heads=s.all_heads, parts=s.rows),
                s.map(at + "attn.Wo", rows=s.width, columns=s.width, bias=of_attention),
                s.map(at + "mlp.Wi", columns=s.width, bias=of_mlp, activation=gate, parts=[inner, inner]),
                s.map(at + "mlp.Wo", rows=s.width, columns=inner, bias=of_mlp),
                norm(at + "attn_norm") if i else None,  # the embeddings have a norm of their own
                norm(at + "mlp_norm"),
                rope=ropes[kinds[i]],
                options={"window": (side, side)} if kinds[i] == "sliding_attention" else {},
            )
        )
    return Backbone(
        order="pre", tables={"words": s.table("embeddings.tok_embeddings.weight", "vocab_size")}, layers=layers,
        embedding_norm=norm("embeddings.norm"), final_norm=norm("final_norm"), **sizes,
    )  # fmt: skip


def _decoder(s, gemma=False):
    s.look_for("embed_tokens.weight")
    sizes = s.sizes("num_attention_heads", kv_heads=["num_key_value_heads"], head_dim=["head_dim"])
    eps, inner = s.number("rms_norm_eps", default=1e-6), s.count("intermediate_size", default=None)
    default = "gelu_pytorch_tanh" if gemma else "silu"
    gate = activation_of(s.word("hidden_activation", "hidden_act", default=default)) + "_gated"
    count, bias = s.count("num_hidden_layers"), s.flag("attention_bias", default=False)
    both_ways = gemma and s.flag("use_bidirectional_attention", default=False)
    if gemma:
        every = s.count("sliding_window_pattern", "_sliding_window_pattern", default=6)
        full = [(i + 1) % every == 0 for i in range(count)]
    else:
        sliding = s.flag("use_sliding_window", default=False) and s.config.get("sliding_window") is not None
        full = [not sliding or i < s.count("max_window_layers", default=28, least=0) for i in range(count)]
    kinds = s.layer_types(count, ["full_attention" if one else "sliding_attention" for one in full])
    ropes = {"full_attention": s.rope(s.number("rope_theta", default=1e6), "full_attention" if gemma else None)}
    options = {"full_attention": {}, "sliding_attention": {}}
    if "sliding_attention" in kinds:
        window = s.count("sliding_window")
        side = window // 2
        options["sliding_attention"]["window"] = (side, side) if both_ways else (window - 1, 0)
        ropes["sliding_attention"] = (
            s.rope(s.number("rope_local_base_freq", default=10000.0), "sliding_attention")
            if gemma
            else ropes["full_attention"]
        )
    if softcap := s.number("attn_logit_softcapping", default=None):
        options = {kind: {**o, "softcap": float(softcap)} for kind, o in options.items()}
    if not both_ways:
        options = {kind: {**o, "causal": True} for kind, o in options.items()}
    scale = (s.count("query_pre_attn_scalar", default=s.head_dim) if gemma else s.head_dim) ** -0.5
    norm = lambda name, size=s.width: s.norm(name, size, eps, rms=True, one=gemma)  # noqa: E731
    layers = []
    for i in range(count):
        at = f"layers.{i}."
        layers.append(
            Layer(
                s.map(
                    *(f"{at}self_attn.{name}_proj" for name in "qkv"),
                    rows=s.rows, columns=s.width, bias=bias, heads=s.all_heads,
                ),
                s.map(at + "self_attn.o_proj", rows=s.width, columns=s.rows[0], bias=bias),
                s.map(
                    at + "mlp.gate_proj", at + "mlp.up_proj",
                    rows=inner, columns=s.width, bias=False, activation=gate,
                ),
                s.map(at + "mlp.down_proj", rows=s.width, columns=inner, bias=False),
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
        order="sandwich" if gemma else "pre", layers=layers,
        tables={"words": s.table("embed_tokens.weight", "vocab_size")},
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
    kind = source.word("model_type", default=None)
    if kind not in FAMILIES:
        raise NotImplementedError(f"the backbone {kind!r} is not served: {', '.join(FAMILIES)} are")
    backbone = FAMILIES[kind](source)
    source.all_read()
    return backbone
