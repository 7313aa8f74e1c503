"""The structures of Fovea's headers that api.py passes, field by field.

structs.py CC INCLUDE compares them with the headers: the places of all fields, and sizes."""

import ctypes
import pathlib
import re
import subprocess
import sys
import tempfile

I64 = ctypes.c_int64
FLOATS = ctypes.POINTER(ctypes.c_float)


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_int), ("shape", I64 * 4), ("stride", I64 * 4),
                ("quantisation", ctypes.c_void_p)]


class ContextOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("isa", ctypes.c_int),
        ("tuning_file", ctypes.c_char_p),
        *((name, ctypes.c_int) for name in ("threads", "threads_backend", "pool_spin_us")),
        *((name, ctypes.c_void_p) for name in ("parallel_for", "pool")),
        *((name, ctypes.c_int) for name in ("threads_bind", "reserved")),
    ]


class Info(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("cpu", ctypes.c_char * 64),
        ("features", ctypes.c_char * 192),
        *((name, I64) for name in ("l1d_bytes", "l2_bytes")),
        *((name, ctypes.c_int) for name in ("isa", "threads", "fastest_attention", "fastest_linear")),
        ("reason", ctypes.c_char * 512),
        *((name, ctypes.c_int) for name in ("tuning_status", "tuning_rows")),
        ("tuning", ctypes.c_char * 512),
        *((name, ctypes.c_int) for name in ("node_count", "threads_bound")),
        ("nodes", ctypes.c_char * 256),
    ]


class AttentionDesc(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        *((name, I64) for name in ("batch", "q_heads", "kv_heads", "q_len", "kv_len", "head_dim", "value_dim")),
        *((name, ctypes.c_int) for name in ("dtype", "k_dtype", "v_dtype", "out_dtype", "arithmetic")),
        *((name, ctypes.c_double) for name in ("scale", "softcap")),
        *((name, ctypes.c_int) for name in ("has_scale", "has_bias", "has_sinks")),
        *((name, ctypes.c_int) for name in ("relative", "relative_bidirectional")),
        *((f"relative_{name}", I64) for name in ("buckets", "max_distance", "height", "width")),
        *((name, ctypes.c_int) for name in ("causal", "mask")),
        *((name, I64) for name in ("window_left", "window_right", "mask_block_rows", "mask_block_keys")),
        ("packed", ctypes.c_int),
        ("page_keys", I64),
    ]


class AttentionArgs(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        *((name, Tensor) for name in ("q", "k", "v", "out", "lse")),
        *((f"{name}_{what}", ctypes.POINTER(I64)) for what in ("lens", "starts") for name in ("q", "kv")),
        *((name, ctypes.POINTER(I64)) for name in ("q_offsets", "q_cu_seqlens", "kv_cu_seqlens")),
        ("mask", Tensor),
        ("prepared", ctypes.c_void_p),
        ("mask_blocks", ctypes.POINTER(I64)),
        ("mask_block_count", I64),
        ("key_list", ctypes.c_void_p),
        *((name, Tensor) for name in ("bias", "relative")),
        ("sinks", FLOATS),
        ("cache", ctypes.c_void_p),
        ("cache_layer", I64),
        ("cache_sequences", ctypes.POINTER(I64)),
        *((name, ctypes.c_void_p) for name in ("pages", "state")),
        ("first_key", I64),
        ("weights", Tensor),
        *((name, ctypes.c_void_p) for name in ("scores", "summary", "stats")),
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
        *((name, ctypes.c_int) for name in ("placement", "placement_node")),
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


class Quantisation(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("scales", FLOATS),
        ("group_size", I64),
        ("group_scales", ctypes.c_void_p),
        *((name, I64) for name in ("scale_group_stride", "scale_out_stride")),
        *((name, ctypes.c_int) for name in ("scale_dtype", "packing")),
        ("zeros", ctypes.c_void_p),
        ("zero_offset", ctypes.c_int),
        ("group_of", ctypes.c_void_p),
    ]


class LinearPart(ctypes.Structure):
    _fields_ = [
        ("weight", Matrix),
        ("bias", ctypes.c_void_p),
        ("bias_dtype", ctypes.c_int),
        ("has_scale", ctypes.c_int),
        ("scale", ctypes.c_double),
        ("reserved", ctypes.c_void_p),
    ]


class LinearDesc(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("in_features", I64),
        *((name, ctypes.c_int) for name in ("dtype", "y_dtype", "residual_dtype", "arithmetic", "activation")),
        ("part_count", I64),
        ("part", LinearPart),
        ("parts", ctypes.c_void_p),
        *((name, ctypes.c_int) for name in ("placement", "placement_node")),
    ]


class LinearArgs(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("x", Tensor),
        *((name, ctypes.POINTER(Tensor)) for name in ("y", "residual")),
        ("lens", ctypes.POINTER(I64)),
        ("stats", ctypes.c_void_p),
        *((name, ctypes.c_int) for name in ("has_activation", "activation")),
    ]


class MhaDesc(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        *((name, ctypes.c_int) for name in ("form", "merge", "fold_values")),
        ("attention", ctypes.POINTER(AttentionDesc)),
        *((name, I64) for name in ("q_tokens", "kv_tokens")),
        ("inputs", ctypes.c_int),
        *((name, I64) for name in ("q_features", "k_features", "v_features", "out_features")),
        ("biases", ctypes.c_int),
        ("norm_eps", ctypes.c_double),
        *((name, ctypes.c_int) for name in ("quantised_arithmetic", "reserved", "placement", "placement_node")),
    ]


class MhaWeights(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        *((name, Matrix) for name in "qkvo"),
        *((f"{name}_head_stride", I64) for name in "qkvo"),
        ("bias_dtype", ctypes.c_int),
        *((f"{name}_bias", ctypes.c_void_p) for name in "qkvo"),
        *((f"{name}_norm", ctypes.c_void_p) for name in "qk"),
        *((f"outer_{name}", Matrix) for name in "qkv"),
        *((f"outer_{name}_bias", ctypes.c_void_p) for name in "qkv"),
        ("merged", ctypes.c_void_p),
        ("order", ctypes.c_int),
        ("fused", Matrix),
        ("fused_bias", ctypes.c_void_p),
    ]


# What a structure is called there, unless it is its own name in lower case.
NAMES = {"CacheDesc": "kv_cache_desc", "Append": "kv_append"}


def compare(compiler, include):
    structures = [s for s in globals().values() if isinstance(s, type) and issubclass(s, ctypes.Structure)]
    asserts = ["#include <fovea/fovea.h>", "#include <assert.h>"]
    for s in structures:
        name = NAMES.get(s.__name__) or re.sub(r"\B([A-Z])", r"_\1", s.__name__).lower()
        places = {f"offsetof(fovea_{name}, {field.rstrip('_')})": getattr(s, field).offset for field, _ in s._fields_}
        places[f"sizeof(fovea_{name})"] = ctypes.sizeof(s)
        asserts += [f'static_assert({place} == {here}, "");' for place, here in places.items()]
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "structs.c")
        source.write_text("\n".join(asserts) + "\n")
        subprocess.run([compiler, "-std=c11", f"-I{include}", "-fsyntax-only", source], check=True)


if __name__ == "__main__":
    compare(*sys.argv[1:])
