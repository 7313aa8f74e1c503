/* receipt.h: writing. */
#include "receipt_json.h"

#include "whole_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const char *const receipt_setting_names[RECEIPT_SETTINGS] = {
    "type", "weights", "products", "keys", "values", "temperature", "top_k", "top_p", "min_p", "repetition_penalty"};

int receipt_seal(json_t *root, sha256_digest *digest) {
    json_t *rest = json_copy(root);
    json_object_del(rest, "sha256");
    char *text = json_dumps(rest, JSON_COMPACT | JSON_SORT_KEYS);
    const int status = text != NULL ? sha256_of(text, strlen(text), digest) : -1;
    free(text);
    json_decref(rest);
    return status;
}

static json_t *hex(const sha256_digest *digest) {
    char text[SHA256_HEX];
    sha256_hex(digest, text);
    return json_string(text);
}

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
        json_array_append_new(array, hex(&r->block[i]));
    return array;
}

/* A new object has all of its fields, or memory was short: then an array is too short, too. */
static void set(json_t *object, const char *key, json_t *value, bool *good) {
    *good = json_object_set_new(object, key, value) == 0 && *good;
}

static json_t *answer(const receipt_answer *a, bool *good) {
    char seed[RECEIPT_WORD];
    snprintf(seed, sizeof seed, "%" PRIu64, a->seed);
    json_t *prompt = json_object(), *o = json_object();
    set(prompt, "count", json_integer(a->prompt_count), good);
    set(prompt, "sha256", hex(&a->prompt_digest), good);
    set(prompt, "tokens", a->prompt != NULL ? integers(a->prompt, a->prompt_count) : json_null(), good);
    set(o, "prompt", prompt, good);
    set(o, "seed", json_string(seed), good);
    set(o, "tokens", integers(a->rows.tokens, a->rows.count), good);
    set(o, "rows", row_hashes(&a->rows), good);
    set(o, "blocks", blocks(&a->rows), good);
    set(o, "sha256", hex(&a->rows.all), good);
    *good = *good && (int64_t)json_array_size(json_object_get(o, "rows")) == a->rows.count &&
            (int64_t)json_array_size(json_object_get(o, "tokens")) == a->rows.count &&
            (int64_t)json_array_size(json_object_get(o, "blocks")) == a->rows.blocks;
    return o;
}

static json_t *whole(const receipt *r, bool *good) {
    json_t *root = json_object(), *arithmetic = json_object(), *sampling = json_object(), *model = json_object(),
           *made = json_object(), *answers = json_array();
    char seconds[RECEIPT_WORD];
    snprintf(seconds, sizeof seconds, "%.3f", r->seconds);
    for (int i = 0; i < RECEIPT_SETTINGS; i++)
        set(i < RECEIPT_TEMPERATURE ? arithmetic : sampling, receipt_setting_names[i], json_string(r->settings[i]),
            good);
    set(model, "arrays", hex(&r->model.arrays), good);
    set(model, "weights", hex(&r->model.weights), good);
    set(model, "settings", hex(&r->model.settings), good);
    set(model, "tokenizer", hex(&r->model.tokenizer), good);
    set(model, "template", hex(&r->model.template), good);
    set(made, "seconds", json_string(seconds), good);
    set(made, "by", json_string("fovea-generate " FOVEA_VERSION_STRING), good);
    for (int64_t i = 0; i < r->count; i++)
        *good = json_array_append_new(answers, answer(&r->answers[i], good)) == 0 && *good;
    set(root, "format", json_string(RECEIPT_FORMAT), good);
    set(root, "bits", json_integer(r->bits), good);
    set(root, "arithmetic", arithmetic, good);
    set(root, "sampling", sampling, good);
    set(root, "model", model, good);
    set(root, "made", made, good);
    set(root, "answers", answers, good);
    sha256_digest seal;
    *good = *good && receipt_seal(root, &seal) == 0;
    if (*good)
        set(root, "sha256", hex(&seal), good);
    return root;
}

int receipt_write(const receipt *r, const char *path, bool force, complaint to) {
    bool good = true;
    json_t *root = whole(r, &good);
    char *text = good ? json_dumps(root, JSON_INDENT(1)) : NULL;
    json_decref(root);
    if (text == NULL)
        return complain(to, path, "out of memory");
    whole_file o;
    const int64_t count = (int64_t)strlen(text);
    int status = whole_file_begin(&o, path, count + 1, force, to);
    if (status == 0) {
        if (whole_file_write(&o, text, count, to) != 0 || whole_file_write(&o, "\n", 1, to) != 0 ||
            whole_file_finish(&o, to) != 0 || whole_file_rename(&o, to) != 0) {
            whole_file_drop(&o);
            status = -1;
        }
    }
    free(text);
    return status;
}
