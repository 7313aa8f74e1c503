/* fovea.info() and fovea.config(). */
#include "arithmetic.h"
#include "context.h"
#include "objects.h"
#include "pool.h"

#include <string.h>

PyObject *py_info(PyObject *module, PyObject *none) {
    (void)module, (void)none;
    py_context *context = py_context_now();
    if (!context)
        return NULL;
    fovea_context_facts info;
    fovea_context_facts_init(&info);
    if (py_checked(fovea_context_info(context->library, &info)) < 0)
        return NULL;
    return Py_BuildValue("{ss ss si ss ss ss sL sL ss ss si ss ss ss ss}", "version", fovea_version(), "isa",
                         fovea_isa_name(info.isa), "threads", py_threads_now(&info), "pool", py_pool_name(), "cpu",
                         info.cpu, "features", info.features, "l1d_bytes", (long long)info.l1d_bytes, "l2_bytes",
                         (long long)info.l2_bytes, "reason", info.reason, "tuning", info.tuning, "tuning_rows",
                         info.tuning_rows, "nodes", info.nodes, "arithmetic", py_arithmetic_of_calls(),
                         "models_arithmetic", py_arithmetic_of_models(info.fastest_attention),
                         "models_linear_arithmetic", py_arithmetic_of_models(info.fastest_linear));
}

/* For fovea/tuning.py. */
PyObject *py_renew(PyObject *module, PyObject *none) {
    (void)module, (void)none;
    py_context_renew();
    Py_RETURN_NONE;
}

typedef struct config_object {
    PyObject_HEAD fovea_isa isa; /* as they were before */
    int threads, arithmetic;
} config_object;

static int isa_of(PyObject *value, fovea_isa *isa) {
    const char *words[FOVEA_ISA_NEON + 1] = {"best"};
    for (int i = FOVEA_ISA_SCALAR; i <= FOVEA_ISA_NEON; i++)
        words[i] = fovea_isa_name((fovea_isa)i);
    const int place = py_word(value, "isa", NULL, words, FOVEA_ISA_NEON + 1);
    *isa = (fovea_isa)place;
    return place < 0 ? -1 : 0;
}

static PyObject *config_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    PyObject *isa_value = NULL, *threads_value = NULL, *arithmetic_value = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|$OOO:config", py_config_names, &isa_value, &threads_value,
                                     &arithmetic_value))
        return NULL;
    const py_context *before = py_context_now();
    if (!before)
        return NULL;
    fovea_isa isa = before->isa;
    int threads = before->threads;
    if (isa_value && isa_value != Py_None && isa_of(isa_value, &isa) < 0)
        return NULL;
    if (threads_value && threads_value != Py_None) {
        const long number = PyLong_AsLong(threads_value);
        if (number == -1 && PyErr_Occurred())
            return NULL;
        if (number < 0 || number > 4096) {
            py_raise(PyExc_ValueError, "threads must be from 0 (no limit) to 4096, not %ld", number);
            return NULL;
        }
        threads = (int)number;
    }
    int arithmetic = py_arithmetic_config();
    if (arithmetic_value && arithmetic_value != Py_None && py_arithmetic_of(arithmetic_value, false, &arithmetic) < 0)
        return NULL;
    config_object *config = (config_object *)py_object_new(type);
    if (!config)
        return NULL;
    config->isa = before->isa;
    config->threads = before->threads;
    config->arithmetic = py_arithmetic_config();
    if (py_context_set(isa, threads) == 0) {
        py_arithmetic_set_config(arithmetic);
        return (PyObject *)config;
    }
    Py_DECREF((PyObject *)config);
    return NULL;
}

static PyObject *enter(PyObject *self, PyObject *none) {
    (void)none;
    return Py_NewRef(self);
}

static PyObject *leave(PyObject *self, PyObject *args) {
    (void)args;
    const config_object *config = (const config_object *)self;
    if (py_context_set(config->isa, config->threads) < 0)
        return NULL;
    py_arithmetic_set_config(config->arithmetic);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"__enter__", enter, METH_NOARGS, NULL}, {"__exit__", leave, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};

static PyType_Slot slots[] = {{Py_tp_new, (void *)config_new},
                              {Py_tp_dealloc, (void *)py_object_free},
                              {Py_tp_methods, methods},
                              {Py_tp_doc, (void *)py_config_doc},
                              {0, NULL}};

static PyType_Spec spec = {"fovea.config", sizeof(config_object), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
                           slots};

int py_add_config(PyObject *module) { return py_add_type(module, &spec, &py_core_of(module)->config_type); }
