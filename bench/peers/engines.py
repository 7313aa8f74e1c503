"""The libraries that are compared. Each engine offers, for a case, one or more forms of the same computation; the
worker checks every form, times each briefly and goes on with the best, so that nobody is measured at less than that.

An engine is a class with `name`, `version()` and `forms(case, data)`, which yields Form(label, run, output), or None
for a form that this version of the library lacks: `run()` computes once, `output()` views the result as [batch, head,
token, channel]. A missing package raises ImportError in the constructor. All run single-threaded float32 unless the
case says otherwise.
"""

import time
from dataclasses import dataclass
from typing import Callable

import numpy as np

import api
import encoder


@dataclass
class Form:
    label: str
    run: Callable[[], object]
    output: Callable[[], np.ndarray]


class Fovea:
    name = "fovea"

    def __init__(self, threads=1):
        self.library = api.Library()
        self.context = self.library.context(threads)

    def version(self):
        return f"{self.library.version()} ({self.context.isa})"

    def forms(self, case, data):
        if case.kind == "exp":
            out = np.empty_like(data.x)
            run = self.library.operation("exp", self.context.isa, data.x, out)
            yield Form("exp kernel", run, lambda: out)
            return
        if case.kind == "linear":
            out = np.empty((case.rows, case.columns), np.float32)
            yield Form("packed", self.context.linear(data.x, data.w, data.b, out), lambda: out)
            return
        if case.kind == "mha":
            out = np.empty(data.x.shape, np.float32)
            run = self.context.layer(data.x, data.w, data.b, data.wo, data.bo, out, case.heads)
            yield Form("fused weight", run, lambda: out)
            return
        if case.kind == "encoder":
            run, out = encoder.FoveaEncoder(self.context).run(data)
            yield Form("packed", run, lambda: out)
            return
        out = np.empty(data.q.shape, np.float32)
        window = case.window - 1 if case.window else -1
        plan = self.context.attention_plan(data.q, data.k, data.v, out, causal=case.causal, window_left=window)
        yield Form("plan", plan, lambda: out)


