"""experts_implementation="fovea" in every class of experts that transformers' interface serves, with small settings of its family. Few of
them are not marked slow: one of each gate."""

import importlib
import pathlib
import re
import warnings

import families
import pytest
import torch
import transformers
from transformers.models.auto import configuration_auto

import fovea.transformers
from fovea.transformers import experts
from fovea.transformers.counters import _told

ROOT = pathlib.Path(transformers.__file__).parent / "models"
CLASS = re.compile(r"^@use_experts_implementation\b.*\nclass (\w+)", re.MULTILINE)
SMALL = dict(
    hidden_size=32, intermediate_size=24, moe_intermediate_size=24, expert_intermediate_size=24, num_experts=6, num_local_experts=6,
    n_routed_experts=6, moe_num_experts=6, num_experts_per_tok=3, top_k=3, moe_latent_size=None, swiglu_limit=1.5,
)  # fmt: skip
# Gates with caps of their own, a norm of results, ReLU squared.
LEFT = ("Inkling2Experts", "Inkling2LoopExperts", "MuseSparkExperts", "NemotronHExperts")
FAST = (*LEFT, "Glm5NextTextExperts", "GptOssExperts", "MiniMaxM3VLExperts", "Gemma4TextExperts", "DeepseekV4Experts")


def classes():
    """(folder, name) of all; the folder is the family's."""
    return [(path.parent.name, name) for path in sorted(ROOT.glob("*/modeling_*.py")) for name in CLASS.findall(path.read_text())]


def configs_of(folder):
    """Configurations of a family and of its parts, small as far as their names are known."""
    for name in configuration_auto.CONFIG_MAPPING_NAMES:
        if configuration_auto.model_type_to_module_name(name) != folder:
            continue
        for make in (lambda: families.config_of(name), configuration_auto.CONFIG_MAPPING[name]):
            try:
                config = make()
            except Exception:  # some have no defaults, or refuse small sizes
                continue
            yield config
            yield from (part for part in vars(config).values() if isinstance(part, transformers.PretrainedConfig))


def module_of(folder, name):
    kind = getattr(importlib.import_module(f"transformers.models.{folder}.modeling_{folder}"), name)
    errors = []
    for config in configs_of(folder):
        for field, size in SMALL.items():
            if hasattr(config, field) and not (field == "swiglu_limit" and config.swiglu_limit is None):
                setattr(config, field, [size] * 9 if isinstance(getattr(config, field), list) else size)
        config._experts_implementation = "eager"
        sizes = getattr(config, "moe_intermediate_size", None)  # a list: the module is told its own
        try:
            module = kind(config, sizes[0]) if isinstance(sizes, list) else kind(config)
        except Exception as error:
            errors.append(f"{type(error).__name__}: {error}")
            continue
        draw = torch.Generator().manual_seed(5)
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.normal_(0, 0.5, generator=draw)
        return module.eval()
    raise AssertionError(f"{name} cannot be made: {errors}")


def marked(folder, name):
    return pytest.param(folder, name, marks=[] if name in FAST else pytest.mark.slow)


@pytest.mark.parametrize("folder, name", [marked(*pair) for pair in classes()])
def test_class(folder, name):
    _told.clear()
    module = module_of(folder, name)
    stack = module.down_proj
    count, width = stack.shape[0], stack.shape[2] if module.is_transposed else stack.shape[1]
    draw = torch.Generator().manual_seed(6)
    x = torch.randn(9, width, generator=draw)
    chosen = torch.stack([torch.randperm(count, generator=draw)[:3] for _ in range(9)])
    weights = torch.rand(9, 3, generator=draw)
    if name in LEFT:
        with torch.no_grad(), pytest.warns(fovea.transformers.FallbackWarning, match="another activation"):
            assert torch.equal(experts.forward(module, x, chosen, weights), module(x, chosen, weights))
        return
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", fovea.transformers.FallbackWarning)
        want = module(x, chosen, weights)
        got = experts.forward(module, x, chosen, weights)
        assert want.abs().max() > 0.1 and (got - want).abs().max() <= 1e-5 * want.abs().max()
        for row in range(9):
            assert torch.equal(experts.forward(module, x[row : row + 1], chosen[row : row + 1], weights[row : row + 1])[0], got[row])
