/* Linear maps over ranks (layer_case.h): the bits of one rank, for weights of each kind, whole or a rank's own. */
#include "layer_case.h"

#include <string.h>

enum { IN = 256, PARTS = 3 };

typedef struct map_case {
    weight_kind kind;
    int64_t parts, columns[PARTS];
    int64_t rows, multiple;
    bool gated, residual, lens, own, biases;
    fovea_dtype dtype;
} map_case;

typedef struct map_data {
    fovea_linear_desc desc;
    fovea_linear_part parts[PARTS];
    fovea_linear_args args;
    fovea_tensor y[PARTS], want[PARTS], residual[PARTS];
    int64_t lens[2];
} map_data;

static void make(const map_case *c, rng *r, map_data *d) {
    *d = (map_data){0};
    fovea_linear_desc_init(&d->desc);
    fovea_linear_args_init(&d->args);
    for (int64_t i = 0; i < c->parts; i++) {
        d->parts[i].weight = weight(r, c->kind, IN, c->columns[i]);
        d->parts[i].bias_dtype = c->kind == BF16 ? FOVEA_DTYPE_BF16 : FOVEA_DTYPE_F32;
        d->parts[i].bias = c->biases ? numbers(r, d->parts[i].bias_dtype, c->columns[i]) : NULL;
    }
    d->desc.in_features = IN;
    d->desc.part_count = c->parts;
    d->desc.dtype = c->dtype;
    d->desc.y_dtype = c->residual ? FOVEA_DTYPE_F32 : c->dtype;
    d->desc.activation = !c->gated          ? FOVEA_ACTIVATION_NONE
                         : c->kind % 3 == 0 ? FOVEA_ACTIVATION_GELU_GATED
                         : c->kind % 3 == 1 ? FOVEA_ACTIVATION_GELU_TANH_GATED
                                            : FOVEA_ACTIVATION_SILU_GATED;
    d->args.x = filled(r, c->dtype, 2, 4, c->rows, IN / 4);
    for (int64_t i = 0; i < (c->gated ? 1 : c->parts); i++) {
        const int64_t heads = c->columns[i] % 8 == 0 ? 8 : 1;
        d->residual[i] = filled(r, d->desc.y_dtype, 2, heads, c->rows, c->columns[i] / heads);
        d->want[i] = empty_like(&d->residual[i]);
        d->y[i] = empty_like(&d->residual[i]);
    }
    d->lens[0] = c->rows / 2;
    d->lens[1] = c->rows;
    d->args.residual = c->residual ? d->residual : NULL;
    d->args.lens = c->lens ? d->lens : NULL;
}

static void run_alone(map_data *d) {
    fovea_linear *map = NULL;
    d->desc.parts = d->parts;
    fovea_linear_args args = d->args;
    args.y = d->want;
    fovea_status status = fovea_linear_pack(ctx, &d->desc, &map);
    if (status == FOVEA_OK)
        status = fovea_linear_execute(map, &args, NULL, 0);
    check(status == FOVEA_OK, "alone: %s", fovea_error_detail());
    fovea_linear_destroy(map);
}

/* This rank's rows of [out][in]. */
static void take_own(const map_case *c, map_data *d, fovea_mpi_linear_desc *over) {
    if (!c->own)
        return;
    for (int64_t i = 0; i < c->parts; i++) {
        int64_t first;
        fovea_linear_part *p = &d->parts[i];
        p->weight.out = fovea_mpi_share(group, rank, c->columns[i], c->multiple, &first);
        const int64_t row = c->kind == Q8_0 ? IN / 32 * 34 : c->kind == BF16 ? 2 * IN : 4 * IN;
        p->weight.data = p->weight.out ? (const char *)p->weight.data + first * row : NULL;
        p->bias = p->weight.out && p->bias ? (const char *)p->bias + first * (c->kind == BF16 ? 2 : 4) : NULL;
    }
    over->columns = c->columns;
}

