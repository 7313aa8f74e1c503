/* Arithmetics (arithmetic.h). */
#include "arithmetic.h"

static int config = PY_ARITHMETIC_DEFAULT;

int py_arithmetic_config(void) { return config; }

void py_arithmetic_set_config(int arithmetic) { config = arithmetic; }

int py_arithmetic_of(PyObject *word, bool quantized, int *arithmetic) {
    const fovea_arithmetic last = quantized ? FOVEA_ARITHMETIC_Q8 : FOVEA_ARITHMETIC_FASTEST;
    for (int i = 0; PyUnicode_Check(word) && i <= (int)last; i++)
        if (i != FOVEA_ARITHMETIC_DEFAULT &&
            PyUnicode_CompareWithASCIIString(word, fovea_arithmetic_name((fovea_arithmetic)i)) == 0) {
            *arithmetic = i;
            return 0;
        }
    if (PyUnicode_Check(word) && PyUnicode_CompareWithASCIIString(word, "default") == 0) {
        *arithmetic = PY_ARITHMETIC_DEFAULT;
        return 0;
    }
    py_raise_not(word, "arithmetic must be 'default', 'exact', 'bf16', 'bf16_tile' or 'fastest'%s",
                 quantized ? ", or 'q16' or 'q8' of quantized weights" : "");
    return -1;
}

int py_arithmetic_choose(PyObject *value, bool bf16, fovea_arithmetic *arithmetic) {
    int chosen = PY_ARITHMETIC_DEFAULT;
    if (value && value != Py_None && py_arithmetic_of(value, false, &chosen) < 0)
        return -1;
    if (chosen == PY_ARITHMETIC_DEFAULT && bf16)
        chosen = config;
    *arithmetic = chosen == PY_ARITHMETIC_DEFAULT ? FOVEA_ARITHMETIC_EXACT : (fovea_arithmetic)chosen;
    return 0;
}

int py_arithmetic_of_weights(PyObject *value, fovea_arithmetic *arithmetic) {
    int chosen = PY_ARITHMETIC_DEFAULT;
    if (value && value != Py_None && py_arithmetic_of(value, true, &chosen) < 0)
        return -1;
    *arithmetic = chosen == PY_ARITHMETIC_DEFAULT ? FOVEA_ARITHMETIC_DEFAULT : (fovea_arithmetic)chosen;
    return 0;
}

const char *py_arithmetic_of_calls(void) {
    return fovea_arithmetic_name(config == PY_ARITHMETIC_DEFAULT ? FOVEA_ARITHMETIC_EXACT : (fovea_arithmetic)config);
}

const char *py_arithmetic_of_models(fovea_arithmetic fastest) {
    const bool named = config != PY_ARITHMETIC_DEFAULT && config != FOVEA_ARITHMETIC_FASTEST;
    return fovea_arithmetic_name(named ? (fovea_arithmetic)config : fastest);
}

PyObject *py_models_arithmetic(PyObject *module, PyObject *none) {
    (void)module, (void)none;
    return PyUnicode_InternFromString(
        fovea_arithmetic_name(config == PY_ARITHMETIC_DEFAULT ? FOVEA_ARITHMETIC_FASTEST : (fovea_arithmetic)config));
}
