/* FOVEA_LOG_SHAPES: the shapes that a program executes, a line each, for fovea-tune to read. */
#ifndef FV_SHAPE_LOG_H
#define FV_SHAPE_LOG_H

#include "fovea/fovea.h"

#include <stddef.h>

typedef struct fv_shape_log fv_shape_log;

/* Opens the log that the environment asks for; *log is NULL if it asks for none or it cannot be written, and then
 * problem[size] says why ("" if none is asked for). Fails only for want of memory. */
fovea_status fv_shape_log_open(fv_shape_log **log, char *problem, size_t size);
void fv_shape_log_close(fv_shape_log *log);

/* Notes the shape, if this context has not noted it before. Thread-safe; takes no memory. */
void fv_shape_log_attention(fv_shape_log *log, const fovea_attention_desc *desc, int threads);
/* dtype: of the packed weights. */
void fv_shape_log_linear(fv_shape_log *log, fovea_dtype dtype, int64_t rows, int64_t in, int64_t out, int threads);

#endif
