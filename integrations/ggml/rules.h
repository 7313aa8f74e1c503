/* The data that pays.c goes by: which operations are faster here than on ggml's CPU backend, by tier and element type. */
#ifndef FG_RULES_H
#define FG_RULES_H

#include "backend_ggml.h"

typedef struct fg_rule {
    int take;       /* 0: never */
    int64_t least;  /* with so many floating-point operations, or more */
    int64_t spread; /* with so many threads a key head and row of queries, or fewer; 0: with any number */
} fg_rule;

/* That of FLASH_ATTN_EXT with keys or values of this type, or of MUL_MAT with such weights. */
fg_rule fg_rule_for(fovea_isa isa, fg_op op, const fg_type *type);

#endif
