from collections.abc import Sequence
from os import PathLike
from types import TracebackType
from typing import Any, Literal, Self, TypedDict, TypeVar, Unpack, overload

Array = TypeVar("Array")  # numpy.ndarray, torch.Tensor, or another with DLPack or the buffer protocol
Integers = Any  # a sequence of int, or an array of any integers
Layout = Literal["bhtd", "bthd", "htd", "thd"]
Causal = bool | Literal["top_left", "bottom_right"] | int | Integers
Window = tuple[int | None, int | None]
Dtype = Literal["float32", "bfloat16", "float16"]
CacheDtype = Literal["float32", "bfloat16", "float16", "int8", "int4"]
Scores = Literal["raw", "capped", "biased", "weights"]
Part = tuple[int, int]
Arithmetic = Literal["exact", "bf16", "bf16_tile", "fastest"]
LinearArithmetic = Literal["default", "exact", "bf16", "bf16_tile", "fastest", "q16", "q8"]
Quant = Literal["int8", "int4", "q8_0", "q4_0", "q4_1", "q4_k"]
Quantized = Literal[
    "int8",
    "gptq",
    "awq",
    "compressed-tensors",
    "gguf:Q8_0",
    "gguf:Q4_0",
    "gguf:Q4_1",
    "gguf:Q4_K",
    "gguf:Q5_K",
    "gguf:Q6_K",
]
WeightDtype = Literal[
    "float32",
    "bfloat16",
    "float16",
    "int8",
    "uint8",
    "uint4",
    "q8_0",
    "q4_0",
    "q4_1",
    "q4_k",
    "q5_k",
    "q6_k",
]
Pooling = Literal["first", "last", "mean", "mean_sqrt_len", "weighted_mean", "max"]
Activation = Literal[
    "relu", "gelu", "gelu_tanh", "silu", "tanh", "sigmoid", "silu_gated", "gelu_gated", "gelu_tanh_gated"
]
Isa = Literal["best", "scalar", "avx2", "avx512", "neon"]

__version__: str

class Mask:
    @classmethod
    def boolean(cls, mask: Any, *, prepare: bool = True) -> Self: ...
    @classmethod
    def bits(cls, bits: Any, kv_len: int, *, prepare: bool = True) -> Self: ...
    @classmethod
    def key_padding(cls, mask: Any, *, q_len: int | None = None) -> Self: ...
    @classmethod
    def ranges(cls, ranges: Any, kv_len: int, *, prepare: bool = True) -> Self: ...
    @classmethod
    def blocks(
        cls,
        starts: Any,
        blocks: Integers,
        *,
        block_rows: int,
        block_keys: int,
        q_len: int,
        kv_len: int,
        prepare: bool = True,
    ) -> Self: ...
    @property
    def kind(self) -> Literal["boolean", "bits", "key_padding", "ranges", "blocks"]: ...
    @property
    def prepared(self) -> bool: ...
    @property
    def batch(self) -> int: ...
    @property
    def heads(self) -> int: ...
    @property
    def q_len(self) -> int: ...
    @property
    def kv_len(self) -> int: ...

class Relative:
    @classmethod
    def t5(cls, table: Any, *, bidirectional: bool, max_distance: int = 128) -> Self: ...
    @classmethod
    def toeplitz(cls, table: Any) -> Self: ...
    @classmethod
    def window_2d(cls, table: Any, *, height: int, width: int) -> Self: ...
    @property
    def kind(self) -> Literal["t5", "toeplitz", "window_2d"]: ...
    @property
    def table(self) -> Any: ...
    @property
    def parameters(self) -> dict[str, int]: ...

class _Options(TypedDict, total=False):
    causal: Causal | None
    window: Window | None
    scale: float | None
    softcap: float | None
    arithmetic: Arithmetic | None

class _Arrays(TypedDict, total=False):
    mask: Any | Mask | None
    bias: Any | None
    sinks: Any | None
    alibi: Any | None
    relative: Relative | None
    q_lens: Integers | None
    kv_lens: Integers | None
    q_starts: Integers | None
    kv_starts: Integers | None
    q_offsets: Integers | None

class _Layouts(_Arrays, total=False):
    cu_seqlens_q: Integers | None
    cu_seqlens_kv: Integers | None
    layout: Layout
    out_layout: Layout | None

