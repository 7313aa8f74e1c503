/* fovea.Mask. */
#include "call.h"

int py_call_mask_object(py_call *call, PyObject *mask) {
    (void)call, (void)mask;
    return py_raise(PyExc_TypeError, "not yet");
}
