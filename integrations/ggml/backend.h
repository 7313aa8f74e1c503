/* A backend, and the parts of this folder.
 *
 *   registration.c        what a program loads
 *   device.c              the devices: what they say of themselves, and which operations they take
 *   backend.c             a backend's life and its graphs
 *   backend_operations.c  the list of operations
 *   attention*.c          FLASH_ATTN_EXT
 *   linear.c              MUL_MAT
 *   experts.c             MUL_MAT_ID
 *   recurrence.c          GATED_DELTA_NET, SSM_SCAN, SSM_CONV
 *   elementwise*.c        what is between them
 *   pays.c                which operations are faster than ggml's
 *   delegate.c            what ggml's CPU backend computes for us
 *   weights*.c            the buffer type of packed weights
 *   backend_threads.c     memory and threads of a backend
 *   openmp.c              whether ggml has the same OpenMP runtime
 *   backend_options.c     FOVEA_GGML
 *   rules.c               the data that pays.c goes by
 *   backend_ggml.c        the program's ggml: functions, numbers, checks
 *
 * A file needs files below it alone. */
#ifndef FG_BACKEND_H
#define FG_BACKEND_H

#include "backend_ggml.h"

ggml_backend_t fg_backend_create(ggml_backend_dev_t device);
void fg_backend_set_n_threads(ggml_backend_t backend, int threads);
void fg_backend_set_abort_callback(ggml_backend_t backend, ggml_abort_callback callback, void *data);
int64_t fg_backend_calls(ggml_backend_t backend, const char *operation);

#endif