static void run(const map_case *c, rng *r) {
    map_data d;
    make(c, r, &d);
    fovea_mpi_linear_desc over;
    fovea_mpi_linear_desc_init(&over);
    run_alone(&d);
    take_own(c, &d, &over);
    over.linear = &d.desc;
    over.multiple = c->multiple;
    fovea_mpi_linear *map;
    fovea_status status = fovea_mpi_linear_create(group, ctx, &over, &map);
    check(status == FOVEA_OK, "%s: %s", weight_name(c->kind), fovea_mpi_error_detail());
    int64_t all = 0, first = 0;
    for (int i = 0; i < ranks; i++) {
        all += fovea_mpi_linear_columns(map, 0, i, &first);
        check(first + fovea_mpi_linear_columns(map, 0, i, &first) == all, "columns of rank %d begin at %lld", i,
              (long long)first);
    }
    if (map) {
        check(all == c->columns[0], "ranks have %lld columns", (long long)all);
        d.args.y = d.y;
        status = fovea_mpi_linear_execute(map, &d.args);
        check(status == FOVEA_OK, "%s: %s", weight_name(c->kind), fovea_mpi_error_detail());
        check(fovea_mpi_group_memory(group) >= fovea_mpi_linear_memory(map, 2 * c->rows), "memory is not as told");
        for (int64_t i = 0; i < (c->gated ? 1 : c->parts); i++)
            check(same_memory(&d.y[i], &d.want[i]), "%s: part %lld differs (rows %lld, gated %d, residual %d, own %d)",
                  weight_name(c->kind), (long long)i, (long long)c->rows, c->gated, c->residual, c->own);
    }
    fovea_mpi_linear_destroy(map);
    free_all();
}

/* ------------------------------------------------------------------------------------------------------- errors -- */

static fovea_status create_status(const fovea_context *with, const fovea_mpi_linear_desc *desc) {
    fovea_mpi_linear *map;
    const fovea_status status = fovea_mpi_linear_create(group, with, desc, &map);
    check((map == NULL) == (status != FOVEA_OK), "a map and an error");
    fovea_mpi_linear_destroy(map);
    return status;
}

/* Fields that differ on one rank, though each description is valid by itself. */
static void test_other_fields(map_data *d, fovea_mpi_linear_desc *over, bool me) {
    static const char *const names[] = {"arithmetic",   "multiple",  "residual_dtype",
                                        "weight.dtype", "has_scale", "scale"};
    const map_data kept = *d;
    for (int i = 0; i < 6 && ranks > 1; i++) {
        d->parts[0].has_scale = i == 5 || (me && i == 4);
        d->parts[0].scale = i == 5 && me ? 3 : 2;
        if (me && i == 0)
            d->desc.arithmetic = FOVEA_ARITHMETIC_EXACT;
        if (me && i == 1)
            over->multiple = 1;
        if (me && i == 2)
            d->desc.residual_dtype = FOVEA_DTYPE_BF16;
        if (me && i == 3)
            d->parts[0].weight.dtype = d->parts[1].weight.dtype = FOVEA_DTYPE_BF16;
        all_failed(create_status(ctx, over), FOVEA_ERROR_ARGUMENT, -1, names[i]);
        over->multiple = 0;
        d->desc = kept.desc;
        memcpy(d->parts, kept.parts, sizeof d->parts);
    }
}

