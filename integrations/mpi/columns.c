/* Columns of a matrix of weights, as a matrix: a view, except of words that hold several columns of integers. */
#include "columns.h"
#include "agree.h"
#include "structs.h"
#include "units.h"

#include <stdlib.h>
#include <string.h>

void fv_mpi_slice_free(fv_mpi_slice *s) {
    free(s->words);
    free(s->zeros);
}

/* Columns [first, first + count) of rows of words, of per columns each. */
static void *copy_words(const void *from, int64_t rows, int64_t out, int64_t first, int64_t count, int64_t per) {
    const int64_t row = out / per, own = count / per;
    uint32_t *to = malloc((size_t)(rows * own) * sizeof *to + 1);
    for (int64_t i = 0; to && i < rows; i++)
        memcpy(to + i * own, (const uint32_t *)from + i * row + first / per, (size_t)own * sizeof *to);
    return to;
}

/* Scales and zeros of the columns; of GPTQ and AWQ also the words. */
static fovea_status slice_quantisation(const fovea_matrix *m, int64_t first, int64_t count, fv_mpi_slice *s) {
    fovea_quantisation *q = &s->quantisation;
    fovea_quantisation_init(q);
    const fovea_status status = fv_mpi_read_struct(q, m->quantisation, sizeof *q, "quantisation");
    if (status != FOVEA_OK)
        return status;
    s->matrix.quantisation = q;
    const int64_t groups = q->group_size > 0 ? m->in / q->group_size : 1;
    const bool words = q->packing == FOVEA_PACKING_GPTQ || q->packing == FOVEA_PACKING_AWQ;
    if (q->scale_group_stride == 0 && q->scale_out_stride == 0) {
        q->scale_group_stride = words ? m->out : 1;
        q->scale_out_stride = words ? 1 : groups;
    }
    const int64_t at = first * q->scale_out_stride;
    if (q->scales)
        q->scales += first;
    if (q->group_scales) {
        const int64_t bytes = q->scale_dtype == FOVEA_DTYPE_F32 || q->scale_dtype == 0 ? 4 : 2;
        q->group_scales = (const char *)q->group_scales + at * bytes;
    }
    if (!words) {
        q->zeros = q->zeros ? (const char *)q->zeros + at : NULL;
        return FOVEA_OK;
    }
    const int64_t per = m->dtype == FOVEA_DTYPE_U4 ? 8 : 4;
    const bool along_out = q->packing == FOVEA_PACKING_AWQ;
    if ((along_out || q->zeros) && (first % per != 0 || count % per != 0 || m->out % per != 0))
        return fv_mpi_fail(
            FOVEA_ERROR_UNSUPPORTED,
            "columns %lld to %lld cut words of %lld columns: take multiples of 8, or this rank's weights",
            (long long)first, (long long)(first + count), (long long)per);
    if (m->data) {
        s->words = along_out ? copy_words(m->data, m->in, m->out, first, count, per)
                             : copy_words(m->data, m->in / per, m->out, first, count, 1);
        s->matrix.data = s->words;
        if (!s->words)
            return fv_mpi_fail_memory();
    }
    if (q->zeros) {
        q->zeros = s->zeros = copy_words(q->zeros, groups, m->out, first, count, per);
        if (!s->zeros)
            return fv_mpi_fail_memory();
    }
    return FOVEA_OK;
}

fovea_status fv_mpi_slice_columns(const fovea_matrix *m, int64_t first, int64_t count, int64_t head,
                                  int64_t head_stride, fv_mpi_slice *s) {
    const bool words = m->quantisation && m->quantisation->struct_size > sizeof(size_t) &&
                       m->quantisation->struct_size <= sizeof(fovea_quantisation) &&
                       m->quantisation->packing != FOVEA_PACKING_PLAIN;
    const int64_t most = (int64_t)1 << 31, stride = words ? 0 : head_stride ? head_stride : m->out_stride;
    *s = (fv_mpi_slice){.matrix = *m};
    s->matrix.out = count;
    const fovea_dtype_facts *type = fovea_dtype_info(m->dtype);
    if (!type || !type->stored)
        return fv_mpi_fail(FOVEA_ERROR_DTYPE, "a weight has dtype %d, which linear maps do not take", (int)m->dtype);
    if (m->in < 1 || m->in > most || m->out > most || stride < 0 || stride > most)
        return fv_mpi_fail(FOVEA_ERROR_OVERFLOW, "a weight of %lld x %lld with strides of %lld cannot be distributed",
                           (long long)m->in, (long long)m->out, (long long)stride);
    const int64_t elements = (head_stride ? first / head : first) * stride;
    if (m->data && !words) {
        if (elements % type->block_elements != 0)
            return fv_mpi_fail(FOVEA_ERROR_UNSUPPORTED,
                               "columns from %lld on begin within a byte: take multiples of 8, or this rank's weights",
                               (long long)first);
        s->matrix.data = (const char *)m->data + elements / type->block_elements * type->block_bytes;
    }
    return m->quantisation ? slice_quantisation(m, first, count, s) : FOVEA_OK;
}
