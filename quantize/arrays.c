/* arrays.h. */
#include "arrays.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

enum { PATTERN_MOST = 256 };

static bool is_float(const char *type) {
    return strcmp(type, "F32") == 0 || strcmp(type, "F16") == 0 || strcmp(type, "BF16") == 0;
}

/* Does the name fit one of the patterns, which are parted by commas? */
static bool fits(const char *patterns, const char *name) {
    char one[PATTERN_MOST];
    for (const char *p = patterns; p != NULL && *p != '\0';) {
        const size_t length = strcspn(p, ",");
        if (length < sizeof one) {
            memcpy(one, p, length);
            one[length] = '\0';
            if (fnmatch(one, name, 0) == 0)
                return true;
        }
        p += length + (p[length] == ',');
    }
    return false;
}

static bool always_kept(const char *name) {
    return fits("*norm*,*embd*,*embed*,*wte.*,*wpe.*,*ln_*,*position*,*bias", name);
}

/* What becomes of a tensor. */
static int decide(const options *opts, arrays *a, array *t, complaint to) {
    fovea_quantize_options how;
    fovea_quantize_options_init(&how);
    how.group_size = opts->group_size;
    if (t->dims != 2 || always_kept(t->name) || fits(opts->keep, t->name))
        return 0;
    if (!is_float(t->type))
        return complain(to, weights_path(a->w),
                        "%s is of type %s; only F32, F16 and BF16 can be quantised (see --keep)", t->name, t->type);
    const fovea_status status =
        fovea_quantize_size(options_dtype(opts), t->shape[1], t->shape[0], &how, &t->data, &t->scales);
    t->quantise = status == FOVEA_OK;
    a->quantised += t->quantise;
    a->unfit += status == FOVEA_ERROR_SHAPE;
    if (status == FOVEA_OK || status == FOVEA_ERROR_SHAPE)
        return 0;
    return complain(to, weights_path(a->w), "%s: %s", t->name, fovea_error_detail());
}

static int by_name(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* Two shards may have one name. */
static int check_names(const arrays *a, complaint to) {
    const char **names = malloc(((size_t)a->count + 1) * sizeof *names);
    if (names == NULL)
        return complain(to, weights_path(a->w), "out of memory");
    for (int64_t i = 0; i < a->count; i++)
        names[i] = a->at[i].name;
    qsort(names, (size_t)a->count, sizeof *names, by_name);
    int status = 0;
    for (int64_t i = 1; i < a->count && status == 0; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            status = complain(to, weights_path(a->w), "%s comes twice", names[i]);
    free(names);
    return status;
}

static void from_gguf(const gguf_tensor *g, array *t) {
    *t = (array){.name = g->name, .dims = g->dims, .elements = g->elements, .bytes = g->bytes, .in_gguf = g};
    t->type = gguf_type_name(g->type);
    for (int i = 0; i < g->dims; i++)
        t->shape[i] = g->shape[g->dims - 1 - i];
}

static void from_file(safetensors *file, const safetensors_tensor *s, array *t) {
    *t = (array){.name = s->name, .dims = s->dims, .elements = s->elements, .bytes = s->bytes};
    t->type = safetensors_dtype_name(s->dtype);
    t->file = file;
    t->in_file = s;
    memcpy(t->shape, s->shape, sizeof t->shape);
}

int arrays_open(const options *opts, arrays *a, complaint to) {
    *a = (arrays){0};
    if (weights_open(opts->input, &a->w, to) != 0)
        return -1;
    const gguf *g = weights_gguf(a->w);
    int64_t all = g != NULL ? gguf_tensor_count(g) : 0;
    for (int i = 0; weights_shard(a->w, i) != NULL; i++)
        all += safetensors_count(weights_shard(a->w, i));
    a->at = calloc((size_t)all + 1, sizeof *a->at);
    if (a->at == NULL)
        return complain(to, opts->input, "out of memory");
    for (int64_t i = 0; g != NULL && i < all; i++)
        from_gguf(gguf_tensor_at(g, i), &a->at[a->count++]);
    for (int i = 0; weights_shard(a->w, i) != NULL; i++)
        for (int64_t k = 0; k < safetensors_count(weights_shard(a->w, i)); k++)
            from_file(weights_shard(a->w, i), safetensors_at(weights_shard(a->w, i), k), &a->at[a->count++]);
    for (int64_t i = 0; i < a->count; i++)
        if (decide(opts, a, &a->at[i], to) != 0)
            return -1;
    if (check_names(a, to) != 0)
        return -1;
    if (a->quantised > 0)
        return 0;
    return complain(to, weights_path(a->w),
                    a->unfit > 0 ? "has no matrix whose rows are whole blocks or groups" : "has no matrix to quantise");
}

void arrays_close(arrays *a) {
    free(a->at);
    weights_close(a->w);
    *a = (arrays){0};
}

int arrays_read(const arrays *a, const array *t, void *bytes, complaint to) {
    if (t->in_gguf == NULL)
        return safetensors_read_bytes(t->file, t->in_file, bytes, to);
    gguf_rows rows;
    if (gguf_map(weights_gguf(a->w), t->in_gguf, &rows, to) != 0)
        return -1;
    memcpy(bytes, rows.data, (size_t)t->bytes);
    gguf_unmap(&rows);
    return 0;
}