static void test_create_errors(rng *r) {
    const map_case c = {.kind = F32_OUT_IN, .parts = 2, .columns = {96, 40}, .rows = 3, .dtype = FOVEA_DTYPE_F32};
    for (int guilty = 0; guilty < ranks; guilty++) {
        const bool me = rank == guilty;
        map_data d;
        make(&c, r, &d);
        fovea_mpi_linear_desc over;
        fovea_mpi_linear_desc_init(&over);
        d.desc.parts = d.parts;
        over.linear = &d.desc;
        all_failed(create_status(me ? NULL : ctx, &over), FOVEA_ERROR_NULL, guilty, "ctx");
        all_failed(create_status(ctx, me ? NULL : &over), FOVEA_ERROR_NULL, guilty, "desc");
        d.parts[1].weight.out = me ? 0 : 40;
        all_failed(create_status(ctx, &over), FOVEA_ERROR_SHAPE, guilty, "out");
        d.parts[1].weight.out = 40;
        over.struct_size += me ? 8 : 0;
        all_failed(create_status(ctx, &over), FOVEA_ERROR_VERSION, guilty, "struct_size");
        over.struct_size = sizeof over;
        d.desc.activation = me ? FOVEA_ACTIVATION_RELU : FOVEA_ACTIVATION_NONE;
        if (ranks > 1)
            all_failed(create_status(ctx, &over), FOVEA_ERROR_ARGUMENT, -1, "other activation");
        d.desc.activation = FOVEA_ACTIVATION_NONE;
        test_other_fields(&d, &over, me);
        d.desc.y_dtype = me ? FOVEA_DTYPE_I8 : FOVEA_DTYPE_F32;
        all_failed(create_status(ctx, &over), FOVEA_ERROR_DTYPE, guilty, "y_dtype");
        d.desc.y_dtype = FOVEA_DTYPE_F32;
        const int64_t columns[] = {96, 40};
        over.columns = columns; /* whole weights are nobody's share but of one rank alone */
        all_failed(create_status(ctx, &over), ranks > 1 ? FOVEA_ERROR_SHAPE : FOVEA_OK, -1, "not the share");
        free_all();
    }
    /* Types that one map cannot have, though a rank may have columns of one alone. */
    map_data d;
    make(&(map_case){.kind = Q8_0, .parts = 2, .columns = {32, 96}, .rows = 1, .dtype = FOVEA_DTYPE_F32}, r, &d);
    fovea_mpi_linear_desc over;
    fovea_mpi_linear_desc_init(&over);
    d.parts[0].weight = weight(r, Q4_K, IN, 32);
    d.desc.parts = d.parts;
    over.linear = &d.desc;
    all_failed(create_status(ctx, &over), FOVEA_ERROR_UNSUPPORTED, ranks - 1, "two kinds of blocks");
    for (int gptq = 0; gptq < 2; gptq++) { /* whose words hold zeros of 8 columns, of AWQ integers, too */
        make(&(map_case){.kind = gptq ? GPTQ : AWQ, .parts = 1, .columns = {64}, .rows = 1, .dtype = FOVEA_DTYPE_F32},
             r, &d);
        d.desc.parts = d.parts;
        over.multiple = 3;
        all_failed(create_status(ctx, &over), ranks > 1 ? FOVEA_ERROR_UNSUPPORTED : FOVEA_OK, -1, "cut words");
    }
    free_all();
}

static void test_execute_errors(rng *r) {
    const map_case c = {
        .kind = F32_OUT_IN, .parts = 2, .columns = {96, 40}, .rows = 3, .dtype = FOVEA_DTYPE_F32, .lens = true};
    map_data d;
    make(&c, r, &d);
    fovea_mpi_linear_desc over;
    fovea_mpi_linear_desc_init(&over);
    over.linear = &d.desc;
    run_alone(&d);
    fovea_mpi_linear *map;
    if (!check(fovea_mpi_linear_create(group, ctx, &over, &map) == FOVEA_OK, "%s", fovea_mpi_error_detail()))
        return;
    d.args.y = d.y;
    for (int guilty = 0; guilty < ranks; guilty++) {
        const bool me = rank == guilty;
        fovea_linear_args bad = d.args;
        fovea_tensor y[2] = {d.y[0], d.y[1]};
        int64_t lens[2] = {d.lens[0], me ? 4 : d.lens[1]};
        all_failed(fovea_mpi_linear_execute(map, me ? NULL : &d.args), FOVEA_ERROR_NULL, guilty, "args");
        bad.x.shape[3] += me;
        all_failed(fovea_mpi_linear_execute(map, &bad), FOVEA_ERROR_SHAPE, guilty, "x");
        bad = d.args;
        bad.y = y;
        y[1].shape[2] += me;
        all_failed(fovea_mpi_linear_execute(map, &bad), FOVEA_ERROR_SHAPE, guilty, "y");
        y[1] = d.y[1];
        y[0].data = me ? y[1].data : y[0].data;
        all_failed(fovea_mpi_linear_execute(map, &bad), FOVEA_ERROR_ALIAS, guilty, "alias");
        y[0].data = me ? NULL : d.y[0].data;
        if (ranks > 1)
            all_failed(fovea_mpi_linear_execute(map, &bad), FOVEA_ERROR_ARGUMENT, -1, "other y");
        bad = d.args;
        bad.lens = lens;
        all_failed(fovea_mpi_linear_execute(map, &bad), FOVEA_ERROR_SHAPE, guilty, "lens");
        lens[1] = me ? 1 : d.lens[1];
        if (ranks > 1)
            all_failed(fovea_mpi_linear_execute(map, &bad), FOVEA_ERROR_ARGUMENT, -1, "other lens");
        bad = d.args;
        bad.x.data = me ? NULL : bad.x.data;
        all_failed(fovea_mpi_linear_execute(map, &bad), FOVEA_ERROR_NULL, guilty, "x.data");
    }
    check(fovea_mpi_linear_execute(map, &d.args) == FOVEA_OK, "after errors: %s", fovea_mpi_error_detail());
    check(same_memory(&d.y[0], &d.want[0]) && same_memory(&d.y[1], &d.want[1]), "after errors y differs");
    d.y[0].data = NULL; /* not asked for */
    check(fovea_mpi_linear_execute(map, &d.args) == FOVEA_OK, "one part: %s", fovea_mpi_error_detail());
    check(same_memory(&d.y[1], &d.want[1]), "one part differs");
    fovea_mpi_linear_destroy(map);
    free_all();
}

