"""Models with real weights: sentences by all-MiniLM-L6-v2, text by SmolLM2-135M-Instruct.

Each property is tested with few tokens. Only the same tests with many tokens are marked slow: with 135 million weights
a token takes a tenth of a second, and in portable C three times as long.
"""

import contextlib
import hashlib

import pytest
import real_models
import tiny_models
import torch
from transformers import DynamicCache

import fovea
import fovea.torch
from fovea.transformers import counters

SENTENCES = [
    "A cat sits on the mat.",
    "The kitten is resting on a rug.",
    "Attention kernels spend their time in two matrix products and a softmax, and on a CPU the caches decide how fast these are.",
    "Lighthouse",
    "",
    "Die Summe der Teile ist weniger als das Ganze, sagte sie, und legte das Buch zur Seite. " * 8,
    "Numbers: 1, 22, 333, 4444; symbols: + - * / % $ §.",
]

optimized = pytest.mark.skipif(
    not hasattr(fovea, "Linear") or not hasattr(fovea.torch, "optimize"), reason="this build packs no weights"
)


@pytest.fixture(scope="module")
def sentence_model():
    """make(dtype, attention): all-MiniLM-L6-v2 in sentence-transformers."""
    package = pytest.importorskip("sentence_transformers")
    folder = str(real_models.minilm())

    def make(dtype=torch.float32, attention="fovea"):
        kwargs = {"attn_implementation": attention, "dtype": dtype}
        return package.SentenceTransformer(folder, device="cpu", model_kwargs=kwargs)

    return make


def optimize(model):
    """The same, with a copy by fovea.torch.optimize() in place of its encoder."""
    model[0].model = fovea.torch.optimize(model[0].model)
    assert not model[0].auto_model.fovea_report.left
    return model


def encode(model, sentences=SENTENCES):
    return model.encode(sentences, batch_size=4, convert_to_tensor=True, normalize_embeddings=True).double()


def cosines(a, b):
    return torch.nn.functional.cosine_similarity(a, b, dim=-1)


@pytest.fixture(scope="module")
def wanted(sentence_model):
    """The results of torch in float64."""
    return encode(sentence_model(torch.float64, "eager"))


def test_sentences(sentence_model, wanted):
    counters.reset()
    got = encode(sentence_model())
    assert cosines(got, wanted).min() > 0.999999
    assert (got - wanted).abs().max() < 1e-6
    assert counters.fused == 12 and not counters.fallbacks and counters.mask_tensors == 0


def test_sentences_do_not_depend_on_their_batch(sentence_model):
    """Padding changes no bit of attention: a sentence alone is as near to itself in a batch as torch's products allow."""
    model = sentence_model()
    together = encode(model)
    alone = torch.stack([model.encode(sentence, convert_to_tensor=True, normalize_embeddings=True) for sentence in SENTENCES])
    assert (together - alone).abs().max() < 1e-6


@optimized
def test_optimized_sentences(sentence_model, wanted):
    model = optimize(sentence_model())
    counters.reset()
    got = encode(model)
    assert cosines(got, wanted).min() > 0.999999
    assert counters.fused == 12 and not counters.fallbacks


@pytest.fixture(scope="module")
def smollm2():
    return real_models.smollm2()


@pytest.fixture(scope="module")
def prompt():
    return real_models.smollm2_prompt("Tell me the story of a lighthouse keeper who learns to sail.")


def generate(model, prompt, attention, tokens):
    model.set_attn_implementation(attention)
    options = {"max_new_tokens": tokens, "min_new_tokens": tokens, "do_sample": False}
    with torch.inference_mode():
        return model.generate(prompt, attention_mask=torch.ones_like(prompt), **options)[0, prompt.shape[1] :].tolist()


@pytest.mark.parametrize("tokens", [6, pytest.param(64, marks=pytest.mark.slow)])
def test_greedy_text(smollm2, prompt, tokens):
    wanted = generate(smollm2, prompt, "eager", tokens)
    counters.reset()
    got = generate(smollm2, prompt, "fovea", tokens)
    assert got == wanted
    assert counters.fused == 30 * tokens and not counters.fallbacks and counters.mask_tensors == 0
    text = real_models.smollm2_tokenizer().decode(got)
    assert "lighthouse" in text.lower(), text


def digests(model, ids, chunk):
    """SHA-256 of the logits of each token of a text that the model reads in chunks."""
    cache, found = DynamicCache(config=model.config), []
    with torch.inference_mode():
        for piece in ids.split(chunk, dim=1):
            logits = model(piece, **tiny_models.caching(cache)).logits[0].numpy()
            found += [hashlib.sha256(row.tobytes()).hexdigest() for row in logits]
    return found


@contextlib.contextmanager
def torch_threads(count):
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    yield
    torch.set_num_threads(before)


@optimized
@pytest.mark.parametrize(
    "tokens, chunks, tier_tokens", [(10, (7, 1), 3), pytest.param(40, (23, 16, 3, 1), 29, marks=pytest.mark.slow)]
)
def test_same_bits(smollm2, prompt, tokens, chunks, tier_tokens, capsys):
    """The logits of a text have the same bits on every tier, with every number of threads, whole or in chunks."""
    smollm2.set_attn_implementation("fovea")
    model = fovea.torch.optimize(smollm2)
    ids = prompt[:, :tokens]
    counters.reset()
    with torch_threads(1):
        wanted = digests(model, ids, tokens)
        found = {f"chunks of {chunk}": digests(model, ids, chunk) for chunk in chunks}
    for threads, chunk in ((2, tokens), (3, 7)):
        with torch_threads(threads):
            found[f"{threads} threads, chunks of {chunk}"] = digests(model, ids, chunk)
    best = fovea.info()["isa"]  # which has run
    for isa in ("avx2", "avx512", "neon", "scalar"):
        if isa == best:
            continue
        with fovea.config(isa=isa), torch_threads(2):
            if fovea.info()["isa"] == isa:
                # Packed anew, as packed weights keep to their tier.
                found[isa] = digests(fovea.torch.optimize(smollm2), ids[:, :tier_tokens], tier_tokens)
    assert counters.fused > 0 and not counters.fallbacks
    assert len(set(wanted)) == tokens
    for what, rows in found.items():
        assert rows == wanted[: len(rows)], what
    with capsys.disabled():
        ways = ", ".join(found)
        print(f"\nSmolLM2-135M-Instruct, logits of {tokens} tokens, {ways}: SHA-256 of the last {wanted[-1]}")


@optimized
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_sentences_of_16_bits(sentence_model, wanted, dtype):
    """Attention alone, and with packed weights: as near to float64 as torch's own, or nearer."""
    theirs = encode(sentence_model(dtype, "sdpa"), SENTENCES[:5])
    counters.reset()
    models = {"fovea": sentence_model(dtype), "optimize": optimize(sentence_model(dtype))}
    far = lambda vectors: (1 - cosines(vectors, wanted[:5])).mean().item()
    found = {way: far(encode(model, SENTENCES[:5])) for way, model in models.items()}
    assert counters.fused == 2 * 2 * 6 and not counters.fallbacks
    limit = {torch.bfloat16: 2e-4, torch.float16: 2e-6}[dtype]
    assert max(found.values()) < limit and found["optimize"] <= far(theirs), (found, far(theirs))
