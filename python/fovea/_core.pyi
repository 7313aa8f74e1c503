from collections.abc import Sequence
from os import PathLike
from types import TracebackType
from typing import Any, Literal, Self, TypedDict, TypeVar, Unpack, overload

from ._fields import Activation, Given, Heads, Lengths, Numbers

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
    "fp8",
    "gptq",
    "awq",
    "compressed-tensors",
    "gguf:Q8_0",
    "gguf:Q4_0",
    "gguf:Q4_1",
    "gguf:Q4_K",
    "gguf:Q5_K",
    "gguf:Q6_K",
    "gguf:Q5_0",
    "gguf:Q5_1",
    "gguf:MXFP4",
    "gguf:IQ4_NL",
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
    "q5_0",
    "q5_1",
    "mxfp4",
    "iq4_nl",
    "f8_e4m3",
]
Pooling = Literal["first", "last", "mean", "mean_sqrt_len", "weighted_mean", "max"]
Isa = Literal["best", "scalar", "avx2", "avx512", "neon"]

__version__: str
BITS_VERSION: int

class Mask:
    """A mask for attention(mask=), made by Mask.boolean(), .bits(), .key_padding(), .ranges() or .blocks().

    A prepared mask (the default) reads its arrays once, and serves any number of calls, layers, heads and
    threads; tiles in which no query sees a key are skipped. With prepare=False the arrays are read at each
    call: they are kept, not copied. The same visibility gives the same bits in every kind.
    """

    @classmethod
    def boolean(cls, mask: Any, *, prepare: bool = True) -> Self:
        """From a bool array [batch, heads, queries, keys], True = attend. Leading axes may be of
        size 1 or left out: they are repeated.
        """
    @classmethod
    def bits(cls, bits: Any, kv_len: int, *, prepare: bool = True) -> Self:
        """From a uint8 array [batch, heads, queries, ceil(kv_len / 8)]: key j is bit j % 8, lowest first, of byte j // 8
        (numpy.packbits(mask, -1, bitorder='little')). Leading axes may be of size 1 or left out.
        """
    @classmethod
    def key_padding(cls, mask: Any, *, q_len: int | None = None) -> Self:
        """From a bool array [batch, keys] or [keys], True = attend, for all heads and queries. With q_len it is prepared, for
        calls of as many queries.
        """
    @classmethod
    def ranges(cls, ranges: Any, kv_len: int, *, prepare: bool = True) -> Self:
        """From an int64 array [batch, heads, queries, n, 2]: each query sees the keys of its n ranges [lo, hi), in any order;
        they may overlap; lo >= hi is empty. Leading axes may be of size 1 or left out.
        """
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
    ) -> Self:
        """Blocks of block_rows queries and block_keys keys: the queries of row block i see the key blocks
        blocks[starts[i]:starts[i + 1]], which ascend. starts is int64 [batch, heads, row blocks + 1]; leading axes may be
        of size 1 or left out. blocks are integers.
        """
    @property
    def kind(self) -> Literal["boolean", "bits", "key_padding", "ranges", "blocks"]: ...
    @property
    def prepared(self) -> bool: ...
    @property
    def batch(self) -> int: ...
    @property
    def q_heads(self) -> int: ...
    @property
    def q_len(self) -> int: ...
    @property
    def kv_len(self) -> int: ...

class Relative:
    """A bias by the positions of query and key, for attention(relative=): Relative.t5(), .toeplitz(), .window_2d().

    Tables are float32, [entries] for all heads, [heads, entries], or [batch, heads, entries]. The table is kept,
    not copied, and read at each call. It is never expanded to queries x keys.
    """

    @classmethod
    def t5(cls, table: Any, *, bidirectional: bool, max_distance: int = 128) -> Self:
        """T5's buckets: table [heads, buckets], the transposed weight of relative_attention_bias. bidirectional: keys after
        the query have buckets of their own (encoders).
        """
    @classmethod
    def toeplitz(cls, table: Any) -> Self:
        """table [heads, 2 R + 1]: entry R + d for a key that lies d before the query, d from -R to R; keys farther
        away have the first or last entry.
        """
    @classmethod
    def window_2d(cls, table: Any, *, height: int, width: int) -> Self:
        """Swin: tokens are the cells of a window of height x width, row by row. table [heads, (2 height - 1) (2 width - 1)].
        """
    @property
    def kind(self) -> Literal["t5", "toeplitz", "window_2d"]: ...
    @property
    def table(self) -> Any: ...
    @property
    def parameters(self) -> dict[str, int]: ...

# The keywords of attention() and of what is like it. Text below one is its line in help(). Fields of the library's own list
# (fovea/fields.inc) are in _fields.pyi, which the build writes.

class _Biases(TypedDict, total=False):
    mask: Any | Mask | None
    """bool, broadcast to [batch, q_heads, queries, keys], True = attend; or a fovea.Mask."""
    bias: Any | None
    """float32, broadcast likewise, added to the scores; -inf masks."""
    alibi: Any | None
    """[q_heads] or [batch, q_heads] float32 slopes: -slope * |distance| is added."""
    relative: Relative | None
    """a fovea.Relative: a bias by position, from a table."""

class _Causal(TypedDict, total=False):
    causal: Causal | None
    """None or False; True (queries and keys must be as many); 'top_left': query i sees keys up to i; 'bottom_right': the last
    query sees the last key; an int, or an int for each sequence: query i sees keys up to i + causal."""

class _Options(Numbers, total=False):
    window: Window | None
    """(left, right): how many keys before and after its own a query sees; None or -1: no limit."""
    arithmetic: Arithmetic | None
    """of bfloat16 q, k and v: 'exact', 'bf16' (weights are rounded before they multiply v), 'bf16_tile' (sums go by blocks,
    too) or 'fastest' (by CPU 'bf16' or 'exact', never 'bf16_tile', which has not been timed on a CPU with AMX); default:
    that of fovea.config(), else 'exact'. Each has the same bits on every CPU."""

class _Arrays(_Biases, Heads, Lengths, total=False):
    kv_starts: Integers | None
    """the token with which the keys of each sequence begin."""

class _Layouts(TypedDict, total=False):
    q_cu_seqlens: Integers | None
    """[sequences + 1] ints: sequences are packed on one axis of tokens; where the queries of each begin, and the last end."""
    layout: Layout
    """'bhtd' (default) or 'bthd' [batch, tokens, heads, channels]; with cu_seqlens also 'htd' or 'thd', without batch."""
    out_layout: Layout | None
    """that of out; default: layout."""

