/* The devices: none if nothing is taken. */
#ifndef FG_DEVICE_H
#define FG_DEVICE_H

#include "backend_ggml.h"

size_t fg_device_count(void);
ggml_backend_dev_t fg_device(ggml_backend_reg_t reg, size_t index);

#endif
