/* Settings and arrays of a GGUF file by their names (gguf.h). */
#include "gguf_private.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int by_name(const void *name, const void *tensor) { return strcmp(name, (*(gguf_tensor *const *)tensor)->name); }

const gguf_tensor *gguf_find_tensor(const gguf *f, const char *name) {
    gguf_tensor *const *found = f->tensor_count > 0 ? bsearch(name, f->tensors_by_name, (size_t)f->tensor_count,
                                                              sizeof *f->tensors_by_name, by_name)
                                                    : NULL;
    return found != NULL ? *found : NULL;
}

/* An integer of any kind; false if it is none, or one that no int64_t holds. */
static bool as_integer(const gguf_value *v, int64_t *value) {
    switch (v->kind) {
    case GGUF_U8:
    case GGUF_BOOL: *value = (int64_t)gguf_bits_at(v->data, 1); return true;
    case GGUF_I8: *value = (int8_t)gguf_bits_at(v->data, 1); return true;
    case GGUF_U16: *value = (int64_t)gguf_bits_at(v->data, 2); return true;
    case GGUF_I16: *value = (int16_t)gguf_bits_at(v->data, 2); return true;
    case GGUF_U32: *value = (int64_t)gguf_bits_at(v->data, 4); return true;
    case GGUF_I32: *value = (int32_t)gguf_bits_at(v->data, 4); return true;
    case GGUF_I64: *value = (int64_t)gguf_bits_at(v->data, 8); return true;
    case GGUF_U64: *value = (int64_t)gguf_bits_at(v->data, 8); return *value >= 0;
    default: return false;
    }
}

static bool as_real(const gguf_value *v, double *value) {
    int64_t integer;
    if (v->kind == GGUF_F32) {
        const uint32_t bits = (uint32_t)gguf_bits_at(v->data, 4);
        float single;
        memcpy(&single, &bits, sizeof single);
        *value = (double)single;
    } else if (v->kind == GGUF_F64) {
        const uint64_t bits = gguf_bits_at(v->data, 8);
        memcpy(value, &bits, sizeof *value);
    } else if (as_integer(v, &integer))
        *value = (double)integer;
    else
        return false;
    return isfinite(*value);
}

int gguf_integer(const gguf *f, const char *key, bool needed, int64_t least, int64_t most, int64_t *value,
                 complaint to) {
    const gguf_value *v = gguf_find(f, key);
    int64_t found;
    if (v == NULL)
        return needed ? complain(to, gguf_path(f), "has no %s", key) : 0;
    if (!as_integer(v, &found) || found < least || found > most)
        return complain(to, gguf_path(f), "%s is not an integer from %lld to %lld", key, (long long)least,
                        (long long)most);
    *value = found;
    return 0;
}

int gguf_real(const gguf *f, const char *key, bool needed, double *value, complaint to) {
    const gguf_value *v = gguf_find(f, key);
    double found;
    if (v == NULL)
        return needed ? complain(to, gguf_path(f), "has no %s", key) : 0;
    if (!as_real(v, &found))
        return complain(to, gguf_path(f), "%s is not a finite number", key);
    *value = found;
    return 0;
}

gguf_text gguf_next_text(const uint8_t **at) {
    const gguf_text text = {(const char *)*at + 8, (int64_t)gguf_bits_at(*at, 8)};
    *at += 8 + text.count;
    return text;
}

gguf_text gguf_text_of(const gguf *f, const char *key) {
    const gguf_value *v = gguf_find(f, key);
    if (v == NULL || v->kind != GGUF_TEXT)
        return (gguf_text){NULL, 0};
    const uint8_t *at = v->data;
    return gguf_next_text(&at);
}

/* "A, B and C". */
static void list_words(const char *const *words, char *list, size_t size) {
    size_t used = 0;
    list[0] = '\0';
    for (int i = 0; words[i] != NULL && used < size; i++)
        used += (size_t)snprintf(list + used, size - used, "%s%s",
                                 i == 0                 ? ""
                                 : words[i + 1] != NULL ? ", "
                                                        : " and ",
                                 words[i]);
}

int gguf_word(const gguf *f, const char *key, bool needed, const char *const *words, int *which, complaint to) {
    enum { SHOWN = 40 };
    const gguf_text found = gguf_text_of(f, key);
    char list[128];
    if (gguf_find(f, key) == NULL)
        return needed ? complain(to, gguf_path(f), "has no %s", key) : 0;
    for (int i = 0; words[i] != NULL; i++)
        if (found.bytes != NULL && found.count == (int64_t)strlen(words[i]) &&
            memcmp(found.bytes, words[i], strlen(words[i])) == 0)
            return *which = i, 0;
    list_words(words, list, sizeof list);
    const bool shown = gguf_is_name(found) && found.count <= SHOWN;
    return complain(to, gguf_path(f), "%s is %.*s; only %s can be read", key, shown ? (int)found.count : 7,
                    shown ? found.bytes : "no word", list);
}
