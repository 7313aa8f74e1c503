"""The node tests of the ONNX operators Attention and FlexAttention, as the onnx package makes them: its reference's outputs, in float32
within a hundredth of the tolerance that ONNX asks for. Each runs on the scalar tier, too, with the same bits."""

import numpy as np
import pytest

import fovea
import fovea.onnx

onnx = pytest.importorskip("onnx")
import onnx.reference  # noqa: E402
from onnx_nodes import cases_of  # noqa: E402

ATTENTION = cases_of("Attention", "attention")
FLEX = cases_of("FlexAttention", "flexattention")
MODIFIED = [case for case in FLEX if case.model.graph.node[0].attribute and case.model.graph.node[0].attribute[0].name != "scale"]
PLAIN = [case for case in FLEX if case not in MODIFIED]


def test_count():
    assert (len(ATTENTION), len(PLAIN), len(MODIFIED)) == (93, 6, 5)


@pytest.mark.parametrize("case", MODIFIED, ids=lambda case: case.name)
def test_modified(case):
    with pytest.raises(ValueError, match="(score|prob)_mod is a graph, which fovea does not run"):
        fovea.onnx.run_node(case.model.graph.node[0], case.data_sets[0][0])


@pytest.mark.parametrize("case", ATTENTION + PLAIN, ids=lambda case: case.name.removeprefix("test_attention_"))
def test_node(case):
    inputs, wanted = case.data_sets[0]
    found = fovea.onnx.run_node(case.model.graph.node[0], inputs)
    assert len(found) == len(wanted)
    for got, want in zip(found, wanted):
        assert got.shape == want.shape and got.dtype == want.dtype
        # The reference rounds each step to the operands' type: two units in the last place of bfloat16.
        rtol = {"float64": 1e-6, "float32": 1e-5, "float16": 1e-3, "bfloat16": 2**-6}[inputs[0].dtype.name]
        np.testing.assert_allclose(got.astype(np.float32), want.astype(np.float32), rtol=rtol, atol=1e-7)
    with fovea.config(isa="scalar"):
        scalar = fovea.onnx.run_node(case.model.graph.node[0], inputs)
    for got, same in zip(found, scalar):
        assert got.tobytes() == same.tobytes()
    # 16-bit types: float32's result on the same numbers, rounded once.
    wide = [x.astype(np.float32) if x.dtype == inputs[0].dtype else x for x in inputs]
    wide = fovea.onnx.run_node(case.model.graph.node[0], wide)
    assert found[0].tobytes() == wide[0].astype(inputs[0].dtype).tobytes()


def test_refusals():
    """Arguments out of the operator's range, none of which is ignored."""
    x, flat = np.ones((1, 4, 3, 8), np.float32), np.ones((1, 3, 32), np.float32)
    call = fovea.onnx.attention
    for error, words, what in (
        (TypeError, "Q must be a numpy array, not list", lambda: call([1.0], x, x)),
        (TypeError, "V must be a numpy array, not NoneType", lambda: call(x, x, None)),
        (TypeError, "past_key must be a numpy array, not list", lambda: call(x, x, x, past_key=[1], past_value=x)),
        (TypeError, "attn_mask is of int64: it must be boolean", lambda: call(x, x, x, np.ones((3, 3), int))),
        (ValueError, "qk_matmul_output_mode is -1, it must be from 0 to 3", lambda: call(x, x, x, qk_matmul_output_mode=-1)),
        (ValueError, "qk_matmul_output_mode is 4", lambda: call(x, x, x, qk_matmul_output_mode=4)),
        (ValueError, "is_causal is 2, it must be from 0 to 1", lambda: call(x, x, x, is_causal=2)),
        (ValueError, "outputs has 'Z', it may have Y, present_key", lambda: call(x, x, x, outputs=["Z"])),
        (ValueError, "all as many; they have 4, 4 and 3", lambda: call(x, x, flat)),
        (ValueError, r"K has the shape \(1, 4, 3, 8\), which is not that of 2 heads", lambda: call(x, x, x, kv_num_heads=2)),
        (ValueError, r"Q has the shape \(1, 3, 32\), which is not that of 5",
         lambda: call(flat, flat, flat, q_num_heads=5, kv_num_heads=4)),
        (ValueError, "3-D inputs need q_num_heads", lambda: call(flat, flat, flat)),
        (ValueError, "softcap", lambda: call(x, x, x, softcap=-1.0)),
        (ValueError, "must have 4 dimensions; they have 4, 3, 4", lambda: fovea.onnx.flex_attention(x, flat, x)),
    ):  # fmt: skip
        with pytest.raises(error, match=words):
            what()


@pytest.mark.parametrize("seed", range(60))
def test_made_up(seed):
    """Combinations of options, which the node tests leave out, against onnx's reference."""
    random = np.random.default_rng(seed)
    batch, groups, repeat, past = (int(random.integers(1, 4)) for _ in range(4))
    queries, fresh, channels = (int(random.integers(2, 7)) for _ in range(3))
    cache = random.choice(["none", "past", "nonpad"])
    keys = fresh + (past if cache == "past" else 0)

    def normal(*shape):
        return random.standard_normal(shape).astype(np.float32)

    inputs = {"Q": normal(batch, groups * repeat, queries, channels), "K": normal(batch, groups, fresh, channels),
              "V": normal(batch, groups, fresh, channels + 1)}
    kind = random.choice(["none", "boolean", "float"])
    if kind != "none":
        shape = [batch, groups * repeat, queries, keys - int(random.integers(2))]
        shape[:2] = [int(n) if random.random() < 0.5 else 1 for n in shape[:2]]
        shape = shape[int(random.integers(3)):]
        inputs["attn_mask"] = random.random(shape) < 0.7 if kind == "boolean" else normal(*shape)
    if cache == "past":
        inputs |= {"past_key": normal(batch, groups, past, channels), "past_value": normal(batch, groups, past, channels + 1)}
    if cache == "nonpad":
        inputs["nonpad_kv_seqlen"] = random.integers(1, keys + 1, batch)
    softcap = float(random.choice([0.0, 1.5]))
    # The reference gives scores after softcap in mode 0, too; the specification has them before.
    attributes = {"is_causal": int(random.integers(2)), "qk_matmul_output_mode": int(random.integers(softcap > 0, 4)),
                  "softcap": softcap, "left_window_size": int(random.choice([-1, 0, 2])),
                  "right_window_size": int(random.choice([-1, 0, 1]))}
    if random.random() < 0.5:
        attributes["scale"] = 0.4

    node = onnx.helper.make_node("Attention", [name if name in inputs else "" for name in fovea.onnx.INPUTS],
                                 fovea.onnx.OUTPUTS, **attributes)
    kinds = {name: onnx.helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in inputs.items()}
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph([node], "one", [value(name, kinds[name], inputs[name].shape) for name in inputs],
                                   [value(name, onnx.TensorProto.FLOAT, None) for name in fovea.onnx.OUTPUTS])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 25)])
    wanted = onnx.reference.ReferenceEvaluator(model).run(None, inputs)
    found = fovea.onnx.run_node(node, [inputs[name] for name in fovea.onnx.INPUTS if name in inputs])
    for name, got, want in zip(fovea.onnx.OUTPUTS, found, wanted):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=2e-6, err_msg=f"{name} {attributes} {cache} {kind}")
