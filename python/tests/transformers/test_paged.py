"""transformers' generate() over fovea.transformers.KVCache: the tokens of DynamicCache, the bits of its logits, errors."""

import copy
import functools
import gc

import pytest
import tiny_models
import torch
from transformers import DynamicCache

import fovea.torch
from fovea.transformers import KVCache, counters

NEW_TOKENS = 12


@pytest.fixture(autouse=True)
def all_fused():
    """Nothing falls back, and no mask becomes a matrix."""
    counters.reset()
    with torch.inference_mode():
        yield
    assert not counters.fallbacks and counters.mask_tensors == 0


def make(family="llama"):
    model = tiny_models.model_of(family)
    model.set_attn_implementation("fovea")
    return model


@pytest.fixture(scope="module")
def exact():
    """exact(family): a copy whose linear layers are Fovea's, and whose logits therefore do not depend on how a text is cut."""

    @functools.cache
    def copy_of(family):
        made = fovea.torch.optimize(tiny_models.make(family, "fovea"))
        made.config.max_position_embeddings = 1024
        return made

    return copy_of


def generate(model, store, **options):
    torch.manual_seed(5)
    inputs = {"input_ids": tiny_models.tokens(), "attention_mask": tiny_models.padding("left")}
    options = {"max_new_tokens": NEW_TOKENS, "min_new_tokens": NEW_TOKENS, "do_sample": False} | options
    return model.generate(**inputs, **options, **tiny_models.caching(store))


def logits_of(model, store, length, chunks, mask=None):
    """Logits of a text, read in chunks."""
    ids, parts = tiny_models.tokens(length=length), []
    for count in chunks:
        begin = store.get_seq_length()
        seen = None if mask is None else mask[:, : begin + count]
        parts.append(model(ids[:, begin : begin + count], attention_mask=seen, **tiny_models.caching(store)).logits)
    return torch.cat(parts, 1)


@pytest.mark.parametrize("padded", [False, True], ids=["whole", "padded"])
@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_bits_of_logits(family, padded):
    model, chunks = make(family), [40, 1, 1, 3, 1, 1]
    mask = tiny_models.padding("left", length=47) if padded else None
    wanted = logits_of(model, DynamicCache(config=model.config), 47, chunks, mask)
    got = logits_of(model, KVCache(model.config, max_bytes=1 << 24), 47, chunks, mask)
    places = slice(None) if mask is None else mask.bool()
    assert torch.equal(got[places], wanted[places]) and wanted.std() > 0.1


def test_bits_over_pages(exact):
    """More than a page: chunks, tokens one by one, and the whole text at once."""
    model = exact("llama")
    wanted = logits_of(model, KVCache(model.config), 530, [530])
    assert torch.equal(logits_of(model, KVCache(model.config), 530, [200, 1, 55, 1, 255, 7, 1, 1, 9]), wanted)
    assert torch.equal(logits_of(model, DynamicCache(config=model.config), 530, [500, 29, 1]), wanted)


