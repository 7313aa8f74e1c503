/* Descriptions of plans, in words. */
#include "attention/plan/knobs.h"
#include "attention/plan/plan.h"
#include "core/core.h"
#include "dispatch/dispatch.h"

#include <stdio.h>
#include <string.h>

/* Says who decided; a sentence without its end. */
static void describe_origin(const fovea_attention_plan *plan, char *text, size_t size) {
    if (plan->tuned) {
        fv_tuning_use_describe(plan->ctx->tuning, plan->tuned, text, size);
        const size_t used = strlen(text);
        if (plan->usual_sizes)
            snprintf(text + used, size - used, "; but not its sizes, which take more memory than a file may ask for");
        return;
    }
    char why[640] = "the caller chose";
    if (!plan->chosen)
        fv_attention_tuning_row(plan->ctx, &plan->desc, why, sizeof why);
    snprintf(text, size, "no: %s; defaults from caches of %lld KiB and %lld KiB", why,
             (long long)fv_attention_l1(plan) / 1024, (long long)fv_attention_l2(plan) / 1024);
}

void fv_attention_plan_debug(const fovea_attention_plan *plan) {
    FV_HOLD_CANCELLATION();
    const fovea_attention_desc *d = &plan->desc;
    char origin[1024];
    describe_origin(plan, origin, sizeof origin);
    fprintf(stderr,
            "fovea plan: batch %lld, heads %lld / %lld, queries %lld, keys %lld, channels %lld / %lld: scores %s, "
            "values %s, blocks of %lld rows, tiles of %lld; tuned %s\n",
            (long long)d->batch, (long long)d->q_heads, (long long)d->kv_heads, (long long)d->q_len,
            (long long)d->kv_len, (long long)d->head_dim, (long long)d->value_dim, plan->choice.score->name,
            plan->choice.value->name, (long long)plan->choice.block_rows, (long long)plan->choice.tile_rows, origin);
}

/* "float32", or what q, k, v and out are of. */
static void describe_types(const fovea_attention_desc *d, char *text, size_t size) {
    static const char *const words[] = {[FOVEA_DTYPE_F32] = "float32",
                                        [FOVEA_DTYPE_BF16] = "bfloat16",
                                        [FOVEA_DTYPE_F16] = "float16",
                                        [FOVEA_DTYPE_I8] = "int8",
                                        [FOVEA_DTYPE_I4] = "int4"};
    if (d->dtype == d->k_dtype && d->dtype == d->v_dtype && d->dtype == d->out_dtype)
        snprintf(text, size, "%s", words[d->dtype]);
    else
        snprintf(text, size, "q %s, k %s, v %s, out %s", words[d->dtype], words[d->k_dtype], words[d->v_dtype],
                 words[d->out_dtype]);
}

/* "words in panels of 64 by NAME, else floats by NAME". */
static void describe_keys(const fovea_attention_plan *plan, const fv_keys_source *source, char *text, size_t size) {
    const fv_sources *p = &plan->sources;
    const fv_keys_source *floats = fv_keys_sources[FV_KEYS_floats];
    size_t used = (size_t)snprintf(text, size, "%s, keys as %s", p->k[source->id]->name, source->name);
    if (source->open)
        used += (size_t)snprintf(text + used, size - used, " in panels of %lld", (long long)plan->panel);
    if (source->open && source != floats)
        snprintf(text + used, size - used, " or, where the guard falls, %s", p->k[floats->id]->name);
}

/* Names the products of queries and keys, and of weights and values, for tensors or for a cache. */
static void describe_products(const fovea_attention_plan *plan, char *scores, char *values, size_t size) {
    const fv_sources *p = &plan->sources;
    const fv_values_source *v = fv_sources_values(p);
    describe_keys(plan, fv_sources_keys(p), scores, size);
    snprintf(values, size, "%s, values as %s", p->v[v->id]->name, v->name);
}

size_t fovea_attention_plan_describe(const fovea_attention_plan *plan, char *text, size_t size) {
    FV_HOLD_EXCEPTIONS();
    size = text ? size : 0;
    if (!plan)
        return (size_t)snprintf(text, size, "no plan");
    const fv_attention_choice *c = &plan->choice;
    char split[96] = "never", origin[1024], types[96], scores[224], values[224];
    describe_origin(plan, origin, sizeof origin);
    describe_types(&plan->desc, types, sizeof types);
    describe_products(plan, scores, values, sizeof scores);
    if (c->split_segments > 0)
        snprintf(split, sizeof split, "in tasks of %lld segments of %d keys", (long long)c->split_segments, FV_SEGMENT);
    else if (plan->partial_floats > 0)
        snprintf(split, sizeof split, "where threads would wait, in segments of %d keys", FV_SEGMENT);
    return (size_t)snprintf(text, size,
                            "tier    %s\ntypes   %s, arithmetic %s\nscores  %s\nvalues  %s\nblocks  %lld of %lld "
                            "rows, in tiles of %lld\n"
                            "split   %s\nthreads %lld of %d, workspace %lld bytes\ntuned   %s\n",
                            fv_isa_word(plan->ctx->target.isa), types, fovea_arithmetic_name(plan->desc.arithmetic),
                            scores, values, (long long)plan->row_blocks, (long long)c->block_rows,
                            (long long)c->tile_rows, split, (long long)plan->tasks, plan->ctx->threads.count,
                            (long long)plan->bytes, origin);
}
