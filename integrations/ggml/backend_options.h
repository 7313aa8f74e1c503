/* The environment, as backend_options.c has read it. */
#ifndef FG_BACKEND_OPTIONS_H
#define FG_BACKEND_OPTIONS_H

#include "backend_ggml.h"

/* Reads FOVEA_GGML and FOVEA_DEBUG, once. */
void fg_options_load(void);
/* Is this operation taken, as far as FOVEA_GGML says; and whether it pays or not? */
bool fg_options_take(fg_op op, bool *always);
const char *fg_options_none(void); /* why nothing is taken; NULL: something is */
bool fg_options_listed(void);      /* operations are named, or all: they are taken whether faster or not */
bool fg_options_debug(void);
/* Tier and threads, as the environment allows them. */
const fovea_context_facts *fg_options_info(void);
/* The arithmetic of products with quantized weights. */
fovea_arithmetic fg_options_arithmetic(void);

#endif
