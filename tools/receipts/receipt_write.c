/* receipt.h: writing. */
#include "receipt_json.h"

#include <inttypes.h>
#include <string.h>

const char *const receipt_setting_names[RECEIPT_SETTINGS] = {
    "type", "weights", "products", "keys", "values", "temperature", "top_k", "top_p", "min_p", "repetition_penalty"};

static json_t *integers(const int32_t *values, int64_t count) {
    json_t *array = json_array();
    for (int64_t i = 0; i < count; i++)
        json_array_append_new(array, json_integer(values[i]));
    return array;
}

static json_t *row_hashes(const receipt_rows *r) {
    json_t *array = json_array();
    for (int64_t i = 0; i < r->count; i++) {
        char text[17];
        snprintf(text, sizeof text, "%016" PRIx64, r->hashes[i]);
        json_array_append_new(array, json_string(text));
    }
    return array;
}

static json_t *blocks(const receipt_rows *r) {
    json_t *array = json_array();
    for (int64_t i = 0; i < r->blocks; i++)
        json_array_append_new(array, receipt_hex_of(&r->block[i]));
    return array;
}

static json_t *answer(const receipt_answer *a, bool *good) {
    char seed[RECEIPT_WORD];
    snprintf(seed, sizeof seed, "%" PRIu64, a->seed);
    json_t *prompt = json_object(), *o = json_object();
    receipt_set(prompt, "count", json_integer(a->prompt_count), good);
    receipt_set(prompt, "sha256", receipt_hex_of(&a->prompt_digest), good);
    receipt_set(prompt, "tokens", a->prompt != NULL ? integers(a->prompt, a->prompt_count) : json_null(), good);
    receipt_set(o, "prompt", prompt, good);
    receipt_set(o, "seed", json_string(seed), good);
    receipt_set(o, "tokens", integers(a->rows.tokens, a->rows.count), good);
    receipt_set(o, "rows", row_hashes(&a->rows), good);
    receipt_set(o, "blocks", blocks(&a->rows), good);
    receipt_set(o, "sha256", receipt_hex_of(&a->rows.all), good);
    *good = *good && (int64_t)json_array_size(json_object_get(o, "rows")) == a->rows.count &&
            (int64_t)json_array_size(json_object_get(o, "tokens")) == a->rows.count &&
            (int64_t)json_array_size(json_object_get(o, "blocks")) == a->rows.blocks;
    return o;
}

int receipt_write(const receipt *r, const char *path, complaint to) {
    bool good = true;
    json_t *root = json_object(), *answers = json_array();
    receipt_set_head(root, RECEIPT_FORMAT, "fovea-generate " FOVEA_VERSION_STRING, &r->head, &good);
    receipt_set_words(root, "arithmetic", receipt_setting_names, RECEIPT_TEMPERATURE,
                      (const char(*)[RECEIPT_WORD])r->settings, &good);
    receipt_set_words(root, "sampling", receipt_setting_names + RECEIPT_TEMPERATURE,
                      RECEIPT_SETTINGS - RECEIPT_TEMPERATURE,
                      (const char(*)[RECEIPT_WORD])(r->settings + RECEIPT_TEMPERATURE), &good);
    for (int64_t i = 0; i < r->count; i++)
        good = json_array_append_new(answers, answer(&r->answers[i], &good)) == 0 && good;
    receipt_set(root, "answers", answers, &good);
    return receipt_finish(root, good, path, to);
}
