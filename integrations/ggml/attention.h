/* FLASH_ATTN_EXT (attention_part.h has what its files share). */
#ifndef FG_ATTENTION_H
#define FG_ATTENTION_H

#include "backend_threads.h"

bool fg_attention_serves(const struct ggml_tensor *op);
enum ggml_status fg_attention_compute(fg_backend *backend, struct ggml_tensor *op);

#endif
