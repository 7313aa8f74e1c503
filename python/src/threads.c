/* fovea.set_num_threads() and fovea.get_num_threads(). */
#include "context.h"
#include "pool.h"

PyObject *py_set_num_threads(PyObject *module, PyObject *value) {
    (void)module;
    const long threads = PyLong_AsLong(value);
    if (threads == -1 && PyErr_Occurred())
        return NULL;
    if (threads < 0 || threads > 1024) {
        py_raise(PyExc_ValueError, "threads must be from 0 (no limit) to 1024, not %ld", threads);
        return NULL;
    }
    py_pool_set_threads((int)threads);
    Py_RETURN_NONE;
}

int py_threads_now(const fovea_context_facts *info) {
    const int limit = py_pool_threads();
    return limit && limit < info->threads ? limit : info->threads;
}

PyObject *py_get_num_threads(PyObject *module, PyObject *none) {
    (void)module, (void)none;
    const py_context *context = py_context_now();
    if (!context)
        return NULL;
    fovea_context_facts info;
    fovea_context_facts_init(&info);
    const fovea_status status = fovea_context_info(context->library, &info);
    return status == FOVEA_OK ? PyLong_FromLong(py_threads_now(&info)) : py_raise_status(status);
}
