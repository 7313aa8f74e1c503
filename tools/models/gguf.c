/* The header of a GGUF file (gguf.h): parsed in memory, from the front, by a reader that knows where the bytes end. */
#include "gguf_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES_MOST = 4096, TENSORS_MOST = 1 << 14, KEY_MOST = 256, ARRAY_MOST = 1 << 23 };

/* ------------------------------------------------------------------------------------------------------- reading -- */

static int64_t left(const reader *r) { return r->file->front_bytes - r->at; }

static int cut_off(reader *r) {
    r->short_of = true;
    return complain(r->to, r->file->path, "ends within its header");
}

static const uint8_t *take(reader *r, int64_t bytes) {
    if (bytes < 0 || bytes > left(r)) {
        cut_off(r);
        return NULL;
    }
    r->at += bytes;
    return r->file->front + r->at - bytes;
}

static int take_u32(reader *r, uint32_t *value) {
    const uint8_t *p = take(r, 4);
    *value = p != NULL ? (uint32_t)gguf_bits_at(p, 4) : 0;
    return p != NULL ? 0 : -1;
}

/* A count or length: not above most. */
static int take_count(reader *r, const char *what, int64_t most, int64_t *value) {
    const uint8_t *p = take(r, 8);
    if (p == NULL)
        return -1;
    const uint64_t bits = gguf_bits_at(p, 8);
    *value = (int64_t)bits;
    return bits <= (uint64_t)most ? 0
                                  : complain(r->to, r->file->path, "%s is %llu: more than %lld", what,
                                             (unsigned long long)bits, (long long)most);
}

static int take_text(reader *r, const char *what, int64_t most, gguf_text *text) {
    if (take_count(r, what, most, &text->count) != 0)
        return -1;
    text->bytes = (const char *)take(r, text->count);
    return text->bytes != NULL ? 0 : -1;
}

/* ------------------------------------------------------------------------------------------------------ settings -- */

static const int kind_bytes[GGUF_KINDS] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8}; /* 0: of no fixed size */

static int skip_elements(reader *r, gguf_value *v) {
    v->data = r->file->front + r->at;
    if (v->element != GGUF_TEXT)
        return take(r, v->count * kind_bytes[v->element]) != NULL ? 0 : -1;
    gguf_text text;
    for (int64_t i = 0; i < v->count; i++)
        if (take_text(r, "the length of a text", GGUF_HEADER_MOST, &text) != 0)
            return -1;
    return 0;
}

static int read_kind(reader *r, const gguf_value *v, gguf_kind most, gguf_kind *kind) {
    uint32_t number;
    if (take_u32(r, &number) != 0)
        return -1;
    *kind = (gguf_kind)number;
    return number < GGUF_KINDS && (number != GGUF_ARRAY || most == GGUF_ARRAY)
               ? 0
               : complain(r->to, r->file->path, "%.*s has the type %u, which is not read here", (int)v->key.count,
                          v->key.bytes, number);
}

static int read_value(reader *r, gguf_value *v) {
    if (take_text(r, "the length of a key", KEY_MOST, &v->key) != 0)
        return -1;
    if (!gguf_is_name(v->key))
        return complain(r->to, r->file->path, "a key is empty or not of printable characters");
    if (read_kind(r, v, GGUF_ARRAY, &v->kind) != 0)
        return -1;
    v->element = v->kind;
    v->count = 1;
    if (v->kind == GGUF_ARRAY && (read_kind(r, v, GGUF_TEXT, &v->element) != 0 ||
                                  take_count(r, "the length of an array", ARRAY_MOST, &v->count) != 0))
        return -1;
    return skip_elements(r, v);
}

static int compare_texts(gguf_text a, gguf_text b) {
    const int order = memcmp(a.bytes, b.bytes, (size_t)(a.count < b.count ? a.count : b.count));
    return order != 0 ? order : (a.count > b.count) - (a.count < b.count);
}

static int by_key(const void *a, const void *b) {
    return compare_texts((*(gguf_value *const *)a)->key, (*(gguf_value *const *)b)->key);
}

/* ------------------------------------------------------------------------------------------------------- tensors -- */

