/* receipt.h: reading. Every field is of its kind and within bounds, and none is unknown. */
#include "receipt_json.h"

#include "text_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MOST = 1 << 28, ANSWERS_MOST = 1 << 16, TOKENS_MOST = 1 << 24, ROW_HEX = 16 };

typedef struct reader {
    const char *name;
    complaint to;
} reader;

static bool printable(const char *text) {
    while (*text > ' ' && *text <= '~')
        text++;
    return *text == '\0';
}

/* The object of that name in another, with these fields and no others; NULL after a complaint. */
static json_t *object_of(const reader *r, json_t *in, const char *name, const char *const *fields, int count) {
    json_t *o = name != NULL ? json_object_get(in, name) : in;
    const char *what = name != NULL ? name : "the receipt", *key;
    json_t *value;
    if (!json_is_object(o)) {
        complain(r->to, r->name, "%s is no JSON object", what);
        return NULL;
    }
    for (int i = 0; i < count; i++)
        if (json_object_get(o, fields[i]) == NULL) {
            complain(r->to, r->name, "%s has no field %s", what, fields[i]);
            return NULL;
        }
    json_object_foreach(o, key, value) {
        int i = 0;
        while (i < count && strcmp(key, fields[i]) != 0)
            i++;
        if (i == count) {
            complain(r->to, r->name, "%s has the field %.40s, which is unknown", what, printable(key) ? key : "?");
            return NULL;
        }
    }
    return o;
}

static int hex_of(const reader *r, json_t *in, const char *name, sha256_digest *digest) {
    const char *text = json_string_value(json_object_get(in, name));
    return text != NULL && sha256_read(text, digest) ? 0 : complain(r->to, r->name, "%s is no SHA-256", name);
}

/* An array of that many elements, or any number if it is negative. */
static json_t *array_of(const reader *r, json_t *in, const char *name, int64_t count, int64_t most) {
    json_t *array = json_object_get(in, name);
    const int64_t found = (int64_t)json_array_size(array);
    if (json_is_array(array) && found <= most && (count < 0 || found == count))
        return array;
    complain(r->to, r->name, "%s is no array, or one of another length", name);
    return NULL;
}

static int32_t *integers_of(const reader *r, json_t *in, const char *name, int64_t count) {
    json_t *array = array_of(r, in, name, count, TOKENS_MOST);
    int32_t *values = array != NULL ? malloc(sizeof *values * (size_t)(count + 1)) : NULL;
    for (int64_t i = 0; values != NULL && i < count; i++) {
        const json_t *one = json_array_get(array, (size_t)i);
        const json_int_t value = json_integer_value(one);
        if (!json_is_integer(one) || value < 0 || value > INT32_MAX) {
            free(values);
            complain(r->to, r->name, "%s has no token at %lld", name, (long long)i);
            return NULL;
        }
        values[i] = (int32_t)value;
    }
    return values;
}

static int number_of(const reader *r, json_t *in, const char *name, uint64_t *value) {
    const char *text = json_string_value(json_object_get(in, name));
    char *end;
    errno = 0;
    *value = text != NULL ? strtoull(text, &end, 10) : 0;
    return text != NULL && *text >= '0' && *text <= '9' && *end == '\0' && errno == 0
               ? 0
               : complain(r->to, r->name, "%s is no number", name);
}

static int rows_of(const reader *r, json_t *in, receipt_rows *rows) {
    json_t *hashes = array_of(r, in, "rows", -1, TOKENS_MOST);
    if (hashes == NULL)
        return -1;
    rows->count = (int64_t)json_array_size(hashes);
    rows->blocks = (rows->count + RECEIPT_EVERY - 1) / RECEIPT_EVERY;
    rows->tokens = integers_of(r, in, "tokens", rows->count);
    json_t *blocks = array_of(r, in, "blocks", rows->blocks, TOKENS_MOST);
    rows->hashes = malloc(sizeof *rows->hashes * (size_t)(rows->count + 1));
    rows->block = malloc(sizeof *rows->block * (size_t)(rows->blocks + 1));
    if (rows->tokens == NULL || blocks == NULL || rows->hashes == NULL || rows->block == NULL)
        return -1;
    for (int64_t i = 0; i < rows->count; i++) {
        const char *text = json_string_value(json_array_get(hashes, (size_t)i));
        char padded[SHA256_HEX] = "";
        sha256_digest digest;
        if (text == NULL || strlen(text) != ROW_HEX)
            return complain(r->to, r->name, "rows has no hash at %lld", (long long)i);
        memcpy(padded, text, ROW_HEX);
        memset(padded + ROW_HEX, '0', SHA256_HEX - 1 - ROW_HEX);
        if (!sha256_read(padded, &digest))
            return complain(r->to, r->name, "rows has no hash at %lld", (long long)i);
        rows->hashes[i] = receipt_row_hash(&digest);
    }
    for (int64_t i = 0; i < rows->blocks; i++) {
        const char *text = json_string_value(json_array_get(blocks, (size_t)i));
        if (text == NULL || !sha256_read(text, &rows->block[i]))
            return complain(r->to, r->name, "blocks has no SHA-256 at %lld", (long long)i);
    }
    return hex_of(r, in, "sha256", &rows->all);
}