static void test_gather_columns(void) {
    enum { ROWS = 3, COLUMNS = 100 };
    float own[ROWS * COLUMNS], whole[ROWS * COLUMNS];
    int64_t first;
    const int64_t count = fovea_mpi_share(group, rank, COLUMNS, 0, &first);
    for (int64_t i = 0; i < ROWS * count; i++)
        own[i] = (float)(i / count * COLUMNS + first + i % count);
    all_failed(fovea_mpi_gather_columns(group, FOVEA_OK, ROWS, COLUMNS, sizeof *own, NULL, own, whole), FOVEA_OK, -1,
               "columns");
    for (int i = 0; i < ROWS * COLUMNS; i++)
        check(whole[i] == (float)i, "column %d is %g", i, (double)whole[i]);
    for (int guilty = 0; guilty < ranks; guilty++) {
        const bool me = rank == guilty;
        all_failed(fovea_mpi_gather_columns(group, me ? FOVEA_ERROR_FULL : FOVEA_OK, ROWS, COLUMNS, sizeof *own, NULL,
                                            own, whole),
                   FOVEA_ERROR_FULL, guilty, "work before");
        if (ranks > 1)
            all_failed(fovea_mpi_gather_columns(group, FOVEA_OK, ROWS - me, COLUMNS, sizeof *own, NULL, own, whole),
                       FOVEA_ERROR_ARGUMENT, -1, "other rows");
    }
}

void test_linear(rng *r, int every) {
    test_create_errors(r);
    test_execute_errors(r);
    test_gather_columns();
    int at = ranks;
    for (int kind = 0; kind < WEIGHT_KINDS; kind++)
        for (int form = 0; form < 6; form++, at++) {
            if (at % every != 0)
                continue;
            const bool words = kind >= U4_GROUPS, floats = kind <= BF16;
            map_case c = {.kind = (weight_kind)kind,
                          .parts = 1,
                          .columns = {words ? 200 : 203, 32, 64},
                          .rows = form % 2 ? 9 : 1,
                          .dtype = kind == BF16 ? FOVEA_DTYPE_BF16 : FOVEA_DTYPE_F32,
                          .biases = form % 2 == 0};
            c.parts = form == 1 ? 3 : form == 2 ? 2 : 1;
            c.gated = form == 2;
            c.columns[1] = c.gated ? c.columns[0] : c.columns[1];
            c.residual = form == 3 || form == 2;
            c.lens = form == 5;
            c.multiple = form == 4 ? (floats ? 1 : 8) : 0;
            c.own = form == 4 && (kind == F32_OUT_IN || kind == BF16 || kind == Q8_0);
            run(&c, r);
        }
}
