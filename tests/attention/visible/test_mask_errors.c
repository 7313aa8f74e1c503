/* Bad masks give their status and a sentence that names what is wrong: fovea_mask_create(), prepared masks and stats
 * among arguments. */
#include "attention_case.h"
#include "refusals.h"

#include <stdlib.h>
#include <string.h>

static fovea_context *ctx;

/* A mask of a kind for 2 sequences, 3 heads, 10 queries, 20 keys, which is good. */
typedef struct good_mask {
    fovea_mask_desc desc;
    int64_t numbers[2 * 3 * 10 * 4], blocks[8];
    uint8_t bytes[2 * 3 * 10 * 20];
} good_mask;

static void make_good(good_mask *g, fovea_mask_kind kind) {
    memset(g, 0, sizeof *g);
    fovea_mask_desc_init(&g->desc);
    g->desc.kind = kind;
    g->desc.batch = 2;
    g->desc.q_heads = 3;
    g->desc.q_len = 10;
    g->desc.kv_len = 20;
    switch (kind) {
    case FOVEA_MASK_BITS: g->desc.mask = fovea_tensor_bhtd(g->bytes, FOVEA_DTYPE_BITS, 2, 3, 10, 3); break;
    case FOVEA_MASK_KEY_PADDING: g->desc.mask = fovea_tensor_bhtd(g->bytes, FOVEA_DTYPE_BOOL, 2, 1, 1, 20); break;
    case FOVEA_MASK_RANGES: g->desc.mask = fovea_tensor_bhtd(g->numbers, FOVEA_DTYPE_I64, 2, 3, 10, 4); break;
    case FOVEA_MASK_BLOCKS:
        g->desc.mask = fovea_tensor_bhtd(g->numbers, FOVEA_DTYPE_I64, 1, 1, 1, 3); /* lists 0, 1 of blocks 0 2; 1 */
        g->numbers[1] = 2;
        g->numbers[2] = 3;
        g->blocks[1] = 2;
        g->blocks[2] = 1;
        g->desc.block_rows = 5;
        g->desc.block_keys = 8;
        g->desc.blocks = g->blocks;
        g->desc.block_count = 3;
        break;
    default: g->desc.mask = fovea_tensor_bhtd(g->bytes, FOVEA_DTYPE_BOOL, 2, 3, 10, 20); break;
    }
}

static void check_create(void *spoiled, fovea_status want, const char *words) {
    const good_mask *g = spoiled;
    fovea_mask *mask = (fovea_mask *)&want;
    const char *what = words ? words : "a good mask";
    check_status(what, fovea_mask_create(ctx, &g->desc, &mask), want, words);
    test_check((mask != NULL) == (want == FOVEA_OK), "%s: mask %p", what, (void *)mask);
    fovea_mask_destroy(mask);
}

#define G(field, number) SPOIL(good_mask, field, number)
#define M(field, number) SPOIL(good_mask, desc.field, number)
#define REFUSE(g, rows) refuse_each(g, rows, sizeof rows / sizeof rows[0], check_create)

