/* States in memory (state_rows.h). */
#include "attention/flash/state_rows.h"

#include "core/core.h"

#include <math.h>
#include <string.h>

/* Plans whose out would be larger than memory do not exist, but M, L and the header come on top. */
int64_t fv_state_bytes_of(const fovea_attention_state *s) {
    int64_t floats;
    return fv_multiply(fv_state_count(s), s->shape[3] + 2, &floats) && floats < INT64_MAX / 8
               ? (int64_t)sizeof *s + floats * (int64_t)sizeof(float)
               : INT64_MAX;
}

fv_state_rows fv_state_rows_from(fovea_attention_state *s, int64_t row) {
    float *max = (float *)(void *)(s + 1), *sum = max + fv_state_count(s), *o = sum + fv_state_count(s);
    return (fv_state_rows){max + row, sum + row, o + row * s->shape[3]};
}

fv_state_rows fv_attention_state_at(const fovea_attention_desc *d, fovea_attention_state *s,
                                    const fv_sequence *sequence, fv_row_place at) {
    const int64_t first = sequence->tokens.begin, part = s->joint ? 0 : sequence->index;
    const int64_t before = s->joint ? d->packed ? first : sequence->index * d->q_len : 0;
    return fv_state_rows_from(s, (part * s->shape[1] + at.head) * s->shape[2] + before + at.token - first);
}

fv_state_rows fv_attention_state_joint_at(fovea_attention_state *s, int64_t head, int64_t token) {
    return fv_state_rows_from(s, head * s->shape[2] + token);
}

static fovea_attention_state joint_header(int64_t heads, int64_t tokens, int64_t channels) {
    return (fovea_attention_state){.magic = FV_STATE_MAGIC, .shape = {1, heads, tokens, channels}, .joint = 1};
}

int64_t fv_attention_state_bytes(int64_t heads, int64_t tokens, int64_t channels) {
    const fovea_attention_state own = joint_header(heads, tokens, channels);
    const int64_t bytes = fv_state_bytes_of(&own);
    return bytes < INT64_MAX ? bytes : -1;
}

void fv_state_clear(fovea_attention_state *s) {
    const int64_t rows = fv_state_count(s);
    const fv_state_rows all = fv_state_rows_from(s, 0);
    for (int64_t i = 0; i < rows; i++)
        all.max[i] = -INFINITY;
    memset(all.sum, 0, (size_t)(rows + rows * s->shape[3]) * sizeof(float)); /* L and O */
}

fovea_attention_state *fv_attention_state_joint(void *memory, int64_t heads, int64_t tokens, int64_t channels) {
    fovea_attention_state *s = memory;
    *s = joint_header(heads, tokens, channels);
    fv_state_clear(s);
    return s;
}
