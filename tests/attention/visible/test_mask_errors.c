/* Bad masks give their status and a sentence that names what is wrong: fovea_mask_create(), prepared masks and stats
 * among arguments. */
#include "attention_case.h"

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

static void check_create(const char *what, const good_mask *g, fovea_status want, const char *words) {
    fovea_mask *mask = (fovea_mask *)&want;
    check_status(what, fovea_mask_create(ctx, &g->desc, &mask), want, words);
    test_check((mask != NULL) == (want == FOVEA_OK), "%s: mask %p", what, (void *)mask);
    fovea_mask_destroy(mask);
}

/* Spoils one number of a good mask. */
static void check_spoiled(const char *what, fovea_mask_kind kind, size_t offset, int64_t value, fovea_status want,
                          const char *words) {
    good_mask g;
    make_good(&g, kind);
    memcpy((char *)&g + offset, &value, sizeof value);
    check_create(what, &g, want, words);
}

#define SPOIL(kind, field, value, want, words)                                                                         \
    check_spoiled(#kind " " #field " " #value, FOVEA_MASK_##kind, offsetof(good_mask, field), value, want, words)

static void test_errors(void) {
    static const fovea_mask_kind kinds[] = {FOVEA_MASK_BOOLEAN, FOVEA_MASK_BITS, FOVEA_MASK_KEY_PADDING,
                                            FOVEA_MASK_RANGES, FOVEA_MASK_BLOCKS};
    good_mask g;
    for (int k = 0; k < 5; k++) {
        make_good(&g, kinds[k]);
        check_create("a good mask", &g, FOVEA_OK, NULL);
        g.desc.mask.data = NULL;
        check_create("no tensor", &g, FOVEA_ERROR_NULL, "mask is NULL");
        make_good(&g, kinds[k]);
        g.desc.mask.dtype = FOVEA_DTYPE_F32;
        check_create("floats", &g, FOVEA_ERROR_DTYPE, "mask: dtype is FOVEA_DTYPE_F32");
        make_good(&g, kinds[k]);
        g.desc.mask.shape[3]++;
        check_create("a channel more", &g, FOVEA_ERROR_SHAPE, "mask|channel axis has");
        make_good(&g, kinds[k]);
        g.desc.mask.stride[3] = 2;
        check_create("every other channel", &g, FOVEA_ERROR_STRIDE, "mask: channel stride is 2");
        make_good(&g, kinds[k]);
        g.desc.mask.stride[2] = -1;
        check_create("a negative stride", &g, FOVEA_ERROR_STRIDE, "mask: token stride -1 is negative");
    }
    make_good(&g, FOVEA_MASK_BITS);
    g.desc.kind = FOVEA_MASK_ADDITIVE;
    check_create("an additive mask", &g, FOVEA_ERROR_ARGUMENT, "FOVEA_MASK_ADDITIVE|cannot be prepared");
    g.desc.kind = (fovea_mask_kind)8;
    check_create("no kind", &g, FOVEA_ERROR_ARGUMENT, "kind is 8|fovea_mask_kind");
    g.desc.struct_size = 3;
    check_create("struct_size", &g, FOVEA_ERROR_VERSION, "fovea_mask_desc has struct_size 3");
    SPOIL(BITS, desc.q_len, -1, FOVEA_ERROR_SHAPE, "q_len is -1");
    SPOIL(BITS, desc.kv_len, INT64_MAX, FOVEA_ERROR_OVERFLOW, "kv_len");
    SPOIL(RANGES, desc.mask.shape[3], 0, FOVEA_ERROR_SHAPE, "pairs");
    SPOIL(BLOCKS, desc.block_rows, 0, FOVEA_ERROR_SHAPE, "mask_block_rows 0");
    SPOIL(BLOCKS, desc.block_keys, -4, FOVEA_ERROR_SHAPE, "mask_block_keys -4");
    SPOIL(BLOCKS, desc.block_count, -1, FOVEA_ERROR_SHAPE, "mask_block_count is -1");
    SPOIL(BLOCKS, desc.block_count, 2, FOVEA_ERROR_ARGUMENT, "row block 1");
    SPOIL(BLOCKS, desc.blocks, 0, FOVEA_ERROR_NULL, "mask_blocks is NULL");
    SPOIL(BLOCKS, numbers[0], -1, FOVEA_ERROR_ARGUMENT, "row block 0 is from -1");
    SPOIL(BLOCKS, numbers[1], 4, FOVEA_ERROR_ARGUMENT, "row block 0");
    SPOIL(BLOCKS, numbers[2], 1, FOVEA_ERROR_ARGUMENT, "row block 1 is from 2 to 1");
    SPOIL(BLOCKS, blocks[0], 2, FOVEA_ERROR_ARGUMENT, "mask_blocks[1] is 2");
    SPOIL(BLOCKS, blocks[2], 3, FOVEA_ERROR_ARGUMENT, "mask_blocks[2] is 3");
    SPOIL(BLOCKS, blocks[2], -1, FOVEA_ERROR_ARGUMENT, "mask_blocks[2] is -1");
    for (int list = 0; list < 7; list++) { /* of each sequence and head its own, one of them wrong; of the last none */
        make_good(&g, FOVEA_MASK_BLOCKS);
        g.desc.mask = fovea_tensor_bhtd(g.numbers, FOVEA_DTYPE_I64, 2, 3, 1, 3);
        for (int i = 1; i < 6; i++)
            memcpy(g.numbers + 3 * i, g.numbers, 3 * sizeof *g.numbers);
        g.numbers[3 * list + 2] = 4;
        check_create("lists of heads", &g, list < 6 ? FOVEA_ERROR_ARGUMENT : FOVEA_OK,
                     list < 6 ? "row block 1 is from 2 to 4" : NULL);
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
        fovea_attention_plan *plan;
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
        test_check(fovea_attention_plan_create(ctx, &c.desc, &plan) == FOVEA_OK, "%s", fovea_error_detail());
        check_status(want[i].words, fovea_attention_execute(plan, &args, NULL, 0), want[i].status, want[i].words);
        outputs_same(out, blank, "%s", want[i].words);
        fovea_attention_plan_destroy(plan);
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
