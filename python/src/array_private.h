/* Shared by the files of arrays: one reader for each way that memory is described. */
#ifndef PY_ARRAY_PRIVATE_H
#define PY_ARRAY_PRIVATE_H

#include "array.h"

enum { PY_HELD_NOTHING, PY_HELD_BUFFER, PY_HELD_VERSIONED, PY_HELD_UNVERSIONED, PY_HELD_OBJECT };

/* How objects of a type are read. */
py_source py_source_of(py_core *core, PyObject *object);

/* Raises in place of the exception that is set, if any, why an object cannot be read (fovea/_sentences.py). Returns
 * -1. */
int py_unreadable(PyObject *object, const char *name);

/* array_torch.c: completes the source of a torch.Tensor, of which object is the first. */
void py_torch_look(py_core *core, PyObject *object, py_source *source);

/* Whether a tensor's numbers are the negatives of what lies in memory; -1 with an exception. */
int py_torch_is_neg(const py_core *core, const py_source *source, PyObject *object);

/* Whether torch would record an operation on a tensor; -1 with an exception. */
int py_torch_is_recorded(const py_core *core, const py_source *source, PyObject *object);

/* Tells torch that a tensor is written to, so that a gradient that needs what it was is refused. 0, or -1 with an
 * exception. */
int py_torch_written(const py_core *core, const py_source *source, PyObject *object);

/* Finds numpy and its functions, importing it if need be. 0, or -1 with an exception. */
int py_numpy(py_core *core);

/* Fill the view, and hold what must be released. 0, or -1 with an exception and nothing held. */
int py_read_buffer(PyObject *object, const char *name, py_array *array);
int py_read_exchange(const DLPackExchangeAPI *api, PyObject *object, const char *name, py_array *array);
int py_read_dlpack(const py_core *core, PyObject *object, const char *name, py_array *array);

/* From what DLPack says. 0, or -1 with an exception. */
int py_read_dltensor(const DLTensor *tensor, const char *name, py_array *array);

DLDataType py_dtype_type(py_dtype dtype);

#endif
