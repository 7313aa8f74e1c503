/* Packing of linear maps (linear.h): weights and biases scaled and copied. */
#include "core/core.h"
#include "dispatch/dispatch.h"
#include "linear/knobs.h"
#include "linear/linear.h"
#include "threads/threads.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Sizes in memory; false if they do not fit. */
static bool lay_out(fovea_linear *l, int64_t *bytes) {
    if (!fv_multiply(fv_round_up(l->in, 2), l->panel, bytes) || !fv_multiply(*bytes, l->panels, bytes) ||
        !fv_multiply(*bytes, (int64_t)sizeof(float), bytes))
        return false;
    const int64_t words = fv_operand_words(l->weights.format, l->in);
    l->weights.steps = l->in;
    l->weights.columns = l->panels * l->panel;
    l->weights.row = l->weights.width = (int16_t)l->panel;
    l->weights.panel = l->grouped ? fv_linear_panel_bytes(l) / 4 : words * l->panel;
    if (l->grouped && !l->quantized.apart)
        l->weights.group.gap = (int16_t)fv_quantized_gap(&l->quantized, l->panel);
    *bytes = fv_linear_panel_bytes(l) * l->panels;
    for (int i = -1; i < l->tuned_count; i++) {
        const fv_tuning_row *row = i < 0 ? NULL : l->tuned[i];
        fv_linear_choice choice = {0};
        if (row)
            fv_tuning_to_choice(row->operation, row->knob, &choice);
        /* Fewer rows need no more. */
        choice = fv_linear_heuristics(l, 0, row ? row->key[FV_LINEAR_KEY_rows].most : INT64_MAX, &choice);
        const int64_t needed = fv_linear_lay_out(l, &choice).bytes;
        if (needed < 0)
            return false;
        l->thread_bytes = fv_max(l->thread_bytes, needed);
        choice.gather = fv_linear_integers(l) ? choice.gather : FV_LINEAR_GATHER_YES;
        l->gathered_bytes = fv_max(l->gathered_bytes, fv_linear_lay_out(l, &choice).bytes);
    }
    return true;
}

/* Finds the exponents of panels in pairs of bfloat16, on which fv_pairs_exact() depends. */
static void find_exponents(fovea_linear *l) {
    const int64_t halves = 2 * l->weights.panel;
    for (int64_t p = 0; p < l->panels; p++) {
        const uint16_t *half = (const uint16_t *)l->weights.data + p * halves;
        uint16_t least = 0xffff, most = 0;
        for (int64_t i = 0; i < halves; i++) {
            const uint16_t bits = half[i] & 0x7fff, less = (uint16_t)(bits - 1); /* of 0 the largest */
            least = less < least ? less : least;
            most = bits > most ? bits : most;
        }
        const fv_exponent_range m = {least < 0xffff ? least + 1 : least, most};
        l->exponents[p] = m;
        fv_exponents_add(&l->weights.range, m);
    }
}

static fovea_dtype bias_dtype_of(const fovea_linear_part *part) {
    const fovea_dtype weight = part->weight.dtype;
    return part->bias_dtype ? part->bias_dtype : fv_type_of(weight) == FV_TYPE_COUNT ? FOVEA_DTYPE_F32 : weight;
}

fv_matrix fv_linear_source(const fovea_matrix *w, fv_target target) {
    return (fv_matrix){.data = w->data,
                       .steps = w->in,
                       .columns = w->out,
                       .step = w->in_stride,
                       .column = w->out_stride,
                       .bits = fv_dtype_bits(w->dtype),
                       .widen = fv_widen_of(w->dtype, target),
                       .scales = w->quantization ? w->quantization->scales : NULL,
                       .scale = 1.0f};
}

/* Columns of a part that one panel holds: count from `done` on, packed from `place` on. */
typedef struct stretch {
    int64_t done, count, place;
} stretch;

static stretch stretch_at(const fovea_linear *l, const fv_linear_part *to, int64_t done) {
    const int64_t column = (l->gated ? 0 : to->first) + done, width = fv_linear_panel_out(l);
    const int64_t behind = l->gated && to->first > 0 ? width : 0; /* the gate */
    return (stretch){done, fv_min(width - column % width, to->out - done),
                     column / width * l->panel + behind + column % width};
}