class _PackedKeys(TypedDict, total=False):
    kv_cu_seqlens: Integers | None
    """likewise, of the keys."""

class _Outputs(TypedDict, total=False):
    return_lse: bool
    """also return lse [batch, q_heads, queries] float32, the natural logarithm of each row's sum of exp(score)."""
    return_weights: bool
    """also return weights [batch, q_heads, queries, keys] float32."""
    return_scores: Scores | None
    """also return the scores 'raw' (scaled), 'capped' (after softcap), 'biased' (after bias and mask: -inf where masked) or
    'weights', float32 [batch, heads, queries, keys], computed without the whole matrix."""
    score_heads: Integers | None
    """ascending ints: heads that return_scores is for; default: all."""
    score_queries: Part | None
    """(first, stop): its queries; default: all."""
    score_keys: Part | None
    """(first, stop): its keys; default: all."""
    return_summary: bool
    """also return statistics of the weights, without the matrix, as a dict: key_sums [batch, q_heads, keys], entropy and
    max_weight [batch, q_heads, queries]; with top_keys=n also top_keys and top_weights [..., queries, n]."""
    top_keys: int
    """see return_summary."""

class _Attention(_Arrays, _Causal, _Options, _Layouts, _PackedKeys, total=False): ...
class _AttentionOutputs(_Attention, _Outputs, total=False): ...
class _Execute(_Arrays, _Layouts, _PackedKeys, _Outputs, total=False): ...

class _Described(Numbers, Given, total=False):
    causal: bool | Literal["top_left", "bottom_right", "offset"] | None
    window: Window | None
    mask: Mask | Literal["boolean", "bits", "key_padding", "ranges", "prepared"] | None
    relative: Relative | Literal["alibi"] | None

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
def attention(q: Array, k: Any, v: Any, *, out: Array | None = None, **options: Unpack[_AttentionOutputs]) -> Array | tuple[Any, ...]:
    """softmax(scale * q k^T + bias) v. The same inputs give the same bits on every CPU, with any number of threads, in any batch.

    Arrays are numpy's, torch's on the CPU, or any with DLPack or the buffer protocol. They are read where they are, whatever
    their strides; only if the last axis is not contiguous are they copied. Negative strides are refused. Nothing is kept after
    the call. Outputs are of q's kind. The GIL is released in long calls; any number of threads may call at once.

    q              [batch, q_heads, queries, head_dim] float32, bfloat16 or float16. With 16 bits the result is that of float32
                   on the same numbers, rounded once; see arithmetic.
    k, v           [batch, kv_heads, keys, head_dim], [batch, kv_heads, keys, value_dim]. q_heads is a multiple of kv_heads.
    out            an array to write to, which is then returned; float32 or 16-bit, last axis contiguous, not overlapping inputs.
    {options}

    Lengths, starts and offsets are ints, one for each sequence (a list, or an array of any integers): the queries of a sequence
    are [q_starts, q_starts + q_lens) of the tokens, its keys likewise. Padding is not read, positions count from the first, and
    the bits are those without padding. Rows of padding are zeros. q_offsets are for windows without causal.

    Returns out, C-contiguous in its layout, of q's element type; or a tuple (out, lse, weights) of what was asked for. A row
    that sees no key is zeros, its lse -inf.

    Raises TypeError (no array, other element types, unknown arguments), ValueError (shapes, values, memory that is not the
    CPU's, a gradient that would be lost) or MemoryError. out is then unchanged.
    """

attention_recorded = attention

class Plan:
    """Kernels and tiles for calls of one shape, chosen now. attention() keeps such plans by itself, for its last 256 shapes; make
    one to see what was chosen, or to be sure that a call's shape is the expected one.

    kv_heads: default q_heads. value_dim: default head_dim. causal: None, True, 'top_left', 'bottom_right' or 'offset' (then
    execute() needs q_offsets). mask: a fovea.Mask like those to come, or 'boolean', 'bits', 'key_padding', 'ranges',
    'prepared'. bias, sinks: will they be given? relative: a fovea.Relative, or 'alibi'. packed: batch sequences of at most
    q_len queries and kv_len keys, with cu_seqlens. dtype: of q, k, v and out: 'float32', 'bfloat16' or 'float16'. The rest
    is as for attention(). Uses what fovea.config() says now. Immutable; any thread may execute it.
    """

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
        packed: bool = False,
        dtype: Dtype = "float32",
        arithmetic: Arithmetic | None = None,
        **options: Unpack[_Described],
    ) -> Self: ...
    def execute(
        self, q: Array, k: Any, v: Any, *, out: Array | None = None, **options: Unpack[_Execute]
    ) -> Array | tuple[Any, ...]:
        """As attention(), with the plan's options. ValueError if a size is not the plan's."""
    def describe(self) -> str:
        """A few lines about the plan: tier, kernels, blocks, threads, whether tuned."""
    @property
    def workspace_size(self) -> int: ...

def merge(
    outs: Sequence[Array], lses: Sequence[Array], *, sinks: Any | None = None, layout: Layout = "bhtd"
) -> tuple[Array, Array]:
    """Merges results over disjoint sets of keys into the result over all of them; any split is legal. outs: a list of float32 arrays
    [batch, heads, queries, channels], each what attention() gave for its keys alone; lses: their log-sum-exps [batch, heads,
    queries], of return_lse=True. layout: of outs, 'bhtd' or 'bthd'; of packed sequences 'htd' or 'thd', and lses are [heads,
    tokens]. sinks: [heads], if any; the parts must not include them. Returns (out, lse), contiguous, of the kind and layout of
    outs[0]. A row whose lse is -inf is empty. Merged in the order of the list, in float32: the last bits may differ from
    those of one call.

    ValueError: no parts, lists of different length, shapes that differ. TypeError: not float32.
    """
def layer_norm(
    x: Array, weight: Any | None = None, bias: Any | None = None, *, eps: float = 1e-5, out: Array | None = None
) -> Array:
    """(x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps) * weight + bias, the mean over the last axis. An array of x's kind,
    shape and type; out: where to write it, may be x itself. weight, bias: [channels]. Each is float32, bfloat16 or float16.
    The bits of a row are the same on every CPU, with any number of threads.

    Raises TypeError (no array, another element type), ValueError (shapes, eps, a gradient that would be lost).
    """
