/* arrays.h. */
#include "arrays.h"

#include "path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

fovea_dtype array_dtype(const array *t) {
    static const struct {
        const char *name;
        fovea_dtype dtype;
    } floats[] = {{"F32", FOVEA_DTYPE_F32}, {"F16", FOVEA_DTYPE_F16}, {"BF16", FOVEA_DTYPE_BF16}};
    for (size_t i = 0; i < sizeof floats / sizeof floats[0]; i++)
        if (strcmp(t->stored, floats[i].name) == 0)
            return floats[i].dtype;
    return 0;
}

/* ----------------------------------------------------------------------------------------------------- decisions -- */

/* Tensors that no product of a layer reads, or that cost little and matter much: norms, biases, positions, routers of
 * experts, convolutions. */
static const char never[] = "*norm*,*ln_*,*bias,*wpe.*,*position*,*pos_embd*,*pos_embed*,*token_type*,*rel_pos*,"
                            "*attn_rel_b*,*ffn_gate_inp*,*.gate.weight,*.router.weight,*conv1d*,*patch_emb*";
static const char embeddings[] =
    "token_embd.weight,per_layer_token_embd.weight,*embed_tokens.weight,"
    "*embed_tokens_per_layer.weight,*word_embeddings.weight,*tok_embeddings.weight,*wte.weight";
static const char heads[] = "output.weight,*lm_head.weight,*embed_out.weight";

/* The type by name and shape; *why if it is not that of --type. */
static tensor_type wanted(const options *opts, const array *t, const char **why) {
    const bool blocks = type_in_gguf((tensor_type)opts->type);
    const int given = types_of(opts->tensor_types, t->name);
    *why = "no matrix";
    if (t->dims < 2 || t->dims > (blocks ? 3 : 2) || t->elements == 0)
        return TYPE_KEEP;
    *why = "--keep";
    if (fits(opts->keep, t->name))
        return TYPE_KEEP;
    *why = "by its name";
    if (fits(never, t->name) || !(path_ends_with(t->name, "weight") || (blocks && fits("*experts*", t->name))))
        return TYPE_KEEP;
    *why = "--tensor-type";
    if (given >= 0)
        return (tensor_type)given;
    *why = "embedding";
    if (fits(embeddings, t->name))
        return blocks ? (tensor_type)opts->embedding : TYPE_KEEP;
    if (fits("*embd*,*embed*", t->name) && !fits(heads, t->name))
        return TYPE_KEEP;
    *why = "output";
    if (blocks && fits(heads, t->name))
        return (tensor_type)opts->head;
    *why = NULL;
    return (tensor_type)opts->type;
}

/* Bytes of a type whose rows the tensor's are. */
static fovea_status size_of(const options *opts, array *t, tensor_type type) {
    fovea_quantize_options how;
    fovea_quantize_options_init(&how);
    how.group_size = opts->group_size;
    return fovea_quantize_size(type_dtype(type), t->columns, t->rows, &how, &t->data, &t->scales);
}

/* The type that rows allow, and its bytes. */
static fovea_status fit(const options *opts, arrays *a, array *t) {
    const bool blocks = type_in_gguf((tensor_type)opts->type);
    fovea_status status = size_of(opts, t, t->type);
    if (status == FOVEA_ERROR_SHAPE && t->type == TYPE_Q4_K && size_of(opts, t, TYPE_Q4_1) == FOVEA_OK) {
        status = FOVEA_OK;
        t->type = TYPE_Q4_1;
        t->why = "rows are no whole blocks of 256";
        a->others++;
    } else if (status == FOVEA_ERROR_SHAPE) {
        status = FOVEA_OK;
        t->type = TYPE_KEEP;
        t->why = blocks ? "rows are no whole blocks of 32" : "rows are no whole groups";
        a->unfit++;
    }
    return status;
}

