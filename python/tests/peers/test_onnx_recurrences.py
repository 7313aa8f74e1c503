"""The node tests of the ONNX operators LinearAttention and CausalConvWithState, as the onnx package makes them. Each runs on the scalar
tier, too, with the same bits."""

import numpy as np
import pytest

import fovea
import fovea.onnx

pytest.importorskip("onnx")
from onnx_nodes import cases_of  # noqa: E402

LINEAR = cases_of("LinearAttention", "linear_attention")
CONVOLUTIONS = cases_of("CausalConvWithState", "causal_conv_with_state")


def test_count():
    assert len(LINEAR) == 14
    assert len(CONVOLUTIONS) == 13


@pytest.mark.parametrize("case", LINEAR + CONVOLUTIONS, ids=lambda case: case.name.removeprefix("test_"))
def test_node(case):
    inputs, wanted = case.data_sets[0]
    found = fovea.onnx.run_node(case.model.graph.node[0], inputs)
    assert len(found) == len(wanted)
    for got, want in zip(found, wanted):
        assert got.shape == want.shape and got.dtype == want.dtype
        rtol = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 2**-6}[inputs[0].dtype.name]
        np.testing.assert_allclose(got.astype(np.float32), want.astype(np.float32), rtol=rtol, atol=rtol / 10)
    with fovea.config(isa="scalar"):
        scalar = fovea.onnx.run_node(case.model.graph.node[0], inputs)
    for got, same in zip(found, scalar):
        assert got.tobytes() == same.tobytes()


def test_refused():
    x = np.ones((1, 3, 8), np.float32)
    with pytest.raises(ValueError, match="gated_delta needs decay"):
        fovea.onnx.linear_attention(x, x, x, kv_num_heads=2, q_num_heads=2)
    with pytest.raises(ValueError, match="linear has no beta"):
        fovea.onnx.linear_attention(x, x, x, beta=x, update_rule="linear", kv_num_heads=2, q_num_heads=2)
    with pytest.raises(ValueError, match="update_rule is 'x'"):
        fovea.onnx.linear_attention(x, x, x, update_rule="x", kv_num_heads=2, q_num_heads=2)
    with pytest.raises(ValueError, match="activation is 'gelu'"):
        fovea.onnx.causal_conv_with_state(x, np.ones((3, 1, 4), np.float32), activation="gelu")
