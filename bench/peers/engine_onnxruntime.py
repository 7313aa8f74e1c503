"""ONNX Runtime: standard operators and those that it adds, as models of a node or few."""

import numpy as np

from forms import Form
from onnx_graph import CONTRIB, Graph


class OnnxRuntime:
    name = "onnxruntime"
    tiers = ("best",)  # nothing holds it to AVX2

    def __init__(self, threads=1):
        import onnx
        import onnxruntime

        self.onnx, self.ort, self.threads = onnx, onnxruntime, threads

    def version(self):
        return self.ort.__version__

    def forms(self, case, data):
        if case.dtype != "f32":
            return ()  # what takes 16 bits converts them
        kinds = {"exp": self._exp, "linear": self._linear, "mha": self._layer}
        return kinds.get(case.kind, self._attention)(case, data)

    def session(self, model):
        options = self.ort.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = self.threads, 1
        options.log_severity_level = 4
        return self.ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def _exp(self, _, data):
        graph = Graph(self.onnx)
        graph.node("Exp", ["x"], ["out"])
        yield self.form("Exp", graph, {"x": data.x}, data.x.shape)

    def _linear(self, case, data):
        for label, weight, options in (("Gemm, weight [in, out]", data.w.T, {}), ("Gemm", data.w, {"transB": 1})):
            graph = Graph(self.onnx)
            graph.node("Gemm", ["x", graph.value("w", weight), graph.value("b", data.b)], ["out"], **options)
            yield self.form(label, graph, {"x": data.x}, (case.rows, case.columns))

    def _layer(self, case, data):
        for label, whole in (("Attention, Gemm", True), ("MultiHeadAttention, Gemm", False)):
            graph = Graph(self.onnx)
            weight, bias = graph.value("w", data.w.T), graph.value("b", data.b)
            heads = graph.heads("x", weight, bias, case.heads, whole=whole)
            product = graph.node("MatMul", [heads, graph.value("wo", data.wo.T)], ["product"])
            graph.node("Add", [product, graph.value("bo", data.bo)], ["out"])
            yield self.form(label, graph, {"x": data.x}, data.x.shape)

    def _attention(self, case, data):
        if case.key_sums:
            return
        if case.sinks or case.lengths:
            yield from (self._sunk if case.sinks else self._padded)(case, data)
            return
        heads, groups, scores = case.heads, case.groups, {}
        if case.added:
            scores = {"bias": data.added()}
        elif case.window or case.mask:
            scores = {"bias": data.bias()[None, None]}
        # The standard operator, on [batch, head, token, channel].
        inputs = {"Q": data.q, "K": data.k, "V": data.v, **scores}
        causal = {"is_causal": 1} if case.causal and not case.window else {}
        causal.update({"softcap": case.softcap} if case.softcap else {})
        if case.mask and not case.added:
            bools = {**inputs, "bias": data.mask()[None, None]}
            graph = Graph(self.onnx)
            graph.node("Attention", bools, ["out"], **causal)
            yield self.form("Attention-23, boolean", graph, bools, data.q.shape, 23)
        for opset in (23, 24):
            graph = Graph(self.onnx)
            graph.node("Attention", inputs, ["out"], **causal)
            yield self.form(f"Attention-{opset}", graph, inputs, data.q.shape, opset)
        # The contributed operators, on [batch, token, head * channel].
        inputs = {"query": rows(data.q), "key": rows(data.k), "value": rows(data.v)}
        if groups == heads and not case.softcap:
            places = ["query", "key", "value"] + (["", "", "bias"] if scores else [])
            options = {"num_heads": heads, **({"unidirectional": 1} if case.causal and not case.window else {})}
            yield self._contributed("MultiHeadAttention", case, places, {**inputs, **scores}, options)
        lengths = {
            "seqlens": np.full(case.batch, case.kv_len - 1, np.int32),
            "total": np.array(case.kv_len, np.int32),
        }
        options = {"num_heads": heads, "kv_num_heads": groups}
        if case.q_len == case.kv_len:
            if not case.causal:
                options["causal"] = 0
            if case.window:
                options["local_window_size"] = case.window
            if case.softcap:
                options["softcap"] = case.softcap
            places = ["query", "key", "value", "", "", "seqlens", "total"]
            if scores and not case.window:
                places += ["", "", "", "bias"]
                inputs = {**inputs, **scores}
            yield self._contributed("GroupQueryAttention", case, places, {**inputs, **lengths}, options)
        elif case.q_len == 1:  # over a cache that it extends in place: past and present are the same memory
            last = {"query": inputs["query"], "key": rows(data.k[:, :, -1:]), "value": rows(data.v[:, :, -1:])}
            cache = {"past_key": data.k.copy(), "past_value": data.v.copy()}
            places = ["query", "key", "value", "past_key", "past_value", "seqlens", "total"]
            present = {"present_key": "past_key", "present_value": "past_value"}
            yield self._contributed("GroupQueryAttention", case, places, {**last, **cache, **lengths}, options, present)

    def _sunk(self, case, data):
        """Sinks are an input of one operator."""
        inputs = {"query": rows(data.q), "key": rows(data.k), "value": rows(data.v), "sinks": data.sinks,
                  "seqlens": np.full(case.batch, case.kv_len - 1, np.int32), "total": np.array(case.kv_len, np.int32)}
        options = {"num_heads": case.heads, "kv_num_heads": case.groups, "causal": 0}
        places = ["query", "key", "value", "", "", "seqlens", "total", "", "", "", "", "sinks"]
        yield self._contributed("GroupQueryAttention", case, places, inputs, options)

    def _padded(self, case, data):
        """A padded batch; its rows of padding are not compared."""
        lengths, seen = np.array(case.lengths), data.seen_keys().transpose(0, 1, 3, 2)
        inputs = {"Q": data.q, "K": data.k, "V": data.v, "mask": data.seen_keys().repeat(case.q_len, axis=2)}
        flat = {"query": rows(data.q), "key": rows(data.k), "value": rows(data.v)}
        graph = Graph(self.onnx)
        graph.node("Attention", inputs, ["out"])
        forms = [self.form("Attention-23, boolean", graph, inputs, data.q.shape, 23)]
        inputs = {"Q": data.q, "K": data.k, "V": data.v, "keys": lengths.astype(np.int64)}
        graph = Graph(self.onnx)
        graph.node("Attention", ["Q", "K", "V", "", "", "", "keys"], ["out"])
        forms.append(self.form("Attention-24, lengths", graph, inputs, data.q.shape, 24))
        places, options = ["query", "key", "value", "", "keys"], {"num_heads": case.heads}
        padding = {**flat, "keys": np.ascontiguousarray(data.seen_keys()[:, 0, 0]).astype(np.int32)}
        forms.append(self._contributed("MultiHeadAttention, padded", case, places, padding, options, op="MultiHeadAttention"))
        for form in filter(None, forms):
            yield Form(form.label, form.run, lambda form=form: np.where(seen, form.output(), 0))

    def _contributed(self, label, case, places, inputs, options, shared=None, op=None):
        graph = Graph(self.onnx)
        graph.node(op or label, places, ["out", *(shared or {})], CONTRIB, **options)
        flat = (case.batch, case.q_len, case.heads * case.head_dim)
        split = (case.batch, case.q_len, case.heads, case.head_dim)
        view = lambda out: out.reshape(split).transpose(0, 2, 1, 3)
        return self.form(label, graph, inputs, flat, shared=shared, view=view)

    def form(self, label, graph, inputs, shape, opset=21, shared=None, view=lambda out: out):
        """The graph's "out" of that shape. `shared` names further outputs that live in the memory of an input."""
        shared = shared or {}
        results = {"out": ("float32", shape), **{n: (inputs[i].dtype, inputs[i].shape) for n, i in shared.items()}}
        try:
            session = self.session(graph.model({n: (a.dtype, a.shape) for n, a in inputs.items()}, results, opset))
        except Exception:  # every form is a try: this version does not have it
            return None
        binding = session.io_binding()
        values = {n: self.ort.OrtValue.ortvalue_from_numpy(a) for n, a in inputs.items()}
        for name, value in values.items():
            binding.bind_ortvalue_input(name, value)
        out = self.ort.OrtValue.ortvalue_from_numpy(np.zeros(shape, np.float32))
        binding.bind_ortvalue_output("out", out)
        for name, source in shared.items():
            binding.bind_ortvalue_output(name, values[source])
        return Form(label, lambda: session.run_with_iobinding(binding), lambda: view(out.numpy()))


def rows(array):
    """[batch, head, token, channel] as contiguous [batch, token, head * channel]."""
    batch, heads, tokens, channels = array.shape
    return np.ascontiguousarray(array.transpose(0, 2, 1, 3)).reshape(batch, tokens, heads * channels)
