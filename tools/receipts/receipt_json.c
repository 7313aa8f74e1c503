/* receipt_json.h. */
#include "receipt_json.h"

#include "text_file.h"
#include "whole_file.h"

#include <stdlib.h>
#include <string.h>

enum { FILE_MOST = 1 << 28 };

/* ------------------------------------------------------------------------------------------------------- reading -- */

char *receipt_bytes(const char *path, int64_t *count, complaint to) {
    return text_file_read(path, FILE_MOST, count, to);
}

json_t *receipt_parse(const receipt_reader *r, const char *bytes, size_t count) {
    json_error_t error;
    json_t *root = json_loadb(bytes, count, JSON_REJECT_DUPLICATES, &error);
    complain(r->to, r->name, "out of memory"); /* unless it is something else */
    if (root == NULL)
        complain(r->to, r->name, "is no JSON: %s", error.text);
    return root;
}

/* Characters from that one to the last that ASCII prints. */
static bool ascii(const char *text, char first) {
    while (*text >= first && *text <= '~')
        text++;
    return *text == '\0';
}

/* The object of that name in another, with these fields and no others; NULL after a complaint. */
json_t *receipt_object(const receipt_reader *r, json_t *in, const char *name, const char *const *fields, int count) {
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
            complain(r->to, r->name, "%s has the field %.40s, which is unknown", what, ascii(key, '!') ? key : "?");
            return NULL;
        }
    }
    return o;
}

int receipt_hex(const receipt_reader *r, json_t *in, const char *name, sha256_digest *digest) {
    const char *text = json_string_value(json_object_get(in, name));
    return text != NULL && sha256_read(text, digest) ? 0 : complain(r->to, r->name, "%s is no SHA-256", name);
}

/* An array of that many elements, or any number if it is negative. */
json_t *receipt_array(const receipt_reader *r, json_t *in, const char *name, int64_t count, int64_t most) {
    json_t *array = json_object_get(in, name);
    const int64_t found = (int64_t)json_array_size(array);
    if (json_is_array(array) && found <= most && (count < 0 || found == count))
        return array;
    complain(r->to, r->name, "%s is no array, or one of another length", name);
    return NULL;
}

int receipt_words(const receipt_reader *r, json_t *root, const char *name, const char *const *fields, int count,
                  char (*words)[RECEIPT_WORD]) {
    json_t *in = receipt_object(r, root, name, fields, count);
    for (int i = 0; in != NULL && i < count; i++) {
        const char *text = json_string_value(json_object_get(in, fields[i]));
        if (text == NULL || strlen(text) >= RECEIPT_WORD || !ascii(text, '!'))
            return complain(r->to, r->name, "%s is no word", fields[i]);
        strcpy(words[i], text);
    }
    return in != NULL ? 0 : -1;
}

/* Behind at least one digit; NULL: there is none. */
static const char *behind_digits(const char *text) {
    const size_t count = strspn(text, "0123456789");
    return count > 0 ? text + count : NULL;
}

static bool ends(const char *text, const char *at) { return at != NULL && *at == '\0' && at - text < RECEIPT_WORD; }

bool receipt_digits(const char *text) { return ends(text, behind_digits(text)); }

bool receipt_decimal(const char *text) {
    const char *at = behind_digits(text);
    if (at != NULL && *at == '.')
        at = behind_digits(at + 1);
    if (at != NULL && *at == 'e')
        at = behind_digits(at + (at[1] == '-' || at[1] == '+' ? 2 : 1));
    return ends(text, at);
}

static const char *const model_fields[] = {"arrays", "weights", "settings", "tokenizer", "template"};
enum { MODEL_FIELDS = 5 };

static int model_of(const receipt_reader *r, json_t *root, model_digest *m) {
    sha256_digest *const digests[] = {&m->arrays, &m->weights, &m->settings, &m->tokenizer, &m->template};
    json_t *o = receipt_object(r, root, "model", model_fields, MODEL_FIELDS);
    for (int i = 0; o != NULL && i < MODEL_FIELDS; i++)
        if (receipt_hex(r, o, model_fields[i], digests[i]) != 0)
            return -1;
    return o != NULL ? 0 : -1;
}

static int made_of(const receipt_reader *r, json_t *root, double *seconds) {
    static const char *const fields[] = {"seconds", "by"};
    json_t *o = receipt_object(r, root, "made", fields, 2);
    const char *text = o != NULL ? json_string_value(json_object_get(o, "seconds")) : NULL;
    const char *by = o != NULL ? json_string_value(json_object_get(o, "by")) : NULL;
    if (o == NULL)
        return -1;
    if (by == NULL || !ascii(by, ' '))
        return complain(r->to, r->name, "made.by is no ASCII text");
    *seconds = text != NULL && receipt_decimal(text) ? strtod(text, NULL) : -1.0;
    return *seconds >= 0.0 && *seconds < 1e12 ? 0 : complain(r->to, r->name, "made.seconds is no number");
}

