"""Fovea itself, and SLEEF's exp, which is built beside it."""

import numpy as np

import api
import encoder
from forms import Form


class Fovea:
    name = "fovea"
    tiers = ("best", "avx2", "alone", "pair")

    def __init__(self, threads=1):
        self.library = api.Library()
        self.context = self.library.context(threads)

    def version(self):
        return f"{self.library.version()} ({self.context.isa})"

    def forms(self, case, data):
        if case.kind == "exp":
            out = np.empty_like(data.x)
            yield Form("fovea_exp_f32", self.library.exp(data.x, out), lambda: out)
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
        q, k, v = (data.pack(a) if case.lengths else a for a in (data.q, data.k, data.v))
        out = np.empty(q.shape, np.float32)
        plan = self.context.attention_plan(
            q,
            k,
            v,
            out,
            causal=case.causal,
            window_left=case.window - 1 if case.window else -1,
            softcap=case.softcap,
            mask=data.seen[None, None] if case.mask else None,
            bias=data.biases,
            relative=(case.relative, data.table) if case.relative else None,
            sinks=data.sinks,
            lengths=case.lengths,
        )
        yield Form("plan", plan, lambda: data.unpack(out) if case.lengths else out)


class Sleef:
    """SLEEF's exp of 1.0 ulp, called over the array from a file built for the tier."""

    name = "sleef"
    tiers = ("best",)

    def __init__(self, threads=1):
        self.library = api.Library()
        self.isa = self.library.context(1).isa

    def version(self):
        return self.library.sleef_version()

    def forms(self, case, data):
        if case.kind == "exp":
            out = np.empty_like(data.x)
            yield Form("Sleef_finz_expf_u10", self.library.sleef(self.isa, data.x, out), lambda: out)
