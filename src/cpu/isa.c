/* Tiers and features (isa.h). */
#include "cpu/isa.h"

#include "core/core.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* By number; what is between is not a tier, and has no word. */
static const struct {
    const char *word;
    int lanes;
    fv_isa below;
} tiers[FV_ISA_COUNT] = {
#define FV_TIER(word_, number_, lanes_, below_) [number_] = {#word_, lanes_, FV_ISA_##below_},
#include "tiers.inc"
#undef FV_TIER
};

/* The end has no word: a build may know no feature. */
static const struct {
    const char *word;
    fv_isa isa;
} features[FV_FEATURE_COUNT + 1] = {
#define FV_FEATURE(word_, tier_) [FV_FEATURE_##word_] = {#word_, FV_ISA_##tier_},
#include "features.inc"
#undef FV_FEATURE
    [FV_FEATURE_COUNT] = {NULL, FV_ISA_none},
};

fv_isa fv_isa_below(fv_isa isa) {
    assert((unsigned)isa < FV_ISA_COUNT);
    return tiers[isa].below;
}

/* A tier's number is greater than that of the one below it, so the greater of two cannot be below the other. */
fv_isa fv_isa_capped(fv_isa isa, fv_isa cap) {
    while (isa != cap)
        if (isa > cap)
            isa = fv_isa_below(isa);
        else
            cap = fv_isa_below(cap);
    return isa;
}

fv_target fv_target_capped(fv_target target, fv_isa cap) {
    fv_target capped = {fv_isa_capped(target.isa, cap), 0};
    for (int i = 0; i < FV_FEATURE_COUNT; i++)
        if (fv_isa_capped(features[i].isa, capped.isa) == features[i].isa)
            capped.features |= target.features & 1u << i;
    return capped;
}

bool fv_target_has(fv_target target, fv_isa isa, unsigned required) {
    return fv_isa_capped(isa, target.isa) == isa && (required & ~target.features) == 0;
}

const char *fv_target_lacks(fv_target target, fv_isa isa, unsigned required, char text[FV_FEATURES_TEXT]) {
    if (fv_isa_capped(isa, target.isa) == isa)
        return fv_features_text(required & ~target.features, ", ", text);
    snprintf(text, FV_FEATURES_TEXT, "%s", fv_isa_word(isa));
    return text;
}

int fv_isa_lanes(fv_isa isa) {
    assert((unsigned)isa < FV_ISA_COUNT);
    return tiers[isa].lanes;
}

const char *fv_isa_word(fv_isa isa) {
    const unsigned index = (unsigned)isa;
    return index < FV_ISA_COUNT && tiers[index].word ? tiers[index].word : "unknown";
}

fv_isa fv_isa_named(const char *word) {
    for (int i = 0; i < FV_ISA_COUNT; i++)
        if (tiers[i].word && strcmp(tiers[i].word, word) == 0)
            return (fv_isa)i;
    return FV_ISA_none;
}

const char *fv_features_text(unsigned set, const char *between, char text[FV_FEATURES_TEXT]) {
    size_t n = 0;
    text[0] = '\0';
    for (int i = 0; i < FV_FEATURE_COUNT; i++)
        if (set >> i & 1)
            fv_text_add(text, FV_FEATURES_TEXT, &n, "%s%s", n ? between : "", features[i].word);
    return text;
}

unsigned fv_features_named(const char *words) {
    unsigned set = 0;
    for (int i = 0; i < FV_FEATURE_COUNT; i++)
        if (fv_text_lists(words, features[i].word))
            set |= 1u << i;
    return set;
}
