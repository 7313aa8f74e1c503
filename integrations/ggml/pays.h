/* Which operations are faster here than on ggml's CPU backend. */
#ifndef FG_PAYS_H
#define FG_PAYS_H

#include "backend_ggml.h"

/* Does an operation that is served pay? */
bool fg_pays(const struct ggml_tensor *op);

#endif
