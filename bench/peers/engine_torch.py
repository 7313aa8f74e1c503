"""PyTorch, and zentorch: AMD's extension of it, which runs in a process of its own, with the PyTorch that it asks for."""

import time

import numpy as np

from forms import Form


class Torch:
    name = "torch"
    tiers = ("best", "avx2")

    def __init__(self, threads=1):
        import torch

        self.torch = torch
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)

    def version(self):
        return f"{self.torch.__version__.split('+')[0]} ({self.torch.backends.cpu.get_cpu_capability()})"

    def forms(self, case, data):
        self.dtype = {"f32": self.torch.float32, "bf16": self.torch.bfloat16, "f16": self.torch.float16}[case.dtype]
        kinds = {"exp": self._exp, "linear": self._linear, "mha": self._layer}
        return kinds.get(case.kind, self._attention)(case, data)

    def of(self, array):
        """An operand in the case's type."""
        return self.torch.from_numpy(array).to(self.dtype)

    def weight(self, array):
        return self.of(array)

    def linear(self, x, w, b):
        return self.torch.nn.functional.linear(x, w, b)

    def attention(self, q, k, v, **options):
        return self.torch.nn.functional.scaled_dot_product_attention(q, k, v, **options)

    def _timed(self, label, compute, shape=None):
        """A form whose result is a tensor, in inference mode."""
        holder, inference = [], self.torch.inference_mode

        def run():
            with inference():
                holder[:] = (compute(),)

        return Form(label, run, lambda: holder[0].float().numpy().reshape(shape or holder[0].shape))

    def _exp(self, _, data):
        x, out = self.torch.from_numpy(data.x), self.torch.empty(data.x.shape)
        yield Form("torch.exp(out=)", lambda: self.torch.exp(x, out=out), out.numpy)

    def _linear(self, _, data):
        x, w, b = (self.of(a) for a in (data.x, data.w, data.b))
        yield self._timed("functional.linear", lambda: self.linear(x, w, b))
        turned, out = w.t().contiguous(), self.torch.empty(x.shape[0], w.shape[0], dtype=self.dtype)
        yield self._timed("addmm(out=), weight [in, out]", lambda: self.torch.addmm(b, x, turned, out=out))

    def _layer(self, case, data):
        torch = self.torch
        layer = torch.nn.MultiheadAttention(case.model, case.heads, batch_first=True, dtype=self.dtype).eval()
        values = {"in_proj_weight": data.w, "in_proj_bias": data.b, "out_proj.weight": data.wo, "out_proj.bias": data.bo}
        layer.load_state_dict({name: self.of(value) for name, value in values.items()})
        x = self.of(data.x)
        for fast in (True, False):

            def compute(fast=fast):
                torch.backends.mha.set_fastpath_enabled(fast)
                return layer(x, x, x, need_weights=False)[0]

            yield self._timed("MultiheadAttention" + (", fast path" if fast else ""), compute)
        yield self._layer_of_functions(case, data)

    def _layer_of_functions(self, case, data):
        x, (w, b, wo, bo) = self.of(data.x), (self.weight(a) for a in (data.w, data.b, data.wo, data.bo))
        split = (case.batch, case.q_len, 3, case.heads, case.head_dim)

        def compute():
            q, k, v = self.linear(x, w, b).view(split).permute(2, 0, 3, 1, 4).unbind(0)
            return self.linear(self.attention(q, k, v).transpose(1, 2).reshape(x.shape), wo, bo)

        return self._timed("functions", compute)

    def _attention(self, case, data):
        q, k, v = (self.of(a) for a in (data.q, data.k, data.v))
        if case.groups != case.heads:
            yield self._sdpa("sdpa, enable_gqa", case, q, k, v, enable_gqa=True)
            if case.q_len == 1:
                yield self._sdpa("sdpa, group as rows", case, self._folded(case, q), k, v)
        elif case.lengths:
            yield self._padded(case, data, q, k, v)
        elif case.key_sums:
            yield self._summed(case, q, k, v)
        elif case.softcap:
            yield self._capped(case, q, k, v)
        elif case.sinks:
            yield self._sunk(case, data, q, k, v)
        elif case.added:
            bias = self.torch.from_numpy(data.added())
            yield self._sdpa("sdpa, additive mask", case, q, k, v, attn_mask=bias)
        elif case.window or case.mask:
            yield self._sdpa("sdpa, boolean mask", case, q, k, v, attn_mask=self.torch.from_numpy(data.mask()))
            yield self._sdpa("sdpa, additive mask", case, q, k, v, attn_mask=self.torch.from_numpy(data.bias()))
        else:
            yield self._sdpa("sdpa", case, q, k, v, is_causal=case.causal)

    def _sdpa(self, label, case, q, k, v, **options):
        shape = (case.batch, case.heads, case.q_len, case.head_dim)
        return self._timed(label, lambda: self.attention(q, k, v, **options), shape)

    def _padded(self, case, data, q, k, v):
        """A padded batch; its rows of padding are not compared."""
        seen, rows = self.torch.from_numpy(data.seen_keys()), data.seen_keys().transpose(0, 1, 3, 2)
        form = self._sdpa("sdpa, padded", case, q, k, v, attn_mask=seen)
        return Form(form.label, form.run, lambda: np.where(rows, form.output(), 0))

    def _capped(self, case, q, k, v):
        torch, cap = self.torch, case.softcap

        def compute():
            scores = (q @ k.transpose(2, 3)).mul_(case.head_dim**-0.5 / cap).tanh_().mul_(cap)
            return torch.softmax(scores, -1) @ v

        return self._timed("functions", compute)

    def _summed(self, case, q, k, v):
        """The matrix of weights, its product with the values and its sums over rows."""

        def compute():
            weights = self.torch.softmax((q @ k.transpose(2, 3)).mul_(case.head_dim**-0.5), -1)
            self.summed = weights @ v
            return weights.sum(2, keepdim=True)

        return self._timed("functions", compute)

    def _sunk(self, case, data, q, k, v):
        """One more key, of zeros, with the sink as its bias."""
        torch = self.torch
        bias = torch.zeros(1, case.heads, 1, case.kv_len + 1)
        bias[0, :, 0, -1] = torch.from_numpy(data.sinks)
        more = lambda x: torch.nn.functional.pad(x, (0, 0, 0, 1))
        return self._sdpa("sdpa, one more key", case, q, more(k), more(v), attn_mask=bias)

    @staticmethod
    def _folded(case, q):
        """The rows of a group as the rows of one head: the same computation."""
        return q.reshape(case.batch, case.groups, case.heads // case.groups, case.head_dim)

    def matrix_product(self):
        """GFLOP/s of torch.mm 512x768x768, which tell whether its library of matrix products knows this CPU."""
        a, b = self.torch.ones(512, 768), self.torch.ones(768, 768)
        out, times = self.torch.empty(512, 768), []
        for _ in range(20):
            start = time.process_time()
            self.torch.mm(a, b, out=out)
            times.append(time.process_time() - start)
        return 2 * 512 * 768 * 768 / sorted(times)[len(times) // 2] / 1e9


class Zentorch(Torch):
    name = "zentorch"
    tiers = ("best",)
    python = "FOVEA_ZENTORCH_PYTHON"  # the variable that names its interpreter

    def __init__(self, threads=1):
        super().__init__(threads)
        import zentorch

        self.zentorch, self.op, self.weights = zentorch, self.torch.ops.zentorch, []

    def version(self):
        return f"{self.zentorch.__version__} with PyTorch {self.torch.__version__.split('+')[0]}"

    def weight(self, array):
        """A copy, which lives as long as the process: zentorch packs weights where they are, and knows them by address."""
        self.weights.append(self.torch.from_numpy(array.copy()).to(self.dtype))
        return self.weights[-1]

    def linear(self, x, w, b):
        return self.op.zentorch_linear_unary(x, w, b, post_op="none")

    def attention(self, q, k, v, **options):
        return self.op.zentorch_sdpa(q, k, v, **options)[0]

    def _exp(self, _, data):
        return ()

    def _linear(self, _, data):
        op, x, b = self.op, self.of(data.x), self.of(data.b)
        plain, turned = self.weight(data.w), self.weight(np.ascontiguousarray(data.w.T))
        packed = op.zentorch_weight_prepack_for_linear(self.weight(data.w))
        self.weights.append(packed)
        yield self._timed("linear_unary", lambda: self.linear(x, plain, b))
        yield self._timed("linear_unary, packed weight", lambda: op.zentorch_linear_unary(x, packed, b, is_weight_prepacked=True))
        yield self._timed("addmm_1dbias", lambda: op.zentorch_addmm_1dbias(b, x, turned))

    def _layer(self, case, data):
        yield self._layer_of_functions(case, data)

    def _attention(self, case, data):
        if case.softcap or case.sinks or case.lengths or case.key_sums:
            return
        q, k, v = (self.of(a) for a in (data.q, data.k, data.v))
        if case.groups != case.heads:
            yield self._sdpa("sdpa", case, q, k, v)
            if case.q_len == 1:
                yield self._sdpa("sdpa, group as rows", case, self._folded(case, q), k, v)
        elif case.mask or case.added:
            bias = self.torch.from_numpy(data.added() if case.added else data.bias()[None, None])
            yield self._sdpa("sdpa, additive mask", case, q, k, v, attn_mask=bias)
        elif case.window:
            bias = self.torch.from_numpy(data.bias())[None, None]
            yield self._sdpa("sdpa, additive mask", case, q, k, v, attn_mask=bias)
            out = self.torch.empty_like(q)

            def compute():
                self.op.zentorch_sdpa_attn(q, k, v, out, is_causal=True, left_window_size=case.window - 1)
                return out

            yield self._timed("sdpa_attn, window", compute)
        else:
            yield self._sdpa("sdpa", case, q, k, v, is_causal=case.causal)
