/* The default context. No lock: a child forked at any moment can go on. */
#include "context/context.h"

#include <stdatomic.h>

static _Atomic(fovea_context *) kept;

fovea_status fv_context_default(const fovea_context **ctx) {
    fovea_context *made, *other = NULL;
    *ctx = atomic_load(&kept);
    if (*ctx)
        return FOVEA_OK;
    const fovea_status status = fovea_context_create(NULL, &made);
    if (status != FOVEA_OK)
        return status;
    if (!atomic_compare_exchange_strong(&kept, &other, made)) { /* another thread was first */
        fovea_context_destroy(made);
        made = other;
    }
    *ctx = made;
    return FOVEA_OK;
}
