"""Versions of transformers: what one lacks turns one adapter off, and the rest works."""

import importlib
import importlib.metadata
import os
import pathlib
import subprocess
import sys
import warnings

import processes
import pytest
import tiny_models
import torch
from transformers import cache_utils, masking_utils, modeling_utils
from transformers.generation.continuous_batching import continuous_api
from transformers.integrations import moe
from transformers.utils import output_capturing

import fovea.transformers
from fovea.transformers import versions

ATTENTION, LAYERS, BATCHING, PAGED = 'attn_implementation="fovea"', "growing cache layers", "continuous batching", "KVCache"
WEIGHTS, EXPERTS = "collecting attention weights", 'experts_implementation="fovea"'
MANAGER = continuous_api.ContinuousBatchingManager
ROOT = pathlib.Path(__file__).parents[3]
OLDEST = ROOT / "build/venv/transformers-oldest"  # made by venv.sh


@pytest.fixture
def again(monkeypatch):
    """again() imports fovea.transformers anew into a transformers that does not know it; later all is as it was."""
    kept = {name: module for name, module in sys.modules.items() if name.startswith("fovea.transformers")}
    interfaces = modeling_utils.AttentionInterface._global_mapping, masking_utils.AttentionMaskInterface._global_mapping
    for mapping in interfaces:
        monkeypatch.delitem(mapping, "fovea")
    for name, layer in cache_utils.DYNAMIC_LAYER_TYPE_MAPPING.items():
        theirs = [base for base in layer.__mro__ if base.__module__ == cache_utils.__name__][0]
        monkeypatch.setitem(cache_utils.DYNAMIC_LAYER_TYPE_MAPPING, name, theirs)
    monkeypatch.setattr(MANAGER, "switch_to_cb_friendly_attn", MANAGER.switch_to_cb_friendly_attn.__wrapped__)

    def run():
        for name in kept:
            sys.modules.pop(name, None)
        return importlib.import_module("fovea.transformers")

    yield run
    for name in [name for name in sys.modules if name.startswith("fovea.transformers")]:
        del sys.modules[name]
    sys.modules.update(kept)
    fovea.transformers = kept["fovea.transformers"]
    if "fovea.transformers.experts" in kept:  # which transformers without experts lack
        kept["fovea.transformers.experts"].register()
    monkeypatch.undo()


# Names to hide, and the adapter that each turns off; None if the rest is as before, but for matrices of masks.
HIDDEN = [
    (modeling_utils, "AttentionInterface", ATTENTION),
    (modeling_utils, "ALL_ATTENTION_FUNCTIONS", ATTENTION),
    (masking_utils, "AttentionMaskInterface", ATTENTION),
    (masking_utils, "sdpa_mask", ATTENTION),
    (output_capturing, "_active_collector", WEIGHTS),
    (masking_utils, "causal_mask_function", None),
    (masking_utils, "sliding_window_overlay", None),
    (masking_utils, "sliding_window_causal_mask_function", None),
    (cache_utils, "DYNAMIC_LAYER_TYPE_MAPPING", LAYERS),
    (cache_utils, "DynamicSlidingWindowLayer", LAYERS),
    (cache_utils, "get_layer_types_and_kwargs", PAGED),
    (cache_utils, "CacheLayerMixin", PAGED),
    (moe, "ALL_EXPERTS_FUNCTIONS", EXPERTS),
    (continuous_api, "ContinuousBatchingManager", BATCHING),
    (MANAGER, "switch_to_cb_friendly_attn", BATCHING),
]


