"""JSON files of models that contradict the weights, ask for what is not served, or have values of wrong kinds: each is
refused in a sentence."""

import json
import shutil

import embedding_models
import pytest
from embedding_models import changed

from fovea.sentence_transformers import CrossEncoder, SentenceTransformer


def refused(folder, sentence, kind=SentenceTransformer):
    with pytest.raises((ValueError, NotImplementedError), match=sentence) as raised:
        kind(folder)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "kind, values, sentence",
    [
        ("bert", {"hidden_size": "64"}, "hidden_size = '64', which is not a whole number of at least 1"),
        ("bert", {"hidden_size": 64.0}, "hidden_size = 64.0, which is not a whole number"),
        ("bert", {"num_hidden_layers": True}, "num_hidden_layers = True, which is not a whole number"),
        ("bert", {"num_attention_heads": 0}, "num_attention_heads = 0, which is not a whole number of at least 1"),
        ("bert", {"num_attention_heads": 5}, "a width of 64, 5 heads and 5 key heads: they do not divide"),
        ("bert", {"layer_norm_eps": "1e-12"}, "layer_norm_eps = '1e-12', which is not a number"),
        ("bert", {"hidden_act": ["gelu"]}, r"hidden_act = \['gelu'\], which is not a word"),
        ("bert", {"is_decoder": "no"}, "is_decoder = 'no', which is not true or false"),
        ("bert", {"model_type": ["bert"]}, r"model_type = \['bert'\], which is not a word"),
        ("modernbert", {"layer_types": ["full_attention"]}, "which is not a list of 3 words"),
        ("modernbert", {"layer_types": ["a"] * 3}, "each one of full_attention, sliding_attention"),
        ("qwen3", {"rope_parameters": 5}, "rope_parameters = 5, which is not an object"),
        ("qwen3", {"rope_parameters": {"rope_theta": "1e6"}}, "rope_theta = '1e6', which is not a number"),
        ("roberta", {"pad_token_id": -1}, "pad_token_id = -1, which is not a whole number of at least 0"),
    ],
)
def test_wrong_kinds(kind, values, sentence, tmp_path):
    refused(changed(embedding_models.backbone(kind), tmp_path / "copy", "config.json", **values), sentence)


@pytest.mark.parametrize(
    "kind, values, sentence",
    [
        ("bert", {"hidden_size": 32}, r"query.weight .* \(64, 64\), config.json says \(32, 32\)"),
        ("bert", {"vocab_size": 119}, r"word_embeddings.weight .* \(120, 64\), config.json says \(119, 64\)"),
        ("bert", {"max_position_embeddings": 300}, r"position_embeddings.weight .* \(256, 64\), .* \(300, 64\)"),
        ("bert", {"type_vocab_size": 1}, r"token_type_embeddings.weight .* \(2, 64\), config.json says \(1, 64\)"),
        ("bert", {"intermediate_size": 95}, r"intermediate.dense.weight .* \(96, 64\), config.json says \(95, 64\)"),
        ("bert", {"num_hidden_layers": 2}, "have encoder.layer.2.*, which the model of config.json lacks"),
        ("bert", {"num_hidden_layers": 4}, "lack encoder.layer.3.attention.self.query.weight"),
        ("distilbert", {"hidden_dim": 97}, r"ffn.lin1.weight .* \(96, 64\), config.json says \(97, 64\)"),
        ("distilbert", {"n_layers": 1}, "have transformer.layer.1.*, which the model of config.json lacks"),
        ("modernbert", {"intermediate_size": 48}, r"mlp.Wi.weight .* \(192, 64\), config.json says \(96, 64\)"),
        ("modernbert", {"attention_bias": True}, "lack layers.0.attn.Wqkv.bias"),
        ("modernbert", {"num_hidden_layers": 1, "layer_types": None}, "have layers.1.*config.json lacks"),
        ("nomic_bert", {"num_hidden_layers": 2}, "have .*layers.2.*, which the model of config.json lacks"),
        ("qwen3", {"num_key_value_heads": 4}, r"k_proj.weight .* \(32, 64\), config.json says \(64, 64\)"),
        ("qwen3", {"head_dim": 8}, r"q_proj.weight .* \(64, 64\), config.json says \(32, 64\)"),
        ("qwen3", {"attention_bias": True}, "lack layers.0.self_attn.q_proj.bias"),
        ("gemma3_text", {"num_hidden_layers": 6, "layer_types": None}, "have layers.6.*config.json lacks"),
    ],
)
def test_what_the_weights_contradict(kind, values, sentence, tmp_path):
    """As transformers, but that this refuses layers that are left over, too."""
    refused(changed(embedding_models.backbone(kind), tmp_path / "copy", "config.json", **values), sentence)