class Torch:
    name = "torch"

    def __init__(self, threads=1):
        import torch

        self.torch = torch
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)

    def version(self):
        return f"{self.torch.__version__.split('+')[0]} ({self.torch.backends.cpu.get_cpu_capability()})"

    def forms(self, case, data):
        torch = self.torch
        if case.kind == "exp":
            x, out = torch.from_numpy(data.x), torch.empty(data.x.shape)
            yield Form("torch.exp(out=)", lambda: torch.exp(x, out=out), out.numpy)
            return
        if case.kind == "linear":
            yield from self._linear(data)
            return
        if case.kind == "mha":
            yield from self._layer(case, data)
            return
        if case.kind == "encoder":
            yield from encoder.torch_forms(torch, data, self._timed)
            return
        q, k, v = (torch.from_numpy(a) for a in (data.q, data.k, data.v))
        if case.groups != case.heads:
            yield self._attention("sdpa, enable_gqa", data.q.shape, q, k, v, enable_gqa=True)
            if case.q_len == 1:  # the rows of a group as the rows of one head: the same computation
                folded = q.reshape(case.batch, case.groups, case.heads // case.groups, case.head_dim)
                yield self._attention("sdpa, group as rows", data.q.shape, folded, k, v)
        elif case.window:
            yield self._attention("sdpa, boolean mask", data.q.shape, q, k, v, attn_mask=torch.from_numpy(data.mask()))
            yield self._attention("sdpa, additive mask", data.q.shape, q, k, v, attn_mask=torch.from_numpy(data.bias()))
        else:
            yield self._attention("sdpa", data.q.shape, q, k, v, is_causal=case.causal)

    def _timed(self, label, compute):
        """A form whose result is a tensor, in inference mode."""
        holder, inference = [], self.torch.inference_mode

        def run():
            with inference():
                holder[:] = (compute(),)

        return Form(label, run, lambda: holder[0].numpy())

    def _linear(self, data):
        torch = self.torch
        x, w, b = (torch.from_numpy(a) for a in (data.x, data.w, data.b))
        yield self._timed("functional.linear", lambda: torch.nn.functional.linear(x, w, b))
        turned, out = w.t().contiguous(), torch.empty(x.shape[0], w.shape[0])
        yield self._timed("addmm(out=), weight [in, out]", lambda: torch.addmm(b, x, turned, out=out))

    def _layer(self, case, data):
        torch = self.torch
        layer = torch.nn.MultiheadAttention(case.model, case.heads, batch_first=True).eval()
        values = {"in_proj_weight": data.w, "in_proj_bias": data.b, "out_proj.weight": data.wo, "out_proj.bias": data.bo}
        layer.load_state_dict({name: torch.from_numpy(value) for name, value in values.items()})
        x = torch.from_numpy(data.x)
        for fast in (True, False):

            def compute(fast=fast):
                torch.backends.mha.set_fastpath_enabled(fast)
                return layer(x, x, x, need_weights=False)[0]

            yield self._timed("MultiheadAttention" + (", fast path" if fast else ""), compute)

    def matrix_product(self):
        """GFLOP/s of torch.mm 512x768x768, which tell whether its library of matrix products knows this CPU."""
        a, b = self.torch.ones(512, 768), self.torch.ones(768, 768)
        out, times = self.torch.empty(512, 768), []
        for _ in range(20):
            start = time.process_time()
            self.torch.mm(a, b, out=out)
            times.append(time.process_time() - start)
        return 2 * 512 * 768 * 768 / sorted(times)[len(times) // 2] / 1e9

    def _attention(self, label, shape, q, k, v, **options):
        sdpa, inference = self.torch.nn.functional.scaled_dot_product_attention, self.torch.inference_mode
        holder = []

        def run():
            with inference():
                holder[:] = (sdpa(q, k, v, **options),)

        return Form(label, run, lambda: holder[0].numpy().reshape(shape))


class OnnxRuntime:
    name = "onnxruntime"

    def __init__(self, threads=1):
        import onnx
        import onnxruntime

        self.onnx, self.ort, self.threads = onnx, onnxruntime, threads

    def version(self):
        return self.ort.__version__

    def forms(self, case, data):
        if case.kind in ("linear", "mha"):
            return
        if case.kind == "encoder":
            yield from encoder.onnx_forms(self.onnx, self.ort, self.threads, data, Form)
            return
        if case.kind == "exp":
            yield self._form("Exp", "Exp", {"X": data.x}, ("X",), {}, data.x.shape, "bhtd", opset=13)
            return
        heads, groups, scores = case.heads, case.groups, {"bias": data.bias()[None, None]} if case.window else {}
        shape = data.q.shape
        # The standard operator, on [batch, head, token, channel].
        inputs = {"Q": data.q, "K": data.k, "V": data.v, **scores}
        causal = {"is_causal": 1} if case.causal and not case.window else {}
        for opset in (23, 24):
            yield self._form(f"Attention-{opset}", "Attention", inputs, tuple(inputs), causal, shape, "bhtd", opset)
        # The contributed operators, on [batch, token, head * channel].
        inputs = {"query": rows(data.q), "key": rows(data.k), "value": rows(data.v)}
        flat = (case.batch, case.q_len, heads * case.head_dim)
        contrib = "com.microsoft"
        if groups == heads:
            places = ("query", "key", "value") + (("", "", "bias") if scores else ())
            options = {"num_heads": heads, **({"unidirectional": 1} if case.causal and not case.window else {})}
            yield self._form("MultiHeadAttention", "MultiHeadAttention", {**inputs, **scores}, places, options, flat,
                             "bt(hd)", domain=contrib)
        if case.q_len == case.kv_len:
            options = {"num_heads": heads, "kv_num_heads": groups}
            if not case.causal:
                options["causal"] = 0
            if case.window:
                options["local_window_size"] = case.window
            lengths = {
                "seqlens": np.full(case.batch, case.kv_len - 1, np.int32),
                "total": np.array(case.kv_len, np.int32),
            }
            places = ("query", "key", "value", "", "", "seqlens", "total")
            yield self._form("GroupQueryAttention", "GroupQueryAttention", {**inputs, **lengths}, places, options, flat,
                             "bt(hd)", domain=contrib)
        elif case.q_len == 1:
            yield self._decode(case, data, inputs, flat)

    def _decode(self, case, data, inputs, flat):
        """GroupQueryAttention over a cache that it extends in place: past and present are the same memory."""
        cache = {"past_key": data.k.copy(), "past_value": data.v.copy()}
        lengths = {
            "seqlens": np.full(case.batch, case.kv_len - 1, np.int32),
            "total": np.array(case.kv_len, np.int32),
        }
        last = {"query": inputs["query"], "key": rows(data.k[:, :, -1:]), "value": rows(data.v[:, :, -1:])}
        places = ("query", "key", "value", "past_key", "past_value", "seqlens", "total")
        options = {"num_heads": case.heads, "kv_num_heads": case.groups}
        present = {"present_key": "past_key", "present_value": "past_value"}
        return self._form("GroupQueryAttention", "GroupQueryAttention", {**last, **cache, **lengths}, places, options,
                          flat, "bt(hd)", domain="com.microsoft", shared=present)

    def _form(self, label, op, inputs, places, attributes, shape, layout, opset=21, domain="", shared=None):
        """A model of one node. `shared` names further outputs that live in the memory of an input."""
        helper, proto = self.onnx.helper, self.onnx.TensorProto
        kinds = {np.dtype(np.float32): proto.FLOAT, np.dtype(np.int32): proto.INT32}
        shared = shared or {}
        outputs = ["out", *shared]
        node = helper.make_node(op, list(places), outputs, domain=domain, **attributes)
        wanted = [helper.make_tensor_value_info(n, kinds[a.dtype], a.shape) for n, a in inputs.items() if n in places]
        results = [helper.make_tensor_value_info("out", proto.FLOAT, shape)]
        results += [helper.make_tensor_value_info(n, proto.FLOAT, inputs[i].shape) for n, i in shared.items()]
        graph = helper.make_graph([node], "case", wanted, results)
        domains = [helper.make_opsetid("", opset)] + ([helper.make_opsetid(domain, 1)] if domain else [])
        model = helper.make_model(graph, opset_imports=domains, ir_version=10)
        options = self.ort.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = self.threads, 1
        options.log_severity_level = 4
        try:
            session = self.ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        except Exception:  # every form is a try: this version does not have it
            return None
        binding = session.io_binding()
        values = {n: self.ort.OrtValue.ortvalue_from_numpy(a) for n, a in inputs.items()}
        for value in wanted:
            binding.bind_ortvalue_input(value.name, values[value.name])
        out = self.ort.OrtValue.ortvalue_from_numpy(np.zeros(shape, np.float32))
        binding.bind_ortvalue_output("out", out)
        for name, source in shared.items():
            binding.bind_ortvalue_output(name, values[source])

        def output():
            array = out.numpy()
            if layout == "bhtd":
                return array
            heads = attributes["num_heads"]
            return array.reshape(shape[0], shape[1], heads, -1).transpose(0, 2, 1, 3)

        return Form(label, lambda: session.run_with_iobinding(binding), output)


class OpenVino:
    name = "openvino"

    def __init__(self, threads=1):
        import openvino

        self.ov, self.threads = openvino, threads
        self.core = openvino.Core()

    def version(self):
        return self.ov.__version__.split("-")[0]

    def forms(self, case, data):
        from openvino import opset13 as op

        if case.kind != "attention":
            return
        q, causal = data.q, case.causal and not case.window
        if case.groups != case.heads:
            if case.q_len != 1:
                return
            q = q.reshape(case.batch, case.groups, case.heads // case.groups, case.head_dim)
        arrays = [q, data.k, data.v] + ([data.bias()[None, None]] if case.window else [])
        parameters = [op.parameter(a.shape, np.float32) for a in arrays]
        node = op.scaled_dot_product_attention(*parameters, causal=causal)
        config = {
            "INFERENCE_PRECISION_HINT": "f32",
            "INFERENCE_NUM_THREADS": self.threads,
            "NUM_STREAMS": 1,
            "PERFORMANCE_HINT": "LATENCY",
            "ENABLE_CPU_PINNING": False,  # would pin the calling thread, and so ours
        }
        request = self.core.compile_model(self.ov.Model([node], parameters), "CPU", config).create_infer_request()
        tensors = [self.ov.Tensor(a, shared_memory=True) for a in arrays]
        for i, tensor in enumerate(tensors):
            request.set_input_tensor(i, tensor)

        def output():
            return request.get_output_tensor(0).data.reshape(data.q.shape)

        # The tensors are named in the closure to keep them alive.
        yield Form("ScaledDotProductAttention-13", lambda: (request.infer(), tensors)[0], output)


class Sleef:
    """SLEEF's exp of 1.0 ulp, called over the array from a file built for the tier."""

    name = "sleef"

    def __init__(self, threads=1):
        self.library = api.Library()
        self.isa = self.library.context(1).isa

    def version(self):
        return self.library.sleef_version()

    def forms(self, case, data):
        if case.kind == "exp":
            out = np.empty_like(data.x)
            yield Form("Sleef_finz_expf_u10", self.library.operation("sleef", self.isa, data.x, out), lambda: out)


ENGINES = (Fovea, Torch, OnnxRuntime, OpenVino, Sleef)


def rows(array):
    """[batch, head, token, channel] as contiguous [batch, token, head * channel]."""
    batch, heads, tokens, channels = array.shape
    return np.ascontiguousarray(array.transpose(0, 2, 1, 3)).reshape(batch, tokens, heads * channels)