/* The type that a tensor gets. */
static int decide(const options *opts, arrays *a, array *t, complaint to) {
    t->columns = t->dims > 0 ? t->shape[t->dims - 1] : 1;
    t->rows = t->columns > 0 ? t->elements / t->columns : 0;
    t->type = wanted(opts, t, &t->why);
    if (t->type == TYPE_KEEP)
        return 0;
    const bool rounded = t->in_gguf != NULL && gguf_quantized(t->in_gguf->type);
    if (array_dtype(t) == 0 && !rounded)
        return complain(to, weights_path(a->w),
                        "%s is of type %s; only F32, F16 and BF16 can be quantized (see --keep)", t->name, t->stored);
    if (fit(opts, a, t) != FOVEA_OK)
        return complain(to, weights_path(a->w), "%s: %s", t->name, fovea_error_detail());
    unsigned file;
    if (t->type != TYPE_KEEP && rounded && type_gguf(t->type, &file) == t->in_gguf->type) {
        t->type = TYPE_KEEP;
        t->why = "already";
        a->already++;
    } else if (t->type != TYPE_KEEP && rounded && !opts->requantize)
        return complain(to, weights_path(a->w),
                        "%s is of type %s: its weights were rounded already (see --allow-requantize and --keep)",
                        t->name, t->stored);
    a->quantized += t->type != TYPE_KEEP;
    return 0;
}

/* ------------------------------------------------------------------------------------------------------- opening -- */

static void from_gguf(const gguf_tensor *g, array *t) {
    *t = (array){.name = g->name, .dims = g->dims, .elements = g->elements, .bytes = g->bytes, .in_gguf = g};
    t->stored = gguf_type_name(g->type);
    for (int i = 0; i < g->dims; i++)
        t->shape[i] = g->shape[g->dims - 1 - i];
}

static void from_file(safetensors *file, const safetensors_tensor *s, array *t) {
    *t = (array){.name = s->name, .dims = s->dims, .elements = s->elements, .bytes = s->bytes};
    t->stored = safetensors_dtype_name(s->dtype);
    t->file = file;
    t->in_file = s;
    memcpy(t->shape, s->shape, sizeof t->shape);
}

int arrays_open(const options *opts, arrays *a, complaint to) {
    *a = (arrays){0};
    if (weights_open(opts->input, &a->w, to) != 0)
        return -1;
    const gguf *g = weights_gguf(a->w);
    const model_source *s = weights_source(a->w);
    const int64_t all = g != NULL ? gguf_tensor_count(g) : model_source_count(s);
    a->at = calloc((size_t)all + 1, sizeof *a->at);
    if (a->at == NULL)
        return complain(to, opts->input, "out of memory");
    for (int64_t i = 0; g != NULL && i < all; i++)
        from_gguf(gguf_tensor_at(g, i), &a->at[a->count++]);
    for (int i = 0; s != NULL && i < model_source_files(s); i++)
        for (int64_t k = 0; k < safetensors_count(model_source_file(s, i)); k++)
            from_file(model_source_file(s, i), safetensors_at(model_source_file(s, i), k), &a->at[a->count++]);
    for (int64_t i = 0; i < a->count; i++)
        if (decide(opts, a, &a->at[i], to) != 0)
            return -1;
    if (a->quantized > 0)
        return 0;
    if (a->already > 0)
        return complain(to, weights_path(a->w), "its matrices have their types already: nothing is left to quantize");
    return complain(to, weights_path(a->w),
                    a->unfit > 0 ? "has no matrix whose rows are whole blocks or groups" : "has no matrix to quantize");
}

void arrays_close(arrays *a) {
    free(a->at);
    weights_close(a->w);
    *a = (arrays){0};
}

int arrays_read(const arrays *a, const array *t, int64_t first, int64_t count, void *bytes, complaint to) {
    if (t->in_gguf == NULL)
        return safetensors_read_bytes(t->file, t->in_file, first, count, bytes, to);
    gguf_rows rows;
    if (gguf_map(weights_gguf(a->w), t->in_gguf, &rows, to) != 0)
        return -1;
    memcpy(bytes, rows.data + first, (size_t)count);
    gguf_unmap(&rows);
    return 0;
}

static bool same_file(const char *a, const char *b) {
    struct stat one, other;
    return stat(a, &one) == 0 && stat(b, &other) == 0 && one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

bool arrays_include(const arrays *a, const char *path) {
    char config[4096];
    const int length = snprintf(config, sizeof config, "%s/config.json", weights_folder(a->w));
    if (same_file(path, weights_path(a->w)) || (length < (int)sizeof config && same_file(path, config)))
        return true;
    const model_source *s = weights_source(a->w);
    for (int i = 0; s != NULL && i < model_source_files(s); i++)
        if (same_file(path, model_source_path(s, i)))
            return true;
    const gguf *g = weights_gguf(a->w);
    for (int i = 0; g != NULL && gguf_part_path(g, i) != NULL; i++)
        if (same_file(path, gguf_part_path(g, i)))
            return true;
    return false;
}
