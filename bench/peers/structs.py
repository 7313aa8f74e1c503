"""The structures of Fovea's headers that api.py passes, field by field."""

import ctypes

I64 = ctypes.c_int64
FLOATS = ctypes.POINTER(ctypes.c_float)


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_int), ("shape", I64 * 4), ("stride", I64 * 4),
                ("quantisation", ctypes.c_void_p)]


class ContextOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("isa", ctypes.c_int),
        ("threads", ctypes.c_int),
        ("parallel_for", ctypes.c_void_p),
        ("pool", ctypes.c_void_p),
        ("tuning_file", ctypes.c_char_p),
    ]


class Info(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("isa", ctypes.c_int),
        ("threads", ctypes.c_int),
        ("l1d_bytes", I64),
        ("l2_bytes", I64),
        ("cpu", ctypes.c_char * 64),
        ("reason", ctypes.c_char * 512),
        ("tuning_status", ctypes.c_int),
        ("tuning_rows", ctypes.c_int),
        ("tuning", ctypes.c_char * 512),
    ]


class AttentionDesc(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("dtype", ctypes.c_int),
        ("has_scale", ctypes.c_int),
        *((name, I64) for name in ("batch", "q_heads", "kv_heads", "q_len", "kv_len", "head_dim", "value_dim")),
        ("scale", ctypes.c_double),
        ("causal", ctypes.c_int),
        ("mask", ctypes.c_int),
        ("window_left", I64),
        ("window_right", I64),
        ("has_bias", ctypes.c_int),
        ("packed", ctypes.c_int),
        ("mask_block_rows", I64),
        ("mask_block_keys", I64),
        ("relative", ctypes.c_int),
        ("relative_bidirectional", ctypes.c_int),
        *((f"relative_{name}", I64) for name in ("buckets", "max_distance", "height", "width")),
        ("softcap", ctypes.c_double),
        ("has_sinks", ctypes.c_int),
        *((name, ctypes.c_int) for name in ("k_dtype", "v_dtype", "out_dtype")),
        ("page_keys", I64),
        ("arithmetic", ctypes.c_int),
    ]


class AttentionArgs(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        *((name, Tensor) for name in ("q", "k", "v", "out", "mask")),
        *((name, ctypes.POINTER(I64)) for name in ("q_lens", "kv_lens", "q_offsets")),
        *((name, Tensor) for name in ("lse", "weights")),
        *((name, ctypes.POINTER(I64)) for name in ("q_starts", "kv_starts")),
        ("bias", Tensor),
        *((name, ctypes.POINTER(I64)) for name in ("q_cu_seqlens", "kv_cu_seqlens", "mask_blocks")),
        ("mask_block_count", I64),
        *((name, ctypes.c_void_p) for name in ("prepared", "stats", "state")),
        ("first_key", I64),
        ("relative", Tensor),
        ("sinks", FLOATS),
        *((name, ctypes.c_void_p) for name in ("scores", "summary", "cache")),
        ("cache_layer", I64),
        ("cache_sequences", ctypes.POINTER(I64)),
        ("pages", ctypes.c_void_p),
    ]


class AttentionSummary(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        *((name, Tensor) for name in ("key_sums", "entropy", "max_weight", "top_keys", "top_weights")),
    ]


class CacheDesc(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        *((name, I64) for name in ("layers", "kv_heads", "head_dim", "value_dim")),
        *((name, ctypes.c_int) for name in ("k_dtype", "v_dtype")),
        *((name, I64) for name in ("max_pages", "max_bytes")),
        *((name, ctypes.c_void_p) for name in ("windows", "rope")),
    ]


class Append(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        *((name, I64) for name in ("layer", "count")),
        ("sequences", ctypes.POINTER(I64)),
        *((name, Tensor) for name in "kv"),
        *((name, ctypes.POINTER(I64)) for name in ("lens", "cu_seqlens")),
        ("rotated", I64),
    ]


class Matrix(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_int),
        *((name, I64) for name in ("in_", "out", "in_stride", "out_stride")),
        ("quantisation", ctypes.c_void_p),
    ]


class LinearPart(ctypes.Structure):
    _fields_ = [
        ("weight", Matrix),
        ("bias", ctypes.c_void_p),
        ("bias_dtype", ctypes.c_int),
        ("has_scale", ctypes.c_int),
        ("scale", ctypes.c_double),
    ]


class LinearDesc(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("dtype", ctypes.c_int),
        ("activation", ctypes.c_int),
        ("in_features", I64),
        ("part_count", I64),
        ("part", LinearPart),
        ("parts", ctypes.c_void_p),
        *((name, ctypes.c_int) for name in ("y_dtype", "residual_dtype", "arithmetic")),
    ]


class LinearArgs(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("x", Tensor),
        ("y", ctypes.POINTER(Tensor)),
        ("residual", ctypes.POINTER(Tensor)),
        ("lens", ctypes.POINTER(I64)),
    ]


class MhaDesc(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("form", ctypes.c_int),
        ("inputs", ctypes.c_int),
        *((name, I64) for name in ("q_features", "k_features", "v_features", "out_features")),
        *((name, ctypes.c_int) for name in ("biases", "merge", "fold_values")),
        ("attention", ctypes.POINTER(AttentionDesc)),
    ]


class MhaWeights(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        *((name, Matrix) for name in "qkvo"),
        *((f"{name}_bias", ctypes.c_void_p) for name in "qkvo"),
        *((f"{name}_head_stride", I64) for name in "qkvo"),
        *((f"outer_{name}", Matrix) for name in "qkv"),
        *((f"outer_{name}_bias", ctypes.c_void_p) for name in "qkv"),
        ("merged", ctypes.c_void_p),
        ("fused", Matrix),
        ("fused_bias", ctypes.c_void_p),
        ("order", ctypes.c_int),
        ("bias_dtype", ctypes.c_int),
    ]
