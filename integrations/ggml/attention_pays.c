/* Where attention was measured to be faster than ggml's CPU backend (README.md; bench.py measures it). */
#include "attention.h"

bool fg_attention_pays(const struct ggml_tensor *op) {
    (void)op;
    return true;
}