class _Outputs(_Layouts, total=False):
    return_lse: bool
    return_weights: bool
    return_scores: Scores | None
    score_heads: Integers | None
    score_queries: Part | None
    score_keys: Part | None
    return_summary: bool
    top_keys: int

class _Attention(_Options, _Layouts, total=False): ...
class _AttentionOutputs(_Options, _Outputs, total=False): ...

@overload
def attention(
    q: Array,
    k: Any,
    v: Any,
    *,
    out: Array | None = None,
    return_lse: Literal[False] = False,
    return_weights: Literal[False] = False,
    **options: Unpack[_Attention],
) -> Array: ...
@overload
def attention(
    q: Array,
    k: Any,
    v: Any,
    *,
    out: Array | None = None,
    return_lse: Literal[True],
    return_weights: Literal[False] = False,
    **options: Unpack[_Attention],
) -> tuple[Array, Array]: ...
@overload
def attention(
    q: Array, k: Any, v: Any, *, out: Array | None = None, **options: Unpack[_AttentionOutputs]
) -> Array | tuple[Any, ...]: ...

attention_recorded = attention

class Plan:
    def __new__(
        cls,
        *,
        batch: int = 1,
        q_heads: int,
        kv_heads: int | None = None,
        q_len: int,
        kv_len: int,
        head_dim: int,
        value_dim: int | None = None,
        causal: bool | Literal["top_left", "bottom_right", "offset"] | None = None,
        window: Window | None = None,
        scale: float | None = None,
        softcap: float | None = None,
        mask: Mask | Literal["boolean", "bits", "key_padding", "ranges", "prepared"] | None = None,
        bias: bool = False,
        sinks: bool = False,
        relative: Relative | Literal["alibi"] | None = None,
        packed: bool = False,
        dtype: Dtype = "float32",
        arithmetic: Arithmetic | None = None,
    ) -> Self: ...
    def execute(
        self, q: Array, k: Any, v: Any, *, out: Array | None = None, **options: Unpack[_Outputs]
    ) -> Array | tuple[Any, ...]: ...
    def describe(self) -> str: ...
    @property
    def workspace_size(self) -> int: ...

def merge(
    outs: Sequence[Array], lses: Sequence[Array], *, sinks: Any | None = None, layout: Layout = "bhtd"
) -> tuple[Array, Array]: ...
def layer_norm(
    x: Array, weight: Any | None = None, bias: Any | None = None, *, eps: float = 1e-5, out: Array | None = None
) -> Array: ...
def rms_norm(
    x: Array, weight: Any | None = None, bias: Any | None = None, *, eps: float = 1e-5, out: Array | None = None
) -> Array: ...
def embedding_sum(
    tables: Sequence[Array], ids: Sequence[Integers | None], *, scale: float = 1.0, out: Array | None = None
) -> Array: ...
def activate(
    x: Array,
    activation: Activation | None = None,
    *,
    up: Any | None = None,
    residual: Any | None = None,
    out: Array | None = None,
) -> Array: ...
def pool(
    x: Array, begin: Integers, end: Integers, pooling: Pooling, *, weights: Any | None = None, out: Array | None = None
) -> Array: ...
def normalize(x: Array, *, out: Array | None = None) -> Array: ...
def info() -> dict[str, Any]: ...

class config:
    def __new__(
        cls, *, isa: Isa | None = None, threads: int | None = None, arithmetic: Arithmetic | Literal["default"] | None = None
    ) -> Self: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

def set_num_threads(threads: int, /) -> None: ...
def get_num_threads() -> int: ...
def models_arithmetic() -> Arithmetic: ...
def _renew() -> None: ...

class CacheFullError(MemoryError): ...

class Rope:
    def __new__(
        cls,
        rotary_dim: int,
        *,
        base: float = 10000.0,
        pairing: Literal["halves", "adjacent"] = "halves",
        scaling: Literal["none", "linear", "ntk", "yarn", "llama3"] | None = None,
        factor: float = 1.0,
        original_positions: float = 0.0,
        beta_fast: float = 32.0,
        beta_slow: float = 1.0,
        attention_factor: float = 0.0,
        low_frequency: float = 1.0,
        high_frequency: float = 4.0,
        divisors: Any | None = None,
    ) -> Self: ...
    def apply(
        self, x: Array, positions: int | Integers, *, layout: Layout = "bhtd", out: Array | None = None
    ) -> Array: ...
    @property
    def rotary_dim(self) -> int: ...

