/* Checks of relative biases (fovea_relative). */
#ifndef FV_ATTENTION_RELATIVE_CHECK_H
#define FV_ATTENTION_RELATIVE_CHECK_H

#include "fovea/fovea.h"

/* Is a description's relative bias well described? */
fovea_status fv_relative_check_desc(const fovea_attention_desc *desc);

/* Checks the arguments' relative bias, after what is checked of any tensor. */
fovea_status fv_relative_check_args(const fovea_attention_desc *desc, const fovea_attention_args *args);

/* Do keys and queries lie in a two-dimensional window? Of checked arguments; of a cache once it is read, which knows
 * lengths. */
fovea_status fv_relative_check_sequences(const fovea_attention_desc *desc, const fovea_attention_args *args);

/* Entries of args.relative for each head; TOEPLITZ: any odd number, that of the tensor. */
int64_t fv_relative_entries(const fovea_attention_desc *desc, const fovea_tensor *relative);

#endif
