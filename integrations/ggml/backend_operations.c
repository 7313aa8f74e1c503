/* The operations that the backend computes. A row here is all that backend.c and device.c know of one. */
#include "backend.h"

fg_operation fg_operations[FG_OPERATIONS] = {
    {"FLASH_ATTN_EXT", fg_attention_serves, fg_attention_pays, fg_attention_compute, -1},
};

fg_operation *fg_operation_of(enum ggml_op op) {
    for (int i = 0; i < FG_OPERATIONS; i++)
        if (fg_operations[i].number == (int)op)
            return &fg_operations[i];
    return NULL;
}