def rms_norm(
    x: Array, weight: Any | None = None, bias: Any | None = None, *, eps: float = 1e-5, out: Array | None = None
) -> Array:
    """x / sqrt(mean(x^2) + eps) * weight + bias, the mean over the last axis. An array of x's kind, shape and type; out: where
    to write it, may be x itself. weight, bias: [channels]. Each is float32, bfloat16 or float16. The bits of a row are the
    same on every CPU, with any number of threads.

    Raises TypeError (no array, another element type), ValueError (shapes, eps, a gradient that would be lost).
    """
def embedding_sum(
    tables: Sequence[Array], ids: Sequence[Integers | None], *, scale: float = 1.0, out: Array | None = None
) -> Array:
    """(tables[0][ids[0]] + tables[1][ids[1]] + ...) * scale, [tokens, channels], added in this order. tables: a list of at
    most 16 arrays [rows, channels], float32, bfloat16 or float16. ids: a list of as many arrays of integers [tokens]; None:
    row 0 for every token, but not in all. The result is of the kind and type of tables[0], or out's. The bits are the same
    on every CPU, with any number of threads.

    Raises TypeError (no array, another element type), ValueError (shapes, an id beyond its table, a gradient that would be lost).
    """
def activate(
    x: Array,
    activation: Activation | None = None,
    *,
    up: Any | None = None,
    residual: Any | None = None,
    out: Array | None = None,
) -> Array:
    """activation(x) * up + residual, element by element, with the bits that fovea.Linear gives its results. activation: None,
    or one of Linear that does not gate, such as 'gelu'. up, residual: of x's shape, or None. out: where to write, may be one
    of them. All are float32, bfloat16 or float16.

    Raises TypeError (no array, another element type), ValueError (shapes, a gradient that would be lost).
    """
def pool_tokens(
    x: Array, begin: Integers, end: Integers, pooling: Pooling, *, weights: Any | None = None, out: Array | None = None
) -> Array:
    """One row for each sequence, [sequences, channels], of the rows begin[s] to end[s] - 1 of x [rows, channels]. pooling:
    'first', 'last', 'mean', 'mean_sqrt_len' (sum / sqrt(rows)), 'weighted_mean' or 'max'. weights: float32 [rows] of
    'weighted_mean'; None: 1, 2, 3, ... from begin[s] on. A sequence without rows gives zeros. The bits are the same on
    every CPU, in any batch, with any number of threads.

    Raises TypeError (no array, another element type), ValueError (shapes, rows that are not there, a gradient that would be lost).
    """
def normalize_rows(x: Array, *, out: Array | None = None) -> Array:
    """x / max(sqrt(sum of x^2), 1e-12), over the last axis: rows of length 1. float32, bfloat16 or float16; out may be x
    itself. The bits are the same on every CPU, with any number of threads.

    Raises TypeError (no array, another element type), ValueError (shapes, a gradient that would be lost).
    """
def exp(x: Array, *, out: Array | None = None) -> Array:
    """exp(x), element by element, float32: at most 1 ulp off where the result is normal, +0 below -87.33654, inf above 88.72283.
    out may be x itself. The bits are the same on every CPU: those of softmax, and of fovea-generate's sampling.

    Raises TypeError (no array, another element type), ValueError (shapes, a gradient that would be lost).
    """
def gated_delta_rule(
    q: Array,
    k: Any,
    v: Any,
    gate: Any | None = None,
    beta: Any | None = None,
    *,
    a_log: Any | None = None,
    dt_bias: Any | None = None,
    dt_min: float = 0.0,
    dt_max: float | None = None,
    beta_sigmoid: bool = False,
    beta_scale: float = 1.0,
    delta: bool = True,
    norm: Literal["rsqrt", "max"] | None = None,
    eps: float = 1e-6,
    scale: float | None = None,
    tiled_heads: bool = False,
    transposed: bool = False,
    lens: Integers | None = None,
    cu_seqlens: Integers | None = None,
    state: Any | None = None,
    state_out: Any | None = None,
    cache: StateCache | None = None,
    cache_state: int | None = None,
    sequences: int | Integers | None = None,
    layout: Layout = "bhtd",
    out: Any | None = None,
) -> tuple[Array, Any]:
    """The gated delta rule and linear attention, token after token: S = exp(g) S; S += k (beta (v - S^T k))^T; out = scale S^T q.
    Returns (out, state after the last token). The bits do not depend on how tokens are divided among calls, on the CPU, threads or
    batch. Formulas: fovea/recurrence.h.

    v [batch, heads, tokens, v_dim] has a state for each head. k [batch, k_heads, tokens, k_dim]: k_heads divides heads; head h has k
    head h // (heads // k_heads), with tiled_heads h % k_heads. q likewise, or with several heads for each of v, which share a state.
    gate: g, [batch, heads, tokens] or [.., k_dim]; None: 0. With a_log [heads], g = -exp(a_log) softplus(gate + dt_bias), the
    softplus limited to dt_min and dt_max. beta [batch, heads or 1, tokens]; None: 1; beta_sigmoid: its sigmoid is taken; then it is
    multiplied by beta_scale. delta=False: S += k (beta v)^T. norm: 'rsqrt', q and k are divided by sqrt(sum of squares + eps), as
    transformers does; 'max', by max(sqrt(sum), eps). scale: None or 0 is 1 / sqrt(k_dim). state: [sequences, heads, k_dim, v_dim],
    transposed=True [.., v_dim, k_dim]; None: zeros. state_out: where the new state goes, may be state itself. With
    a cache, its cache_state-th state of its sequences (an int, or a list or array of ints) is read and goes on, and None is returned
    for the state. lens: tokens of each sequence of the batch, outputs of others are zeros. cu_seqlens: of packed sequences, batch 1.
    q, k, v, out are float32, bfloat16 or float16; a_log and dt_bias float32.

    Raises TypeError (no array, another element type), ValueError (shapes, a gradient that would be lost, no such sequence or state in
    the cache). After an error nothing has changed.
    """
