/* What the files of arrays share: one reader for each way that memory is described. */
#ifndef PY_ARRAY_PRIVATE_H
#define PY_ARRAY_PRIVATE_H

#include "array.h"

enum { PY_HELD_NOTHING, PY_HELD_BUFFER, PY_HELD_VERSIONED, PY_HELD_UNVERSIONED };

/* How objects of a type are read. */
py_source py_source_of(py_core *core, PyObject *object);

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