/* numbers: room for the columns of a panel, of quantized weights that become floats. */
static void pack_elements(fovea_linear *l, const fovea_linear_part *part, const fv_linear_part *to, float *numbers) {
    const fovea_matrix *w = &part->weight;
    fv_matrix from = fv_linear_source(w, l->target);
    from.scale = part->has_scale ? (float)part->scale : 1.0f;
    for (stretch s = stretch_at(l, to, 0); s.done < to->out; s = stretch_at(l, to, s.done + s.count)) {
        from.columns = s.count;
        if (numbers && fv_linear_grouped(w, FOVEA_ARITHMETIC_EXACT)) {
            fv_quantized_numbers(w, s.done, s.count, numbers);
            const fv_matrix floats = {numbers, l->in, s.count, 1, l->in, 32, NULL, NULL, from.scale};
            fv_pack_any(&floats, &l->weights, l->memory, s.place);
            continue;
        }
        fv_pack_any(&from, &l->weights, l->memory, s.place);
        if (from.scales) {
            if (l->scales)
                memcpy(l->scales + s.place, from.scales, (size_t)s.count * sizeof *l->scales);
            from.scales += s.count;
        }
        from.data = (const char *)from.data + fv_dtype_bytes(w->dtype, s.count * w->out_stride);
    }
}

/* Weights in groups are taken apart by all threads: those of a large model take seconds. */
typedef struct packing {
    fovea_linear *linear;
    const fovea_matrix *weights;
    const fv_linear_part *to;
    int64_t tasks;
} packing;

static void pack_task(void *arg, int64_t task) {
    const packing *p = arg;
    int64_t i = 0;
    for (stretch s = stretch_at(p->linear, p->to, 0); s.done < p->to->out;
         s = stretch_at(p->linear, p->to, s.done + s.count), i++)
        if (i % p->tasks == task)
            fv_linear_pack_groups(p->linear, p->weights, s.done, s.count, s.place);
}

static void pack_part(const fv_threads *threads, fovea_linear *l, const fovea_linear_part *part,
                      const fv_linear_part *to, float *numbers) {
    const float scale = part->has_scale ? (float)part->scale : 1.0f;
    if (l->grouped) {
        packing p = {l, &part->weight, to, fv_min(threads->count, l->panels)};
        fv_parallel(threads, p.tasks, &(fv_work){.task = pack_task, .arg = &p});
    } else {
        pack_elements(l, part, to, numbers);
    }
    if (to->bias)
        fv_to_floats(to->out, part->bias, 1, bias_dtype_of(part), to->bias, l->target);
    for (int64_t j = 0; to->bias && scale != 1.0f && j < to->out; j++) /* by 1 no bit changes, of NaN neither */
        to->bias[j] *= scale;
}

static void clear_panel(fovea_linear *l, int64_t panel) {
    const int64_t bytes = fv_linear_panel_bytes(l);
    memset((char *)l->memory + panel * bytes, 0, (size_t)bytes);
}

/* Memory of a linear whose sizes are known; false if there is none. */
static bool allocate(fovea_linear *l, int64_t parts, int64_t bytes) {
    l->parts = calloc((size_t)parts, sizeof *l->parts);
    l->bias = calloc((size_t)l->out, sizeof *l->bias);
    l->exponents = calloc((size_t)l->panels, sizeof *l->exponents);
    l->memory = l->placement.how == FOVEA_PLACEMENT_DEFAULT ? fv_allocate_shared((size_t)bytes, &l->shared)
                                                            : fv_allocate_pages((size_t)bytes);
    l->weights.data =
        l->memory && l->grouped ? (uint32_t *)l->memory + fv_quantized_gap(&l->quantized, l->panel) : l->memory;
    const bool scaled = !l->grouped && fv_dtype_scaled(l->weight_dtype);
    if (scaled)
        l->weights.scales = l->scales = calloc((size_t)l->weights.columns, sizeof *l->scales);
    return l->parts && l->bias && l->exponents && l->memory && (l->scales || !scaled);
}