def selective_scan(
    x: Array,
    dt: Any,
    a: Any,
    b: Any,
    c: Any,
    d: Any | None = None,
    *,
    z: Any | None = None,
    dt_bias: Any | None = None,
    dt_softplus: bool = True,
    dt_min: float = 0.0,
    dt_max: float | None = None,
    transposed: bool = True,
    lens: Integers | None = None,
    cu_seqlens: Integers | None = None,
    state: Any | None = None,
    state_out: Any | None = None,
    cache: StateCache | None = None,
    cache_state: int | None = None,
    sequences: int | Integers | None = None,
    layout: Layout = "bhtd",
    out: Any | None = None,
) -> tuple[Array, Any]:
    """The scan of Mamba 1 and 2: S = exp(dt a) S + b (dt x)^T; out = (S^T c + d x) silu(z). Returns (out, state after the last token).
    The bits do not depend on how tokens are divided among calls, on the CPU, threads or batch.

    x [batch, heads, tokens, channels]; b, c [batch, groups, tokens, state_dim]. Mamba 2: dt [batch, heads, tokens], a, d, dt_bias
    [heads]. Mamba 1: dt of x's shape, with one head; a [channels, state_dim], d, dt_bias [channels]. a is -exp(A_log) of the models.
    dt becomes softplus(dt + dt_bias) (dt_softplus=False: dt + dt_bias), limited to dt_min and dt_max. state: [sequences, heads,
    channels, state_dim], transposed=False [.., state_dim, channels]; the rest is as for gated_delta_rule().

    Raises TypeError (no array, another element type), ValueError (shapes, a gradient that would be lost).
    """
def causal_conv(
    x: Array,
    weight: Any,
    bias: Any | None = None,
    *,
    silu: bool = False,
    channels_first: bool = False,
    lens: Integers | None = None,
    cu_seqlens: Integers | None = None,
    state: Any | None = None,
    state_out: Any | None = None,
    cache: StateCache | None = None,
    cache_state: int | None = None,
    sequences: int | Integers | None = None,
    out: Any | None = None,
) -> tuple[Array, Any]:
    """The causal convolution of each channel: out[t] = sum of weight[w] x[t - taps + 1 + w] + bias, with silu=True SiLU of that.
    Returns (out, state): the last taps - 1 tokens, for the next call.

    x, out [batch, tokens, channels], state [batch, taps - 1, channels]; channels_first: [batch, channels, tokens], [batch, channels,
    taps - 1]. weight: float32 [channels, taps] or [channels, 1, taps], bias [channels]. The rest is as for gated_delta_rule().

    Raises TypeError (no array, another element type), ValueError (shapes, a gradient that would be lost).
    """
def route(
    logits: Array,
    k: int,
    *,
    score: Literal["softmax", "sigmoid"] = "softmax",
    after_top_k: bool = False,
    bias: Any | None = None,
    groups: int = 1,
    groups_used: int = 1,
    group_score: Literal["max", "sum_of_two"] = "max",
    denominator: Literal["sum", "at_least"] | None = None,
    eps: float = 0.0,
    scale: float = 1.0,
) -> tuple[Any, Any]:
    """Chooses k experts of each token by its logits [..., experts]. Returns (chosen, weights): int64 and float32 [..., k], the best first,
    of equal ones the lowest number, as Experts takes them.

    score: what becomes of all logits, or, with after_top_k=True, of the chosen ones alone, which are then chosen by their logits. bias:
    float32 [experts], added to what experts are chosen by, not to weights. groups, groups_used: experts are chosen from the best groups
    of equal size, by group_score. denominator: weights are divided by their sum + eps ('sum'), by max(sum, eps) ('at_least'), or not.
    scale: multiplies weights at last. docs/experts.md says what models have. A NaN logit makes its token's weights NaN. The bits are
    the same on every CPU, in any batch, with any number of threads.

    Raises TypeError (no array, another element type), ValueError (shapes, a word that is not known, a gradient that would be lost).
    """
def info() -> dict[str, Any]:
    """The settings that calls use now, as a dict: version of the library; isa ('scalar', 'avx2', 'avx512', 'neon'), threads (the most that
    a call uses), pool (whose threads: 'torch' or 'own'), cpu, features beyond the tier, l1d_bytes and l2_bytes, reason (why
    this tier and this many threads), tuning (which tuning file, or what is wrong with it), tuning_rows (how many of its
    rows are used), nodes (of memory); arithmetic (of bfloat16 in calls), models_arithmetic and models_linear_arithmetic (of
    attention and linear maps of bfloat16 in models that run by fovea.torch and fovea.transformers).
    """

class config:
    """Sets what calls of this process use from now on. isa: 'best', 'scalar', 'avx2', 'avx512' or 'neon', the highest tier (one that
    the CPU lacks gives the best below it). threads: at most this many; 0: no limit. Neither changes a bit of any result.
    arithmetic, of calls, plans, maps and layers whose operands are all bfloat16: 'exact' (the bits of float32 on the same numbers,
    rounded once), 'bf16', 'bf16_tile', 'fastest' (see attention()), or 'default': exact, but the fastest in models that run by
    fovea.torch and fovea.transformers. None leaves a setting unchanged. As a context manager, it restores the settings:

        with fovea.config(isa='scalar'):
            expected = fovea.attention(q, k, v)

    Plans keep the settings with which they were made. Settings are not per thread: all threads use them.
    """

    def __new__(
        cls, *, isa: Isa | None = None, threads: int | None = None, arithmetic: Arithmetic | Literal["default"] | None = None
    ) -> Self: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

def set_num_threads(threads: int, /) -> None:
    """Calls of this process, of all its threads, use at most this many threads from now on; 0: no limit of Fovea's own. Never more than
    CPU affinity and cgroup quota allow, nor than torch.set_num_threads() in a process with torch. Until it is called, without
    torch, OMP_NUM_THREADS is the limit. Changes no bit of any result. ValueError: negative, or above 1024.
    """
def get_num_threads() -> int:
    """How many threads a call uses at most now: the smallest of set_num_threads(), torch.set_num_threads() or else OMP_NUM_THREADS,
    config(threads=), and what CPU affinity and cgroup quota allow.
    """
def models_arithmetic() -> Arithmetic:
    """The arithmetic= of calls that a model makes through torch or transformers: that of fovea.config(), else 'fastest'.
    """
def _renew() -> None: ...

class CacheFullError(MemoryError): ...

