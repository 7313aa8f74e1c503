"""optimize()d models whose modules write their attention out: MPNet, BLOOM, MPT, Falcon, Swin v2 and BLIP."""

import copy
import functools
import warnings

import pytest
import torch
import transformers
from transformers.models.mpnet.modeling_mpnet import MPNetSelfAttention

import fovea.torch
from fovea.transformers import FallbackWarning, counters, own_attention

BOUND = 4e-6  # of the largest
BATCH, LENGTH, TOKENS = 3, 40, 5  # 4 heads: enough scores for the look at large masks
_SIZES = {"vocab_size": 120, "hidden_size": 48, "num_attention_heads": 4, "initializer_range": 0.15}
_SIZES |= {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_BERT = _SIZES | {"num_hidden_layers": 2, "intermediate_size": 64, "max_position_embeddings": 64}
_BLOOM = _SIZES | {"n_layer": 2, "n_head": 4}
_MPT = {"vocab_size": 120, "d_model": 48, "n_heads": 4, "n_layers": 2, "max_seq_len": 64, "initializer_range": 0.15}
_FALCON = _SIZES | {"num_hidden_layers": 2}
_SLICES = {"pretraining_tp": 2, "slow_but_exact": True}
_CLIP = {"attn_config": {"clip_qkv": 0.5, "softmax_scale": 0.7}}
_GROUPED = {"new_decoder_architecture": True, "num_kv_heads": 2}

# name: (model, configuration, its settings, attention of the original)
_TEXTS = {
    "mpnet": ("MPNetForMaskedLM", "MPNetConfig", _BERT | {"pad_token_id": 1, "bos_token_id": 0}, "eager"),
    "bloom": ("BloomForCausalLM", "BloomConfig", _BLOOM, "eager"),
    "bloom_slices": ("BloomForCausalLM", "BloomConfig", _BLOOM | _SLICES, "eager"),
    "mpt": ("MptForCausalLM", "MptConfig", _MPT, "eager"),
    "mpt_clip": ("MptForCausalLM", "MptConfig", _MPT | _CLIP, "eager"),
    "falcon": ("FalconForCausalLM", "FalconConfig", _FALCON, "sdpa"),
    "falcon_eager": ("FalconForCausalLM", "FalconConfig", _FALCON, "eager"),
    "falcon_new": ("FalconForCausalLM", "FalconConfig", _FALCON | _GROUPED, "sdpa"),
    "falcon_alibi": ("FalconForCausalLM", "FalconConfig", _FALCON | {"alibi": True, "multi_query": False}, "sdpa"),
}
_DECODERS = [name for name in _TEXTS if name != "mpnet"]


@functools.cache
def pair(name):
    """(original, copy)."""
    torch.manual_seed(7)
    if name == "blip":
        tower = _BERT | {"encoder_hidden_size": 48, "sep_token_id": 2}
        shared = ("hidden_size", "num_attention_heads", "num_hidden_layers", "intermediate_size")
        vision = {key: _BERT[key] for key in shared}
        config = transformers.BlipConfig(
            text_config=tower,
            vision_config=vision | {"image_size": 32, "patch_size": 8, "initializer_range": 0.15},
            projection_dim=32,
            image_text_hidden_size=32,
        )
        kind, attention = "BlipForConditionalGeneration", "eager"
    else:
        kind, config, settings, attention = _TEXTS[name]
        config = getattr(transformers, config)(**settings)
    model = getattr(transformers, kind)._from_config(config, attn_implementation=attention).eval()
    with torch.no_grad():
        for weight_name, weight in model.named_parameters():
            if weight_name.endswith("bias") and weight.dim() == 1:
                weight.normal_(std=0.3)
    return model, fovea.torch.optimize(model)


@pytest.fixture(autouse=True)
def fallbacks(monkeypatch):
    """Serves calls of few tokens, too. Gives what falls back."""
    counters.reset()
    monkeypatch.setattr(own_attention, "_FEW", 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)
        yield counters.fallbacks


def tokens(batch=BATCH, length=LENGTH):
    return torch.randint(3, 119, (batch, length), generator=torch.Generator().manual_seed(3))


def padding(side):
    missing, places = torch.tensor([0, 25, 7])[:, None], torch.arange(LENGTH)[None]
    return (places >= missing if side == "left" else places < LENGTH - missing).long()


def assert_near(wanted, got, bound=BOUND):
    assert wanted.shape == got.shape
    assert (wanted - got).abs().max() <= bound * wanted.abs().max()


def assert_fused(calls, **fallbacks):
    assert (counters.fused, dict(counters.fallbacks)) == (calls, fallbacks)


@pytest.mark.parametrize("side", [None, "left", "right"])
@pytest.mark.parametrize("name", _TEXTS)
def test_text(name, side):
    model, optimized = pair(name)
    mask = {} if side is None else {"attention_mask": padding(side)}
    with torch.inference_mode():
        # Results of padding count, too: rows that see no key.
        assert_near(model(tokens(), **mask).logits, optimized(tokens(), **mask).logits)
        assert_near(model(tokens(1, 9)).logits, optimized(tokens(1, 9)).logits)
    assert_fused(4)


@pytest.mark.parametrize("name", ["mpnet", "bloom", "mpt", "falcon"])
def test_bfloat16(name):
    model, _ = pair(name)
    half = copy.deepcopy(model).bfloat16()
    optimized = fovea.torch.optimize(half)
    with torch.inference_mode():
        run = lambda m: m(tokens(), attention_mask=padding("right")).logits.float()
        wanted, theirs, ours = map(run, (model, half, optimized))
    assert (ours - wanted).abs().max() <= 1.5 * (theirs - wanted).abs().max()
    assert_fused(2)


@pytest.mark.parametrize("name", _DECODERS)
def test_generate(name):
    model, optimized = pair(name)
    options = {"max_new_tokens": TOKENS, "min_new_tokens": TOKENS, "do_sample": False}
    options["attention_mask"] = padding("left")
    assert torch.equal(model.generate(tokens(), **options), optimized.generate(tokens(), **options))
    assert_fused(2 * TOKENS)


@pytest.mark.parametrize("name", [*_TEXTS, "blip"])
def test_weights(name):
    inputs = {"input_ids": tokens(), "attention_mask": padding("right"), "output_attentions": True}
    if name == "blip":
        inputs["pixel_values"] = torch.randn(BATCH, 3, 32, 32)
    model, optimized = pair(name)
    with torch.inference_mode():
        wanted, got = model(**inputs), optimized(**inputs)
    assert_near(wanted.logits, got.logits)
    assert len(wanted.attentions) == len(got.attentions) == 2
    for a, b in zip(wanted.attentions, got.attentions):
        assert_near(a, b)
    assert counters.fallbacks["weights"] >= 2


def test_blip():
    """Vision, text and cross attention, whose keys are not as many as the queries."""
    model, optimized = pair("blip")
    image = torch.randn(BATCH, 3, 32, 32, generator=torch.Generator().manual_seed(5))
    for mask in (None, padding("left"), padding("right")):
        with torch.inference_mode():
            inputs = {"pixel_values": image, "input_ids": tokens(), "attention_mask": mask}
            assert_near(model(**inputs).logits, optimized(**inputs).logits)
    assert_fused(18)
    options = {"max_new_tokens": TOKENS, "min_new_tokens": TOKENS, "do_sample": False}
    assert torch.equal(model.generate(image, **options), optimized.generate(image, **options))
    assert not counters.fallbacks


@pytest.mark.parametrize(
    ("size", "window", "image"), [(32, 4, 32), (32, 4, 27), (16, 16, 16), (32, 7, 33), (32, 4, (20, 36))]
)
def test_swin_v2(size, window, image):
    """Windows that are shifted, that are larger than the image, and images that windows do not divide."""
    torch.manual_seed(7)
    sizes = {"patch_size": 2, "embed_dim": 24, "depths": [2, 2], "num_heads": [2, 4], "initializer_range": 0.15}
    config = transformers.Swinv2Config(image_size=size, window_size=window, **sizes)
    model = transformers.Swinv2Model._from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "logit_scale" in name:
                weight.add_(torch.rand(weight.shape) - 0.5)
            elif "position_bias_mlp" in name:
                weight.normal_(std=0.5)
    optimized = fovea.torch.optimize(model)
    height, width = image if isinstance(image, tuple) else (image, image)
    for batch in (1, 3):
        pixels = torch.randn(batch, 3, height, width, generator=torch.Generator().manual_seed(batch))
        with torch.inference_mode():
            theirs, ours = model(pixels).last_hidden_state, optimized(pixels).last_hidden_state
            exact = copy.deepcopy(model).double()(pixels.double()).last_hidden_state
        # Cosines are scaled by 10 and more, and so are the errors of rounding: the original's are the measure.
        assert (ours - exact).abs().max() <= 1.5 * (theirs - exact).abs().max() + BOUND * exact.abs().max()
    assert_fused(8)


def test_sentence_transformers(tmp_path):
    """encode() of sentences of several lengths, in batches."""
    package = pytest.importorskip("sentence_transformers")
    from sentence_transformers.sentence_transformer import modules

    words = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *(f"w{i}" for i in range(100))]
    transformers.MPNetTokenizer(vocab={word: i for i, word in enumerate(words)}).save_pretrained(tmp_path)
    pair("mpnet")[0].mpnet.save_pretrained(tmp_path)
    model = package.SentenceTransformer(modules=[modules.Transformer(str(tmp_path)), modules.Pooling(48)], device="cpu")
    sentences = [" ".join(f"w{(7 * i * n) % 100}" for i in range(n)) for n in (3, 30, 1, 12, 2)]
    encode = lambda m: m.encode(sentences, batch_size=3, convert_to_tensor=True)
    wanted, got = encode(model), encode(fovea.torch.optimize(model))
    assert_near(wanted, got)
    assert_fused(4)


