/* The effect of a choice (plan/knobs.h), for tuners: fields that do not affect a plan's work are 0, and thresholds say
 * whether its blocks reach them. */
#include "attention/plan/knobs.h"
#include "attention/plan/plan.h"
#include "core/core.h"

fv_attention_choice fv_attention_effect(const fovea_attention_plan *plan) {
    fv_attention_choice c = plan->choice;
    const fv_sources *sources = &plan->sources;
    const fv_keys_source *keys = fv_sources_keys(sources);
    const fv_values_source *values = fv_sources_values(sources);
    const int64_t rows = c.block_rows;
    if (!keys->open && sources->k[keys->id] != c.score)
        c.score = NULL;
    if (sources->v[values->id] != c.value)
        c.value = NULL;
    if (c.split_segments >= plan->visible_segments)
        c.split_segments = -1;
    c.few_rows = 0; /* k and v tell */
    c.copy_rows = values->id == FV_VALUES_rows && rows >= c.copy_rows;
    c.amx_rows = plan->tiles && rows >= c.amx_rows;
    c.stream_rows = keys->streams && values->streams && rows <= sources->stream_rows;
    c.cache_scale = 2 * (c.score ? plan->panel : 0) + plan->fetches_next;
    return c;
}