void fovea_linear_destroy(fovea_linear *linear) {
    if (!linear)
        return;
    for (int i = 0; i < FV_NODES; i++)
        fovea_linear_destroy(linear->copies[i]);
    free(linear->parts);
    free(linear->bias);
    free(linear->exponents);
    if (linear->shared)
        fv_free_shared(linear->memory);
    else
        fv_free_pages(linear->memory);
    free(linear->scales);
    free(linear->order);
    free(linear->tuned);
    fv_tuning_use_drop(linear->tuning);
    free(linear);
}

/* The packed weights keep the type of the parts' if it is one, nothing scales them and quantized ones are packed in one
 * way; else they are floats, if that is the arithmetic. */
static fovea_status select_types(const fovea_context *ctx, fovea_linear *l, const fovea_linear_desc *d) {
    const fovea_linear_part *parts = fv_linear_parts(d);
    l->arithmetic = d->arithmetic;
    l->weight_dtype = parts[0].weight.dtype;
    l->grouped = fv_linear_grouped(&parts[0].weight, d->arithmetic);
    if (l->grouped && !fv_linear_describe_groups(l, &parts[0].weight))
        return fv_fail(FOVEA_ERROR_OUT_OF_MEMORY, "no memory for the order of %lld channels", (long long)l->in);
    int64_t other = -1; /* the first part that is not as the first one */
    for (int64_t p = d->part_count - 1; p >= 0; p--)
        if (parts[p].weight.dtype != l->weight_dtype || parts[p].has_scale ||
            (p > 0 && fv_dtype_quantized(l->weight_dtype) &&
             !fv_quantized_together(&parts[0].weight, &parts[p].weight)))
            other = p;
    const bool exact = d->arithmetic != FOVEA_ARITHMETIC_Q16 && d->arithmetic != FOVEA_ARITHMETIC_Q8;
    if (other >= 0 && !exact)
        return fv_fail(FOVEA_ERROR_UNSUPPORTED,
                       "arithmetic is %s, but part %lld has %s: make it a map of its own, or ask for "
                       "FOVEA_ARITHMETIC_EXACT, which packs float32",
                       fv_enum_name(FV_ENUM_arithmetic, (int)d->arithmetic), (long long)other,
                       parts[other].has_scale ? "a scale" : "another quantization than part 0");
    if (other >= 0 || (l->order && exact)) {
        l->weight_dtype = FOVEA_DTYPE_F32;
        l->grouped = false;
    }
    l->x_dtype = d->dtype;
    l->y_dtype = d->y_dtype;
    l->residual_dtype = d->residual_dtype;
    fv_linear_select_kernels(l, ctx);
    return FOVEA_OK;
}

/* Gives the memory of weights to nodes, before anything is written to it. */
static fovea_status to_nodes(const fovea_context *ctx, fovea_linear *l) {
    return fv_placement_apply(ctx, &l->placement, l->memory, fv_linear_panel_bytes(l), l->panels);
}

/* A map of its own for each node but the first that has threads; what was made until an error is destroyed with l. */
static fovea_status copy_to_nodes(const fovea_context *ctx, fovea_linear *l, const fovea_linear_desc *desc) {
    const fv_threads *t = &ctx->threads;
    fovea_linear_desc own = *desc;
    fovea_status status = FOVEA_OK;
    own.placement = FOVEA_PLACEMENT_NODE;
    for (int i = 0; l->placement.how == FOVEA_PLACEMENT_COPIES && i < t->count && status == FOVEA_OK; i++) {
        const int node = fv_node_of(t, i, t->count);
        own.placement_node = t->nodes->node[node].number;
        if (node != l->placement.node && !l->copies[node] && t->nodes->node[node].memory)
            status = fovea_linear_create(ctx, &own, &l->copies[node]);
    }
    return status;
}