static int answer_of(const reader *r, json_t *o, receipt_answer *a) {
    static const char *const fields[] = {"prompt", "seed", "tokens", "rows", "blocks", "sha256"}, *const of_prompt[] = {
                                                                                                      "count", "sha256",
                                                                                                      "tokens"};
    if (object_of(r, o, NULL, fields, 6) == NULL)
        return -1;
    json_t *prompt = object_of(r, o, "prompt", of_prompt, 3);
    if (prompt == NULL || number_of(r, o, "seed", &a->seed) != 0 || hex_of(r, prompt, "sha256", &a->prompt_digest) != 0)
        return -1;
    const json_t *count = json_object_get(prompt, "count");
    a->prompt_count = json_integer_value(count);
    if (!json_is_integer(count) || a->prompt_count < 1 || a->prompt_count > TOKENS_MOST)
        return complain(r->to, r->name, "the prompt's count is not from 1 to %d", TOKENS_MOST);
    if (!json_is_null(json_object_get(prompt, "tokens")) &&
        (a->prompt = integers_of(r, prompt, "tokens", a->prompt_count)) == NULL)
        return -1;
    return rows_of(r, o, &a->rows);
}

static int settings_of(const reader *r, json_t *root, receipt *out) {
    json_t *arithmetic = object_of(r, root, "arithmetic", receipt_setting_names, RECEIPT_TEMPERATURE),
           *sampling = object_of(r, root, "sampling", receipt_setting_names + RECEIPT_TEMPERATURE,
                                 RECEIPT_SETTINGS - RECEIPT_TEMPERATURE);
    if (arithmetic == NULL || sampling == NULL)
        return -1;
    for (int i = 0; i < RECEIPT_SETTINGS; i++) {
        json_t *in = i < RECEIPT_TEMPERATURE ? arithmetic : sampling;
        const char *text = json_string_value(json_object_get(in, receipt_setting_names[i]));
        if (text == NULL || strlen(text) >= RECEIPT_WORD || !printable(text))
            return complain(r->to, r->name, "%s is no word", receipt_setting_names[i]);
        strcpy(out->settings[i], text);
    }
    return 0;
}

static int model_of(const reader *r, json_t *root, model_digest *m) {
    static const char *const fields[] = {"arrays", "weights", "settings", "tokenizer", "template"};
    sha256_digest *const digests[] = {&m->arrays, &m->weights, &m->settings, &m->tokenizer, &m->template};
    json_t *o = object_of(r, root, "model", fields, 5);
    for (int i = 0; o != NULL && i < 5; i++)
        if (hex_of(r, o, fields[i], digests[i]) != 0)
            return -1;
    return o != NULL ? 0 : -1;
}

static int made_of(const reader *r, json_t *root, double *seconds) {
    static const char *const fields[] = {"seconds", "by"};
    json_t *o = object_of(r, root, "made", fields, 2);
    const char *text = o != NULL ? json_string_value(json_object_get(o, "seconds")) : NULL;
    char *end;
    if (o == NULL)
        return -1;
    *seconds = text != NULL ? strtod(text, &end) : -1.0;
    return text != NULL && end != text && *end == '\0' && *seconds >= 0.0 && *seconds < 1e12
               ? 0
               : complain(r->to, r->name, "made.seconds is no number");
}

static int fill(const reader *r, json_t *root, receipt *out) {
    static const char *const fields[] = {"format", "bits", "arithmetic", "sampling",
                                         "model",  "made", "answers",    "sha256"};
    const char *format = json_string_value(json_object_get(root, "format"));
    sha256_digest stated, found;
    if (format == NULL || strcmp(format, RECEIPT_FORMAT) != 0)
        return complain(r->to, r->name, "is no receipt of the format \"" RECEIPT_FORMAT "\"");
    if (object_of(r, root, NULL, fields, 8) == NULL || hex_of(r, root, "sha256", &stated) != 0)
        return -1;
    if (receipt_seal(root, &found) != 0)
        return complain(r->to, r->name, "out of memory");
    out->changed = !sha256_equal(&stated, &found);
    out->bits = json_integer_value(json_object_get(root, "bits"));
    if (settings_of(r, root, out) != 0 || model_of(r, root, &out->model) != 0 || made_of(r, root, &out->seconds) != 0)
        return -1;
    json_t *answers = array_of(r, root, "answers", -1, ANSWERS_MOST);
    if (answers == NULL)
        return -1;
    out->answers = calloc(json_array_size(answers) + 1, sizeof *out->answers);
    if (out->answers == NULL)
        return complain(r->to, r->name, "out of memory");
    out->count = (int64_t)json_array_size(answers);
    for (int64_t i = 0; i < out->count; i++)
        if (answer_of(r, json_array_get(answers, (size_t)i), &out->answers[i]) != 0)
            return -1;
    return out->count > 0 ? 0 : complain(r->to, r->name, "has no answers");
}

int receipt_read_memory(const char *bytes, size_t count, const char *name, receipt **out, complaint to) {
    const reader r = {name, to};
    json_error_t error;
    *out = calloc(1, sizeof **out);
    if (*out == NULL)
        return complain(to, name, "out of memory");
    complain(to, name, "out of memory"); /* unless it is something else */
    json_t *root = json_loadb(bytes, count, JSON_REJECT_DUPLICATES, &error);
    const int status = root != NULL ? fill(&r, root, *out) : complain(to, name, "is no JSON: %s", error.text);
    json_decref(root);
    if (status == 0)
        return 0;
    receipt_free(*out);
    *out = NULL;
    return -1;
}

int receipt_read(const char *path, receipt **out, complaint to) {
    int64_t count = 0;
    *out = NULL;
    char *bytes = text_file_read(path, FILE_MOST, &count, to);
    if (bytes == NULL)
        return -1;
    const int status = receipt_read_memory(bytes, (size_t)count, path, out, to);
    free(bytes);
    return status;
}

void receipt_free(receipt *r) {
    if (r == NULL)
        return;
    for (int64_t i = 0; i < r->count; i++) {
        free(r->answers[i].prompt);
        receipt_rows_free(&r->answers[i].rows);
    }
    free(r->answers);
    free(r);
}
