/* Where the backend was measured to be faster (docs/measurements.md; ggml-fovea-bench measures it). The first row that
 * fits counts.
 *   MUL_MAT         On AVX2 ggml's repacked q4_K is faster with 4 to 16 rows. Files with q4_K have q5_K and q6_K, too:
 *                   changing backends within layers would cost what these gain.
 *   FLASH_ATTN_EXT  So little work takes a few microseconds, no more than ggml's scheduler does to change backends.
 *                   Quantised: a thread widens a key head. ggml's threads take a head of q each. */
#include "rules.h"

#include <string.h>

enum { ANY_TIER = -1, LEAST = 300000 };

static const struct {
    int isa;
    fg_op op;
    const char *type; /* "": any */
    fg_rule rule;
} defaults[] = {
    {FOVEA_ISA_SCALAR, FG_MUL_MAT, "", {.take = 0}}, /* portable code is slower than ggml's */
    {FOVEA_ISA_SCALAR, FG_FLASH_ATTN_EXT, "", {.take = 0}},
    {FOVEA_ISA_AVX2, FG_MUL_MAT, "q4_K", {.take = 0}},
    {FOVEA_ISA_AVX2, FG_MUL_MAT, "q5_K", {.take = 0}},
    {FOVEA_ISA_AVX2, FG_MUL_MAT, "q6_K", {.take = 0}},
    {ANY_TIER, FG_MUL_MAT, "", {.take = 1}},
    {ANY_TIER, FG_FLASH_ATTN_EXT, "q8_0", {1, LEAST, 2}},
    {ANY_TIER, FG_FLASH_ATTN_EXT, "q4_0", {1, LEAST, 2}},
    {ANY_TIER, FG_FLASH_ATTN_EXT, "", {1, LEAST, 0}},
};

enum { DEFAULTS = sizeof defaults / sizeof defaults[0] };

static bool is_for(int row, fovea_isa isa, fg_op op, const fg_type *type) {
    return defaults[row].op == op && (defaults[row].isa == ANY_TIER || defaults[row].isa == (int)isa) &&
           (!*defaults[row].type || !strcmp(defaults[row].type, type->name));
}

fg_rule fg_rule_for(fovea_isa isa, fg_op op, const fg_type *type) {
    int row = 0;
    while (row < DEFAULTS && !is_for(row, isa, op, type))
        row++;
    return row < DEFAULTS ? defaults[row].rule : (fg_rule){0};
}
