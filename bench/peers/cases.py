"""The cases of the comparison, each with the ratio it must reach."""

import fnmatch
from dataclasses import dataclass, replace

SIZES = {"f32": 4, "bf16": 2, "f16": 2}  # bytes of an element
# How far a result may be from float64's on operands that are numbers of the type.
TOLERANCES = {"f32": 1e-4, "bf16": 6e-2, "f16": 8e-3}


@dataclass(frozen=True)
class Case:
    """One comparison. Attention unless kind says otherwise. Cases of a tier are measured in one process; "best" is the
    highest tier that the CPU has, "alone" the same without any peer."""

    title: str
    batch: int = 1
    heads: int = 1
    kv_heads: int = 0  # 0: as many as heads
    q_len: int = 0
    kv_len: int = 0
    head_dim: int = 64
    causal: bool = False
    window: int = 0  # keys that a row sees, itself included and those before it; 0: all
    mask: bool = False  # a boolean mask for all heads, in which a row sees 7 keys of 8
    bias: bool = False  # a bias for each head, row and key
    relative: str = ""  # a bias by positions: alibi, toeplitz or t5 (32 buckets to 128 tokens, both ways)
    softcap: float = 0.0
    sinks: bool = False
    key_sums: bool = False  # also the sum of the weights of each key, which is then what is compared
    lengths: tuple = ()  # of the sequences of a batch, the longest q_len; each sees its own keys
    tier: str = "best"
    target: float = 0.0  # at least this many times as fast as the better of `against`; 0: shown, no target
    against: tuple = ("torch", "onnxruntime")
    kind: str = "attention"  # "exp": over `q_len` floats; "threads": two threads against one; "linear": x W + b;
    # "decode": one query of each sequence to its keys, which come from memory; "mha": self-attention of a whole layer,
    # d_model = heads * head_dim, with biases
    dtype: str = "f32"  # of operands and results: bf16, f16
    arithmetic: str = "exact"  # Fovea's, where dtype has others
    own_target: float = 0.0  # of 16 bits: at least this many times as fast as Fovea in float32
    rows: int = 0  # of a linear map: x is rows x channels
    columns: int = 0
    channels: int = 0

    @property
    def threads(self):
        return 2 if self.kind == "threads" else 1

    @property
    def agreement(self):
        """How far two results may be apart that are each as far from the exact one as they may be."""
        return 2 * TOLERANCES[self.dtype]

    @property
    def groups(self):
        return self.kv_heads or self.heads

    @property
    def added(self):
        """Is there anything that is added to scores, an element for each head?"""
        return self.bias or bool(self.relative)

    @property
    def model(self):
        """d_model of a layer."""
        return self.heads * self.head_dim

    @property
    def pairs(self):
        """(row, key) pairs attended to."""
        rows = self.batch * self.heads
        if self.lengths:
            return self.heads * sum(n * n for n in self.lengths)
        if not self.causal:
            return rows * self.q_len * self.kv_len
        width = self.window or self.kv_len
        return rows * sum(min(i + 1, width, self.kv_len) for i in range(self.q_len))

    @property
    def bytes(self):
        """Bytes of the weights, or keys and values, that a case reads once, if reading bounds it; else 0."""
        if self.kind == "linear" and self.rows == 1:
            return SIZES[self.dtype] * self.columns * self.channels
        if self.kind == "decode":
            return 2 * SIZES[self.dtype] * self.batch * self.groups * self.kv_len * self.head_dim
        return 0

    @property
    def copies(self):
        """Copies of operands that are used in turn, so that none is in a cache when it is: together COLD bytes."""
        return -(-COLD // self.bytes) if self.kind == "decode" else 1

    @property
    def work(self):
        """Flops, or elements of an exp."""
        if self.kind == "exp":
            return self.q_len
        if self.kind == "linear":
            return 2 * self.rows * self.columns * self.channels
        layer = 8 * self.batch * self.q_len * self.model**2 if self.kind == "mha" else 0
        return layer + 4 * self.head_dim * self.pairs


TIERS = ("best", "avx2", "alone")
COLD = 1 << 27  # bytes: several times what caches of a core hold


def self_attention(title, batch, heads, tokens, head_dim, target, **more):
    return Case(title, batch, heads, q_len=tokens, kv_len=tokens, head_dim=head_dim, target=target, **more)


def scores(title, **more):
    """An option of scores, at the shape of their targets."""
    return self_attention(f"B1 H16 T2048 D64 {title}", 1, 16, 2048, 64, 0.0, **more)


def ragged(title, heads, lengths, target):
    """Sequences of these lengths, packed or, by those that cannot do that, padded."""
    return self_attention(f"{title}, H{heads} D64", len(lengths), heads, max(lengths), 64, target, lengths=lengths)


def decode(batch, heads, groups, keys, target=0.0):
    title = f"decode H{heads}/{groups} {batch}x{keys} D128"
    return Case(title, batch, heads, groups, 1, keys, 128, target=target, kind="decode")


def linear(rows, columns, channels, target, tier="best"):
    title = f"linear {rows}x{columns}x{channels}" + (" AVX2" if tier == "avx2" else "")
    return Case(title, kind="linear", rows=rows, columns=columns, channels=channels, target=target, tier=tier,
                against=("torch",))


def layer(title, batch, tokens, target):
    return Case(title, batch, 12, q_len=tokens, kv_len=tokens, target=target, kind="mha", against=("torch",))


HALVES = ("torch", "openvino", "zentorch")  # peers in 16 bits


def half(case, dtype, target, own_target=0.0, arithmetic="exact", against=HALVES):
    """A case in 16 bits; its title begins with the type, and ends with the arithmetic where there is another."""
    more = f", {arithmetic}" if arithmetic != "exact" else ""
    return replace(case, title=f"{dtype} {case.title}{more}", dtype=dtype, arithmetic=arithmetic, target=target,
                   own_target=own_target, against=against)


# Rows that no tile has: from edges of tiles to a whole tile and an edge.
FEW_ROWS = tuple((rows, side, side) for side in (768, 4096) for rows in (2, 3, 5, 7, 11, 13, 20))

FLOAT_CASES = (
    self_attention("B1 H12 T512 D64", 1, 12, 512, 64, 1.15),
    self_attention("B1 H12 T512 D64 causal", 1, 12, 512, 64, 2.2, causal=True),
    self_attention("B1 H16 T2048 D64", 1, 16, 2048, 64, 1.20),
    self_attention("B1 H16 T2048 D64 causal", 1, 16, 2048, 64, 1.55, causal=True),
    self_attention("B1 H8 T2048 D128 causal", 1, 8, 2048, 128, 1.35, causal=True),
    self_attention("B8 H12 T128 D64", 8, 12, 128, 64, 1.15),
    self_attention("B32 H8 T32 D64", 32, 8, 32, 64, 1.15),
    self_attention("B1 H16 T500 D40", 1, 16, 500, 40, 1.15),
    self_attention("B1 H16 T500 D80", 1, 16, 500, 80, 1.15),
    self_attention("B1 H16 T2048 D64 window 256", 1, 16, 2048, 64, 6.0, causal=True, window=256),
    scores("boolean mask", mask=True),
    scores("bias", bias=True),
    scores("boolean mask and bias", mask=True, bias=True),
    scores("softcap", softcap=50.0),
    scores("sinks", sinks=True),
    scores("ALiBi", relative="alibi"),
    scores("Toeplitz", relative="toeplitz"),
    scores("T5 buckets", relative="t5"),
    scores("sums of keys", key_sums=True, against=("torch",)),
    ragged("lengths 256, 512, 1024, 2048", 16, (2048, 1024, 512, 256), 3.0),
    ragged("16 documents of 768 to 256 tokens", 16, tuple(768 - 512 * b // 15 for b in range(16)), 0.0),
    decode(1, 32, 8, 4096, 3.0),
    decode(1, 32, 32, 4096),
    decode(8, 32, 8, 2048),
    linear(512, 768, 768, 1.03),
    linear(2048, 1024, 1024, 1.03),
    linear(512, 2304, 768, 1.03),
    linear(128, 768, 768, 1.05),
    linear(32, 768, 768, 1.2),
    linear(8, 768, 768, 1.0),
    linear(1, 4096, 4096, 1.0),
    *(linear(*size, 0.0) for size in FEW_ROWS),
    layer("layer B1 T512 d768 h12", 1, 512, 1.2),
    layer("layer B8 T128 d768 h12", 8, 128, 1.1),
    Case("exp of 65536 floats in L2", kind="exp", q_len=65536, target=1.2, against=("torch",)),
    Case("exp against SLEEF u10", kind="exp", q_len=65536, target=2.0, against=("sleef",)),
    self_attention("B1 H16 T2048 D64 AVX2", 1, 16, 2048, 64, 1.12, tier="avx2", against=("torch",)),
    self_attention("B1 H16 T2048 D64 causal AVX2", 1, 16, 2048, 64, 1.4, causal=True, tier="avx2", against=("torch",)),
    linear(512, 768, 768, 1.02, tier="avx2"),
    self_attention("two threads, T2048", 1, 16, 2048, 64, 1.9, tier="alone", kind="threads", against=("one thread",)),
)

LONG = self_attention("B1 H16 T2048 D64", 1, 16, 2048, 64, 0.0)
CAUSAL = self_attention("B1 H16 T2048 D64 causal", 1, 16, 2048, 64, 0.0, causal=True)
WIDE = self_attention("B1 H8 T2048 D128 causal", 1, 8, 2048, 128, 0.0, causal=True)
LONG_AVX2 = replace(LONG, title=LONG.title + " AVX2", tier="avx2")
LINEAR_AVX2 = linear(512, 768, 768, 0.0, tier="avx2")
BOTH = ("torch", "zentorch")

HALF_CASES = (
    half(LONG, "bf16", 0.0, 1.25),
    half(LONG, "bf16", 1.2, 1.55, "bf16"),
    half(CAUSAL, "bf16", 1.5, 0.0, "bf16"),
    half(WIDE, "bf16", 1.3, 0.0, "bf16"),
    half(self_attention("B1 H12 T512 D64", 1, 12, 512, 64, 0.0), "bf16", 1.1, 0.0, "bf16"),
    half(self_attention("B8 H12 T128 D64", 8, 12, 128, 64, 0.0), "bf16", 1.15, 0.0, "bf16"),
    half(self_attention("B32 H8 T32 D64", 32, 8, 32, 64, 0.0), "bf16", 1.75, 0.0, "bf16"),
    half(LONG, "f16", 3.3, 0.97, against=("torch",)),
    half(WIDE, "f16", 3.3, 0.97, against=("torch",)),
    *(half(linear(*size, 0.0), "bf16", 1.0, 1.8, against=BOTH) for size in ((512, 768, 768), (2048, 1024, 1024), (128, 768, 768))),
    *(half(linear(rows, 768, 768, 0.0), "bf16", 1.0, against=BOTH) for rows in (32, 8)),
    *(half(linear(*size, 0.0), "f16", 8.0, against=("torch",)) for size in ((512, 768, 768), (2048, 1024, 1024), (8, 768, 768))),
    *(half(linear(1, 4096, 4096, 0.0), dtype, 0.0) for dtype in ("bf16", "f16")),
    *(half(linear(*size, 0.0), "bf16", 0.0, against=BOTH) for size in FEW_ROWS),
    *(half(decode(1, 32, 8, 4096), dtype, target, against=("torch",)) for dtype, target in (("bf16", 2.5), ("f16", 5.0))),
    *(half(decode(1, 32, 32, 4096), dtype, 0.0) for dtype in ("bf16", "f16")),
    half(layer("layer B1 T512 d768 h12", 1, 512, 0.0), "bf16", 1.1, 0.0, "bf16"),
    *(half(case, dtype, 0.0, 0.97, against=("torch",)) for case in (LONG_AVX2, LINEAR_AVX2) for dtype in ("bf16", "f16")),
)
CASES = FLOAT_CASES + HALF_CASES


def select(pattern, tier):
    """The cases of a tier whose title matches the pattern, a glob."""
    return [case for case in CASES if case.tier == tier and fnmatch.fnmatch(case.title, pattern)]


def named(title):
    return next(case for case in CASES if case.title == title)
