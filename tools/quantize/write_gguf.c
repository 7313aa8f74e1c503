/* A GGUF file, version 3: settings of a GGUF input, but for those that say how tensors are stored; tensors, aligned to
 * 32 bytes. */
#include "convert.h"

#include <string.h>

enum { ALIGNMENT = 32, QUANTIZATION = 2 };

typedef struct writer {
    whole_file *to;
    complaint complaint;
    bool failed; /* one write did: the rest is in vain */
} writer;

static void put(writer *w, const void *bytes, int64_t count) {
    w->failed = w->failed || whole_file_write(w->to, bytes, count, w->complaint) != 0;
}

static void put_bits(writer *w, uint64_t value, int bytes) {
    uint8_t at[8];
    for (int i = 0; i < bytes; i++)
        at[i] = (uint8_t)(value >> 8 * i);
    put(w, at, bytes);
}

static void put_text(writer *w, const char *text, int64_t count) {
    put_bits(w, (uint64_t)count, 8);
    put(w, text, count);
}

static void put_u32(writer *w, const char *key, uint32_t value) {
    put_text(w, key, (int64_t)strlen(key));
    put_bits(w, GGUF_U32, 4);
    put_bits(w, value, 4);
}

static void put_string(writer *w, const char *key, const char *value) {
    put_text(w, key, (int64_t)strlen(key));
    put_bits(w, GGUF_TEXT, 4);
    put_text(w, value, (int64_t)strlen(value));
}

/* How tensors are stored, and in how many files, is said anew. */
static bool copied(const gguf_value *v) {
    static const char *const ours[] = {"general.alignment", "general.file_type", "general.quantization_version",
                                       "split.no",          "split.count",       "split.tensors.count"};
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        if (v->key.count == (int64_t)strlen(ours[i]) && memcmp(v->key.bytes, ours[i], strlen(ours[i])) == 0)
            return false;
    return true;
}

static void put_value(writer *w, const gguf_value *v) {
    put_text(w, v->key.bytes, v->key.count);
    put_bits(w, v->kind, 4);
    if (v->kind == GGUF_ARRAY) {
        put_bits(w, v->element, 4);
        put_bits(w, (uint64_t)v->count, 8);
    }
    put(w, v->data, gguf_value_bytes(v));
}

/* The type of a tensor that is kept; -1: GGUF has no such type. */
static int kept_type(const array *t) {
    if (t->in_gguf != NULL)
        return (int)t->in_gguf->type;
    static const struct {
        const char *name;
        int type;
    } types[] = {{"F32", 0}, {"F16", 1}, {"BF16", 30}, {"I8", 24}, {"I16", 25}, {"I32", 26}, {"I64", 27}, {"F64", 28}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strcmp(types[i].name, t->stored) == 0)
            return types[i].type;
    return -1;
}

static int check(const arrays *a, complaint to) {
    for (int64_t i = 0; i < a->count; i++) {
        const array *t = &a->at[i];
        if (kept_type(t) < 0)
            return complain(to, weights_path(a->w), "%s is of type %s, which GGUF has not", t->name, t->stored);
        if (strlen(t->name) >= GGUF_NAME_MOST) /* ggml needs room for a zero behind it */
            return complain(to, weights_path(a->w), "%s: ggml reads names of at most %d bytes", t->name,
                            GGUF_NAME_MOST - 1);
        if (t->dims > GGUF_DIMS || t->elements == 0)
            return complain(to, weights_path(a->w), "%s is empty or has more than %d dimensions", t->name, GGUF_DIMS);
    }
    return 0;
}

static int pad(whole_file *o, const array *t, complaint to) {
    (void)t;
    return whole_file_pad(o, ALIGNMENT, to);
}

int write_gguf(const options *opts, const arrays *a, whole_file *o, complaint to) {
    const gguf *from = weights_gguf(a->w);
    writer w = {o, to, false};
    unsigned file_type, own;
    (void)type_gguf((tensor_type)opts->type, &file_type);
    int64_t values = from != NULL ? 2 : 3, place = 0;
    if (check(a, to) != 0)
        return -1;
    for (int64_t i = 0; from != NULL && i < gguf_value_count(from); i++)
        values += copied(gguf_value_at(from, i));
    put(&w, "GGUF", 4);
    put_bits(&w, 3, 4);
    put_bits(&w, (uint64_t)a->count, 8);
    put_bits(&w, (uint64_t)values, 8);
    for (int64_t i = 0; from != NULL && i < gguf_value_count(from); i++)
        if (copied(gguf_value_at(from, i)))
            put_value(&w, gguf_value_at(from, i));
    if (from == NULL) /* every file must have it */
        put_string(&w, "general.architecture", "unknown");
    put_u32(&w, "general.file_type", file_type);
    put_u32(&w, "general.quantization_version", QUANTIZATION);
    for (int64_t i = 0; i < a->count; i++) {
        const array *t = &a->at[i];
        put_text(&w, t->name, (int64_t)strlen(t->name));
        put_bits(&w, t->dims > 0 ? (uint64_t)t->dims : 1, 4);
        for (int d = t->dims; d-- > 0;)
            put_bits(&w, (uint64_t)t->shape[d], 8);
        if (t->dims == 0)
            put_bits(&w, 1, 8);
        put_bits(&w, t->type != TYPE_KEEP ? type_gguf(t->type, &own) : (unsigned)kept_type(t), 4);
        put_bits(&w, (uint64_t)place, 8);
        place += (convert_bytes_of(t) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    if (w.failed || whole_file_pad(o, ALIGNMENT, to) != 0)
        return -1;
    return convert(opts, a, o, pad, to);
}
