/* The arithmetic for bfloat16: fovea.config(arithmetic=), and arithmetic= of a call, plan, map or layer. */
#ifndef PY_ARITHMETIC_H
#define PY_ARITHMETIC_H

#include "core.h"

#include <stdbool.h>

enum {
    PY_ARITHMETIC_DEFAULT = -1
}; /* config says nothing: exact, and the fastest for the backends of torch and transformers */

/* The setting of fovea.config(): a fovea_arithmetic or PY_ARITHMETIC_DEFAULT. */
int py_arithmetic_config(void);
void py_arithmetic_set_config(int arithmetic);

/* "default", or one of the library's words; quantized: also those that only maps of quantized weights take.
 * 0, or -1 with ValueError or TypeError. */
int py_arithmetic_of(PyObject *word, bool quantized, int *arithmetic);

/* Chooses the arithmetic of a call: the argument `value` if given (not NULL or None); else, if all operands are
 * bfloat16, that of config; else exact. 0, or -1 with an exception. */
int py_arithmetic_choose(PyObject *value, bool bf16, fovea_arithmetic *arithmetic);

/* The same for a map whose weights are quantized: the argument `value` if given, else the library's default. 0, or -1
 * with an exception. */
int py_arithmetic_of_weights(PyObject *value, fovea_arithmetic *arithmetic);

/* Names for info(): of the arithmetic of calls, and of attention or linear maps in models, if FASTEST means
 * `fastest`. */
const char *py_arithmetic_of_calls(void);
const char *py_arithmetic_of_models(fovea_arithmetic fastest);

#endif
