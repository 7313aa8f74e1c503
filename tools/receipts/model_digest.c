/* model_digest.h. */
#include "model_digest.h"

#include "path.h"
#include "text_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_MOST = 512, PIECE = 1 << 20, FILE_MOST = 1 << 28 };

/* ------------------------------------------------------------------------------------------------------ arrays -- */

typedef struct array {
    const char *name;
    const gguf_tensor *gguf; /* or of a safetensors file */
    const model_source_item *item;
    sha256_digest bytes;
    int failed;
} array;

typedef struct reading {
    const weights *w;
    array *all;
    char why[NAME_MOST];
} reading;

static int by_name(const void *a, const void *b) { return strcmp(((const array *)a)->name, ((const array *)b)->name); }

static void digest_gguf(const reading *r, array *a) {
    gguf_rows rows;
    char why[NAME_MOST];
    a->failed = -1;
    if (gguf_map(weights_gguf(r->w), a->gguf, &rows, (complaint){why, sizeof why}) != 0)
        return;
    a->failed = sha256_of(rows.data, (size_t)a->gguf->bytes, &a->bytes);
    gguf_unmap(&rows);
}

/* One thread reads a safetensors file. */
static void digest_item(const model_source *s, array *a, complaint to) {
    const safetensors_tensor *t = a->item->tensor;
    uint8_t *piece = malloc(PIECE);
    sha256 sum = sha256_begin();
    int status = piece != NULL ? 0 : complain(to, a->name, "out of memory");
    for (int64_t at = 0; status == 0 && at < t->bytes; at += PIECE) {
        const int64_t count = t->bytes - at < PIECE ? t->bytes - at : PIECE;
        status = safetensors_read_bytes(model_source_file(s, a->item->file), t, at, count, piece, to);
        if (status == 0)
            sha256_add(&sum, piece, (size_t)count);
    }
    a->failed = sha256_end(&sum, &a->bytes) != 0 || status != 0 ? -1 : 0;
    free(piece);
}

static void digest_one(void *arg, int64_t i) {
    const reading *r = arg;
    digest_gguf(r, &r->all[i]);
}

/* Name, type and shape, a zero behind each. */
static void add_layout(sha256 *sum, const array *a) {
    char shape[NAME_MOST] = "";
    size_t used = 0;
    const int dims = a->gguf != NULL ? a->gguf->dims : a->item->tensor->dims;
    const int64_t *sizes = a->gguf != NULL ? a->gguf->shape : a->item->tensor->shape;
    for (int i = 0; i < dims; i++)
        used += (size_t)snprintf(shape + used, sizeof shape - used, "%s%" PRId64, i > 0 ? "," : "", sizes[i]);
    sha256_add_text(sum, a->name);
    sha256_add_text(sum,
                    a->gguf != NULL ? gguf_type_name(a->gguf->type) : safetensors_dtype_name(a->item->tensor->dtype));
    sha256_add_text(sum, shape);
}

static int digest_arrays(const fovea_context *ctx, const weights *w, model_digest *d, complaint to) {
    const gguf *file = weights_gguf(w);
    const model_source *source = weights_source(w);
    const int64_t count = file != NULL ? gguf_tensor_count(file) : model_source_count(source);
    reading r = {.w = w, .all = calloc((size_t)count + 1, sizeof *r.all)};
    if (r.all == NULL)
        return complain(to, weights_path(w), "out of memory");
    for (int64_t i = 0; i < count; i++) {
        r.all[i].gguf = file != NULL ? gguf_tensor_at(file, i) : NULL;
        r.all[i].item = file != NULL ? NULL : model_source_array(source, i);
        r.all[i].name = file != NULL ? r.all[i].gguf->name : r.all[i].item->tensor->name;
    }
    int status = file != NULL && fovea_parallel(ctx, count, digest_one, &r) != FOVEA_OK ? -1 : 0;
    qsort(r.all, (size_t)count, sizeof *r.all, by_name);
    sha256 arrays = sha256_begin(), bytes = sha256_begin();
    for (int64_t i = 0; i < count; i++) {
        if (file == NULL)
            digest_item(source, &r.all[i], to);
        status = status != 0 ? status : r.all[i].failed;
        add_layout(&arrays, &r.all[i]);
        add_layout(&bytes, &r.all[i]);
        sha256_add(&bytes, r.all[i].bytes.bytes, SHA256_BYTES);
    }
    free(r.all);
    const int ended[] = {sha256_end(&arrays, &d->arrays), sha256_end(&bytes, &d->weights)};
    return status == 0 && ended[0] == 0 && ended[1] == 0 ? 0 : complain(to, weights_path(w), "cannot be read");
}

/* ---------------------------------------------------------------------------------------------------- settings -- */