fovea_status fovea_linear_create(const fovea_context *ctx, const fovea_linear_desc *desc, fovea_linear **linear) {
    FV_HOLD_EXCEPTIONS();
    if (!linear)
        return fv_fail(FOVEA_ERROR_NULL, "linear is NULL");
    *linear = NULL;
    if (!ctx)
        return fv_fail(FOVEA_ERROR_NULL, "ctx is NULL");
    fovea_linear_desc own_desc;
    fovea_status status = fv_linear_read_desc(desc, &own_desc);
    if (status == FOVEA_OK)
        status = fv_linear_select_arithmetic(ctx, &own_desc);
    fv_placement placement;
    if (status == FOVEA_OK)
        status = fv_placement_select(ctx, own_desc.placement, own_desc.placement_node, &placement);
    if (status != FOVEA_OK)
        return status;
    desc = &own_desc;
    if (desc->arithmetic == FOVEA_ARITHMETIC_BF16_TILE)
        fv_float_plain(); /* until this returns: the mode is part of it */
    const fovea_linear_part *parts = fv_linear_parts(desc);
    fovea_linear *made = calloc(1, sizeof *made);
    if (!made)
        return fv_fail(FOVEA_ERROR_OUT_OF_MEMORY, "no memory for a linear map (%zu bytes)", sizeof *made);
    made->tuning = fv_tuning_use_share(ctx->tuning);
    made->in = desc->in_features;
    made->gated = fv_linear_gates(desc->activation, &made->activation);
    made->part_count = made->gated ? 1 : desc->part_count;
    made->placement = placement;
    for (int64_t p = 0; p < desc->part_count; p++)
        made->out += parts[p].weight.out;
    status = select_types(ctx, made, desc);
    if (status != FOVEA_OK) {
        fovea_linear_destroy(made);
        return status;
    }
    made->gemm = fv_linear_gemm(ctx, made->out, made->kept->format != FV_FORMAT_f32);
    made->panel = fv_linear_panel(made);
    made->panels =
        made->gated ? fv_ceil_div(parts[0].weight.out, fv_linear_panel_out(made)) : fv_ceil_div(made->out, made->panel);
    made->bias_act_residual =
        fv_kernel_best(FV_OP_bias_act_residual, FV_TYPE_f32, ctx->target)->run.bias_act_residual_f32;
    int64_t bytes = 0;
    const bool found = fv_linear_find_tuned(made, ctx);
    if (found && !lay_out(made, &bytes)) {
        const long long out = made->out;
        fovea_linear_destroy(made);
        return fv_fail(FOVEA_ERROR_OVERFLOW, "%lld x %lld weights are too large", (long long)desc->in_features, out);
    }
    bool widens = false; /* groups to float32 */
    for (int64_t p = 0; p < desc->part_count && made->weight_dtype == FOVEA_DTYPE_F32; p++)
        widens = widens || fv_linear_grouped(&parts[p].weight, FOVEA_ARITHMETIC_EXACT);
    float *numbers = widens && found ? malloc((size_t)(made->in * made->panel) * sizeof *numbers) : NULL;
    status = !found || (widens && !numbers) || !allocate(made, desc->part_count, bytes)
                 ? fv_fail(FOVEA_ERROR_OUT_OF_MEMORY, "no memory for %lld bytes of packed weights", (long long)bytes)
                 : to_nodes(ctx, made);
    if (status != FOVEA_OK) {
        free(numbers);
        fovea_linear_destroy(made);
        return status;
    }
    /* Columns that no channel fills are multiplied, too: between gate and up, and of 16 bits at the end. */
    if (made->gated || made->kept->format != FV_FORMAT_f32)
        clear_panel(made, made->panels - 1);
    for (int64_t p = 0, first = 0; p < desc->part_count; first += parts[p++].weight.out) {
        made->parts[p] = (fv_linear_part){first, parts[p].weight.out, parts[p].bias ? made->bias + first : NULL};
        pack_part(&ctx->threads, made, &parts[p], &made->parts[p], numbers);
    }
    free(numbers);
    if (!made->grouped)
        made->weights.range = fv_exponents_none(); /* float16 has no products that differ */
    if (made->pack_x && made->pairs)
        find_exponents(made);
    status = copy_to_nodes(ctx, made, desc);
    if (status != FOVEA_OK) {
        fovea_linear_destroy(made);
        return status;
    }
    if (ctx->debug)
        fv_linear_debug(made);
    *linear = made;
    return FOVEA_OK;
}
