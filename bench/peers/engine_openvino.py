"""OpenVINO: its own operators, compiled for the CPU and held to float32."""

import numpy as np

import encoder_openvino
from forms import Form


class OpenVino:
    name = "openvino"
    tiers = ("best", "pair")

    def __init__(self, threads=1):
        import openvino

        self.ov, self.threads = openvino, threads
        self.core = openvino.Core()

    def version(self):
        return self.ov.__version__.split("-")[0]

    def forms(self, case, data):
        kinds = {"attention": self._attention, "linear": self._linear, "mha": self._layer}
        if case.kind == "encoder":
            return encoder_openvino.forms(self, data)
        return kinds[case.kind](case, data) if case.kind in kinds else ()

    def request(self, node, parameters, arrays):
        """A compiled model whose inputs are the arrays' memory; the arrays are kept alive."""
        config = {
            "INFERENCE_PRECISION_HINT": "f32",
            "INFERENCE_NUM_THREADS": self.threads,
            "NUM_STREAMS": 1,
            "PERFORMANCE_HINT": "LATENCY",
            "ENABLE_CPU_PINNING": False,  # would pin the calling thread, and so ours
        }
        request = self.core.compile_model(self.ov.Model([node], parameters), "CPU", config).create_infer_request()
        for i, array in enumerate(arrays):
            request.set_input_tensor(i, self.ov.Tensor(array, shared_memory=True))
        return request

    def _form(self, label, node, parameters, arrays, shape):
        request = self.request(node, parameters, arrays)
        # The arrays are named in the closure to keep them alive.
        return Form(label, lambda: (request.infer(), arrays)[0], lambda: request.get_output_tensor(0).data.reshape(shape))

    def _attention(self, case, data):
        from openvino import opset13 as op

        if case.softcap or case.sinks or case.lengths:
            return
        q, causal = data.q, case.causal and not case.window
        if case.groups != case.heads:
            if case.q_len != 1:
                return
            q = q.reshape(case.batch, case.groups, case.heads // case.groups, case.head_dim)
        masks = [data.added()] if case.added else [data.bias()[None, None]] if case.window or case.mask else []
        arrays = [q, data.k, data.v, *masks]
        parameters = [op.parameter(a.shape, np.float32) for a in arrays]
        node = op.scaled_dot_product_attention(*parameters, causal=causal)
        yield self._form("ScaledDotProductAttention-13", node, parameters, arrays, data.q.shape)

    def _linear(self, case, data):
        from openvino import opset13 as op

        x = op.parameter(data.x.shape, np.float32)
        node = encoder_openvino.linear(op, x, data.w, data.b)
        yield self._form("MatMul, Add", node, [x], [data.x], (case.rows, case.columns))

    def _layer(self, case, data):
        from openvino import opset13 as op

        for parts in (1, 3):
            x = op.parameter(data.x.shape, np.float32)
            heads = encoder_openvino.heads(op, x, data.w, data.b, case.heads, parts)
            node = encoder_openvino.linear(op, heads, data.wo, data.bo)
            yield self._form(f"{parts} products, ScaledDotProductAttention", node, [x], [data.x], data.x.shape)