class _CacheArrays(TypedDict, total=False):
    mask: Any | Mask | None
    bias: Any | None
    causal: Literal["top_left", "bottom_right"] | int | Integers | None
    window: Window | None
    scale: float | None
    softcap: float | None
    sinks: Any | None
    alibi: Any | None
    relative: Relative | None
    q_lens: Integers | None
    kv_lens: Integers | None
    q_starts: Integers | None
    q_offsets: Integers | None
    cu_seqlens_q: Integers | None
    layout: Layout
    out_layout: Layout | None
    return_lse: bool
    return_weights: bool
    return_scores: Scores | None
    score_heads: Integers | None
    score_queries: Part | None
    score_keys: Part | None
    return_summary: bool
    top_keys: int
    arithmetic: Arithmetic | None

class KVCache:
    def __new__(
        cls,
        layers: int,
        kv_heads: int,
        head_dim: int,
        *,
        value_dim: int | None = None,
        dtype: CacheDtype | None = "float32",
        k_dtype: CacheDtype | None = None,
        v_dtype: CacheDtype | None = None,
        max_bytes: int | None = None,
        max_pages: int | None = None,
        windows: int | Sequence[int | None] | None = None,
        rope: Rope | None = None,
    ) -> Self: ...
    def add(self) -> int: ...
    def fork(self, sequence: int, /) -> int: ...
    def remove(self, sequence: int, /) -> None: ...
    def clear(self) -> None: ...
    def length(self, sequence: int, layer: int = 0) -> int: ...
    def reserve(self, sequences: int | Integers, tokens: int | Integers) -> None: ...
    def truncate(self, sequence: int, length: int) -> None: ...
    def evict(self, sequence: int, begin: int, end: int) -> None: ...
    def append(
        self,
        layer: int,
        sequences: int | Integers,
        k: Any,
        v: Any,
        *,
        lens: int | Integers | None = None,
        cu_seqlens: Integers | None = None,
        layout: Layout = "bhtd",
        rotated: bool = False,
    ) -> None: ...
    def attend(
        self, layer: int, sequences: int | Integers, q: Array, *, out: Array | None = None, **options: Unpack[_CacheArrays]
    ) -> Array | tuple[Any, ...]: ...
    @overload
    def save(self, sequence: int, path: None = None) -> bytes: ...
    @overload
    def save(self, sequence: int, path: str | PathLike[str]) -> None: ...
    def load(self, source: bytes | bytearray | memoryview | str | PathLike[str], /) -> int: ...
    def stats(self) -> dict[str, int]: ...
    @property
    def layers(self) -> int: ...
    @property
    def kv_heads(self) -> int: ...
    @property
    def head_dim(self) -> int: ...
    @property
    def value_dim(self) -> int: ...
    @property
    def k_dtype(self) -> CacheDtype: ...
    @property
    def v_dtype(self) -> CacheDtype: ...