typedef enum part { SETTINGS, TOKENIZER, TEMPLATE, NAMES } part;

static bool begins(gguf_text key, const char *with) {
    const size_t count = strlen(with);
    return (size_t)key.count >= count && memcmp(key.bytes, with, count) == 0;
}

/* Names of the model and of its files change no result. */
static part part_of(gguf_text key) {
    if (begins(key, "tokenizer."))
        return begins(key, "tokenizer.chat_template") ? TEMPLATE : TOKENIZER;
    if (key.count == (int64_t)strlen("general.architecture") && begins(key, "general.architecture"))
        return SETTINGS;
    return begins(key, "general.") || begins(key, "split.") ? NAMES : SETTINGS;
}

static int by_key(const void *a, const void *b) {
    const gguf_text x = (*(const gguf_value *const *)a)->key, y = (*(const gguf_value *const *)b)->key;
    const int found = memcmp(x.bytes, y.bytes, (size_t)(x.count < y.count ? x.count : y.count));
    return found != 0 ? found : (x.count > y.count) - (x.count < y.count);
}

/* Each setting: its key and a zero, kind, kind of elements and count in 8 bytes each, little-endian, then its data. */
static void add_value(sha256 *sum, const gguf_value *v) {
    const int64_t numbers[] = {v->kind, v->kind == GGUF_ARRAY ? (int64_t)v->element : 0, v->count};
    sha256_add(sum, v->key.bytes, (size_t)v->key.count);
    sha256_add(sum, "", 1);
    for (int i = 0; i < 3; i++) {
        uint8_t bytes[8];
        for (int k = 0; k < 8; k++)
            bytes[k] = (uint8_t)((uint64_t)numbers[i] >> (8 * k));
        sha256_add(sum, bytes, sizeof bytes);
    }
    sha256_add(sum, v->data, (size_t)gguf_value_bytes(v));
}

static int digest_gguf_settings(const gguf *file, model_digest *d, complaint to) {
    const int64_t count = gguf_value_count(file);
    const gguf_value **all = calloc((size_t)count + 1, sizeof *all);
    if (all == NULL)
        return complain(to, gguf_path(file), "out of memory");
    for (int64_t i = 0; i < count; i++)
        all[i] = gguf_value_at(file, i);
    qsort(all, (size_t)count, sizeof *all, by_key);
    sha256_digest *const digests[] = {&d->settings, &d->tokenizer, &d->template};
    int status = 0;
    for (int p = SETTINGS; p < NAMES; p++) {
        sha256 sum = sha256_begin();
        for (int64_t i = 0; i < count; i++)
            if (part_of(all[i]->key) == (part)p)
                add_value(&sum, all[i]);
        status = sha256_end(&sum, digests[p]) != 0 ? -1 : status;
    }
    free(all);
    return status == 0 ? 0 : complain(to, gguf_path(file), "out of memory");
}

/* Each file that is there: its name and a zero, then the digest of its bytes. */
static int digest_files(const char *folder, const char *const *names, sha256_digest *digest, complaint to) {
    sha256 sum = sha256_begin();
    int status = 0;
    for (; status == 0 && *names != NULL; names++) {
        char path[PATH_MOST];
        int64_t count;
        sha256_digest one;
        if (path_join(path, folder, *names, to) != 0)
            status = -1;
        else if (path_exists(path)) {
            char *bytes = text_file_read(path, FILE_MOST, &count, to);
            status = bytes != NULL ? sha256_of(bytes, (size_t)count, &one) : -1;
            sha256_add_text(&sum, *names);
            sha256_add(&sum, one.bytes, SHA256_BYTES);
            free(bytes);
        }
    }
    return sha256_end(&sum, digest) != 0 ? complain(to, folder, "out of memory") : status;
}

static int digest_folder(const char *folder, model_digest *d, complaint to) {
    static const char *const settings[] = {"config.json", NULL}, *const tokenizer[] = {"generation_config.json",
                                                                                       "merges.txt",
                                                                                       "special_tokens_map.json",
                                                                                       "tokenizer.json",
                                                                                       "vocab.json",
                                                                                       "vocab.txt",
                                                                                       NULL},
                             *const template[] = {"chat_template.jinja", "tokenizer_config.json", NULL};
    return digest_files(folder, settings, &d->settings, to) != 0 ||
                   digest_files(folder, tokenizer, &d->tokenizer, to) != 0
               ? -1
               : digest_files(folder, template, &d->template, to);
}

int model_digest_of(const fovea_context *ctx, const weights *w, model_digest *digest, complaint to) {
    const gguf *file = weights_gguf(w);
    const int status = digest_arrays(ctx, w, digest, to);
    if (status != 0)
        return status;
    return file != NULL ? digest_gguf_settings(file, digest, to) : digest_folder(weights_folder(w), digest, to);
}
