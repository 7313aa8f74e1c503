"""A graph of ONNX operators, made in steps, for ONNX Runtime."""

import numpy as np

CONTRIB = "com.microsoft"  # the domain of the operators that ONNX Runtime adds


class Graph:
    def __init__(self, onnx):
        self.onnx, self.nodes, self.constants = onnx, [], {}

    def value(self, name, array):
        """A constant; returns its name."""
        self.constants[name] = np.ascontiguousarray(array)
        return name

    def node(self, op, inputs, outputs, domain="", **attributes):
        """Returns the name of the first output."""
        self.nodes.append(self.onnx.helper.make_node(op, list(inputs), list(outputs), domain=domain, **attributes))
        return outputs[0]

    def heads(self, x, weight, bias, heads, at="", mask=None, whole=True):
        """Attention between the tokens of x [batch, token, channel]; weight [channel, 3 * channel] and bias are names.
        Whole: one operator with the product for queries, keys and values; else that product apart."""
        masks = [mask] if mask else []
        if whole:
            return self.node("Attention", [x, weight, bias, *masks], [f"heads{at}"], CONTRIB, num_heads=heads)
        width = len(self.constants[bias]) // 3
        qkv = self.node("MatMul", [x, weight], [f"qkv{at}"])
        parts = [f"{n}{at}.part" for n in "qkv"]
        self.node("Split", [qkv, self.value("thirds", np.array([width] * 3, np.int64))], parts, axis=2)
        return self.node("MultiHeadAttention", [*parts, bias, *masks], [f"heads{at}"], CONTRIB, num_heads=heads)

    def model(self, inputs, outputs, opset):
        """The serialized model; inputs and outputs as {name: (dtype, shape)}."""
        helper, tensor = self.onnx.helper, self.onnx.helper.make_tensor_value_info
        kind = self.onnx.helper.np_dtype_to_tensor_dtype
        places = [[tensor(n, kind(np.dtype(t)), shape) for n, (t, shape) in values.items()] for values in (inputs, outputs)]
        constants = [self.onnx.numpy_helper.from_array(a, n) for n, a in self.constants.items()]
        graph = helper.make_graph(self.nodes, "case", *places, constants)
        sets = [helper.make_opsetid("", opset), helper.make_opsetid(CONTRIB, 1)]
        return helper.make_model(graph, opset_imports=sets, ir_version=10).SerializeToString()
