/* Sources: how keys and values become operands (sources.inc has the list).
 *
 * A plan has one fv_sources: what sources may know of it, and the product of each that serves it. A block of rows opens
 * an fv_keys and an fv_values on its head (fv_keys_begin), then segment by segment (fv_keys_open), and takes operands
 * (fv_keys_next) until it has all columns or steps. Whoever multiplies asks no type and no layout. */
#ifndef FV_ATTENTION_SOURCE_H
#define FV_ATTENTION_SOURCE_H

#include "attention/attention.h"
#include "attention/sources/kv.h"
#include "attention/sources/queries.h"
#include "cpu/cpu.h"
#include "dispatch/dispatch.h"

typedef struct fv_keys_source fv_keys_source;
typedef struct fv_values_source fv_values_source;

/* Words of a row of weights as words of two keys; not a power of two. */
enum { FV_WEIGHT_WORDS = FV_SEGMENT / 2 + FV_LANES };

typedef enum fv_keys_id {
#define FV_KEYS(name, fallback) FV_KEYS_##name,
#include "attention/sources/sources.inc"
    FV_KEYS_COUNT
} fv_keys_id;

typedef enum fv_values_id {
#define FV_VALUES(name, fallback) FV_VALUES_##name,
#include "attention/sources/sources.inc"
    FV_VALUES_COUNT
} fv_values_id;

/* The plan as sources know it. */
struct fv_sources {
    const fv_ops *ops;
    const fv_cpu *cpu;
    fv_target target;
    const fovea_attention_desc *desc;
    const fv_attention_choice *choice;
    fv_scale scale;
    int64_t panel; /* keys of a packed panel */
    /* The product of each source; NULL: it does not serve the plan. */
    const fv_kernel *k[FV_KEYS_COUNT], *v[FV_VALUES_COUNT];
    int64_t stream_rows;   /* blocks of at most this many rows leave prefetching to the hardware where it can */
    const fv_kernel *skip; /* of values as floats: keys whose weight is -0 are not multiplied */
    /* The sources that the plan takes, by the layout of the keys. */
    const fv_keys_source *keys[FV_KV_LAYOUTS];
    const fv_values_source *values[FV_KV_LAYOUTS];
};

/* ---------------------------------------------------------------------------------------------------------- keys -- */

/* The keys of one block's head. */
typedef struct fv_keys {
    const fv_sources *plan;
    const fv_kv_side *side;
    int64_t sequence, head;
    fv_queries *queries;
    float *packed;                /* scratch: panels of a segment, or one of them */
    void *gathered;               /* scratch: FV_LANES keys */
    bool one_tile;                /* the block is one tile: a panel is packed when it is asked for, all to one place */
    const fv_keys_source *source; /* the block's */
    /* The segment: */
    const fv_keys_source *now;
    int64_t first;  /* its first key */
    fv_range range; /* keys that any row of the block sees, relative to it */
    float norm;     /* the largest sum of squares of a key in it; INFINITY: unknown, or not asked for */
} fv_keys;

/* Columns [begin, end) of the scores of a segment. */
typedef struct fv_keys_step {
    fv_operand keys; /* its first column is begin */
    int64_t begin, end;
    const fv_kernel *product;
    fv_query_form form; /* of the queries */
    int64_t most_rows;  /* of a call */
    float factor;       /* by which the product multiplies: 1 but for types that cannot hold scaled queries */
    bool skips_lines;   /* of a panel, so that hardware does not prefetch them */
} fv_keys_step;

struct fv_keys_source {
    const char *name;
    fv_keys_id id;
    unsigned layouts;   /* bits of fv_kv_layout that it takes; others go to the fallback */
    fv_query_form form; /* of the queries */
    bool streams;       /* reads keys in the order in which they lie, which hardware prefetches */
    bool knows_norms;   /* of keys */
    bool whole;         /* products take all columns of a step, and find no maxima */
    /* Its product for a plan; NULL: it does not serve it. */
    const fv_kernel *(*serves)(const fv_sources *plan);
    /* Would it be the default, where it serves? NULL: always. */
    bool (*suits)(const fv_sources *plan);
    /* A block begins, and a segment; false: the fallback takes over. NULL: nothing is to be done. */
    bool (*begin)(fv_keys *keys);
    bool (*open)(fv_keys *keys);
    /* The step that begins with a column, a multiple of FV_LANES, or a whole one before it, and ends at end or before,
     * or behind it where that is no multiple. False: the fallback takes over for this step. */
    bool (*next)(fv_keys *keys, int64_t begin, int64_t end, fv_keys_step *step);
};

extern const fv_keys_source *const fv_keys_sources[FV_KEYS_COUNT];

/* A block begins: side, sequence, head, queries and scratch are set. */
void fv_keys_begin(fv_keys *keys);

/* A segment begins, of whose keys the block sees a range. norms: are they asked for? */
void fv_keys_open(fv_keys *keys, int64_t segment, fv_range range, bool norms);