def test_report():
    model, optimized = pair("mpnet")
    line = "mpnet.encoder.layer.1.attention.attn: fovea.attention in the forward of MPNetSelfAttention"
    assert line in optimized.fovea_report.attention
    served = "2 MPNetSelfAttention have code of their own, whose attention optimize() has put on Fovea"
    assert served in str(optimized.fovea_report) and served in str(fovea.transformers.report(optimized))
    changed = copy.deepcopy(model)
    first, second = (layer.attention.attn for layer in changed.mpnet.encoder.layer)
    first.forward = functools.partial(MPNetSelfAttention.forward, first)
    line = "attn: as MPNetSelfAttention computes it: it has a forward of its own"
    assert line in str(fovea.torch.optimize(changed).fovea_report)
    second.__class__ = type("Other", (MPNetSelfAttention,), {})
    assert "layer.1.attention.attn" not in str(fovea.torch.optimize(changed).fovea_report.attention)


def test_few_tokens(monkeypatch):
    """Decoding goes back to the class, without a warning."""
    monkeypatch.setattr(own_attention, "_FEW", 32)
    model, optimized = pair("bloom")
    options = {"max_new_tokens": TOKENS, "min_new_tokens": TOKENS, "do_sample": False}
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        assert torch.equal(model.generate(tokens(), **options), optimized.generate(tokens(), **options))
    assert_fused(2, **{"few tokens": 2 * (TOKENS - 1)})


