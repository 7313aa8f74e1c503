/* What bfloat16 is computed by: fovea.config(arithmetic=), and arithmetic= of a call, plan, map or layer. */
#ifndef PY_ARITHMETIC_H
#define PY_ARITHMETIC_H

#include "core.h"

#include <stdbool.h>

enum {
    PY_ARITHMETIC_DEFAULT = -1
}; /* config says nothing: exact, and the fastest for the backends of torch and transformers */

/* What fovea.config() says: a fovea_arithmetic or PY_ARITHMETIC_DEFAULT. */
int py_arithmetic_config(void);
void py_arithmetic_set_config(int arithmetic);

/* "default", or one of the library's words; quantised: also those that only maps of quantised weights take.
 * 0, or -1 with ValueError or TypeError. */
int py_arithmetic_of(PyObject *word, bool quantised, int *arithmetic);

/* Of operands, all of bfloat16 or not: value, the argument, as it is; where it is NULL or None what config says, which is for
 * bfloat16 alone; else exact. 0, or -1 with an exception. */
int py_arithmetic_choose(PyObject *value, bool bf16, fovea_arithmetic *arithmetic);

/* Of a map whose weights are quantised: what value says, else the library's default. 0, or -1 with an exception. */
int py_arithmetic_of_weights(PyObject *value, fovea_arithmetic *arithmetic);

/* The words for info(): of calls; of attention and linear maps in models, where fastest is what the library takes for it. */
const char *py_arithmetic_of_calls(void);
const char *py_arithmetic_of_models(fovea_arithmetic fastest);

#endif