void fv_keys_next(fv_keys *keys, int64_t begin, int64_t end, fv_keys_step *step);

/* The span that begins with a key of the segment. */
fv_kv_span fv_keys_span(const fv_keys *keys, int64_t key, int64_t end);

/* Floats of scratch for packed keys. */
int64_t fv_keys_scratch(const fv_sources *plan);

/* -------------------------------------------------------------------------------------------------------- values -- */

/* The values of one block's head. */
typedef struct fv_values {
    const fv_sources *plan;
    const fv_kv_side *side;
    int64_t sequence, head, rows; /* rows of the block */
    fv_kv_layout keys_layout;
    float *copied; /* scratch: those of a segment, in panels as wide as the tile of the product */
    const fv_values_source *source;
    /* The segment: */
    const fv_values_source *now;
    int64_t first;
    fv_range range;
    bool copied_floats; /* is `copied` made, of floats? */
    int finite;         /* are they? -1: not asked yet */
} fv_values;

/* Keys [begin, end) of a segment, and the channels from `column` on. */
typedef struct fv_values_step {
    fv_operand values;
    int64_t begin, end;
    int64_t column; /* set by the loop */
    const fv_kernel *product;
    int64_t most_rows; /* of a call */
} fv_values_step;

struct fv_values_source {
    const char *name;
    fv_values_id id;
    bool words;   /* weights are words of two bfloat16 */
    bool finite;  /* values are finite wherever it opens a segment */
    bool skips;   /* fv_sources.skip can take the place of its product; else tiles that hide keys from rows, whose
                        values may not be finite, go to the fallback */
    bool rotated; /* outputs have rotated channels until they are finished (int4.h) */
    bool streams; /* as of keys */
    const fv_kernel *(*serves)(const fv_sources *plan);
    bool (*suits)(const fv_sources *plan, fv_kv_layout layout);
    bool (*begin)(fv_values *values, fv_range keys); /* that the block sees, counted from the sequence's first */
    bool (*open)(fv_values *values);
    void (*next)(const fv_values *values, int64_t column, int64_t begin, int64_t end, fv_values_step *step);
};

extern const fv_values_source *const fv_values_sources[FV_VALUES_COUNT];

void fv_values_begin(fv_values *values, fv_range keys);
void fv_values_open(fv_values *values, int64_t segment, fv_range range);

/* The source for a tile; mixed: some rows do not see some of its keys. May open the fallback. */
const fv_values_source *fv_values_for(fv_values *values, bool mixed);

/* Is the value of every key that the block sees of the segment finite? Asked at most once a segment. */
bool fv_values_finite(fv_values *values);

fv_kv_span fv_values_span(const fv_values *values, int64_t key, int64_t end);

/* Floats of scratch for values that are copied, and for the weights of a tile as words. */
int64_t fv_values_scratch(const fv_sources *plan);
int64_t fv_values_weights(const fv_sources *plan, int64_t tile_rows);

/* ---------------------------------------------------------------------------------------------------------- both -- */

/* Completes the sources of a plan whose other choices are made: products, and for each layout the chosen source, if it
 * serves, or the first that suits. */
void fv_sources_select(fv_sources *plan);

/* Questions of sources about a plan: do its blocks have few rows, or one tile? Which product over tiles do its
 * arithmetic and CPU allow (or NULL)? */
static inline bool fv_sources_few_rows(const fv_sources *p) {
    return p->choice->block_rows <= p->choice->few_rows && p->choice->block_rows <= p->choice->tile_rows;
}

const fv_kernel *fv_sources_tiles(const fv_sources *plan);

/* Questions of planners: are keys and values floats? Does the arithmetic round weights to bfloat16? How many rows of a
 * tile share a range of keys if ranges differ? */
bool fv_sources_of_floats(const fv_sources *plan);
bool fv_sources_round_weights(const fv_sources *plan);
int64_t fv_sources_edge_rows(const fv_sources *plan);

/* The layout that the keys of a plan will have, as far as its description tells; and the sources of that. */
static inline fv_kv_layout fv_sources_layout(const fv_sources *plan) {
    return plan->keys[FV_KV_INTERLEAVED] && (plan->desc->page_keys > 0 || !plan->keys[FV_KV_ROWS]) ? FV_KV_INTERLEAVED
                                                                                                   : FV_KV_ROWS;
}

static inline const fv_keys_source *fv_sources_keys(const fv_sources *plan) {
    return plan->keys[fv_sources_layout(plan)];
}

static inline const fv_values_source *fv_sources_values(const fv_sources *plan) {
    return plan->values[fv_sources_layout(plan)];
}

/* Names of sources in files: of the choice's k and v; NULL behind the last. */
const char *fv_keys_name(int64_t k);
const char *fv_values_name(int64_t v);

/* Floats of words of two elements that a query or a key has. */
static inline int64_t fv_words_of(int64_t channels) { return fv_ceil_div(channels, 2); }

#endif