class Rope:
    """Rotary position embedding of one model, for queries (apply()) and for the keys of a KVCache (rope=). Its angles are computed in
    double, so that they are as exact at position 16 million as at 1.

    rotary_dim: even, from 2 to 1024. pairing: 'halves' rotates channels i and i + rotary_dim / 2 together (transformers),
    'adjacent' 2i and 2i + 1 (GGUF, GPT-J). scaling: None, 'linear', 'ntk', 'yarn' or 'llama3', by the formulas of
    transformers, with factor and, of yarn and llama3, original_positions. attention_factor multiplies sines and cosines; 0:
    1, or yarn's own. divisors: float32 [rotary_dim / 2] by which frequencies are divided.

    Immutable; any thread may use it. ValueError: a number that makes no sense, a word that is not known.
    """

    def __new__(
        cls,
        rotary_dim: int,
        *,
        base: float = 10000.0,
        pairing: Literal["halves", "adjacent"] = "halves",
        scaling: Literal["linear", "ntk", "yarn", "llama3"] | None = None,
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
    ) -> Array:
        """x rotated, an array of its kind, type and shape. Rotates the first rotary_dim channels of each head. The bits are the
        same on every CPU.

        x: [batch, heads, tokens, channels], float32, bfloat16 or float16, in a layout as of attention(). positions: an int,
        the position of the first token of each sequence; or ints [tokens], the same for all sequences; or [batch * tokens].
        From 0 to 16777215. out: where to write, of x's shape and type; may be x itself.

        Raises TypeError (no array, another element type), ValueError (shapes, positions, a gradient that would be lost).
        """
    @property
    def rotary_dim(self) -> int: ...

class _CacheArrays(_Biases, Heads, Lengths, _Options, _Layouts, _Outputs, total=False):
    causal: Literal["top_left", "bottom_right"] | int | Integers | None

class StateCache:
    """States of linear recurrences for decoding. gated_delta_rule(), selective_scan() and causal_conv() with cache= go on from the
    states that sequences have, with the bits of one call over all tokens.

        cache = fovea.StateCache([3 * 8192, 32 * 128 * 128], max_sequences=8, slots=5)
        s = cache.add()
        x, _ = fovea.causal_conv(x, weight, cache=cache, cache_state=0, sequences=s)
        out, _ = fovea.gated_delta_rule(q, k, v, cache=cache, cache_state=1, sequences=s)

    floats: numbers of each state, of all layers: heads * k_dim * v_dim, heads * channels * state_dim, (taps - 1) * channels. slots:
    the states after how many of the last tokens are kept, from 1 to 1024: a sequence can go back by slots - 1. States are float32;
    memory comes from the system as a state is first written.

    Any thread may call it; while one changes a sequence, no other may use that one (ValueError). Methods raise CacheFullError where
    there are max_sequences, ValueError (no such sequence or state) or MemoryError; then nothing has changed.
    """

    def __new__(cls, floats: Integers, *, max_sequences: int, slots: int = 1) -> Self: ...
    def add(self) -> int:
        """Adds a sequence without tokens, whose states are zeros. Returns its number, which is never given again."""
    def fork(self, sequence: int, /) -> int:
        """Adds a sequence with the states of another, and returns its number. They share all states until one goes on: nothing is
        copied.
        """
    def remove(self, sequence: int, /) -> None:
        """Removes a sequence."""
    def length(self, sequence: int, state: int = 0) -> int:
        """Tokens that a state of a sequence has seen."""
    def truncate(self, sequence: int, length: int) -> None:
        """Takes back the last tokens: all states have seen at most `length`. ValueError where a state of that length is no longer kept
        (0 is always legal); nothing has changed then.
        """
    def check(self, sequence: int, keys: KVCache | None = None, key_sequence: int | None = None) -> None:
        """Raises ValueError, which names the first that differs, unless all states of a sequence have seen as many tokens, and all
        layers of a sequence of a KVCache have that length, too.
        """
    @overload
    def save(self, sequence: int, path: None = None) -> bytes:
        """A sequence as bytes, or, with a path, written to that file (then None): all states that it can go back to, with a checksum.
        Any machine of the same byte order can load it, into a cache of the same floats. OSError: of the file.
        """
    @overload
    def save(self, sequence: int, path: str | PathLike[str]) -> None: ...
    def load(self, source: bytes | bytearray | memoryview | str | PathLike[str], /) -> int:
        """Adds a sequence with what save() gave, and returns its number. source: bytes, or the path of a file. Trusts no byte:
        ValueError where they are damaged, or of a cache of other states. CacheFullError. OSError: of the file. After an error nothing
        has changed.
        """
    @property
    def states(self) -> int: ...
    @property
    def max_sequences(self) -> int: ...
    @property
    def slots(self) -> int: ...

