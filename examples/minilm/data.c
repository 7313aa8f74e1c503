/* Reads the data of fovea-minilm: the arrays q, k, v and out of a safetensors file. */
#include "data.h"

#include "safetensors.h"

#include <stdlib.h>
#include <string.h>

/* An array of the sizes in data, as it lies in the file; NULL after a complaint. */
static void *read_array(safetensors *file, const minilm_data *data, const char *name, safetensors_dtype dtype,
                        complaint to) {
    const int64_t shape[] = {data->tokens, data->heads, data->head_dim};
    const safetensors_tensor *t = safetensors_need(file, name, 3, shape, to);
    if (t == NULL)
        return NULL;
    if (t->dtype != dtype || t->elements == 0)
        return complain(to, safetensors_path(file), "%s is no array of %s", name, safetensors_dtype_name(dtype)), NULL;
    void *values = malloc((size_t)t->bytes);
    if (values == NULL)
        return complain(to, safetensors_path(file), "does not fit in memory"), NULL;
    if (safetensors_read_bytes(file, t, 0, t->bytes, values, to) == 0)
        return values;
    free(values);
    return NULL;
}

static int read_arrays(safetensors *file, minilm_data *data, complaint to) {
    static const int64_t any[] = {-1, -1, -1};
    const safetensors_tensor *q = safetensors_need(file, "q", 3, any, to);
    if (q == NULL)
        return -1;
    data->tokens = q->shape[0];
    data->heads = q->shape[1];
    data->head_dim = q->shape[2];
    return (data->q = read_array(file, data, "q", SAFETENSORS_F32, to)) != NULL &&
                   (data->k = read_array(file, data, "k", SAFETENSORS_F32, to)) != NULL &&
                   (data->v = read_array(file, data, "v", SAFETENSORS_F32, to)) != NULL &&
                   (data->out = read_array(file, data, "out", SAFETENSORS_F64, to)) != NULL
               ? 0
               : -1;
}

int minilm_data_load(const char *path, minilm_data *data, complaint to) {
    safetensors *file;
    memset(data, 0, sizeof *data);
    if (safetensors_open(path, &file, to) != 0)
        return -1;
    const int status = read_arrays(file, data, to);
    safetensors_close(file);
    if (status != 0)
        minilm_data_free(data);
    return status;
}

void minilm_data_free(minilm_data *data) {
    free(data->q);
    free(data->k);
    free(data->v);
    free(data->out);
    memset(data, 0, sizeof *data);
}
