/* Tiers and features: their order, words and sets. What kernels/tiers.inc and features.inc say, at run time. */
#ifndef FV_ISA_H
#define FV_ISA_H

#include "kernels.h"

#include <stdbool.h>
#include <stddef.h>

enum { FV_FEATURES_TEXT = 160 }; /* bytes of the words of all features */

/* The tier, with all below it, and the features that a machine, or a context on it, offers to kernels. */
typedef struct fv_target {
    fv_isa isa;
    unsigned features; /* FV_HAS_... */
} fv_target;

/* The tier below, which every CPU of this tier has also; FV_ISA_none below the portable one. */
fv_isa fv_isa_below(fv_isa isa);

/* The best tier that is at or below both. */
fv_isa fv_isa_capped(fv_isa isa, fv_isa cap);

/* Without the tiers above the cap, and the features of such tiers. */
fv_target fv_target_capped(fv_target target, fv_isa cap);

/* Has the target that tier and those features? */
bool fv_target_has(fv_target target, fv_isa isa, unsigned features);

/* The missing ones, as "avx512" or "f16c, avx512_bf16"; "" if it has all. */
const char *fv_target_lacks(fv_target target, fv_isa isa, unsigned features, char text[FV_FEATURES_TEXT]);

/* Floats in a vector of the tier. */
int fv_isa_lanes(fv_isa isa);

/* "scalar", "avx2", ... */
const char *fv_isa_word(fv_isa isa);

/* The tier of that word; FV_ISA_none: none. */
fv_isa fv_isa_named(const char *word);

/* The words of features in the order of the list, as "f16c, avx512_bf16" if ", " is between; "" of none. */
const char *fv_features_text(unsigned features, const char *between, char text[FV_FEATURES_TEXT]);

/* The features of words with commas between; words that are none are left out. */
unsigned fv_features_named(const char *words);

#endif