@pytest.mark.parametrize(("place", "name", "off"), HIDDEN, ids=lambda value: value if isinstance(value, str) else "")
def test_what_is_hidden_turns_one_adapter_off(again, monkeypatch, place, name, off):
    ids = tiny_models.tokens()
    eager = tiny_models.make("mistral")
    with torch.inference_mode():
        wanted = eager(ids).logits
    with warnings.catch_warnings(record=True) as told, monkeypatch.context() as hidden:
        warnings.simplefilter("always")
        hidden.delattr(place, name)
        package = again()
        works = not off or ATTENTION != off
    told = [str(warning.message) for warning in told if "fovea.transformers is tested" in str(warning.message)]
    assert list(package.unavailable) == ([off] if off else [])
    assert len(told) == bool(off) and all(f"{off} is off (" in text and name in text for text in told)
    assert hasattr(package, "KVCache") == (off != PAGED) and hasattr(package, "GrowingLayer") == (off != LAYERS)
    if off == PAGED:
        with pytest.raises(AttributeError, match="KVCache is off .*" + name):
            package.KVCache  # noqa: B018
    if off != ATTENTION:
        model = tiny_models.make("mistral", "fovea")
        with torch.inference_mode():
            assert (model(ids).logits - wanted).abs().max() <= 2e-6 * wanted.abs().max()
        assert package.counters.fused == 3 and not package.counters.fallbacks
        assert bool(package.counters.mask_tensors) == (off is None)
        if off != LAYERS:
            layers = cache_utils.DynamicCache(config=model.config).layers
            assert {type(layer) for layer in layers} == {package.GrowingWindowLayer}
        assert hasattr(MANAGER.switch_to_cb_friendly_attn, "lets_fovea_through") == (off != BATCHING)
    else:
        with pytest.raises(ValueError, match="fovea"):
            tiny_models.make("mistral", "fovea")


@pytest.mark.parametrize("version", ["4.57.1", "5.19.9", "5.99.0", "6.0.0.dev0"])
def test_untested_versions_work_and_warn_once(again, monkeypatch, version):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: version)
    words = f"tested with transformers {versions.OLDEST} to {versions.NEWEST}, and this is {version}: all that it needs is there"
    with pytest.warns(UserWarning, match=words) as told:
        package = again()
    assert len(told) == 1 and not package.unavailable
    assert tiny_models.make("mistral", "fovea").config._attn_implementation == "fovea"


@pytest.mark.parametrize("version", [f"{versions.OLDEST}.0", f"{versions.NEWEST}.1.dev0"])
def test_tested_versions_are_silent(again, monkeypatch, version):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: version)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not again().unavailable


def test_this_version_is_tested():
    assert not fovea.transformers.unavailable


def test_masks_with_other_arguments(again, monkeypatch):
    """As transformers 4 has them: without a mask function padding would be lost, so attention is off, too."""
    monkeypatch.setattr(masking_utils, "sdpa_mask", lambda batch_size, cache_position, kv_length, **kwargs: None)
    with pytest.warns(UserWarning, match="its mask functions have no argument attention_mask, device"):
        assert list(again().unavailable) == [ATTENTION]


def test_without_transformers(again, monkeypatch):
    def version(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    with pytest.raises(ImportError, match="fovea.transformers needs the package transformers, which is not installed"):
        again()


def test_torch_works_without_transformers():
    code = (
        "import sys\n"
        "sys.modules['transformers'] = None\n"
        "import torch, fovea.torch\n"
        "model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU())\n"
        "x = torch.ones(2, 8)\n"
        "assert torch.allclose(fovea.torch.optimize(model)(x), model(x), atol=1e-5)\n"
        "with fovea.torch.enable(), torch.no_grad():\n"
        "    torch.nn.functional.scaled_dot_product_attention(*[torch.ones(1, 1, 4, 8)] * 3)\n"
        "assert fovea.torch.counters()['fovea'] == {'sdpa': 1}\n"
        "assert 'fovea.transformers' not in sys.modules\n"
    )
    processes.run(code)


def test_oldest_version():
    """The same package on the oldest transformers of the range: some tests of each adapter."""
    if not (OLDEST / "transformers").is_dir():
        pytest.skip(f"transformers {versions.OLDEST} is not here: python/tools/venv.sh torch")
    files = ("families", "masks", "cache", "paged", "batching", "versions")
    chosen = "gemma2 and (test_padding or test_greedy or test_requests or test_output) or test_masks or test_crop or static or this_version"
    place = str(pathlib.Path(fovea.__file__).parents[1])
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", chosen]
        + [str(pathlib.Path(__file__).with_name(f"test_{name}.py")) for name in files],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(OLDEST), place])},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0 and "skipped" not in run.stdout, run.stdout[-4000:]