class KVCache:
    """Keys and values of sequences for decoding, in pages of 256 positions of one layer. Sequences grow by append(), share pages after
    fork(), and are read by attend(), with the bits of the same keys and values in contiguous arrays.

        cache = fovea.KVCache(30, 3, 64, dtype='bfloat16', max_bytes=1 << 30)
        s = cache.add()
        for layer in range(30):
            cache.append(layer, s, k, v)
            out = cache.attend(layer, s, q, causal='bottom_right')

    layers, kv_heads, head_dim (channels of keys), value_dim (of values; default head_dim). dtype: as which both are kept,
    k_dtype and v_dtype each: 'float32', 'bfloat16', 'float16', 'int8' (with a scale for each token and head) or 'int4'
    (with one for each 32 channels); what is appended is rounded to it once. max_bytes or max_pages, one of them: the most
    that pages may take; memory comes from the system page by page, as it is first used. windows: None; or how many keys
    before its own a query sees, an int or a list with an int or None for each layer: pages wholly behind are freed. rope: a
    fovea.Rope that rotates keys as they are appended; rotate queries by its apply().

    Any thread may call it, and any number may attend to a sequence at once; while one changes a sequence, no other may use that one
    (ValueError). After a fork of the process each has its own; a sequence that another thread was changing then
    can only be removed in the child. Uses what fovea.config() says when it is made.

    Methods raise CacheFullError where no page is left, ValueError (no such sequence or layer, shapes), TypeError (element types) or
    MemoryError; then nothing has changed.
    """

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
    def add(self) -> int:
        """Adds a sequence without tokens. Returns its number, which is never given again."""
    def fork(self, sequence: int, /) -> int:
        """Adds a sequence with the tokens of another, and returns its number. They share all pages; a shared page is
        copied when one of them first writes to it.
        """
    def remove(self, sequence: int, /) -> None:
        """Removes a sequence. Pages that no other has are free."""
    def clear(self) -> None:
        """Removes all sequences."""
    def length(self, sequence: int, layer: int = 0) -> int:
        """Tokens of a sequence in a layer, evicted ones included: the position of the next."""
    def reserve(self, sequences: int | Integers, tokens: int | Integers) -> None:
        """Takes the pages that tokens[i] more tokens of sequences[i] need, in all layers: appends of that many cannot find the cache
        full. sequences, tokens: ints, or lists or arrays of as many. CacheFullError: nothing has changed.
        """
    def truncate(self, sequence: int, length: int) -> None:
        """Cuts all layers of a sequence to at most `length` tokens. ValueError where a layer has a window and keys are gone that
        the next token would see; nothing has changed then.
        """
    def evict(self, sequence: int, begin: int, end: int) -> None:
        """Takes positions [begin, end) out of all layers of a sequence: attention skips them, and pages wholly inside are free.
        All other positions stay what they were.
        """
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
    ) -> None:
        """Appends tokens to one layer of sequences, each behind those that it has.

        sequences: an int, or a list or array of ints, all different. k, v: [sequences, kv_heads, tokens, head_dim] and
        [..., value_dim], float32, bfloat16 or float16 each, of any strides; rounded once to the cache's types. lens:
        [sequences] ints, only the first lens[i] tokens are sequence i's. cu_seqlens: [sequences + 1] ints, where each
        begins, and the last ends, on one axis of tokens (layout 'htd' or 'thd', or a batch of 1). layout: as of
        attention(). rotated: keys are rotated already, the cache's rope leaves them as they are.

        All pages are taken before a byte is written: after an error nothing has changed. CacheFullError: no page is left.
        ValueError: no such layer or sequence, shapes, a gradient that would be lost. TypeError: element types.
        """
    def attend(
        self, layer: int, sequences: int | Integers, q: Array, *, out: Array | None = None, **options: Unpack[_CacheArrays]
    ) -> Array | tuple[Any, ...]:
        """attention() with the keys and values that sequences have in a layer, as they lie.

        sequences: an int, or a list or array of ints; one may come several times. q: [sequences, q_heads, queries, head_dim];
        with q_cu_seqlens all queries are on one axis, some sequences in prefill, others in decode. causal: 'bottom_right' where
        the last query is the last token that was appended, or offsets. kv_lens: fewer keys than sequences have, from the first
        on. Columns of mask, bias, weights and scores are positions, as many as the longest of the sequences has. Evicted keys
        are skipped. In a layer with a window, give it as window=(left, ...). Everything else is as for attention().

        Pages that several sequences share are read once for all of them; the bits are the same.

        ValueError, too: a query sees keys that are gone behind the layer's window.
        """
    @overload
    def save(self, sequence: int, path: None = None) -> bytes:
        """A sequence as bytes, or, with a path, written to that file (then None): all layers, lengths, evicted ranges, and
        what is kept of its tokens, with a checksum. Any machine of the same byte order can load it, into a cache of the
        same shape. OSError: of the file.
        """
    @overload
    def save(self, sequence: int, path: str | PathLike[str]) -> None: ...
    def load(self, source: bytes | bytearray | memoryview | str | PathLike[str], /) -> int:
        """Adds a sequence with what save() gave, and returns its number. source: bytes, or the path of a file. Trusts no byte:
        ValueError where they are damaged, or of a cache of other layers, heads, channels, types, windows or rope.
        CacheFullError. OSError: of the file. After an error nothing has changed.
        """
    def stats(self) -> dict[str, int]:
        """A dict of ints.
        page_bytes: size of a page, which holds 256 positions of one layer. token_bytes: size of a token in all layers.
        max_pages: the cache's limit. used_pages: pages of any sequence. shared_pages: pages of several. peak_pages: the
        most used at once, memory that the system has provided. sequences: how many there are. appended_tokens: in any
        layer, so far. copied_pages: so far, because they were shared. window_pages, evicted_pages: freed so far.
        """
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
    """The map y = activation(x W + bias) + residual with packed weights: copied once, here, into the order in which they are read. A row
    of y has the same bits whatever the other rows, threads and tier. Inference only: later changes of weight have no effect.

    weight: [out, in] of any strides, or [in, out] with layout='in_out', in float32, bfloat16 or float16. bias: [out]. dtype: of x,
    residual and the result, 'float32', 'bfloat16' or 'float16'; default: weight's. With 16 bits the result is that of float32 on the
    same numbers, rounded once. arithmetic: of bfloat16, as for attention().
    activation: None or a word; those that gate take a list of two matrices, t = x W0 + b0 and up = x W1 + b1, for one result:
    {activations}
    scales: of a weight of integers, [out] of float32: element [o, i] is scales[o] times its integer, rounded, and the result is that of
    float32 on these numbers, in a quarter of the memory; dtype is then float32 by default.
    quantization: weights of floats are quantized as they are packed: 'int8' (a scale for each output channel), 'int4' (groups
    of 32, float16 scales), or GGUF's 'q8_0', 'q4_0', 'q4_1' (blocks of 32) and 'q4_k' (256), which in must be a multiple of; the
    attribute error says what that costs. Linear.quantized() takes weights that are quantized already. arithmetic: of quantized
    weights 'q16' (the default), 'q8' or 'exact'.
    scale: a number that multiplies weight and bias as they are packed. heads: the result is [batch, heads, tokens,
    channels], which attention() reads, instead of rows.

    Several maps of one x are one product: a list of up to 16 weights, then bias, scale and heads are lists, too (an item may be
    None), and a call returns a tuple:

        qkv = fovea.Linear([wq, wk, wv], [bq, bk, bv], heads=[12, 4, 4])
        out = fovea.attention(*qkv(x))

    Uses what fovea.config() says when it is made. Any thread may call it. ValueError: shapes that do not fit, a word that is not
    known. TypeError: another type.
    """

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
        quantization: Quant | None = None,
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
        quantization: Quant | None = None,
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
    ) -> Self:
        """A Linear of weights that are quantized already, taken as they are stored. in and out: its channels; p = 32 / bits,
        the integers of a word; groups = in / group_size, of a multiple of 16 channels.

            kind                  weight                    scales         zeros
            'int8'                int8 [out, in]            [out, groups]
            'fp8'                 float8_e4m3fn [out, in]   [out, groups], or of blocks of 128 x 128: [out / 128, in / 128]
            'gptq'                int32 [in / p, out]       [groups, out]  int32 [groups, out / p]
            'awq'                 int32 [in, out / 8]       [groups, out]  int32 [groups, out / 8]
            'compressed-tensors'  int32 [out, in / p]       [out, groups]  int32 [out / p, groups]
            'gguf:Q4_K' and so on uint8 [out, bytes]        in the blocks; also Q8_0, Q5_K, ...

        'fp8' takes the bytes as uint8, too, and computes as float32 does. scales: float32, float16 or bfloat16. zeros None: 8, or
        128 with bits=8. zero_offset: added to each zero: 1 of GPTQ's first format, which stores zeros less 1. g_idx: [in], the
        group of each channel ('gptq', 'compressed-tensors'). bits: 4 or 8 ('awq': 4). group_size: checked if given. dtype: of x and
        the result. The rest is as for Linear(); for several matrices weight, scales, zeros, g_idx, bias and heads are lists.
        ValueError: shapes,
        groups, scales or zeros that do not fit or are not finite. TypeError: another type.
        """
    def apply(
        self,
        x: Array,
        residual: Any | None = None,
        *,
        out: Any | None = None,
        lens: Integers | None = None,
        part: int | None = None,
        activation: Activation | None = ...,
    ) -> Any:
        """activation(x W + bias) + residual, of x's kind and type. A call of the object is the same.

        x: [..., in_features], or the heads that attention() gives in layout 'bhtd', [batch, heads, tokens, channels] with
        heads * channels = in_features. The result: [..., out_features]; of such heads [batch, tokens, out_features]; with
        heads= of the constructor [batch, heads, tokens, channels]. residual: added, of the result's shape. out: where to
        write, of the result's shape, contiguous in its last axis; may be residual itself. lens: [batch], only the first
        lens[b] rows of a sequence are read and written; the others are +0 in an array that was made here, and stay as they
        are in out. For several matrices, residual and out are lists, and the result is a tuple. part: computes only the matrix of that
        number, with the bits that it has among the others; residual and out are then arrays, and so is the result. activation: in place of
        the constructor's, None: none.

        ValueError: shapes that do not fit, out that overlaps an input or is read-only, a gradient that would be lost.
        TypeError: not of the map's type.
        """
    __call__ = apply
    def unpack(self, weight: Any, bias: Any | None = None, *, part: int = 0, scales: Any | None = None) -> None:
        """Writes the packed weights of a matrix into weight, [out, in] and contiguous, of weight_dtype: the bits that were
        packed. Of quantized weights a float32 array gets the numbers that they stand for; their own bits go into int8 [out,
        in], or uint8 with as many bytes to a row as they have. bias: [out], float32, likewise; -0.0 where there is none
        (has_bias). part: of several matrices; of silu_gated 0 is the gate. scales: [out], float32, of integers with one for
        each output channel.
        """
    def describe(self) -> str:
        """A few lines: block sizes and whether they were tuned."""
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
    def quantization(self) -> Quant | Quantized | None: ...
    @property
    def error(self) -> dict[str, float] | tuple[dict[str, float], ...] | None: ...
    @property
    def nbytes(self) -> int: ...