static int seal(json_t *root, sha256_digest *digest) {
    json_t *rest = json_copy(root);
    json_object_del(rest, "sha256");
    json_object_del(rest, "texts"); /* each has a digest of its own */
    char *text = json_dumps(rest, JSON_COMPACT | JSON_SORT_KEYS);
    const int status = text != NULL ? sha256_of(text, strlen(text), digest) : -1;
    free(text);
    json_decref(rest);
    return status;
}

int receipt_head_read(const receipt_reader *r, json_t *root, const char *format, const char *const *fields, int count,
                      receipt_head *head) {
    const char *found = json_string_value(json_object_get(root, "format"));
    sha256_digest stated, own;
    if (found == NULL || strcmp(found, format) != 0)
        return complain(r->to, r->name, "is no receipt of the format \"%s\"", format);
    if (receipt_object(r, root, NULL, fields, count) == NULL || receipt_hex(r, root, "sha256", &stated) != 0)
        return -1;
    if (seal(root, &own) != 0)
        return complain(r->to, r->name, "out of memory");
    head->changed = !sha256_equal(&stated, &own);
    head->bits = json_integer_value(json_object_get(root, "bits"));
    return model_of(r, root, &head->model) != 0 ? -1 : made_of(r, root, &head->seconds);
}

/* ------------------------------------------------------------------------------------------------------- writing -- */

json_t *receipt_hex_of(const sha256_digest *digest) {
    char text[SHA256_HEX];
    sha256_hex(digest, text);
    return json_string(text);
}

/* A new object has all of its fields, or memory was short: then an array is too short, too. */
void receipt_set(json_t *object, const char *key, json_t *value, bool *good) {
    *good = json_object_set_new(object, key, value) == 0 && *good;
}

void receipt_set_words(json_t *root, const char *name, const char *const *fields, int count,
                       const char (*words)[RECEIPT_WORD], bool *good) {
    json_t *o = json_object();
    for (int i = 0; i < count; i++)
        receipt_set(o, fields[i], json_string(words[i]), good);
    receipt_set(root, name, o, good);
}

static json_t *model_json(const model_digest *m, bool *good) {
    const sha256_digest *const digests[] = {&m->arrays, &m->weights, &m->settings, &m->tokenizer, &m->template};
    json_t *o = json_object();
    for (int i = 0; i < MODEL_FIELDS; i++)
        receipt_set(o, model_fields[i], receipt_hex_of(digests[i]), good);
    return o;
}

void receipt_set_head(json_t *root, const char *format, const char *by, const receipt_head *head, bool *good) {
    char seconds[RECEIPT_WORD];
    json_t *made = json_object();
    snprintf(seconds, sizeof seconds, "%.3f", head->seconds);
    receipt_set(made, "seconds", json_string(seconds), good);
    receipt_set(made, "by", json_string(by), good);
    receipt_set(root, "format", json_string(format), good);
    receipt_set(root, "bits", json_integer(head->bits), good);
    receipt_set(root, "model", model_json(&head->model, good), good);
    receipt_set(root, "made", made, good);
}

static int write_text(const char *text, const char *path, complaint to) {
    const int64_t count = (int64_t)strlen(text);
    whole_file o;
    if (whole_file_begin(&o, path, count + 1, false, to) != 0)
        return -1;
    if (whole_file_write(&o, text, count, to) == 0 && whole_file_write(&o, "\n", 1, to) == 0 &&
        whole_file_finish(&o, to) == 0 && whole_file_rename(&o, to) == 0)
        return 0;
    whole_file_drop(&o);
    return -1;
}

int receipt_finish(json_t *root, bool good, const char *path, complaint to) {
    sha256_digest own;
    if (good && seal(root, &own) == 0)
        receipt_set(root, "sha256", receipt_hex_of(&own), &good);
    else
        good = false;
    char *text = good ? json_dumps(root, JSON_INDENT(1)) : NULL;
    json_decref(root);
    const int status = text != NULL ? write_text(text, path, to) : complain(to, path, "out of memory");
    free(text);
    return status;
}

int receipt_writable(const char *path, complaint to) {
    whole_file o;
    if (whole_file_begin(&o, path, 1, false, to) != 0)
        return -1;
    whole_file_drop(&o);
    return 0;
}
