"""Growing cache layers hold what transformers' layers hold, and copy only what is new."""

import pytest
import tiny_models
import torch
from transformers import DynamicCache, StaticCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from fovea.transformers import GrowingLayer, GrowingWindowLayer, cache, counters

WINDOW = 7
MAKERS = {
    "full": (lambda: DynamicLayer(), lambda: GrowingLayer()),
    "window": (lambda: DynamicSlidingWindowLayer(WINDOW), lambda: GrowingWindowLayer(WINDOW)),
    "recording": (lambda: recording(DynamicSlidingWindowLayer), lambda: recording(GrowingWindowLayer)),
}


def recording(layer):
    layer = layer(WINDOW)
    layer.activate_past_recording()
    return layer


def states(generator, batch, count):
    """Keys and values of some tokens, as models have them: transposed views."""
    return tuple(torch.randn(batch, count, 2, d, generator=generator).transpose(1, 2) for d in (8, 12))


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("kind", MAKERS)
def test_any_order_of_operations(kind, seed):
    theirs, ours = (make() for make in MAKERS[kind])
    generator = torch.Generator().manual_seed(seed)

    def number(low, high):
        return int(torch.randint(low, high, (), generator=generator))

    batch = 3
    for _ in range(60):
        operation = number(0, 9)
        if operation < 4 or theirs.get_seq_length() == 0:
            key, value = states(generator, batch, number(1, 12) if operation == 0 else 1)
            assert ours.get_mask_sizes(key.shape[2]) == theirs.get_mask_sizes(key.shape[2])
            results = ours.update(key, value), theirs.update(key, value)
            assert same(*results)
        elif operation == 4:
            beams = torch.randint(0, batch, (batch,), generator=generator)
            ours.reorder_cache(beams), theirs.reorder_cache(beams)
        elif operation == 5 and (kind != "window" or theirs.get_seq_length() < WINDOW):
            removed = -number(0, min(4, theirs.keys.shape[2]))
            ours.crop(removed), theirs.crop(removed)
        elif operation == 6 and batch < 6:
            ours.batch_repeat_interleave(2), theirs.batch_repeat_interleave(2)
            batch *= 2
        elif operation == 7 and batch > 1:
            batch = number(1, batch)
            chosen = torch.randperm(batch, generator=generator)
            ours.batch_select_indices(chosen), theirs.batch_select_indices(chosen)
        elif operation == 8 and number(0, 4) == 0:
            ours.reset(), theirs.reset()
            continue
        assert ours.get_seq_length() == theirs.get_seq_length()
        if theirs.is_initialized and theirs.keys.numel():
            assert same((ours.keys, ours.values), (theirs.keys, theirs.values))


@pytest.mark.parametrize("layer", [GrowingLayer(), GrowingWindowLayer(400)], ids=["full", "window"])
def test_copies_are_few(layer):
    """Over 2000 tokens the memory changes place a dozen times, not 2000 times."""
    generator = torch.Generator().manual_seed(0)
    places, moves = None, 0
    for _ in range(2000):
        keys, values = layer.update(*states(generator, 1, 1))
        now = keys.untyped_storage().data_ptr(), values.untyped_storage().data_ptr()
        moves += now != places
        places = now
    assert moves <= 12
    assert keys.untyped_storage().nbytes() <= 4 * keys.numel() * 4


def test_a_part_of_the_batch_that_was_assigned():
    """It is a view of the buffer, and cannot grow there."""
    generator, layer = torch.Generator().manual_seed(0), GrowingLayer()
    keys, values = layer.update(*states(generator, 3, 5))
    layer.keys, layer.values = keys[:1], values[:1]
    more = states(generator, 1, 1)
    wanted = torch.cat([keys[:1], more[0]], 2), torch.cat([values[:1], more[1]], 2)
    assert same(layer.update(*more), wanted)


def test_gradients_are_recorded():
    layer = GrowingLayer()
    key, value = torch.randn(1, 1, 2, 4, requires_grad=True), torch.randn(1, 1, 2, 4, requires_grad=True)
    layer.update(key, value)
    keys, values = layer.update(key * 2, value * 3)
    (keys.sum() + values.sum()).backward()
    assert torch.equal(key.grad, torch.full_like(key, 3)) and torch.equal(value.grad, torch.full_like(value, 4))


def test_registered():
    config = tiny_models.model_of("gemma2").config
    assert [type(layer) for layer in DynamicCache(config=config).layers] == [
        GrowingWindowLayer,
        GrowingLayer,
        GrowingWindowLayer,
    ]
    cache.unregister()
    try:
        assert [type(layer) for layer in DynamicCache(config=config).layers] == [
            DynamicSlidingWindowLayer,
            DynamicLayer,
            DynamicSlidingWindowLayer,
        ]
    finally:
        cache.register()


def generate(family, attention, **options):
    model = tiny_models.model_of(family)
    model.set_attn_implementation(attention)
    torch.manual_seed(5)
    inputs = {"input_ids": tiny_models.tokens(), "attention_mask": tiny_models.padding("left")}
    options = {"max_new_tokens": 14, "min_new_tokens": 14, "do_sample": False} | options
    return model.generate(**inputs, **options)


@pytest.mark.parametrize("family", ["llama", "gemma2", "gpt_oss"])
@pytest.mark.parametrize("options", [{"cache_implementation": "static"}, {"do_sample": True}, {"prefill_chunk_size": 5}], ids=str)
def test_generate(family, options):
    wanted = generate(family, "eager", **options)
    counters.reset()
    assert torch.equal(generate(family, "fovea", **options), wanted)
    assert counters.fused > 0 and not counters.fallbacks and counters.mask_tensors == 0


def test_static_cache_reads_used_keys_only():
    """Keys that a static cache does not hold yet may be anything."""
    model = tiny_models.make("llama", "fovea")
    store = StaticCache(config=model.config, max_cache_len=300)
    with torch.inference_mode():
        ids = tiny_models.tokens()
        wanted = model(ids).logits
        model(ids[:, :8], **tiny_models.caching(store))
        for layer in store.layers:
            layer.keys[:, :, 8:] = torch.nan
            layer.values[:, :, 8:] = torch.nan
        got = model(ids[:, 8:], **tiny_models.caching(store)).logits
    assert torch.allclose(got, wanted[:, 8:], rtol=0, atol=2e-6 * float(wanted.abs().max()))


def test_crop_and_go_on():
    """Assisted decoding: tokens are tried, and removed again."""
    model = tiny_models.make("gemma2", "fovea")
    ids = tiny_models.tokens(length=20)
    store = DynamicCache(config=model.config)
    store.activate_past_recording()
    with torch.inference_mode():
        wanted = model(ids).logits
        model(ids[:, :11], **tiny_models.caching(store))
        store.crop(0)
        model(tiny_models.tokens(length=4, seed=9), **tiny_models.caching(store))
        store.crop(-4)
        got = model(ids[:, 11:], **tiny_models.caching(store)).logits
    assert torch.allclose(got, wanted[:, 11:], rtol=0, atol=2e-6 * float(wanted.abs().max()))
