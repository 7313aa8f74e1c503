/* The library's contexts: one for each tier and number of threads that fovea.config() has asked for, shared by the
 * plans made from it and freed with the last of them. The GIL must be held. */
#ifndef PY_CONTEXT_H
#define PY_CONTEXT_H

#include "core.h"

typedef struct py_context {
    fovea_context *library;
    fovea_isa isa; /* as asked for */
    int threads;   /* as asked for; 0: no limit */
    long references;
    struct py_context *next; /* of all that live */
} py_context;

/* The context that calls use now; borrowed, until fovea.config() changes it. NULL with an exception. */
py_context *py_context_now(void);

/* Makes the next call read environment and tuning file anew. */
void py_context_renew(void);

/* Keeps a context for as long as something made from it lives. */
py_context *py_context_keep(py_context *context);
void py_context_drop(py_context *context); /* NULL is allowed */

/* Makes calls use another one. 0, or -1 with an exception and nothing changed. */
int py_context_set(fovea_isa isa, int threads);

#endif