class Linear:
    @overload
    def __new__(
        cls,
        weight: Sequence[Any],
        bias: Sequence[Any | None] | None = None,
        *,
        activation: Activation | None = None,
        layout: Literal["out_in", "in_out"] = "out_in",
        scale: Sequence[float | None] | None = None,
        heads: Sequence[int | None] | None = None,
        dtype: Dtype | None = None,
        arithmetic: LinearArithmetic | None = None,
        scales: Sequence[Any | None] | None = None,
        quant: Quant | None = None,
    ) -> Self: ...
    @overload
    def __new__(
        cls,
        weight: Any,
        bias: Any | None = None,
        *,
        activation: Activation | None = None,
        layout: Literal["out_in", "in_out"] = "out_in",
        scale: float | None = None,
        heads: int | None = None,
        dtype: Dtype | None = None,
        arithmetic: LinearArithmetic | None = None,
        scales: Any | None = None,
        quant: Quant | None = None,
    ) -> Self: ...
    @classmethod
    def quantized(
        cls,
        weight: Any,
        kind: Quantized,
        bias: Any | None = None,
        *,
        scales: Any | None = None,
        zeros: Any | None = None,
        g_idx: Any | None = None,
        bits: Literal[4, 8] = 4,
        group_size: int | None = None,
        zero_offset: int = 0,
        activation: Activation | None = None,
        heads: Any | None = None,
        dtype: Dtype | None = "float32",
        arithmetic: LinearArithmetic | None = None,
    ) -> Self: ...
    def execute(
        self,
        x: Array,
        residual: Any | None = None,
        *,
        out: Any | None = None,
        lens: Integers | None = None,
        part: int | None = None,
        activation: Activation | None = ...,
    ) -> Any: ...
    __call__ = execute
    def unpack(self, weight: Any, bias: Any | None = None, *, part: int = 0, scales: Any | None = None) -> None: ...
    def describe(self) -> str: ...
    @property
    def in_features(self) -> int: ...
    @property
    def out_features(self) -> int | tuple[int, ...]: ...
    @property
    def dtype(self) -> Dtype: ...
    @property
    def weight_dtype(self) -> WeightDtype: ...
    @property
    def activation(self) -> Activation | None: ...
    @property
    def arithmetic(self) -> LinearArithmetic: ...
    @property
    def has_bias(self) -> tuple[bool, ...]: ...
    @property
    def quant(self) -> Quant | Quantized | None: ...
    @property
    def error(self) -> dict[str, float] | tuple[dict[str, float], ...] | None: ...
    @property
    def nbytes(self) -> int: ...

class MultiHead:
    def __new__(
        cls,
        *,
        heads: int,
        kv_heads: int | None = None,
        q: Any | None = None,
        k: Any | None = None,
        v: Any | None = None,
        o: Any | None = None,
        fused: Any | None = None,
        outer_q: Any | None = None,
        outer_k: Any | None = None,
        outer_v: Any | None = None,
        q_bias: Any | None = None,
        k_bias: Any | None = None,
        v_bias: Any | None = None,
        o_bias: Any | None = None,
        fused_bias: Any | None = None,
        outer_q_bias: Any | None = None,
        outer_k_bias: Any | None = None,
        outer_v_bias: Any | None = None,
        merged: tuple[Any, ...] | None = None,
        form: Literal["factored", "merged", "folded", "projected", "tied", "fused"] | None = None,
        inputs: Literal["self", "cross", "separate"] | None = None,
        layout: Literal["out_in", "in_out"] = "out_in",
        order: Literal["qkv", "grouped"] = "qkv",
        fold_values: Literal["never", "cheaper", "always"] = "never",
        merge: Literal["queries", "keys"] = "queries",
        head_dim: int | None = None,
        value_dim: int | None = None,
        shape: tuple[int, int, int] = (1, 512, 512),
        causal: bool | Literal["top_left", "bottom_right", "offset"] | None = None,
        window: Window | None = None,
        scale: float | None = None,
        softcap: float | None = None,
        mask: Mask | Literal["boolean", "bits", "key_padding", "ranges", "prepared"] | None = None,
        bias: bool = False,
        sinks: bool = False,
        relative: Relative | Literal["alibi"] | None = None,
        dtype: Dtype | None = None,
        arithmetic: LinearArithmetic | None = None,
        packed: int | Part | None = None,
        cache_dtype: CacheDtype | tuple[CacheDtype, CacheDtype] | None = None,
        q_norm: Any | None = None,
        k_norm: Any | None = None,
        norm_eps: float = 1e-6,
        quant: Quant | None = None,
    ) -> Self: ...
    def execute(
        self,
        q: Array,
        k: Any | None = None,
        v: Any | None = None,
        *,
        cu_seqlens_q: Integers | None = None,
        cu_seqlens_kv: Integers | None = None,
        cache: KVCache | None = None,
        layer: int | None = None,
        sequences: int | Integers | None = None,
        out: Array | None = None,
        return_lse: bool = False,
        return_weights: bool = False,
        **options: Unpack[_Arrays],
    ) -> Array | tuple[Array, ...]: ...
    __call__ = execute
    @property
    def form(self) -> Literal["factored", "merged", "folded", "projected", "tied", "fused"]: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def weight_dtypes(self) -> tuple[WeightDtype | None, WeightDtype | None, WeightDtype | None, WeightDtype | None]: ...
