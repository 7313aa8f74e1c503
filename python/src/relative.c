/* fovea.Relative. */
#include "call.h"

int py_call_relative_object(py_call *call, PyObject *relative) {
    (void)call, (void)relative;
    return py_raise(PyExc_TypeError, "relative must be a fovea.Relative");
}
