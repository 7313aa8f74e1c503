/* Every form of the layer that matrices of ones and zeros can make, so that it computes attention of its inputs' groups
 * of channels, to the bit. */
#ifndef FOVEA_TESTS_MHA_FORMS_H
#define FOVEA_TESTS_MHA_FORMS_H

#include "fovea/fovea.h"

#include <stdbool.h>

typedef struct mha_form {
    const char *name;
    fovea_mha_form form;
    fovea_mha_merge merge;
    fovea_mha_order order;
    bool fold;   /* values, always */
    bool output; /* W^O, too */
    bool rows;   /* reads an input as whole rows */
} mha_form;

enum { MHA_FORMS = 15 };
extern const mha_form mha_forms[MHA_FORMS];

/* Kinds of inputs, in turn. */
fovea_mha_inputs mha_kind(int64_t i);

/* Makes inputs that a kind does not have those that serve for them. */
void mha_inputs_of(fovea_mha_inputs kind, fovea_attention_args *args);

/* Whether a form is possible with matrices of ones and zeros, and not too slow. rows: inputs are [batch, token, head,
 * channel] in memory. */
bool mha_form_fits(const mha_form *f, const fovea_attention_desc *a, bool rows);

/* [n, n], ones on the diagonal. Freed by the caller. */
float *mha_identity(int64_t n);

/* Makes the layer and runs it with attention's own args, of which those that inputs of that kind lack are left out. One
 * check. */
void mha_form_run(const fovea_context *ctx, const mha_form *f, const fovea_attention_desc *a, fovea_mha_inputs kind,
                  fovea_attention_args args);

#endif