class Experts:
    """Experts of a mixture with packed weights: for each token the sum, over its experts in ascending order, of
    weight * (act(x Wgate + b) * (x Wup + b) Wdown + b). A token's row has the same bits whatever the other tokens, threads and tier.
    Inference only: later changes of weights have no effect.

    up, gate: [experts, intermediate, in] of any strides, or [experts, in, intermediate] with layout='in_out', in float32, bfloat16 or
    float16; down: [experts, out, intermediate] likewise. up_bias, gate_bias [experts, intermediate], down_bias [experts, out].
    activation: one that gates, or another, of experts without a gate. gate_up: 'separate'; or gate is None and up has both, of twice
    as many channels: 'concatenated', the gate's first (transformers), or 'interleaved', the gate's at even numbers (gpt-oss).
    limit, alpha, up_offset: of 'silu_gated', with g = min(g, limit) and u within -limit and limit, g * sigmoid(alpha * g) *
    (u + up_offset); gpt-oss has 7, 1.702 and 1. dtype: of x and the result; default: that of up. quantization: as of Linear.
    kind: weights are bytes of GGUF's blocks, uint8 [experts, out, bytes]: 'gguf:Q4_K' and so on. up_scales, down_scales, gate_scales:
    of 'gguf:MXFP4' as gpt-oss's safetensors have it, uint8 [experts, out, in / 32]; the weights are then codes alone, uint8 [experts, out,
    in / 2] or [experts, out, in / 32, 16]. Or kind='fp8', float8_e4m3fn or its bytes [experts, out, in] with a scale for each row, floats
    [experts, out, 1], or each 128 x 128, [experts, out / 128, in / 128]; gate is separate. arithmetic: of quantized weights 'q16' (the
    default), 'q8' or 'exact'; of 'fp8' always 'exact'.

    Uses what fovea.config() says when it is made. Any thread may call it. ValueError: shapes that do not fit, a word that is not
    known. TypeError: another type.
    """

    def __new__(
        cls,
        up: Any,
        down: Any,
        gate: Any | None = None,
        *,
        up_bias: Any | None = None,
        down_bias: Any | None = None,
        gate_bias: Any | None = None,
        activation: Activation = "silu_gated",
        gate_up: Literal["separate", "concatenated", "interleaved"] = "separate",
        layout: Literal["out_in", "in_out"] = "out_in",
        limit: float | None = None,
        alpha: float = 1.0,
        up_offset: float = 0.0,
        dtype: Dtype | None = None,
        arithmetic: LinearArithmetic | None = None,
        quantization: Quant | None = None,
        kind: Quantized | None = None,
        up_scales: Any | None = None,
        down_scales: Any | None = None,
        gate_scales: Any | None = None,
    ) -> Self: ...
    def apply(self, x: Array, chosen: Any, weights: Any, *, out: Any | None = None) -> Array:
        """The result, [..., out_features], of x's kind and type. A call of the object is the same.

        x: [..., in_features]. chosen: integers [..., k], the experts of each row of x; the number of experts means none. weights: [...,
        k] of float32, bfloat16 or float16. fovea.route() gives both. out: where to write.

        ValueError: shapes that do not fit, another number, out that overlaps an input or is read-only, a gradient that would be
        lost. TypeError: not of the experts' type.
        """
    __call__ = apply
    @property
    def experts(self) -> int: ...
    @property
    def in_features(self) -> int: ...
    @property
    def intermediate(self) -> int: ...
    @property
    def out_features(self) -> int: ...
    @property
    def dtype(self) -> Dtype: ...
    @property
    def weight_dtype(self) -> WeightDtype: ...
    @property
    def activation(self) -> Activation: ...
    @property
    def nbytes(self) -> int: ...

