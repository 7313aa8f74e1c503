/* fovea-bench: plans whose sources of keys and values a case names (attention/sources/sources.inc). */
#include "attention/plan/plan.h"
#include "bench.h"

const char *const bench_keys_words[] = {"default",
#define FV_KEYS(name, fallback) #name,
#include "attention/sources/sources.inc"
                                        NULL};

const char *const bench_values_words[] = {"default",
#define FV_VALUES(name, fallback) #name,
#include "attention/sources/sources.inc"
                                          NULL};

const char *bench_plan(const fovea_context *context, const fovea_attention_desc *desc, int64_t keys, int64_t values,
                       fovea_attention_plan **plan) {
    const fv_attention_choice choice = {.k = keys, .v = values};
    const bool chosen = keys > 0 || values > 0;
    if (fv_attention_plan_create_chosen(context, desc, chosen ? &choice : NULL, plan) != FOVEA_OK)
        return fovea_error_detail();
    if ((keys > 0 && (*plan)->choice.k != keys) || (values > 0 && (*plan)->choice.v != values))
        return "keys=, values=: the source does not serve these types on this tier";
    return NULL;
}
