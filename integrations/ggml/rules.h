/* The data that pays.c goes by: which operations are faster here than on ggml's CPU backend, by type. */
#ifndef FG_RULES_H
#define FG_RULES_H

#include "backend_ggml.h"

typedef struct fg_rule {
    int64_t take;   /* 0: never */
    int64_t least;  /* fewest floating-point operations */
    int64_t spread; /* most threads for each key head and row of queries; 0: any number */
} fg_rule;

/* Classes of weights by shape, for rows of type=TYPE/words and /down. WORDS: of the words that a model knows: a prompt
 * needs the outputs of its last token alone, so only few rows count. DOWN: twice as many inputs as outputs at least. */
typedef enum fg_shape { FG_SHAPE_ANY, FG_SHAPE_WORDS, FG_SHAPE_DOWN, FG_SHAPES } fg_shape;
fg_shape fg_shape_of(int64_t in, int64_t out);

/* Takes what the tuning file of this context says, for products with this arithmetic, in place of defaults. A row that
 * is not understood is left out; if debug is set, one line says so. Before any thread asks for a rule. */
void fg_rules_load(const fovea_context *context, fovea_arithmetic arithmetic, bool debug);

/* That of FLASH_ATTN_EXT with keys or values of this type, or of MUL_MAT or MUL_MAT_ID with such weights. rows: of
 * queries or inputs; 0: any number, as weights are placed before it is known. They are taken unless that is slower for
 * some. Rows of a file for this shape come before those for any. */
fg_rule fg_rule_for(fovea_isa isa, fg_op op, const fg_type *type, fg_shape shape, int64_t rows);

/* Is anything taken on this tier? */
bool fg_rules_take(fovea_isa isa);

#endif
