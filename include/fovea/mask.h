/* Fovea: masks, and all other ways to say which keys a query sees. Part of fovea.h.
 *
 * A query sees the keys that all of these allow. Positions count from a sequence's first key, which only starts and
 * cu_seqlens move. Sums are split at positions 0, 256, 512 ... (a segment). So ways that show the same keys at the same
 * positions give the same bits. Left padding that is masked, not given by starts, moves positions.
 *
 *   way                                  use it for                      cost of keys that are not seen
 *   desc.causal                          decoders                        none
 *   desc.window_left, window_right       sliding windows                 none
 *   args.q_lens, kv_lens                 padding on the right, buffers   none; never read
 *   args.q_starts, kv_starts             padding on the left             none; never read
 *   desc.packed, args.q_cu_seqlens,      sequences one after another     none; never read
 *   kv_cu_seqlens
 *   RANGES, BLOCKS, PREPARED (below)     documents, trees, sparsity      none; their lists are read
 *   BOOLEAN, BITS, KEY_PADDING (below)   any other set of keys           the mask is read; none in segments that no
 *                                                                        query of a block sees
 *   ADDITIVE (below), args.bias and      a bias that also masks          their scores are computed
 *   args.relative, where exactly -inf
 *   fovea_kv_cache_evict(), windows      forgetting keys                 none in whole segments, which are freed
 *   of a cache (cache.h)
 *
 * All combine, but for these: desc.mask is one kind; ADDITIVE and args.bias exclude each other; starts are not for
 * packed sequences, kv_starts not for pages; evicted keys allow no mask but ADDITIVE; no query may see keys that a
 * cache freed behind its window. docs/how-to/masks.md has the errors. */
#ifndef FOVEA_MASK_H
#define FOVEA_MASK_H

#include "context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How a mask is given. All kinds but ADDITIVE say what to attend to, like masks of PyTorch's
 * scaled_dot_product_attention. Masks of its nn.MultiheadAttention (attn_mask, key_padding_mask) say what to leave out:
 * invert them. The same visibility gives the same bits in every kind. A query sees only keys that the mask, causality,
 * windows and lengths all allow. Masks never move positions.
 *
 *   kind         tensor                                                              element type
 *   BOOLEAN      [batch, q_heads, q_len, kv_len]: nonzero = attend                   FOVEA_DTYPE_BOOL
 *   ADDITIVE     [batch, q_heads, q_len, kv_len]: added to the scaled score;         FOVEA_DTYPE_F32
 *                exactly -inf = masked, as false is
 *   BITS         [batch, q_heads, q_len, ceil(kv_len / 8)] bytes: key j is bit       FOVEA_DTYPE_BITS
 *                j % 8 (lowest first) of byte j / 8, 1 = attend; stride[2] is the
 *                bytes from row to row; bits from kv_len on mean nothing
 *   KEY_PADDING  [batch, 1, 1, kv_len]: nonzero = attend                             FOVEA_DTYPE_BOOL
 *   RANGES       [batch, q_heads, q_len, 2 n]: n ranges [lo, hi) a query, n >= 1,    FOVEA_DTYPE_I64
 *                pair after pair, in any order; attends to keys of any of them.
 *                They may overlap and reach past the keys; lo >= hi: empty
 *   BLOCKS       [batch, q_heads, 1, ceil(q_len / block_rows) + 1]: row block i      FOVEA_DTYPE_I64
 *                attends to the key blocks blocks[starts[i]] to
 *                blocks[starts[i + 1] - 1], which ascend (CSR); a block is
 *                block_rows queries and block_keys keys
 *   PREPARED     none: a mask of fovea_mask_create()
 *
 * An axis of size 1 or stride 0 is repeated (the last axis only in BOOLEAN and ADDITIVE masks).
 *
 * One range a query describes documents, prefixes and chunks, and costs as much as causality. Several ranges describe
 * trees of drafted tokens, or a window with global tokens. Keys outside all ranges or blocks cost nothing, however many
 * there are. BOOLEAN, BITS and KEY_PADDING masks also skip segments of 256 keys that no query of a block sees, but they
 * are read at each call. */
typedef enum fovea_mask_kind {
    FOVEA_MASK_NONE = 0,
    FOVEA_MASK_BOOLEAN = 1,
    FOVEA_MASK_ADDITIVE = 2,
    FOVEA_MASK_BITS = 3,
    FOVEA_MASK_KEY_PADDING = 4,
    FOVEA_MASK_RANGES = 5,
    FOVEA_MASK_BLOCKS = 6,
    FOVEA_MASK_PREPARED = 7
} fovea_mask_kind;

typedef struct fovea_mask_desc {
    size_t struct_size;
    fovea_mask_kind kind; /* any but NONE, ADDITIVE and PREPARED; no default */
    int64_t batch;        /* default 1 */
    int64_t q_heads;      /* default 1: one mask for all heads */
    int64_t q_len, kv_len;
    fovea_tensor mask;              /* as the kind says */
    int64_t block_rows, block_keys; /* BLOCKS: queries and keys of a block, >= 1 */
    const int64_t *blocks;          /* BLOCKS: [block_count] */
    int64_t block_count;
} fovea_mask_desc;
FOVEA_DEFINE_INIT(fovea_mask_desc_init, fovea_mask_desc, FOVEA_STRUCT_MASK_DESC)

/* A mask that is read once, for all heads, layers, calls and threads. It divides queries and keys into tiles of 64 x
 * 256 and knows three kinds. Tiles in which no query sees a key are never visited. Tiles in which each query sees one
 * range of keys cost as much as causality. All others keep their bits, 2 KiB a tile. Immutable: any number of threads
 * may use one at once. */
typedef struct fovea_mask fovea_mask;

/* Prepares a mask. Sequences and heads that share a mask (by size 1 or stride 0) share its memory. ctx and what desc
 * points to are read only during the call. FOVEA_ERROR_SHAPE, _STRIDE, _DTYPE or _NULL if something does not fit the
 * kind; _ARGUMENT for lists of blocks that do not ascend or name a block that does not exist; _OVERFLOW, _VERSION,
 * _OUT_OF_MEMORY. Thread-safe. */
FOVEA_API fovea_status fovea_mask_create(const fovea_context *ctx, const fovea_mask_desc *desc, fovea_mask **mask);

/* Writes a mask in the form of FOVEA_MASK_BITS, contiguous: [batch, q_heads, q_len, ceil(kv_len / 8)] bytes, with the
 * sizes of its description. Thread-safe. */
FOVEA_API fovea_status fovea_mask_bits(const fovea_mask *mask, void *bits);

/* Frees a mask. No thread may be using it. Thread-safe on different masks. */
FOVEA_API void fovea_mask_destroy(fovea_mask *mask);

#ifdef __cplusplus
}
#endif
#endif
