/* Masks that select keys, read alike whatever the kind: of a row of the mask, the range of columns outside which it
 * selects none, and its bits in a segment. visible_segment.c asks; nothing else in the flash loop knows kinds. */
#ifndef FV_ATTENTION_MASK_H
#define FV_ATTENTION_MASK_H

#include "attention/visible/visible.h"
#include "core/core.h"
#include "fovea/fovea.h"
#include "kernels.h"

typedef struct fv_mask_kind fv_mask_kind;

/* A mask, ready to be asked. */
typedef struct fv_mask {
    const fv_mask_kind *kind; /* NULL: there is none, or one that is added */
    fovea_tensor tensor;      /* stride 0 where it repeats */
    int64_t columns;          /* keys of the tensor */
    int64_t block_rows, block_keys;
    const int64_t *blocks;
    const fovea_mask *prepared;
    fv_mask_to_bits_u8_fn *to_bits;
    bool one_row;     /* the same for all rows of a head */
    bool by_sequence; /* its batch axis is that of sequences, also where they are packed */
} fv_mask;

/* Rows from row on of a head of the mask. */
typedef struct fv_mask_rows {
    int64_t batch, head, row;
} fv_mask_rows;

/* How much of a segment rows see, within the keys that their ranges allow. */
typedef enum fv_visibility { FV_VISIBLE_NONE, FV_VISIBLE_SOME, FV_VISIBLE_ALL } fv_visibility;

/* The mask of a plan's execution. */
fv_mask fv_mask_of_args(const fovea_attention_desc *desc, const fovea_attention_args *args,
                        fv_mask_to_bits_u8_fn *to_bits);

/* That of a view whose keys are not all there. */
fv_mask fv_mask_of_flags(const uint8_t *flags, int64_t stride, int64_t columns);

/* A row of a sequence. */
static inline fv_mask_rows fv_mask_row(const fv_mask *mask, const fv_sequence *sequence, fv_row_place at) {
    return (fv_mask_rows){mask->by_sequence ? sequence->index : sequence->entry, at.head, at.token};
}

/* From the first to the last column of a range that a row sees; empty: {0, 0}. */
fv_range fv_mask_bounds(const fv_mask *mask, const fv_mask_rows *row, fv_range within);

/* How much count rows see of the 256 columns from column on, within their bounds, if that is known without reading
 * their bits; else FV_VISIBLE_SOME. */
fv_visibility fv_mask_classify(const fv_mask *mask, const fv_mask_rows *first, int64_t count, int64_t column);

/* The first column from one on that a row may see, as far as lists tell it: kinds with an element a key are not read.
 * INT64_MAX: none. */
int64_t fv_mask_next(const fv_mask *mask, const fv_mask_rows *row, int64_t column);

/* Clears in *bits those of keys [begin, end) of the segment that begins with a column which a row does not see. */
void fv_mask_and_bits(const fv_mask *mask, const fv_mask_rows *row, int64_t column, fv_range keys, fv_keybits *bits);

/* Brings the row of a mask nearer, for fv_mask_and_bits(). */
void fv_mask_prefetch(const fv_mask *mask, const fv_mask_rows *row, int64_t column);

/* A mask of a description that was checked, and checks. spans: of the tensor and of the list of blocks. */
fv_mask fv_mask_of_desc(const fovea_mask_desc *desc, fv_mask_to_bits_u8_fn *to_bits);
fovea_status fv_mask_check(const fovea_mask_desc *desc, fv_span spans[2]);

/* Its parts for lists of blocks: sizes, and, of a tensor that was checked, the lists. */
fovea_status fv_mask_block_sizes_check(const fovea_mask_desc *desc);
fovea_status fv_mask_blocks_check(const fovea_mask_desc *desc);

/* Has it no element? */
bool fv_mask_empty(const fovea_mask_desc *desc);

/* The description of the mask that is among arguments. */
fovea_mask_desc fv_mask_desc_of(const fovea_attention_desc *desc, const fovea_attention_args *args);

/* Does a prepared mask have the sizes of a description? */
fovea_status fv_mask_check_prepared(const fovea_mask_desc *desc, const fovea_mask *mask);

/* Is it a kind that selects keys? */
static inline bool fv_mask_selects(fovea_mask_kind kind) {
    return kind != FOVEA_MASK_NONE && kind != FOVEA_MASK_ADDITIVE;
}

#endif