static void test_errors(void) {
    static const fovea_mask_kind kinds[] = {FOVEA_MASK_BOOLEAN, FOVEA_MASK_BITS, FOVEA_MASK_KEY_PADDING,
                                            FOVEA_MASK_RANGES, FOVEA_MASK_BLOCKS};
    good_mask g;
    for (int k = 0; k < 5; k++) {
        make_good(&g, kinds[k]);
        const refusal any[] = {
            {FOVEA_OK, NULL, {{0}}},
            {FOVEA_ERROR_NULL, "mask is NULL", {M(mask.data, 0)}},
            {FOVEA_ERROR_DTYPE, "mask: dtype is FOVEA_DTYPE_F32", {M(mask.dtype, FOVEA_DTYPE_F32)}},
            {FOVEA_ERROR_SHAPE, "mask|channel axis has", {M(mask.shape[3], g.desc.mask.shape[3] + 1)}},
            {FOVEA_ERROR_STRIDE, "mask: channel stride is 2", {M(mask.stride[3], 2)}},
            {FOVEA_ERROR_STRIDE, "mask: token stride -1 is negative", {M(mask.stride[2], -1)}},
        };
        REFUSE(&g, any);
    }
    static const refusal bits[] = {
        {FOVEA_ERROR_ARGUMENT, "FOVEA_MASK_ADDITIVE|cannot be prepared", {M(kind, FOVEA_MASK_ADDITIVE)}},
        {FOVEA_ERROR_ARGUMENT, "kind is 8|fovea_mask_kind", {M(kind, 8)}},
        {FOVEA_ERROR_VERSION, "fovea_mask_desc has struct_size 3", {M(kind, 8), M(struct_size, 3)}},
        {FOVEA_ERROR_SHAPE, "q_len is -1", {M(q_len, -1)}},
        {FOVEA_ERROR_OVERFLOW, "kv_len", {M(kv_len, INT64_MAX)}},
    };
    static const refusal ranges[] = {{FOVEA_ERROR_SHAPE, "pairs", {M(mask.shape[3], 0)}}};
    static const refusal blocks[] = {
        {FOVEA_ERROR_SHAPE, "mask_block_rows 0", {M(block_rows, 0)}},
        {FOVEA_ERROR_SHAPE, "mask_block_keys -4", {M(block_keys, -4)}},
        {FOVEA_ERROR_SHAPE, "mask_block_count is -1", {M(block_count, -1)}},
        {FOVEA_ERROR_ARGUMENT, "row block 1", {M(block_count, 2)}},
        {FOVEA_ERROR_NULL, "mask_blocks is NULL", {M(blocks, 0)}},
        {FOVEA_ERROR_ARGUMENT, "row block 0 is from -1", {G(numbers[0], -1)}},
        {FOVEA_ERROR_ARGUMENT, "row block 0", {G(numbers[1], 4)}},
        {FOVEA_ERROR_ARGUMENT, "row block 1 is from 2 to 1", {G(numbers[2], 1)}},
        {FOVEA_ERROR_ARGUMENT, "mask_blocks[1] is 2", {G(blocks[0], 2)}},
        {FOVEA_ERROR_ARGUMENT, "mask_blocks[2] is 3", {G(blocks[2], 3)}},
        {FOVEA_ERROR_ARGUMENT, "mask_blocks[2] is -1", {G(blocks[2], -1)}},
    };
    make_good(&g, FOVEA_MASK_BITS);
    REFUSE(&g, bits);
    make_good(&g, FOVEA_MASK_RANGES);
    REFUSE(&g, ranges);
    make_good(&g, FOVEA_MASK_BLOCKS);
    REFUSE(&g, blocks);
    for (int list = 0; list < 7; list++) { /* each sequence and head has its own, one of them wrong; at last none */
        make_good(&g, FOVEA_MASK_BLOCKS);
        g.desc.mask = fovea_tensor_bhtd(g.numbers, FOVEA_DTYPE_I64, 2, 3, 1, 3);
        for (int i = 1; i < 6; i++)
            memcpy(g.numbers + 3 * i, g.numbers, 3 * sizeof *g.numbers);
        g.numbers[3 * list + 2] = 4;
        check_create(&g, list < 6 ? FOVEA_ERROR_ARGUMENT : FOVEA_OK, list < 6 ? "row block 1 is from 2 to 4" : NULL);
    }
    fovea_mask *mask;
    make_good(&g, FOVEA_MASK_BITS);
    check_status("no context", fovea_mask_create(NULL, &g.desc, &mask), FOVEA_ERROR_NULL, "ctx");
    check_status("no description", fovea_mask_create(ctx, NULL, &mask), FOVEA_ERROR_NULL, "desc");
    check_status("nowhere", fovea_mask_create(ctx, &g.desc, NULL), FOVEA_ERROR_NULL, "mask");
}

/* Prepared masks that do not fit, and stats of another version. */
static void test_wrong_args(void) {
    attention_case c = case_plain(2, 3, 3, 10, 20, 8, 8);
    rng r = rng_stream(test_seed(), "wrong");
    inputs *in = inputs_make(&c, &r);
    outputs *out = outputs_make(&c, LAYOUT_BHTD), *blank = outputs_make(&c, LAYOUT_BHTD);
    good_mask g;
    for (int i = 0; i < 8; i++) {
        fovea_mask *mask = NULL;
        fovea_attention_stats stats;
        make_good(&g, FOVEA_MASK_RANGES);
        g.desc.q_len -= i == 1;
        g.desc.mask.shape[2] -= i == 1;
        if (i == 4 || i == 5)
            g.desc.batch = g.desc.mask.shape[0] = i == 4 ? 0 : 3;
        if (i == 6)
            g.desc.q_heads = g.desc.mask.shape[1] = 2;
        if (i == 7)
            g.desc.kv_len = 19;
        check_status("create", fovea_mask_create(ctx, &g.desc, &mask), FOVEA_OK, NULL);
        fovea_attention_stats_init(&stats);
        c.desc.mask = i == 3 ? FOVEA_MASK_NONE : FOVEA_MASK_PREPARED;
        fovea_attention_args args = case_args(in, out);
        args.prepared = i == 0 ? NULL : mask;
        stats.struct_size += i == 2 ? 8 : 0;
        args.stats = &stats;
        static const struct {
            fovea_status status;
            const char *words;
        } want[] = {{FOVEA_ERROR_NULL, "prepared is NULL"},
                    {FOVEA_ERROR_SHAPE, "prepared is a mask of 2 x 3 x 9 x 20"},
                    {FOVEA_ERROR_VERSION, "fovea_attention_stats"},
                    {FOVEA_ERROR_ARGUMENT, "prepared is given, but desc.mask is FOVEA_MASK_NONE"},
                    {FOVEA_ERROR_SHAPE, "prepared is a mask of 0 x 3 x 10 x 20"},
                    {FOVEA_ERROR_SHAPE, "prepared is a mask of 3 x 3 x 10 x 20"},
                    {FOVEA_ERROR_SHAPE, "prepared is a mask of 2 x 2 x 10 x 20"},
                    {FOVEA_ERROR_SHAPE, "prepared is a mask of 2 x 3 x 10 x 19"}};
        check_status(want[i].words, attention_once(ctx, &c.desc, &args), want[i].status, want[i].words);
        outputs_same(out, blank, "%s", want[i].words);
        fovea_mask_destroy(mask);
    }
    inputs_free(in);
    outputs_free(out);
    outputs_free(blank);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "mask_errors", NULL);
    ctx = context_of(FOVEA_ISA_BEST, 1, NULL);
    test_errors();
    test_wrong_args();
    fovea_context_destroy(ctx);
    return test_end();
}
