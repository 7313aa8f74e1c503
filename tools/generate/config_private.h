/* Between config.c and its two readers. */
#ifndef GENERATE_CONFIG_PRIVATE_H
#define GENERATE_CONFIG_PRIVATE_H

#include "config.h"

enum { WIDTH_MOST = 1 << 20, TOKENS_MOST = 1 << 24 };

/* Both fill what the file says. Sizes that may be absent stay 0. */
int config_read_gguf(const gguf *f, config *c, complaint to);
int config_read_json(const weights *w, config *c, complaint to);

#endif
