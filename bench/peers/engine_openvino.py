"""OpenVINO: its own operators, compiled for the CPU and held to the case's type."""

import numpy as np

import openvino_layers
import paged_openvino
from forms import Form
from halves import narrow, widen


class OpenVino:
    name = "openvino"
    tiers = ("best",)

    def __init__(self, threads=1):
        import openvino

        self.ov, self.threads = openvino, threads
        self.core = openvino.Core()

    def version(self):
        return self.ov.__version__.split("-")[0]

    def forms(self, case, data):
        self.hint, self.type = case.dtype, {"f32": self.ov.Type.f32, "bf16": self.ov.Type.bf16, "f16": self.ov.Type.f16}[case.dtype]
        kinds = {"attention": self._attention, "decode": self._decode, "linear": self._linear, "mha": self._layer}
        return kinds[case.kind](case, data) if case.kind in kinds else ()

    def request(self, node, parameters, arrays, more=None):
        """A compiled model whose inputs are the arrays' memory; the arrays are kept alive."""
        config = {
            "INFERENCE_PRECISION_HINT": self.hint,
            "INFERENCE_NUM_THREADS": self.threads,
            "NUM_STREAMS": 1,
            "PERFORMANCE_HINT": "LATENCY",
            "ENABLE_CPU_PINNING": False,  # would pin the calling thread, and so ours
            **(more or {}),
        }
        request = self.core.compile_model(self.ov.Model([node.output(0)], parameters), "CPU", config).create_infer_request()
        for i, array in enumerate(arrays):
            request.set_input_tensor(i, self.tensor(array))
        return request

    def tensor(self, array):
        """An operand as it is: 16 bits as narrow() gives them."""
        if array.dtype != np.uint16:
            return self.ov.Tensor(array, shared_memory=True)
        return self.ov.Tensor(array, self.ov.Shape(array.shape), self.type)

    def of(self, array):
        return narrow(array, self.hint)

    def constant(self, op, array):
        return op.constant(np.ascontiguousarray(array), dtype=self.type)

    def read(self, request):
        """A result in float32."""
        tensor = request.get_output_tensor(0)
        if tensor.element_type == self.ov.Type.f32:
            return tensor.data
        return widen(tensor.data.view(np.uint16), self.hint)  # the bits of either type, called float16

    def _form(self, label, node, parameters, arrays, shape):
        request = self.request(node, parameters, arrays)
        # The arrays are named in the closure to keep them alive.
        return Form(label, lambda: (request.infer(), arrays)[0], lambda: self.read(request).reshape(shape))

    def _attention(self, case, data):
        from openvino import opset13 as op

        if case.softcap or case.sinks or case.lengths or case.key_sums:
            return
        q, causal = data.q, case.causal and not case.window
        if case.groups != case.heads:
            if case.q_len != 1:
                return
            q = q.reshape(case.batch, case.groups, case.heads // case.groups, case.head_dim)
        masks = [data.added()] if case.added else [data.bias()[None, None]] if case.window or case.mask else []
        arrays = [self.of(a) for a in (q, data.k, data.v, *masks)]
        parameters = [op.parameter(a.shape, self.type) for a in arrays]
        node = op.scaled_dot_product_attention(*parameters, causal=causal)
        yield self._form("ScaledDotProductAttention-13", node, parameters, arrays, data.q.shape)

    def _decode(self, case, data):
        yield from self._attention(case, data)
        try:
            form = paged_openvino.form(self, case, data)
        except Exception:  # not public: this version has another
            form = None
        yield form

    def _linear(self, case, data):
        from openvino import opset13 as op

        x, constant = op.parameter(data.x.shape, self.type), lambda a: self.constant(op, a)
        node = openvino_layers.linear(op, x, data.w, data.b, constant)
        yield self._form("MatMul, Add", node, [x], [self.of(data.x)], (case.rows, case.columns))

    def _layer(self, case, data):
        from openvino import opset13 as op

        for parts in (1, 3):
            x, constant = op.parameter(data.x.shape, self.type), lambda a: self.constant(op, a)
            heads = openvino_layers.heads(op, x, data.w, data.b, case.heads, parts, constant=constant)
            node = openvino_layers.linear(op, heads, data.wo, data.bo, constant)
            yield self._form(f"{parts} products, ScaledDotProductAttention", node, [x], [self.of(data.x)], data.x.shape)
