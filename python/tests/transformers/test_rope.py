"""fovea.Rope against the functions of transformers that scale rotary embedding: frequencies, and the factor of cos and sin."""

import numpy as np
import pytest
import transformers
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

import fovea

SCALINGS = [
    ({"rope_type": "linear", "factor": 4.0}, {"scaling": "linear"}),
    ({"rope_type": "yarn", "factor": 4.0}, {"scaling": "yarn", "original_positions": 4096}),
    ({"rope_type": "yarn", "factor": 40.0, "beta_fast": 16.0, "beta_slow": 2.0, "attention_factor": 1.1},
     {"scaling": "yarn", "original_positions": 4096, "beta_fast": 16.0, "beta_slow": 2.0, "attention_factor": 1.1}),
    ({"rope_type": "yarn", "factor": 0.5}, {"scaling": "yarn", "original_positions": 4096}),
    ({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
     {"scaling": "llama3", "original_positions": 4096}),
    ({"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 0.5, "high_freq_factor": 8.0},
     {"scaling": "llama3", "original_positions": 4096, "low_frequency": 0.5, "high_frequency": 8.0}),
]  # fmt: skip


def theirs(dim, base, parameters, **length):
    kind = parameters["rope_type"]
    if kind in ("yarn", "llama3"):
        parameters = parameters | {"original_max_position_embeddings": 4096}
    config = transformers.LlamaConfig(hidden_size=2 * dim, num_attention_heads=2, max_position_embeddings=4096,
                                      rope_parameters=parameters | {"rope_theta": base})  # fmt: skip
    frequencies, factor = ROPE_INIT_FUNCTIONS[kind](config, "cpu", **length)
    return frequencies.double().numpy(), factor


def ours(dim, base, **settings):
    """Ones and zeros rotated to position 1."""
    x = np.repeat(np.float32([1, 0]), dim // 2).reshape(1, 1, 1, dim)
    cos, sin = np.split(fovea.Rope(dim, base=base, **settings).apply(x, 1)[0, 0, 0].astype(float), 2)
    return np.arctan2(sin, cos), np.hypot(cos, sin)


@pytest.mark.parametrize(("dim", "base"), [(64, 1e4), (96, 1e4), (128, 1e6)])
@pytest.mark.parametrize(("parameters", "settings"), SCALINGS)
def test_scaling(dim, base, parameters, settings):
    frequencies, factor = theirs(dim, base, parameters)
    angles, lengths = ours(dim, base, factor=parameters["factor"], **settings)
    np.testing.assert_allclose(angles, frequencies, rtol=2e-6)
    np.testing.assert_allclose(lengths, factor, rtol=2e-7)


def test_ntk():
    """Their factor counts from the model's length: of a text four times as long, 2 is what 2 * 4 - (2 - 1) is here."""
    frequencies, _ = theirs(64, 1e4, {"rope_type": "dynamic", "factor": 2.0}, seq_len=4 * 4096)
    np.testing.assert_allclose(ours(64, 1e4, scaling="ntk", factor=7.0)[0], frequencies, rtol=2e-6)
