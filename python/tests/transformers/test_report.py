"""report(model): what runs on Fovea, what fell back, and what never asks for it."""

import copy
import gc
import warnings

import families
import pytest
import tiny_models
import torch

import fovea.torch
import fovea.transformers
from fovea.transformers import FallbackWarning, report
from fovea.transformers.counters import _calls

OWN, TORCH = "have code of their own", "call torch's scaled_dot_product_attention themselves"


def lines(name):
    model, inputs = families.make(name)
    model.set_attn_implementation("fovea")
    before = report(model).lines()
    with torch.inference_mode():
        model(**inputs)
    return model, before, report(model)


@pytest.mark.parametrize(("name", "asking", "total"), [("llama", 3, 3), ("t5", 9, 9), ("wav2vec2", 3, 3)])
def test_fused(name, asking, total):
    _, before, after = lines(name)
    assert before == [f"attention implementation fovea is set; {asking} of {total} attention modules call it"]
    assert after.lines() == [*before, f"so far {asking} modules called Fovea: {total} calls ran on it"]


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("bloom", "2 BloomAttention", OWN),
        ("mpt", "3 MptAttention", OWN),
        ("deberta-v2", "3 DisentangledSelfAttention", OWN),
        ("roformer", "3 RoFormerSelfAttention", OWN),
        ("falcon", "3 FalconAttention", TORCH),
        ("gpt_neo", "2 GPTNeoSelfAttention", OWN),
        ("data2vec-vision", "3 Data2VecVisionSelfAttention", OWN),
    ],
)
def test_what_never_asks(name, kind, words):
    """transformers itself refuses the name for some of these, and then another implementation is set."""
    model, before, after = lines(name)
    count = kind.split()[0]
    assert before[0] == f"attention implementation {model.config._attn_implementation} is set; 0 of {count} attention modules call it"
    assert before[1].startswith(f"{kind} {words}") and len(before) == 2
    assert after.lines() == before and after.called == after.fused == 0


def test_both():
    _, before, after = lines("bigbird_pegasus")
    assert before[0] == "attention implementation fovea is set; 6 of 9 attention modules call it"
    assert before[1].startswith("3 BigBirdPegasusSelfAttention have code of their own")
    assert after.fused == 6


def test_without_attention():
    none, recurrences = lines("mamba")[1]
    assert none == "it has no attention modules" and recurrences.startswith("3 recurrent MambaMixer run on transformers' code")


def test_fallbacks():
    model = tiny_models.make("llama", "fovea")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)
        model(tiny_models.tokens())
    assert report(model).lines()[-1] == "so far 3 modules called Fovea: 0 calls ran on it, 3 fell back (gradients)"
    with torch.inference_mode():
        model(tiny_models.tokens())
    assert report(model).lines()[-1] == "so far 3 modules called Fovea: 3 calls ran on it, 3 fell back (gradients)"


def test_counts_are_of_one_model():
    gc.collect()  # models of other tests
    model = tiny_models.make("llama", "fovea")
    with torch.inference_mode():
        model(tiny_models.tokens())
    twin, held = copy.deepcopy(model), len(_calls)
    assert report(model).fused == 3 and report(twin).called == 0
    assert report(model.model.layers[1]).fused == 1
    del model
    gc.collect()
    assert len(_calls) == held - 3


def test_optimize_reports_it():
    copied = fovea.torch.optimize(tiny_models.make("bert"))
    assert copied.fovea_report.attention == [
        "BertForMaskedLM: attention implementation fovea is set; 3 of 3 attention modules call it"
    ]


def test_parts_of_a_larger_module():
    """A model inside another module, and attention of torch."""
    parts = torch.nn.ModuleDict({"text": tiny_models.make("bert", "fovea"), "head": torch.nn.MultiheadAttention(8, 2)})
    found = report(parts)
    assert found.lines()[0] == "attention implementation of its parts is set; 3 of 4 attention modules call it"
    assert "1 MultiheadAttention" in found.lines()[1]