@pytest.mark.parametrize(
    "kind, name, sentence",
    [
        ("qwen3", "layers.0.self_attn.q_proj.bias", "have {}, which the model of config.json lacks"),
        ("bert", "encoder.layer.1.output.dense.bias", "lack {}"),
    ],
)
def test_left_over_and_missing_biases(kind, name, sentence, tmp_path):
    from safetensors.numpy import load_file, save_file

    shutil.copytree(embedding_models.backbone(kind), tmp_path / "copy")
    weights = load_file(tmp_path / "copy/model.safetensors")
    if weights.pop(name, None) is None:
        weights[name] = weights["layers.0.input_layernorm.weight"]
    save_file(weights, tmp_path / "copy/model.safetensors")
    refused(str(tmp_path / "copy"), sentence.format(name))


def test_windows_of_qwen3(tmp_path):
    """Which old configs give by max_window_layers."""
    values = {"layer_types": None, "use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1}
    folder = changed(embedding_models.backbone("qwen3"), tmp_path / "copy", "config.json", **values)
    layers = SentenceTransformer(folder)[0].backbone.layers
    assert [layer.options.get("window") for layer in layers] == [None, (7, 0), (7, 0)]


# ------------------------------------------------------------------------------------------- what comes after the backbone


@pytest.fixture(scope="module")
def pooled(tmp_path_factory):
    """With Pooling, Dense and LayerNorm."""
    import sentence_transformers
    from sentence_transformers.sentence_transformer import modules as st

    folder = tmp_path_factory.mktemp("pooled")
    modules = [st.Transformer(str(embedding_models.backbone("bert"))), st.Pooling(64), st.Dense(64, 32), st.LayerNorm(32)]
    sentence_transformers.SentenceTransformer(modules=modules, device="cpu").save(str(folder))
    return folder


@pytest.mark.parametrize(
    "file, values, sentence",
    [
        ("1_Pooling", {"pooling_mode_first_and_last": True}, "has 'pooling_mode_first_and_last', not served"),
        ("1_Pooling", {"pooling_mode": 5}, "pooling_mode = 5, which is neither a word nor a list"),
        ("1_Pooling", {"pooling_mode": []}, r"pooling_mode = \[\], which is neither"),
        ("1_Pooling", {"pooling_mode": [["cls"]]}, r"the pooling \['cls'\] is not served: cls, max"),
        ("1_Pooling", {"pooling_mode": None, "pooling_mode_cls_token": "no"}, "pooling_mode_cls_token = 'no', which is not true"),
        ("1_Pooling", {"include_prompt": 1}, "include_prompt = 1, which is not true or false"),
        ("1_Pooling", {"embedding_dimension": 32}, "pooling has 32 channels, the backbone 64"),
        ("2_Dense", {"out_features": 33}, r"linear.weight .* \(32, 64\), config.json says \(33, 64\)"),
        ("2_Dense", {"in_features": 65}, r"linear.weight .* \(32, 64\), config.json says \(32, 65\)"),
        ("2_Dense", {"in_features": "64"}, "in_features = '64', which is not a whole number"),
        ("2_Dense", {"bias": False}, "Dense has a bias in its weights, and none by config.json"),
        ("2_Dense", {"scale": 2}, "has 'scale', not served"),
        ("2_Dense", {"activation_function": "own.code.Tanh"}, "the activation own.code.Tanh is not served: it is not of torch.nn"),
        ("3_LayerNorm", {"dimension": 64}, "LayerNorm has 64 channels, what comes before it 32"),
    ],
)
def test_modules(file, values, sentence, pooled, tmp_path):
    SentenceTransformer(str(pooled))
    refused(changed(pooled, tmp_path / "copy", f"{file}/config.json", **values), sentence)


@pytest.mark.parametrize(
    "change, sentence",
    [
        (lambda m: m.reverse(), r"no list of modules: their order contradicts their idx: \[3, 2, 1, 0\]"),
        (lambda m: (m.reverse(), [m[i].update(idx=i) for i in range(4)]), "a model that begins with LayerNorm is not served"),
        (lambda m: m[0].update(type="own.code.Transformer"), "the module own.code.Transformer has code of its own"),
        (lambda m: m[1].update(type="own.code.Pooling"), "the module own.code.Pooling has code of its own"),
        (lambda m: m[1].update(kwargs=["task"]), "kwargs of the module .*Pooling are not served"),
        (lambda m: m[1].update(path="a/../../b"), "a path leaves the folder"),
        (lambda m: m[1].update(path=5), "is no list of modules"),
        (lambda m: m[1].update(idx="1"), "is no list of modules"),
    ],
)
def test_lists_of_modules(change, sentence, pooled, tmp_path):
    shutil.copytree(pooled, tmp_path / "copy")
    modules = json.loads((tmp_path / "copy/modules.json").read_text())
    change(modules)
    (tmp_path / "copy/modules.json").write_text(json.dumps(modules))
    refused(str(tmp_path / "copy"), sentence)


@pytest.mark.parametrize(
    "file, values, sentence",
    [
        ("sentence_bert_config.json", {"max_seq_length": 7.5}, "max_seq_length = 7.5, which is not a whole number"),
        ("sentence_bert_config.json", {"max_seq_length": "64"}, "max_seq_length = '64', which is not a whole number"),
        ("sentence_bert_config.json", {"do_lower_case": "no"}, "do_lower_case = 'no', which is not true or false"),
        ("sentence_bert_config.json", {"query_length": 5}, "query_length = 5, which is not served"),
        ("sentence_bert_config.json", {"processing_kwargs": {"text": {"max_length": 5}}}, "processing_kwargs = .* is not served"),
        ("sentence_bert_config.json", {"colour": 1}, "has 'colour', not served: only max_seq_length"),
        ("sentence_bert_config.json", {"transformer_task": "fill-mask"}, "fill-mask of text is not served, feature-extraction"),
        ("sentence_bert_config.json", {"modality_config": {"message": {}}}, "feature-extraction of message is not served"),
        ("tokenizer_config.json", {"model_max_length": "512"}, "model_max_length = '512', which is not a number"),
        ("tokenizer_config.json", {"truncation_side": "middle"}, "truncation_side = 'middle', neither left nor right"),
        ("tokenizer_config.json", {"model_input_names": "input_ids"}, "model_input_names = .*, which is not a list of words"),
        ("config_sentence_transformers.json", {"truncate_dim": "16"}, "truncate_dim = '16', which is not a whole number"),
        ("config_sentence_transformers.json", {"model_type": "SparseEncoder"}, "is a SparseEncoder, not a SentenceTransformer"),
        ("config_sentence_transformers.json", {"prompts": ["a"]}, r"prompts = \['a'\], which is not an object"),
        ("config_sentence_transformers.json", {"prompts": {"a": 5}}, "prompts have 5: they must be texts"),
        ("config_sentence_transformers.json", {"default_prompt_name": "b"}, "default_prompt_name is 'b', prompts are"),
        ("config_sentence_transformers.json", {"similarity_fn_name": 5}, "similarity_fn_name = 5, which is not a word"),
        ("adapter_config.json", {"peft_type": "LORA"}, "has an adapter, which is not served"),
    ],
)
def test_settings(file, values, sentence, pooled, tmp_path):
    with pytest.raises((ValueError, NotImplementedError, TypeError), match=sentence):
        SentenceTransformer(changed(pooled, tmp_path / "copy", file, **values))


def test_classifiers(tmp_path):
    folder = embedding_models.classifier("modernbert")
    for name, value, sentence in [
        ("classifier_pooling", "max", "classifier_pooling = 'max': cls and mean are served"),
        ("classifier_bias", True, "lack head.dense.bias"),
    ]:
        refused(changed(folder, tmp_path / name, "config.json", **{name: value}), sentence, CrossEncoder)
