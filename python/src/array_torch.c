/* Facts of a torch tensor that DLPack does not tell: the negative bit, gradients, the count of its changes
 * (array.h). */
#include "array_private.h"
#include "pool.h"

#include <stdalign.h>
#include <stddef.h>
#include <string.h>

/* The at::Tensor of a torch.Tensor: what follows the head of the object. */
static const void *tensor_of(PyObject *object) { return (const char *)object + sizeof(PyObject); }

static bool is_pointer(const void *tensor) {
    uintptr_t word;
    memcpy(&word, tensor, sizeof word);
    return word > 4096 && word % alignof(max_align_t) == 0;
}

/* Called from Python, torch's functions cost 30 to 60 ns each; by their symbols, 2. But the place of a tensor in its
 * object is not documented, so the symbols are used for a type only after one has told a tensor from its negative. */
static bool tells_negatives(const py_torch_pool *torch, PyObject *object) {
    if (!torch || !torch->grad_mode_is_enabled || !is_pointer(tensor_of(object)))
        return false;
    PyObject *negative = PyObject_CallMethod(object, "_neg_view", NULL);
    const bool tells = negative && is_pointer(tensor_of(negative)) &&
                       torch->is_neg(tensor_of(negative)) != torch->is_neg(tensor_of(object));
    Py_XDECREF(negative);
    PyErr_Clear();
    return tells;
}

void py_torch_look(py_core *core, PyObject *object, py_source *source) {
    const py_torch_pool *torch = py_torch_pool_find();
    if (source->way == PY_WAY_EXCHANGE && tells_negatives(torch, object))
        source->symbols = torch;
    if (!core->torch_is_grad_enabled)
        core->torch_is_grad_enabled = py_attribute_of("torch", "is_grad_enabled");
    if (!core->torch_increment_version)
        core->torch_increment_version = py_attribute_of("torch._C", "_increment_version");
    if (!core->torch_forward_ad)
        core->torch_forward_ad = py_attribute_of("torch.autograd.forward_ad", "__dict__");
}

int py_torch_is_neg(const py_core *core, const py_source *source, PyObject *object) {
    if (source->symbols)
        return source->symbols->is_neg(tensor_of(object));
    PyObject *answer = PyObject_CallMethodObjArgs(object, core->names[PY_NAME_is_neg], NULL);
    const int is = answer ? answer == Py_True : -1;
    Py_XDECREF(answer);
    return is;
}

/* Whether a tensor has a tangent (forward-mode gradients), as it can only within
 * torch.autograd.forward_ad.dual_level(). */
static int is_dual(const py_core *core, PyObject *object) {
    PyObject *names = core->torch_forward_ad;
    PyObject *level = names ? PyDict_GetItemWithError(names, core->names[PY_NAME__current_level]) : NULL;
    if (!level || PyLong_AsLong(level) < 0)
        return 0;
    PyObject *unpack = PyDict_GetItemString(names, "unpack_dual");
    PyObject *pair = unpack ? PyObject_CallFunctionObjArgs(unpack, object, NULL) : NULL;
    PyObject *tangent = pair ? PyObject_GetAttrString(pair, "tangent") : NULL;
    Py_XDECREF(pair);
    Py_XDECREF(tangent);
    return PyErr_Occurred() ? -1 : tangent && tangent != Py_None;
}

int py_torch_is_recorded(const py_core *core, const py_source *source, PyObject *object) {
    const int dual = is_dual(core, object);
    if (dual != 0)
        return dual;
    if (source->symbols)
        return source->symbols->grad_mode_is_enabled() &&
               source->symbols->requires_grad(*(void *const *)tensor_of(object));
    PyObject *enabled = core->torch_is_grad_enabled ? PyObject_CallNoArgs(core->torch_is_grad_enabled) : NULL;
    PyObject *required = enabled == Py_True ? PyObject_GetAttr(object, core->names[PY_NAME_requires_grad]) : NULL;
    Py_XDECREF(enabled);
    Py_XDECREF(required);
    return PyErr_Occurred() ? -1 : required == Py_True;
}

int py_torch_written(const py_core *core, const py_source *source, PyObject *object) {
    if (source->symbols) {
        if (!source->symbols->is_inference(tensor_of(object)))
            source->symbols->bump_version(tensor_of(object));
        return 0;
    }
    PyObject *list = core->torch_increment_version ? PyTuple_Pack(1, object) : NULL;
    PyObject *none = list ? PyObject_CallFunctionObjArgs(core->torch_increment_version, list, NULL) : NULL;
    Py_XDECREF(list);
    Py_XDECREF(none);
    return PyErr_Occurred() ? -1 : 0;
}