class MultiHead:
    """The layer Concat(head_1 .. head_h) W^O, head_i = attention(Q W_i^Q, K W_i^K, V W_i^V), with packed weights, for
    inference only. The weights are copied here; later changes of them have no effect.

        layer = fovea.MultiHead(q_heads=12, fused=m.in_proj_weight, fused_bias=m.in_proj_bias,
                                o=m.out_proj.weight, o_bias=m.out_proj.bias)        # of a torch.nn.MultiheadAttention
        y = layer(x)                                                                # [batch, tokens, features]

    The weights given say the form:
      factored   q, k, v: [heads * head_dim, features] as torch keeps them (layout='in_out': [features,
                 heads * head_dim]), or head by head [heads, head_dim, features]
                 ('in_out': [heads, features, head_dim])
      fused      fused: q, k and v in one; order 'qkv', as torch's in_proj_weight, or 'grouped': for each key head its
                 queries, its key, its value
      tied       q alone serves all three
      folded     outer_q, outer_k, outer_v are applied first, and are multiplied into q, k, v here
      merged     merged: a tuple of one matrix [q_features, k_features] for each head, scores = Q W K^T, with head_dim
                 for the scale; or form='merged': they are made of q and k. merge: 'queries' or 'keys' are multiplied
                 by W
      projected  no weights but o: the inputs are heads [batch, heads, tokens, head_dim]
    o: [out_features, heads * value_dim]; without it the heads are the result. Biases: vectors as long as their weight's
    output.
    inputs: 'self' (x alone; the default), 'cross' (queries; keys and values), 'separate' (q, k, v; projected: the
    default).
    fold_values: v and o become one matrix: 'always', or 'cheaper' where that takes fewer operations for shape = (batch,
    queries, keys); shape limits nothing. head_dim, value_dim: where the weights do not say.
    dtype: of inputs, heads and result, 'float32', 'bfloat16' or 'float16'; default: that of the first weight. Weights
    may be of any of these, biases of one. Each step is computed in float32 and rounded to dtype once. arithmetic: of
    bfloat16, as for attention().
    q_tokens, kv_tokens: for calls with packed sequences (q_cu_seqlens): the most tokens of all their queries, and of all their
    keys (default: q_tokens).
    The options of attention are as for fovea.Plan; those that need arrays get them in execute().
    q_norm, k_norm: [head_dim]: each head's queries, or keys, are divided by their root mean square (norm_eps is added
    to the mean square) and multiplied by this, before they are rotated or multiplied (Qwen3; Gemma 3: 1 + its weight).
    Of one type with the biases.
    cache_dtype: the layer is over a fovea.KVCache, see execute(): the dtype of its caches, or a pair (k_dtype,
    v_dtype). inputs is 'self', the form factored, folded or fused, without fold_values. causal=True: a token sees those
    before it, in the cache and among the new ones.

    Quantized weights: q, k, v, o or fused may be a fovea.Linear, packed in any way of its own, with its bias; fused may be
    one of three matrices. Their rows are packed again as they are. Those of one input are one product if they are
    quantized alike, else each a product of its own. Arithmetics of all quantized ones must agree. quantization: a word
    of Linear(quantization=) for those that are arrays, all heads in one matrix; arithmetic then may be 'q16', 'q8' or 'exact'.

    Uses what fovea.config() says when it is made. Any thread may call it. Raises TypeError (another type, no array) or
    ValueError (shapes or options that do not fit).
    """

    def __new__(
        cls,
        *,
        q_heads: int,
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
        dtype: Dtype | None = None,
        arithmetic: LinearArithmetic | None = None,
        q_tokens: int | None = None,
        kv_tokens: int | None = None,
        cache_dtype: CacheDtype | tuple[CacheDtype, CacheDtype] | None = None,
        q_norm: Any | None = None,
        k_norm: Any | None = None,
        norm_eps: float = 1e-6,
        quantization: Quant | None = None,
        **options: Unpack[_Described],
    ) -> Self: ...
    def execute(
        self,
        q: Array,
        k: Any | None = None,
        v: Any | None = None,
        *,
        q_cu_seqlens: Integers | None = None,
        kv_cu_seqlens: Integers | None = None,
        cache: KVCache | None = None,
        layer: int | None = None,
        sequences: int | Integers | None = None,
        out: Array | None = None,
        return_lse: bool = False,
        return_weights: bool = False,
        **options: Unpack[_Arrays],
    ) -> Array | tuple[Array, ...]:
        """Runs the layer. A call of the object is the same. q, k, v: [batch, tokens, features] or [tokens, features], or heads
        [batch, heads, tokens, channels]; as many of them as inputs says. The result: [batch, queries, out_features] of q's
        kind; without o heads [batch, heads, queries, value_dim]. The rest is as for attention(): lse [batch, heads,
        queries], weights [batch, heads, queries, keys], a tuple of what was asked for. Rows past q_lens: o_bias, or +0. The
        packed weights are shared by all shapes.
        q_cu_seqlens, kv_cu_seqlens: of a layer made with q_tokens=, where sequences begin on the one axis of tokens, and the
        last ends: q, k and v are [tokens, features], lse [heads, tokens], weights [heads, tokens, keys]. A layer of one
        input needs q_cu_seqlens alone. Tokens of no sequence are zeros.

        cache, layer, sequences: of a layer made with cache_dtype=, a fovea.KVCache with kv_heads, head_dim and value_dim of
        the layer, the number of its layer, and an int, or a list or array of different ints. q holds their new tokens,
        [sequences, tokens, features], or [tokens, features] of one: they are projected, normalized by q_norm and k_norm,
        rotated by the cache's rope, and appended; then each attends to all of its sequence that causal and window let it
        see. q_lens: [sequences], fewer tokens of each. With q_tokens=, q_cu_seqlens says where the tokens of each begin.
        kv_lens, q_starts, kv_starts and kv_cu_seqlens are refused. Columns of mask, bias and weights are positions, as many
        as the longest sequence then has. The bits do not depend on the pieces in which tokens come.

        Raises what attention() raises; over a cache CacheFullError where no page is left, TypeError (a cache of other
        element types) and ValueError (of other heads or channels, no such layer or sequence, one that another thread uses).
        The cache's layer is then as it was. Other layers, to which this step was appended already, keep it: reserve()
        before the first makes sure that none is full, truncate() takes it back.
        """
    __call__ = execute
    @property
    def form(self) -> Literal["factored", "merged", "folded", "projected", "tied", "fused"]: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def weight_dtypes(self) -> tuple[WeightDtype | None, WeightDtype | None, WeightDtype | None, WeightDtype | None]: ...