def test_another_forward(monkeypatch):
    """A forward() whose source is unknown is the class's own: of another version, or put into the class at any time."""
    model, optimized = pair("mpnet")
    own = MPNetSelfAttention.forward

    def forward(self, *args, **kwargs):
        return tuple(2 * x for x in own(self, *args, **kwargs))

    monkeypatch.setattr(MPNetSelfAttention, "forward", forward)
    with torch.inference_mode():
        assert_near(model(tokens()).logits, optimized(tokens()).logits)
    assert "source of its forward is not one that Fovea knows" in str(fovea.torch.optimize(model).fovea_report)
    assert_fused(0)


@pytest.mark.parametrize(("reason", "change"), [
    ("hooks", lambda attention: attention.dropout.register_forward_hook(lambda module, args, out: 0 * out)),
    ("hooks", lambda attention: attention.register_forward_hook(lambda module, args, out: (2 * out[0],))),
    ("dropout", lambda attention: attention.dropout.train()),
    ("autocast", None),
    ("kind of tensor", None),
])  # fmt: skip
def test_left_to_torch(reason, change, fallbacks):
    model, optimized = copy.deepcopy(pair("mpnet"))
    for either in (model, optimized):
        for module in either.modules():
            if change and isinstance(module, MPNetSelfAttention):
                change(module)

    def run(either):
        if reason == "autocast":
            with torch.autocast("cpu", torch.bfloat16):
                return either(tokens()).logits
        if reason == "kind of tensor":
            return torch.func.vmap(lambda ids: either(ids[None]).logits)(tokens())
        torch.manual_seed(1)
        return either(tokens()).logits

    with torch.no_grad():
        if reason == "kind of tensor":
            # Packed maps with such tensors have a test of their own: here only attention must not read them.
            attention, x = optimized.mpnet.encoder.layer[0].attention.attn, torch.randn(2, 1, 5, 48)
            original = model.mpnet.encoder.layer[0].attention.attn
            wanted = torch.stack([MPNetSelfAttention.forward(original, y)[0] for y in x])
            served = functools.partial(own_attention.forward, original, [])
            assert_near(wanted, torch.func.vmap(lambda y: served(y)[0])(x))
            assert attention.forward.func is own_attention.forward
        else:
            assert_near(run(model), run(optimized), 0.05 if reason == "autocast" else BOUND)
    assert set(fallbacks) == {reason}
