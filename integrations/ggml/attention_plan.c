/* Plans by shape. A program's shapes repeat, and change as its cache grows by a block of keys. */
#include "attention_part.h"

#include <string.h>

static int64_t bits_of(double x) {
    int64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

const fovea_attention_plan *fg_attention_plan(fg_backend *backend, fg_team *team, const fovea_attention_desc *d) {
    const int64_t key[FG_PLAN_KEY] = {
#define FOVEA_DESC(type, name) (int64_t) d->name,
#define FOVEA_DESC_NUMBER(name, least, most, text) bits_of(d->name),
#define FOVEA_DESC_NUMBER_IF(name, flag, least, most, text) bits_of(d->name),
#include "fovea/fields.inc"
    };
    struct fg_plan *oldest = &team->plans[0];
    for (int i = 0; i < FG_PLANS; i++) {
        struct fg_plan *plan = &team->plans[i];
        if (plan->plan && !memcmp(plan->key, key, sizeof key)) {
            plan->used = ++backend->clock;
            return plan->plan;
        }
        oldest = plan->used < oldest->used ? plan : oldest;
    }
    fovea_attention_plan_destroy(oldest->plan);
    oldest->plan = NULL;
    oldest->used = 0;
    if (fg_status(fovea_attention_plan_create(team->context, d, &oldest->plan), "FLASH_ATTN_EXT") !=
        GGML_STATUS_SUCCESS)
        return NULL;
    memcpy(oldest->key, key, sizeof key);
    oldest->used = ++backend->clock;
    return oldest->plan;
}