static int read_shape(reader *r, gguf_tensor *t) {
    uint32_t dims;
    if (take_u32(r, &dims) != 0)
        return -1;
    if (dims < 1 || dims > GGUF_DIMS)
        return complain(r->to, r->file->path, "%s has %u dimensions, not 1 to %d", t->name, dims, GGUF_DIMS);
    t->dims = (int)dims;
    t->elements = 1;
    for (int i = 0; i < GGUF_DIMS; i++) {
        t->shape[i] = 1;
        if (i < t->dims && take_count(r, "a size of an array", INT64_C(1) << 40, &t->shape[i]) != 0)
            return -1;
        if (t->shape[i] < 1 || __builtin_mul_overflow(t->elements, t->shape[i], &t->elements) ||
            t->elements > INT64_C(1) << 40)
            return complain(r->to, r->file->path, "%s is empty or too large", t->name);
    }
    return 0;
}

/* "F32, F16, ..." */
static void list_types(char *text, size_t size) {
    size_t used = 0;
    for (uint32_t type = 0; type < GGUF_TYPES && used < size; type++)
        if (gguf_block_elements((gguf_type)type) > 0)
            used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "", gguf_type_name(type));
}

/* Its type and bytes, by blocks, which do not go on from row to row. */
static int read_type(reader *r, gguf_tensor *t) {
    uint32_t number;
    if (take_u32(r, &number) != 0)
        return -1;
    t->type = (gguf_type)number;
    const int elements = gguf_block_elements(t->type);
    if (elements == 0) {
        char known[256];
        list_types(known, sizeof known);
        return complain(r->to, r->file->path, "%s is of type %s (%u); only %s can be read", t->name,
                        gguf_type_name(number), number, known);
    }
    if (t->shape[0] % elements != 0)
        return complain(r->to, r->file->path, "%s has rows of %lld elements, which are no whole blocks of %d", t->name,
                        (long long)t->shape[0], elements);
    t->bytes = t->elements / elements * gguf_block_bytes(t->type);
    return 0;
}

static int read_tensor(reader *r, gguf_tensor *t) {
    gguf_text name;
    if (take_text(r, "the length of an array's name", GGUF_NAME_MOST, &name) != 0)
        return -1;
    if (!gguf_is_name(name))
        return complain(r->to, r->file->path, "an array's name is empty or not of printable characters");
    memcpy(t->name, name.bytes, (size_t)name.count);
    t->name[name.count] = '\0';
    return read_shape(r, t) != 0 || read_type(r, t) != 0
               ? -1
               : take_count(r, "the place of an array", INT64_C(1) << 60, &t->begin);
}

static int by_name(const void *a, const void *b) {
    return strcmp((*(gguf_tensor *const *)a)->name, (*(gguf_tensor *const *)b)->name);
}

