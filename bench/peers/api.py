"""Fovea's shared library from Python, by ctypes: just what the comparisons need. FOVEA_LIBRARY and FOVEA_PEERS_MODULE
in the environment say where libfovea.so and fovea-peers (bench/peers/operations.c) are."""

import ctypes
import os
import weakref

import numpy as np

import structs

I64 = ctypes.c_int64
FLOATS = ctypes.POINTER(ctypes.c_float)


def dtype_of(name):
    return structs.constant(f"DTYPE_{name}")


def new(c, name):
    """A struct with its defaults."""
    struct = structs.of(name)()
    c.fovea_struct_init(structs.constant(f"STRUCT_{name}"), ctypes.byref(struct), ctypes.c_size_t(ctypes.sizeof(struct)))
    return struct


def matrix(array, dtype="f32"):
    """A weight [out, in] as PyTorch keeps it."""
    return structs.of("matrix")(array.ctypes.data, dtype_of(dtype), array.shape[1], array.shape[0], 1, array.shape[1])


def tensor(array, dtype="f32"):
    """A view of a boolean array, or of one of numbers, of four dimensions, as it lies in memory."""
    kind, strides = dtype_of("bool" if array.dtype == bool else dtype), (s // array.itemsize for s in array.strides)
    return structs.of("tensor")(array.ctypes.data, kind, (I64 * 4)(*array.shape), (I64 * 4)(*strides))


class Library:
    """libfovea.so, and fovea-peers."""

    def __init__(self):
        self.c = ctypes.CDLL(os.environ["FOVEA_LIBRARY"])
        self.module = ctypes.CDLL(os.environ["FOVEA_PEERS_MODULE"])
        self.c.fovea_version.restype = ctypes.c_char_p
        self.c.fovea_isa_name.restype = ctypes.c_char_p
        self.c.fovea_error_detail.restype = ctypes.c_char_p
        self.c.fovea_attention_plan_workspace_size.restype = ctypes.c_size_t
        self.c.fovea_attention_plan_workspace_size.argtypes = [ctypes.c_void_p]
        self.c.fovea_attention_plan_describe.restype = ctypes.c_size_t
        self.c.fovea_linear_apply_workspace_size.restype = ctypes.c_size_t
        self.c.fovea_mha_workspace_size.restype, self.c.fovea_mha_workspace_size.argtypes = ctypes.c_size_t, [ctypes.c_void_p]
        self.module.peers_peak.restype = ctypes.c_double
        self.module.peers_peak.argtypes = [ctypes.c_int, I64]

    def check(self, status):
        if status != 0:
            raise RuntimeError(self.c.fovea_error_detail().decode())

    def version(self):
        return self.c.fovea_version().decode()

    def sleef_version(self):
        number = self.module.peers_sleef_version()
        return f"{number // 10000}.{number // 100 % 100}.{number % 100}"

    def context(self, threads, tier="best"):
        return Context(self, threads, tier)

    def exp(self, x, y):
        """A call over the arrays, on the best tier that FOVEA_ISA allows."""
        arguments = (I64(x.size), x.ctypes.data_as(FLOATS), y.ctypes.data_as(FLOATS))
        return lambda: self.check(self.c.fovea_exp_f32(*arguments))

    def sleef(self, tier, x, y):
        """A call of the module's exp of SLEEF over the arrays."""
        arguments = (ctypes.c_int(structs.constant(f"ISA_{tier}")), I64(x.size), x.ctypes.data_as(FLOATS), y.ctypes.data_as(FLOATS))
        return lambda: self.module.peers_sleef(*arguments)

    def peak_run(self, tier, rounds=100000):
        """Runs the tier's FMA peak once; returns its flops."""
        return self.module.peers_peak(structs.constant(f"ISA_{tier}"), rounds)

    def reader(self, x):
        """A call that reads an array once."""
        arguments = (ctypes.c_void_p(x.ctypes.data), I64(x.nbytes))
        return lambda owned=x: self.module.peers_read(*arguments)


class Context:
    def __init__(self, library, threads, tier):
        self.library, self.handle = library, ctypes.c_void_p()
        options = new(library.c, "context_options")
        options.isa, options.threads = structs.constant(f"ISA_{tier}"), threads
        library.check(library.c.fovea_context_create(ctypes.byref(options), ctypes.byref(self.handle)))
        facts = new(library.c, "context_facts")
        library.check(library.c.fovea_context_info(self.handle, ctypes.byref(facts)))
        self.isa = library.c.fovea_isa_name(facts.isa).decode()
        self.threads = facts.threads

    def attention_plan(self, q, k, v, out, causal=False, window_left=-1, softcap=0.0, mask=None, bias=None, relative=None,
                       sinks=None, lengths=(), key_sums=None, dtype="f32", arithmetic="exact"):
        """A function without arguments that computes out, and key_sums if there is an array for it; it keeps all that it needs
        alive. relative: its kind and its table; lengths: of packed sequences."""
        c, plan = self.library.c, ctypes.c_void_p()
        desc, args = new(c, "attention_desc"), new(c, "attention_args")
        desc.dtype, desc.arithmetic = dtype_of(dtype), structs.constant(f"ARITHMETIC_{arithmetic}")
        desc.batch, desc.q_heads, desc.q_len, desc.head_dim = q.shape
        _, desc.kv_heads, desc.kv_len, desc.value_dim = v.shape
        desc.causal, desc.window_left = structs.constant("CAUSAL_TOP_LEFT") if causal else 0, window_left
        desc.mask, desc.has_bias, desc.softcap = int(mask is not None), int(bias is not None), softcap
        desc.has_sinks = int(sinks is not None)
        if relative:
            desc.relative = structs.constant(f"RELATIVE_{relative[0]}")
            desc.relative_bidirectional, desc.relative_buckets, desc.relative_max_distance = 1, 32, 128
        if lengths:
            desc.packed, desc.batch, desc.q_len, desc.kv_len = 1, len(lengths), max(lengths), max(lengths)
        self.library.check(c.fovea_attention_plan_create(self.handle, ctypes.byref(desc), ctypes.byref(plan)))
        args.q, args.k, args.v, args.out = (tensor(a, dtype) for a in (q, k, v, out))
        table, ends = relative[1] if relative else None, (I64 * (len(lengths) + 1))(0, *np.cumsum(lengths, dtype=int))
        for name, array in (("mask", mask), ("bias", bias), ("relative", table)):
            if array is not None:
                setattr(args, name, tensor(array))
        if sinks is not None:
            args.sinks = sinks.ctypes.data
        if lengths:
            args.q_cu_seqlens = args.kv_cu_seqlens = ctypes.addressof(ends)
        summary, lse = new(c, "attention_summary"), None
        if key_sums is not None:
            lse = np.empty((*q.shape[:3], 1), np.float32)
            args.lse, summary.key_sums = tensor(lse), tensor(key_sums)
            args.summary = ctypes.addressof(summary)
        size = c.fovea_attention_plan_workspace_size(plan)
        workspace = np.empty(max(size, 1), np.uint8)
        arguments = (plan, ctypes.byref(args), ctypes.c_void_p(workspace.ctypes.data), ctypes.c_size_t(size))
        owned = (self, workspace, args, q, k, v, out, mask, bias, table, sinks, ends, summary, lse, key_sums)

        def execute(execute=c.fovea_attention_execute, arguments=arguments, owned=owned):
            return execute(*arguments)

        self.library.check(execute())
        return execute

    def decode(self, q, k, v, out, dtype="f32"):
        """Attention to keys and values in a cache, likewise."""
        c, plan, cache = self.library.c, ctypes.c_void_p(), ctypes.c_void_p()
        check, batch, page_keys = self.library.check, len(q), structs.constant("KV_PAGE_KEYS")
        described, append, desc, args = (
            new(c, "kv_cache_desc"), new(c, "kv_append_args"), new(c, "attention_desc"), new(c, "attention_args"))
        _, described.kv_heads, keys, described.head_dim = k.shape
        described.value_dim, described.k_dtype, described.v_dtype = v.shape[3], dtype_of(dtype), dtype_of(dtype)
        described.max_pages = batch * -(-keys // page_keys)
        check(c.fovea_kv_cache_create(self.handle, ctypes.byref(described), ctypes.byref(cache)))
        sequences = (I64 * batch)()
        for i in range(batch):
            check(c.fovea_kv_cache_add(cache, ctypes.byref(sequences, i * ctypes.sizeof(I64))))
        append.count, append.sequences, append.k, append.v = batch, ctypes.addressof(sequences), tensor(k, dtype), tensor(v, dtype)
        check(c.fovea_kv_cache_append(cache, ctypes.byref(append)))
        desc.dtype, desc.page_keys = dtype_of(dtype), page_keys
        desc.batch, desc.q_heads, desc.q_len, desc.head_dim = q.shape
        _, desc.kv_heads, desc.kv_len, desc.value_dim = v.shape
        check(c.fovea_attention_plan_create(self.handle, ctypes.byref(desc), ctypes.byref(plan)))
        args.q, args.out, args.cache = tensor(q, dtype), tensor(out, dtype), cache
        args.cache_sequences = ctypes.addressof(sequences)
        execute = self._call(c.fovea_attention_execute, c.fovea_attention_plan_workspace_size(plan), (plan,), args, (q, out, sequences))
        weakref.finalize(execute, lambda: (c.fovea_attention_plan_destroy(plan), c.fovea_kv_cache_destroy(cache)))
        return execute

    def _call(self, function, workspace_size, handles, args, owned):
        """A function without arguments that executes a plan, a linear map or a layer; it keeps all that it needs alive."""
        workspace = np.empty(max(workspace_size, 1), np.uint8)
        arguments = (*handles, ctypes.byref(args), ctypes.c_void_p(workspace.ctypes.data), ctypes.c_size_t(workspace_size))

        def execute(execute=function, arguments=arguments, owned=(self, workspace, args, owned)):
            return execute(*arguments)

        self.library.check(execute())
        return execute

    def _apply(self, handle, args, owned):
        c, handles = self.library.c, (self.handle, handle)
        return self._call(c.fovea_linear_apply, c.fovea_linear_apply_workspace_size(*handles), handles, args, owned)

    def linear(self, x, w, b, out, dtype="f32", arithmetic="exact"):
        c, handle = self.library.c, ctypes.c_void_p()
        desc, args = new(c, "linear_desc"), new(c, "linear_args")
        desc.arithmetic = structs.constant(f"ARITHMETIC_{arithmetic}")
        desc.dtype = desc.part.bias_dtype = dtype_of(dtype)
        desc.in_features, desc.part.weight, desc.part.bias = w.shape[1], matrix(w, dtype), b.ctypes.data
        self.library.check(c.fovea_linear_create(self.handle, ctypes.byref(desc), ctypes.byref(handle)))
        y = tensor(out[None, None], dtype)
        args.x, args.y = tensor(x[None, None], dtype), ctypes.addressof(y)
        return self._apply(handle, args, (x, out, y))

    def quantized(self, x, weights, out, arithmetic="default"):
        """A linear map of quantized weights (bench/quantized/weights.py): a function that executes it, and its bytes."""
        c, handle = self.library.c, ctypes.c_void_p()
        desc, args, about = new(c, "linear_desc"), new(c, "linear_args"), new(c, "quantization")
        rows, channels = weights.shape
        desc.arithmetic, desc.in_features = structs.constant(f"ARITHMETIC_{arithmetic}"), channels
        desc.part.weight = structs.of("matrix")(weights.data.ctypes.data, dtype_of(weights.dtype), channels, rows, 1, channels)
        if weights.scales is not None:
            if weights.group:
                about.group_size, about.scale_dtype, about.group_scales = weights.group, dtype_of("f16"), weights.scales.ctypes.data
            else:
                about.scales = weights.scales.ctypes.data
            desc.part.weight.quantization = ctypes.addressof(about)
        self.library.check(c.fovea_linear_create(self.handle, ctypes.byref(desc), ctypes.byref(handle)))
        y = tensor(out[None, None])
        args.x, args.y = tensor(x[None, None]), ctypes.addressof(y)
        c.fovea_linear_weight_bytes.restype = ctypes.c_size_t
        return self._apply(handle, args, (x, out, y)), c.fovea_linear_weight_bytes(handle)

    def layer(self, x, w, b, wo, bo, out, heads, dtype="f32", arithmetic="exact"):
        """Self-attention with a fused weight [3 d, d]."""
        c, handle, (batch, tokens, d) = self.library.c, ctypes.c_void_p(), x.shape
        desc, shape, weights, args = new(c, "mha_desc"), new(c, "attention_desc"), new(c, "mha_weights"), new(c, "attention_args")
        desc.form, desc.q_features, desc.out_features, desc.biases = structs.constant("MHA_FUSED"), d, d, 1
        shape.dtype, shape.arithmetic = dtype_of(dtype), structs.constant(f"ARITHMETIC_{arithmetic}")
        desc.attention = ctypes.addressof(shape)
        shape.batch, shape.q_heads, shape.kv_heads, shape.q_len, shape.kv_len = batch, heads, heads, tokens, tokens
        shape.head_dim = shape.value_dim = d // heads
        weights.bias_dtype = dtype_of(dtype)
        weights.fused, weights.fused_bias, weights.o, weights.o_bias = matrix(w, dtype), b.ctypes.data, matrix(wo, dtype), bo.ctypes.data
        self.library.check(c.fovea_mha_create(self.handle, ctypes.byref(desc), ctypes.byref(weights), ctypes.byref(handle)))
        args.q, args.out = tensor(x[:, None], dtype), tensor(out[:, None], dtype)
        return self._call(c.fovea_mha_execute, c.fovea_mha_workspace_size(handle), (handle,), args, (x, out))
