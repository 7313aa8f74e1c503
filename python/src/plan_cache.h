/* Plans of the last descriptions, and a workspace for each thread. */
#ifndef PY_PLAN_CACHE_H
#define PY_PLAN_CACHE_H

#include "context.h"

/* A plan that calls share. */
typedef struct py_plan {
    fovea_attention_desc desc;
    fovea_attention_plan *library;
    py_context *context; /* kept */
    size_t workspace_size;
    long references;
} py_plan;

/* Makes a plan that no cache holds. desc must have been zeroed before it was filled: it is compared by bytes. NULL with
 * an exception. */
py_plan *py_plan_make(py_context *context, const fovea_attention_desc *desc);

/* The plan of a description, made if the cache has none. A reference of the caller's. NULL with an exception. */
py_plan *py_plan_find(py_context *context, const fovea_attention_desc *desc);

/* Gives a reference back. NULL is allowed. */
void py_plan_drop(py_plan *plan);

/* Memory of the calling thread, at least size bytes, until its next call. Small ones are kept by the thread, large ones
 * are freed by py_workspace_done(). NULL: no memory. Needs no GIL. */
void *py_workspace(size_t size);
void py_workspace_done(void *workspace, size_t size);

#endif