OPTIONS = [
    {},
    {"do_sample": True},
    {"num_beams": 3, "num_return_sequences": 2, "length_penalty": 0.5},
    {"do_sample": True, "num_return_sequences": 3},
    {"prefill_chunk_size": 4},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("family", ["llama", "mistral", "gemma2", "gpt_oss", "gpt2"])
def test_generate(family, options):
    model = make(family)
    store = KVCache(model.config, max_bytes=1 << 24)
    got = generate(model, store, **options)
    assert torch.equal(got, generate(model, DynamicCache(config=model.config), **options))
    info = store.pages.stats()
    assert info["sequences"] == len(store.sequences) and info["used_pages"] > 0


def test_prompt_lookup():
    """Tokens are tried, and taken back."""
    for family in ("llama", "gemma2"):
        model, results = make(family), []
        for store in (KVCache(model.config, max_bytes=1 << 24), DynamicCache(config=model.config)):
            ids = tiny_models.tokens(1).repeat(1, 2)
            store.activate_past_recording()
            results.append(
                model.generate(ids, do_sample=False, max_new_tokens=20, prompt_lookup_num_tokens=4, **tiny_models.caching(store))
            )
        assert torch.equal(*results)


def test_padding_is_not_kept():
    model = make()
    store = KVCache(model.config, max_bytes=1 << 24)
    generate(model, store)
    kept = [store.pages.length(sequence) for sequence in store.sequences]
    tokens = tiny_models.PROMPT + NEW_TOKENS - 1
    assert store.get_seq_length() == tokens and kept == [tokens, tokens - 5, tokens - 2]


@pytest.mark.parametrize("side", ["right", "holes", "late"])
def test_other_padding(side):
    """On the right; holes; and a sequence that begins after a whole chunk of padding."""
    model = make()
    mask = torch.ones(3, 20, dtype=torch.long)
    if side == "right":
        mask[1, 12:] = mask[2, 17:] = 0
    else:
        mask[1, :3] = mask[2, : 13 if side == "late" else 1] = 0
    if side == "holes":
        mask[0, 5] = mask[1, 9:11] = 0
    chunks = [9, 8, 3] if side == "late" else [17, 1, 2]
    wanted = logits_of(model, DynamicCache(config=model.config), 20, chunks, mask)
    got = logits_of(model, KVCache(model.config, max_bytes=1 << 24), 20, chunks, mask)
    where = mask.bool()
    assert (got[where] - wanted[where]).abs().max() <= 2e-6 * wanted[where].abs().max()


def test_weights():
    model, mask = make("gpt_oss"), tiny_models.padding("left", length=15)
    results = []
    for store in (KVCache(model.config, max_bytes=1 << 24), DynamicCache(config=model.config)):
        model(tiny_models.tokens(), attention_mask=mask[:, :13], **tiny_models.caching(store))
        got = model(tiny_models.tokens(length=2), attention_mask=mask, **tiny_models.caching(store), output_attentions=True)
        results.append(got.attentions[1])  # a layer without a window: the other cache has dropped columns of those
    assert torch.equal(*results) and results[0].shape[-1] == 15 and not results[0][1, :, :, :5].any()


def test_window_frees_pages(exact):
    model = exact("mistral")
    store = KVCache(model.config, max_bytes=1 << 24)
    wanted = logits_of(model, DynamicCache(config=model.config), 600, [600])
    assert torch.equal(logits_of(model, store, 600, [550, 49, 1]), wanted)
    assert store.pages.stats()["window_pages"] == 2 * 3 * 3
    with pytest.raises(ValueError, match="window"):
        store.crop(-100)
    assert store.get_seq_length() == 600 and store.pages.stats()["sequences"] == 3
    store.crop(-2)
    assert torch.equal(model(tiny_models.tokens(length=600)[:, -2:], **tiny_models.caching(store)).logits, wanted[:, -2:])


def test_crop_select_reset(exact):
    model, ids = exact("llama"), tiny_models.tokens(length=20)
    store = KVCache(model.config, max_bytes=1 << 24)
    wanted = model(ids).logits
    model(ids[:, :11], **tiny_models.caching(store))
    model(tiny_models.tokens(length=4, seed=9), **tiny_models.caching(store))
    store.crop(-4)
    assert torch.equal(model(ids[:, 11:], **tiny_models.caching(store)).logits, wanted[:, 11:])
    store.crop(-9)
    store.batch_repeat_interleave(2)
    store.batch_select_indices(torch.tensor([5, 1, 1]))
    assert torch.equal(model(ids[[2, 0, 0], 11:], **tiny_models.caching(store)).logits, wanted[[2, 0, 0], 11:])
    assert store.pages.stats()["sequences"] == 3
    store.reset()
    assert store.get_seq_length() == 0 and store.pages.stats()["used_pages"] == 0
    assert torch.equal(model(ids[:2], **tiny_models.caching(store)).logits, wanted[:2])


def test_crop_into_padding(exact):
    """Only padding is left of a row: its first token is among those that come next."""
    model, ids, mask = exact("llama"), tiny_models.tokens(length=12), torch.ones(3, 12, dtype=torch.long)
    mask[0, :6] = 0
    cropped, new = (KVCache(model.config, max_bytes=1 << 24) for _ in range(2))
    model(ids, attention_mask=mask, **tiny_models.caching(cropped))
    cropped.crop(-8)
    mask[0, 4:] = 1
    model(ids[:, :4], attention_mask=mask[:, :4], **tiny_models.caching(new))
    got, wanted = (model(ids[:, 4:], attention_mask=mask, **tiny_models.caching(store)).logits for store in (cropped, new))
    assert torch.equal(got, wanted)


def test_copies_share_pages(exact):
    model, ids = exact("llama"), tiny_models.tokens(1, 30)
    prompt = KVCache(model.config, max_bytes=1 << 24)
    model(ids, **tiny_models.caching(prompt))
    answers = []
    for seed in (1, 2):
        store = copy.deepcopy(prompt)
        assert store.pages is prompt.pages and prompt.pages.stats()["shared_pages"] == 3
        more = tiny_models.tokens(1, 3, seed)
        answers.append(torch.equal(model(more, **tiny_models.caching(store)).logits, model(torch.cat([ids, more], 1)).logits[:, 30:]))
        del store
        gc.collect()
        assert prompt.pages.stats()["sequences"] == 1
    assert answers == [True, True] and prompt.get_seq_length() == 30


def test_full_cache_loses_nothing(exact):
    model, ids = exact("llama"), tiny_models.tokens(1, 256)
    page = 2 * 256 * 2 * 12 * 4
    store = KVCache(model.config, max_bytes=4 * page)
    model(ids[:, :250], **tiny_models.caching(store))
    with pytest.raises(fovea.CacheFullError, match="1 of 4 pages"):
        model(ids[:, :7], **tiny_models.caching(store))
    assert store.get_seq_length() == 250 and store.pages.stats()["appended_tokens"] == 750
    assert torch.equal(model(ids[:, 250:], **tiny_models.caching(store)).logits, model(ids).logits[:, 250:])


def test_element_types():
    """A cache of 16 or 8 bits under a model of float32: its keys and values are those, rounded."""
    model, ids = make(), tiny_models.tokens(length=20)
    wanted = model(ids).logits
    for dtype in ("bfloat16", "float16", "int8"):
        store = KVCache(model.config, max_bytes=1 << 24, dtype=dtype)
        got = torch.cat([model(ids[:, part], **tiny_models.caching(store)).logits for part in (slice(0, 12), slice(12, 20))], 1)
        assert store.pages.k_dtype == dtype
        assert 0 < (got - wanted).abs().max() < 0.1 * wanted.abs().max()


@pytest.mark.parametrize("other", ["eager", "sdpa"])
def test_other_attention_says_so(other):
    model = tiny_models.make("llama", other)
    store = KVCache(model.config, max_bytes=1 << 24)
    with pytest.raises(TypeError, match='which only attn_implementation="fovea" reads'):
        generate(model, store)
    assert store.get_seq_length() == 0


def test_model_that_works_on_what_is_cached():
    model = make("deepseek_v3")
    with pytest.raises(TypeError, match="take a DynamicCache"):
        generate(model, KVCache(model.config, max_bytes=1 << 24))


def test_what_cannot_be():
    with torch.inference_mode(False), torch.enable_grad(), pytest.raises(ValueError, match="cannot fall back.*gradients"):
        model = tiny_models.make("llama", "fovea")
        model(tiny_models.tokens(), **tiny_models.caching(KVCache(model.config, max_bytes=1 << 24)))
    store = KVCache(model.config, max_bytes=1 << 24)
    model(tiny_models.tokens(2), **tiny_models.caching(store))
    with pytest.raises(ValueError, match="2 sequences.* tokens of 3"):
        model(tiny_models.tokens(3), **tiny_models.caching(store))
    with pytest.raises(ValueError, match="negative"):
        store.crop(5)
    config = copy.deepcopy(model.config)
    config.layer_types = ["full_attention", "linear_attention", "full_attention"]
    with pytest.raises(ValueError, match="linear_attention.* take DynamicCache"):
        KVCache(config)
