/* The module fovea._core: its functions, types and state. */
#include "array.h"
#include "plan_cache.h"

static PyMethodDef methods[] = {
    {"attention", (PyCFunction)(void (*)(void))py_attention, METH_FASTCALL | METH_KEYWORDS, py_attention_doc},
    {"attention_recorded", (PyCFunction)(void (*)(void))py_attention_recorded, METH_FASTCALL | METH_KEYWORDS,
     py_attention_recorded_doc},
    {"merge", (PyCFunction)(void (*)(void))py_merge, METH_FASTCALL | METH_KEYWORDS, py_merge_doc},
    {"layer_norm", (PyCFunction)(void (*)(void))py_layer_norm, METH_FASTCALL | METH_KEYWORDS, py_layer_norm_doc},
    {"rms_norm", (PyCFunction)(void (*)(void))py_rms_norm, METH_FASTCALL | METH_KEYWORDS, py_rms_norm_doc},
    {"embedding_sum", (PyCFunction)(void (*)(void))py_embedding_sum, METH_FASTCALL | METH_KEYWORDS,
     py_embedding_sum_doc},
    {"activate", (PyCFunction)(void (*)(void))py_activate, METH_FASTCALL | METH_KEYWORDS, py_activate_doc},
    {"pool_tokens", (PyCFunction)(void (*)(void))py_pool_tokens, METH_FASTCALL | METH_KEYWORDS, py_pool_tokens_doc},
    {"normalize_rows", (PyCFunction)(void (*)(void))py_normalize_rows, METH_FASTCALL | METH_KEYWORDS,
     py_normalize_rows_doc},
    {"exp", (PyCFunction)(void (*)(void))py_exp, METH_FASTCALL | METH_KEYWORDS, py_exp_doc},
    {"gated_delta_rule", (PyCFunction)(void (*)(void))py_gated_delta_rule, METH_FASTCALL | METH_KEYWORDS,
     py_gated_delta_rule_doc},
    {"selective_scan", (PyCFunction)(void (*)(void))py_selective_scan, METH_FASTCALL | METH_KEYWORDS,
     py_selective_scan_doc},
    {"causal_conv", (PyCFunction)(void (*)(void))py_causal_conv, METH_FASTCALL | METH_KEYWORDS, py_causal_conv_doc},
    {"route", (PyCFunction)(void (*)(void))py_route, METH_FASTCALL | METH_KEYWORDS, py_route_doc},
    {"info", py_info, METH_NOARGS, py_info_doc},
    {"models_arithmetic", py_models_arithmetic, METH_NOARGS, py_models_arithmetic_doc},
    {"_renew", py_renew, METH_NOARGS, NULL},
    {"set_num_threads", py_set_num_threads, METH_O, py_set_num_threads_doc},
    {"get_num_threads", py_get_num_threads, METH_NOARGS, py_get_num_threads_doc},
    {NULL, NULL, 0, NULL},
};

static int (*const add_types[])(PyObject *module) = {
#define PY_ADD(name) py_add_##name,
    PY_TYPES(PY_ADD)
#undef PY_ADD
        NULL};

static int start(PyObject *module) {
    static const char *const words[] = {
#define PY_NAME_TEXT(name) #name,
        PY_NAMES(PY_NAME_TEXT)
#undef PY_NAME_TEXT
    };
    py_core *core = py_core_of(module);
    for (int i = 0; i < PY_NAME_COUNT; i++)
        if (!(core->names[i] = PyUnicode_InternFromString(words[i])))
            return -1;
    for (int i = 0; add_types[i]; i++)
        if (add_types[i](module) < 0)
            return -1;
    return PyModule_AddIntConstant(module, "BITS_VERSION", FOVEA_BITS_VERSION) < 0
               ? -1
               : PyModule_AddStringConstant(module, "__version__", fovea_version());
}

static int traverse(PyObject *module, visitproc visit, void *arg) {
    py_core *core = py_core_of(module);
    Py_VISIT(core->numpy_empty);
#define PY_VISIT_TYPE(name) Py_VISIT((PyObject *)core->name##_type);
    PY_TYPES(PY_VISIT_TYPE)
#undef PY_VISIT_TYPE
    Py_VISIT(core->cache_full);
    return 0;
}

static int clear(PyObject *module) {
    py_core *core = py_core_of(module);
    for (int i = 0; i < PY_NAME_COUNT; i++)
        Py_CLEAR(core->names[i]);
    for (size_t i = 0; i < sizeof core->numpy_dtypes / sizeof core->numpy_dtypes[0]; i++)
        Py_CLEAR(core->numpy_dtypes[i]);
    Py_CLEAR(core->numpy_empty);
    Py_CLEAR(core->torch_is_grad_enabled);
    Py_CLEAR(core->torch_increment_version);
    Py_CLEAR(core->torch_forward_ad);
#define PY_CLEAR_TYPE(name) Py_CLEAR(core->name##_type);
    PY_TYPES(PY_CLEAR_TYPE)
#undef PY_CLEAR_TYPE
    Py_CLEAR(core->cache_full);
    py_array_forget(core);
    return 0;
}

static void release(void *module) { (void)clear(module); }

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)start}, {0, NULL}};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,     .m_name = "_core",    .m_doc = "The extension of fovea: import fovea instead.",
    .m_size = sizeof(py_core), .m_methods = methods, .m_slots = slots,
    .m_traverse = traverse,    .m_clear = clear,     .m_free = release,
};

PyMODINIT_FUNC PyInit__core(void) { return PyModuleDef_Init(&definition); }
