"""Fovea itself, and SLEEF's exp, which is built with it."""

import dataclasses

import numpy as np

import api
from forms import Form
from halves import narrow, widen


class Fovea:
    name = "fovea"
    tiers = ("best", "avx2", "alone")

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
        options = {"dtype": case.dtype, "arithmetic": case.arithmetic}
        element = np.float32 if case.dtype == "f32" else np.uint16
        turn = lambda array: narrow(array, case.dtype)
        if case.kind == "linear":
            out = np.empty((case.rows, case.columns), element)
            run = self.context.linear(turn(data.x), turn(data.w), turn(data.b), out, **options)
            yield Form("packed", run, lambda: widen(out, case.dtype))
            return
        if case.kind == "mha":
            out = np.empty(data.x.shape, element)
            operands = (turn(a) for a in (data.x, data.w, data.b, data.wo, data.bo))
            run = self.context.layer(*operands, out, case.heads, **options)
            yield Form("fused weight", run, lambda: widen(out, case.dtype))
            return
        if case.kind == "decode":
            out = np.empty(data.q.shape, element)
            run = self.context.decode(turn(data.q), turn(data.k), turn(data.v), out, case.dtype)
            yield Form("cache", run, lambda: widen(out, case.dtype))
        q, k, v = (turn(data.pack(a) if case.lengths else a) for a in (data.q, data.k, data.v))
        out = np.empty(q.shape, element)
        sums = np.empty((case.batch, case.heads, 1, case.kv_len), np.float32) if case.key_sums else None
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
            key_sums=sums,
            **options,
        )
        if case.key_sums:
            yield Form("plan", plan, lambda: sums)
            return
        yield Form("plan", plan, lambda: data.unpack(out) if case.lengths else widen(out, case.dtype))


class Float32(Fovea):
    """Fovea in float32, compared with a case of 16 bits."""

    name = "float32"

    def forms(self, case, data):
        return super().forms(dataclasses.replace(case, dtype="f32", arithmetic="exact"), data)


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
