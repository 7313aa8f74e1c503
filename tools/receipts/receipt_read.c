/* receipt.h: reading. Every field is of its kind and within bounds, and none is unknown. */
#include "receipt_json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { ANSWERS_MOST = 1 << 16, TOKENS_MOST = 1 << 24, ROW_HEX = 16 };

static int32_t *integers_of(const receipt_reader *r, json_t *in, const char *name, int64_t count) {
    json_t *array = receipt_array(r, in, name, count, TOKENS_MOST);
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

static int number_of(const receipt_reader *r, json_t *in, const char *name, uint64_t *value) {
    const char *text = json_string_value(json_object_get(in, name));
    errno = 0;
    *value = text != NULL ? strtoull(text, NULL, 10) : 0;
    return text != NULL && receipt_digits(text) && errno == 0 ? 0 : complain(r->to, r->name, "%s is no number", name);
}

static int rows_of(const receipt_reader *r, json_t *in, receipt_rows *rows) {
    json_t *hashes = receipt_array(r, in, "rows", -1, TOKENS_MOST);
    if (hashes == NULL)
        return -1;
    rows->count = (int64_t)json_array_size(hashes);
    rows->blocks = (rows->count + RECEIPT_EVERY - 1) / RECEIPT_EVERY;
    rows->tokens = integers_of(r, in, "tokens", rows->count);
    json_t *blocks = receipt_array(r, in, "blocks", rows->blocks, TOKENS_MOST);
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
    return receipt_hex(r, in, "sha256", &rows->all);
}

static int answer_of(const receipt_reader *r, json_t *o, receipt_answer *a) {
    static const char *const fields[] = {"prompt", "seed", "tokens", "rows", "blocks", "sha256"}, *const of_prompt[] = {
                                                                                                      "count", "sha256",
                                                                                                      "tokens"};
    if (receipt_object(r, o, NULL, fields, 6) == NULL)
        return -1;
    json_t *prompt = receipt_object(r, o, "prompt", of_prompt, 3);
    if (prompt == NULL || number_of(r, o, "seed", &a->seed) != 0 ||
        receipt_hex(r, prompt, "sha256", &a->prompt_digest) != 0)
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

static int settings_of(const receipt_reader *r, json_t *root, receipt *out) {
    if (receipt_words(r, root, "arithmetic", receipt_setting_names, RECEIPT_TEMPERATURE, out->settings) != 0 ||
        receipt_words(r, root, "sampling", receipt_setting_names + RECEIPT_TEMPERATURE,
                      RECEIPT_SETTINGS - RECEIPT_TEMPERATURE, out->settings + RECEIPT_TEMPERATURE) != 0)
        return -1;
    for (int i = RECEIPT_TEMPERATURE; i < RECEIPT_SETTINGS; i++)
        if (!(i == RECEIPT_TOP_K ? receipt_digits : receipt_decimal)(out->settings[i]))
            return complain(r->to, r->name, "%s is no number", receipt_setting_names[i]);
    return 0;
}

static int fill(const receipt_reader *r, json_t *root, receipt *out) {
    static const char *const fields[] = {"format", "bits", "arithmetic", "sampling",
                                         "model",  "made", "answers",    "sha256"};
    if (receipt_head_read(r, root, RECEIPT_FORMAT, fields, 8, &out->head) != 0 || settings_of(r, root, out) != 0)
        return -1;
    json_t *answers = receipt_array(r, root, "answers", -1, ANSWERS_MOST);
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
    const receipt_reader r = {name, to};
    *out = calloc(1, sizeof **out);
    if (*out == NULL)
        return complain(to, name, "out of memory");
    json_t *root = receipt_parse(&r, bytes, count);
    const int status = root != NULL ? fill(&r, root, *out) : -1;
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
    char *bytes = receipt_bytes(path, &count, to);
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
