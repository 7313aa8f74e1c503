/* vectors.h. */
#include "vectors.h"

#include "receipt_json.h"

#include <stdlib.h>
#include <string.h>

#define VECTORS_FORMAT "fovea-receipt-vectors 1"

enum { TEXTS_MOST = 1 << 24, ENTRY_FIELDS = 3, FIELDS = 8 };

static const char *const setting_names[VECTORS_SETTINGS] = {"type", "weights", "pooling", "normalized", "tokens"},
                         *const entry_names[ENTRY_FIELDS] = {"text", "tokens", "vector"};

static bool is_utf8(const char *text) {
    json_t *made = json_string(text);
    json_decref(made);
    return made != NULL;
}

int vectors_receipt_add(vectors_receipt *r, const vectors_entry *entry, const char *text, complaint to) {
    if (r->count == r->room) {
        const int64_t room = 2 * r->room + 64;
        vectors_entry *entries = realloc(r->entries, (size_t)room * sizeof *entries);
        r->entries = entries != NULL ? entries : r->entries;
        char **texts = text != NULL ? realloc(r->texts, (size_t)room * sizeof *texts) : NULL;
        r->texts = texts != NULL ? texts : r->texts;
        if (entries == NULL || (text != NULL && texts == NULL))
            return complain(to, "receipt", "out of memory");
        r->room = room;
    }
    if (text != NULL && !is_utf8(text))
        return complain(to, "receipt", "text %lld is not UTF-8: only a receipt without texts can be of it",
                        (long long)r->count + 1);
    if (text != NULL && (r->texts[r->count] = strdup(text)) == NULL)
        return complain(to, "receipt", "out of memory");
    r->entries[r->count++] = *entry;
    return 0;
}

void vectors_receipt_free(vectors_receipt *r) {
    for (int64_t i = 0; r->texts != NULL && i < r->count; i++)
        free(r->texts[i]);
    free(r->texts);
    free(r->entries);
    *r = (vectors_receipt){0};
}

int vectors_receipt_write(const vectors_receipt *r, const char *path, complaint to) {
    bool good = true;
    json_t *root = json_object(), *entries = json_array(), *texts = r->texts != NULL ? json_array() : json_null();
    receipt_set_head(root, VECTORS_FORMAT, "fovea-embed " FOVEA_VERSION_STRING, &r->head, &good);
    receipt_set_words(root, "arithmetic", setting_names, VECTORS_SETTINGS, (const char(*)[RECEIPT_WORD])r->settings,
                      &good);
    for (int64_t i = 0; i < r->count; i++) {
        const sha256_digest *const digests[] = {&r->entries[i].text, &r->entries[i].tokens, &r->entries[i].vector};
        json_t *entry = json_object();
        for (int k = 0; k < ENTRY_FIELDS; k++)
            receipt_set(entry, entry_names[k], receipt_hex_of(digests[k]), &good);
        good = json_array_append_new(entries, entry) == 0 && good;
        if (r->texts != NULL)
            good = json_array_append_new(texts, json_string(r->texts[i])) == 0 && good;
    }
    receipt_set(root, "texts", texts, &good);
    receipt_set(root, "vectors", entries, &good);
    return receipt_finish(root, good, path, to);
}

static int entries_of(const receipt_reader *r, json_t *root, vectors_receipt *out) {
    json_t *entries = receipt_array(r, root, "vectors", -1, TEXTS_MOST), *texts = json_object_get(root, "texts");
    const int64_t count = (int64_t)json_array_size(entries);
    if (entries == NULL || (!json_is_null(texts) && receipt_array(r, root, "texts", count, TEXTS_MOST) == NULL))
        return -1;
    for (int64_t i = 0; i < count; i++) {
        vectors_entry one;
        sha256_digest *const digests[] = {&one.text, &one.tokens, &one.vector};
        json_t *entry = receipt_object(r, json_array_get(entries, (size_t)i), NULL, entry_names, ENTRY_FIELDS);
        const char *text = json_string_value(json_array_get(texts, (size_t)i));
        if (entry == NULL)
            return -1;
        if (!json_is_null(texts) && text == NULL)
            return complain(r->to, r->name, "texts has no text at %lld", (long long)i);
        for (int k = 0; k < ENTRY_FIELDS; k++)
            if (receipt_hex(r, entry, entry_names[k], digests[k]) != 0)
                return -1;
        if (vectors_receipt_add(out, &one, text, r->to) != 0)
            return -1;
    }
    return count > 0 ? 0 : complain(r->to, r->name, "has no vectors");
}

int vectors_receipt_read_memory(const char *bytes, size_t count, const char *name, vectors_receipt *out, complaint to) {
    static const char *const fields[FIELDS] = {"format", "bits",  "arithmetic", "model",
                                               "made",   "texts", "vectors",    "sha256"};
    const receipt_reader r = {name, to};
    *out = (vectors_receipt){0};
    json_t *root = receipt_parse(&r, bytes, count);
    const int status =
        root != NULL && receipt_head_read(&r, root, VECTORS_FORMAT, fields, FIELDS, &out->head) == 0 &&
                receipt_words(&r, root, "arithmetic", setting_names, VECTORS_SETTINGS, out->settings) == 0
            ? entries_of(&r, root, out)
            : -1;
    json_decref(root);
    if (status != 0)
        vectors_receipt_free(out);
    return status;
}

int vectors_receipt_read(const char *path, vectors_receipt *r, complaint to) {
    int64_t count = 0;
    *r = (vectors_receipt){0};
    char *bytes = receipt_bytes(path, &count, to);
    const int status = bytes != NULL ? vectors_receipt_read_memory(bytes, (size_t)count, path, r, to) : -1;
    free(bytes);
    return status;
}