static int by_place(const void *a, const void *b) {
    const gguf_tensor *x = *(gguf_tensor *const *)a, *y = *(gguf_tensor *const *)b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

/* Places count from the end of the header, rounded up. */
static int check_places(reader *r) {
    gguf *f = r->file;
    int64_t alignment = 32; /* 8 at least, as GGUF asks for: arrays are used where they are in the file */
    if (gguf_integer(f, "general.alignment", false, 8, 1 << 16, &alignment, r->to) != 0)
        return -1;
    if ((alignment & (alignment - 1)) != 0)
        return complain(r->to, f->path, "general.alignment is %lld, not a power of two", (long long)alignment);
    const int64_t data = (r->at + alignment - 1) / alignment * alignment;
    for (int64_t i = 0; i < f->tensor_count; i++) {
        gguf_tensor *t = &f->tensors[i];
        if (t->begin % alignment != 0)
            return complain(r->to, f->path, "%s is not aligned to %lld bytes", t->name, (long long)alignment);
        t->begin += data;
        if (t->begin > f->size || t->bytes > f->size - t->begin)
            return complain(r->to, f->path, "%s ends beyond the file's end", t->name);
    }
    qsort(f->tensors_by_name, (size_t)f->tensor_count, sizeof *f->tensors_by_name, by_place);
    for (int64_t i = 1; i < f->tensor_count; i++) {
        const gguf_tensor *a = f->tensors_by_name[i - 1], *b = f->tensors_by_name[i];
        if (a->begin + a->bytes > b->begin)
            return complain(r->to, f->path, "%s and %s overlap", a->name, b->name);
    }
    return 0;
}

/* -------------------------------------------------------------------------------------------------------- header -- */

static int read_counts(reader *r) {
    const uint8_t *magic = take(r, 4);
    uint32_t version;
    if (magic == NULL || take_u32(r, &version) != 0)
        return -1;
    if (memcmp(magic, "GGUF", 4) != 0)
        return complain(r->to, r->file->path, "is not a GGUF file");
    if (version != 2 && version != 3)
        return complain(r->to, r->file->path, "is of version %u of GGUF%s; 2 and 3, little-endian, can be read",
                        version, (version & 0xffff) == 0 ? ", or big-endian" : "");
    if (take_count(r, "the number of arrays", TENSORS_MOST, &r->file->tensor_count) != 0)
        return -1;
    return take_count(r, "the number of settings", VALUES_MOST, &r->file->value_count);
}

int gguf_read_header(reader *r) {
    gguf *f = r->file;
    if (read_counts(r) != 0)
        return -1;
    f->values = calloc((size_t)f->value_count + 1, sizeof *f->values);
    f->values_by_key = calloc((size_t)f->value_count + 1, sizeof *f->values_by_key);
    f->tensors = calloc((size_t)f->tensor_count + 1, sizeof *f->tensors);
    f->tensors_by_name = calloc((size_t)f->tensor_count + 1, sizeof *f->tensors_by_name);
    if (!f->values || !f->values_by_key || !f->tensors || !f->tensors_by_name)
        return complain(r->to, f->path, "out of memory");
    for (int64_t i = 0; i < f->value_count; i++) {
        f->values_by_key[i] = &f->values[i];
        if (read_value(r, &f->values[i]) != 0)
            return -1;
    }
    qsort(f->values_by_key, (size_t)f->value_count, sizeof *f->values_by_key, by_key);
    for (int64_t i = 1; i < f->value_count; i++)
        if (by_key(&f->values_by_key[i - 1], &f->values_by_key[i]) == 0)
            return complain(r->to, f->path, "%.*s comes twice", (int)f->values_by_key[i]->key.count,
                            f->values_by_key[i]->key.bytes);
    for (int64_t i = 0; i < f->tensor_count; i++) {
        f->tensors_by_name[i] = &f->tensors[i];
        if (read_tensor(r, &f->tensors[i]) != 0)
            return -1;
    }
    return check_places(r) == 0 ? gguf_sort_tensors(f, r->to) : -1;
}

int gguf_sort_tensors(gguf *f, complaint to) {
    qsort(f->tensors_by_name, (size_t)f->tensor_count, sizeof *f->tensors_by_name, by_name);
    for (int64_t i = 1; i < f->tensor_count; i++)
        if (by_name(&f->tensors_by_name[i - 1], &f->tensors_by_name[i]) == 0)
            return complain(to, f->path, "%s comes twice", f->tensors_by_name[i]->name);
    return 0;
}

int64_t gguf_value_count(const gguf *f) { return f->value_count; }
const gguf_value *gguf_value_at(const gguf *f, int64_t i) { return &f->values[i]; }

const gguf_value *gguf_find(const gguf *f, const char *key) {
    const gguf_value wanted = {.key = {key, (int64_t)strlen(key)}}, *at = &wanted;
    gguf_value *const *found =
        f->value_count > 0 ? bsearch(&at, f->values_by_key, (size_t)f->value_count, sizeof *f->values_by_key, by_key)
                           : NULL;
    return found != NULL ? *found : NULL;
}

int64_t gguf_value_bytes(const gguf_value *v) {
    const uint8_t *at = v->data;
    if (v->element != GGUF_TEXT)
        return v->count * kind_bytes[v->element];
    for (int64_t i = 0; i < v->count; i++)
        gguf_next_text(&at);
    return at - v->data;
}
