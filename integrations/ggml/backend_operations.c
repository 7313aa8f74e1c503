/* The operations that the backend computes. A row here is all that backend.c and device.c know of one. */
#include "backend.h"
#include "elementwise.h"
#include "linear.h"

#include <string.h>

fg_operation fg_operations[FG_OPERATIONS] = {
    {"FLASH_ATTN_EXT", fg_attention_serves, fg_attention_pays, fg_attention_compute, -1},
    {"MUL_MAT", fg_linear_serves, fg_linear_pays, fg_linear_compute, -1},
    {"ADD", fg_binary_serves, fg_elementwise_pays, fg_add_compute, -1},
    {"SUB", fg_binary_serves, fg_elementwise_pays, fg_sub_compute, -1},
    {"MUL", fg_binary_serves, fg_elementwise_pays, fg_mul_compute, -1},
    {"DIV", fg_binary_serves, fg_elementwise_pays, fg_div_compute, -1},
    {"SCALE", fg_scale_serves, fg_elementwise_pays, fg_scale_compute, -1},
    {"UNARY", fg_unary_serves, fg_elementwise_pays, fg_unary_compute, -1},
    {"GLU", fg_glu_serves, fg_elementwise_pays, fg_glu_compute, -1},
    {"CPY", fg_copy_serves, fg_elementwise_pays, fg_copy_compute, -1},
    {"CONT", fg_copy_serves, fg_elementwise_pays, fg_copy_compute, -1},
    {"DUP", fg_copy_serves, fg_elementwise_pays, fg_copy_compute, -1},
    {"GET_ROWS", fg_get_rows_serves, fg_elementwise_pays, fg_get_rows_compute, -1},
    {"SET_ROWS", fg_set_rows_serves, fg_elementwise_pays, fg_set_rows_compute, -1},
    {"NORM", fg_norm_serves, fg_elementwise_pays, fg_norm_compute, -1},
    {"RMS_NORM", fg_norm_serves, fg_elementwise_pays, fg_rms_norm_compute, -1},
    {"SOFT_MAX", fg_soft_max_serves, fg_elementwise_pays, fg_soft_max_compute, -1},
    {"ROPE", fg_rope_serves, fg_elementwise_pays, fg_rope_compute, -1},
};

fg_operation *fg_operation_of(enum ggml_op op) {
    for (int i = 0; i < FG_OPERATIONS; i++)
        if (fg_operations[i].number == (int)op)
            return &fg_operations[i];
    return NULL;
}

fg_operation *fg_operation_named(const char *name) {
    for (int i = 0; i < FG_OPERATIONS; i++)
        if (!strcmp(fg_operations[i].name, name))
            return &fg_operations[i];
    return NULL;
}
