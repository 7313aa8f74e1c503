/* Shapes: from words, presets and logs; and the classes that they fall into (tune.h).
 *
 * A class is a box: rows and keys within about a factor of four, units (key heads of the batch) in three sizes if there
 * are several threads, dimensions and limits as they are. What decides among tiles changes little within it, and the
 * proof on shapes near both ends of the box tells where it does.
 */
#include "registry.h"
#include "size.h"
#include "tune.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------------- presets -- */

typedef struct preset {
    const char *name, *shapes; /* parted by ; */
} preset;

static const preset presets[] = {
    {"bert-base", "q_heads=12 q_len=128 head_dim=64;q_heads=12 q_len=512 head_dim=64"},
    {"minilm", "q_heads=12 q_len=128 head_dim=32;q_heads=12 q_len=512 head_dim=32"},
    {"llama-8b", "q_heads=32 kv_heads=8 q_len=512 head_dim=128 causal=top_left;"
                 "q_heads=32 kv_heads=8 q_len=2048 head_dim=128 causal=top_left;"
                 "q_heads=32 kv_heads=8 q_len=1 kv_len=700 head_dim=128 causal=bottom_right;"
                 "q_heads=32 kv_heads=8 q_len=1 kv_len=3000 head_dim=128 causal=bottom_right"},
    {"whisper", "q_heads=20 q_len=1500 head_dim=64;q_heads=20 q_len=1 kv_len=1500 head_dim=64;"
                "q_heads=20 q_len=1 kv_len=224 head_dim=64 causal=bottom_right"},
    {"vit-l", "q_heads=16 q_len=577 head_dim=64"},
    {"gpt2", "q_heads=12 q_len=1024 head_dim=64 causal=top_left"},
};
static const char default_presets[] = "bert-base,minilm,llama-8b,whisper,vit-l";

/* --------------------------------------------------------------------------------------------------------- words -- */

static bool read_causal(const char *text, size_t length, int64_t *value) {
    static const char *const words[] = {"none", "top_left", "bottom_right", "offset"};
    for (int i = 0; i < 4; i++)
        if (strlen(words[i]) == length && memcmp(words[i], text, length) == 0) {
            *value = i;
            return true;
        }
    return false;
}

static bool read_number(const char *text, size_t length, int64_t *value) {
    char *end;
    errno = 0;
    *value = strtoll(text, &end, 10);
    return length > 0 && end == text + length && errno == 0;
}

bool tune_shape_read(const char *text, fovea_attention_desc *desc, char error[256]) {
    int64_t batch = 1, q_heads = 12, kv_heads = 0, q_len = 512, kv_len = -1, head_dim = 64, value_dim = 0, causal = 0;
    int64_t left = -1, right = -1, threads = 0;
    const struct {
        const char *name;
        int64_t *value;
    } words[] = {{"batch", &batch},      {"q_heads", &q_heads},    {"kv_heads", &kv_heads},   {"q_len", &q_len},
                 {"kv_len", &kv_len},    {"head_dim", &head_dim},  {"value_dim", &value_dim}, {"causal", &causal},
                 {"window_left", &left}, {"window_right", &right}, {"threads", &threads}};
    enum { WORDS = sizeof words / sizeof words[0] };
    text += strspn(text, " ");
    if (strncmp(text, "attention ", 10) == 0)
        text += 10;
    for (text += strspn(text, " ,\n"); *text; text += strspn(text, " ,\n")) {
        const size_t name = strcspn(text, "= ,\n"), length = strcspn(text, " ,\n");
        int i = 0;
        while (i < WORDS && (strlen(words[i].name) != name || memcmp(words[i].name, text, name) != 0))
            i++;
        if (i == WORDS || name == length) {
            snprintf(error, 256,
                     "\"%.*s\" is no word of a shape, as q_heads=12, batch, kv_heads, q_len, kv_len, head_dim, "
                     "value_dim, causal, window_left or window_right",
                     (int)length, text);
            return false;
        }
        const char *value = text + name + 1;
        const size_t rest = length - name - 1;
        if (words[i].value == &causal ? !read_causal(value, rest, &causal)
                                      : !read_number(value, rest, words[i].value)) {
            snprintf(error, 256, "\"%.*s\": a number is expected, or none, top_left, bottom_right, offset", (int)length,
                     text);
            return false;
        }
        text += length;
    }
    fovea_attention_desc_init(desc);
    desc->batch = batch;
    desc->q_heads = q_heads;
    desc->kv_heads = kv_heads ? kv_heads : q_heads;
    desc->q_len = q_len;
    desc->kv_len = kv_len >= 0 ? kv_len : q_len;
    desc->head_dim = head_dim;
    desc->value_dim = value_dim ? value_dim : head_dim;
    desc->causal = (fovea_causal)causal;
    desc->window_left = left;
    desc->window_right = right;
    if (fv_attention_check_desc(desc) != FOVEA_OK) {
        snprintf(error, 256, "%.250s", fovea_error_detail());
        return false;
    }
    return true;
}

const char *tune_shape_name(const fovea_attention_desc *d, char *text, size_t size) {
    int n = snprintf(text, size, "b%" PRId64 "_h%" PRId64, d->batch, d->q_heads);
    if (d->kv_heads != d->q_heads)
        n += snprintf(text + n, size - (size_t)n, "-%" PRId64, d->kv_heads);
    n +=
        snprintf(text + n, size - (size_t)n, "_q%" PRId64 "_kv%" PRId64 "_d%" PRId64, d->q_len, d->kv_len, d->head_dim);
    if (d->value_dim != d->head_dim)
        n += snprintf(text + n, size - (size_t)n, "-%" PRId64, d->value_dim);
    static const char *const causal[] = {"", "_causal", "_decode", "_offset"};
    snprintf(text + n, size - (size_t)n, "%s%s", causal[d->causal],
             d->window_left >= 0 || d->window_right >= 0 ? "_window" : "");
    return text;
}

/* ------------------------------------------------------------------------------------------------------- classes -- */

double tune_flops(const fovea_attention_desc *d) {
    double pairs = (double)d->q_len * (double)d->kv_len;
    if (d->causal == FOVEA_CAUSAL_TOP_LEFT || (d->causal != FOVEA_CAUSAL_NONE && d->q_len == d->kv_len))
        pairs /= 2;
    return 2.0 * (double)(d->head_dim + d->value_dim) * pairs * (double)(d->batch * d->q_heads);
}

double tune_bytes(const fovea_attention_desc *d) {
    const double keys = (double)(d->kv_heads * d->kv_len) * (double)(d->head_dim + d->value_dim);
    const double rows = (double)(d->q_heads * d->q_len) * (double)(d->head_dim + d->value_dim);
    return (double)sizeof(float) * (double)d->batch * (keys + rows);
}

static fv_interval interval_of(int64_t value, const int64_t *ends, int count, fv_interval range) {
    int64_t least = range.least;
    for (int i = 0; i < count; i++) {
        if (value <= ends[i])
            return (fv_interval){least, fv_min(ends[i], range.most)};
        least = ends[i] + 1;
    }
    return (fv_interval){least, range.most};
}

/* Units of a shape for measuring: enough that threads have work and operands are not all in the first cache, and so few
 * that an execution takes some milliseconds. */
static int64_t units_for(const tune_class *c, const fovea_attention_desc *one, int threads, fv_isa isa) {
    const double rate = 7e9 * fv_isa_lanes(isa) * threads, most = 0.004;
    const int64_t affordable = (int64_t)(most / (tune_flops(one) / rate));
    const fv_interval *range = &c->key[FV_KEY_units];
    const int64_t wanted = c->operation == FV_TUNING_attention_few ? 8 : 4 * (int64_t)threads;
    return fv_max(fv_min(fv_min(wanted, affordable), range->most), fv_max(range->least, 1));
}

static fovea_attention_desc sized(const tune_class *c, int64_t q_len, int64_t kv_len, int threads, fv_isa isa) {
    fovea_attention_desc d = c->search;
    const bool limited = c->key[FV_KEY_limited].least == 1;
    d.q_len = q_len;
    d.kv_len = kv_len;
    d.head_dim = c->key[FV_KEY_head_dim].least;
    d.value_dim = c->key[FV_KEY_value_dim].least;
    if (d.window_left < 0 && d.window_right < 0)
        d.causal = !limited ? FOVEA_CAUSAL_NONE : q_len == kv_len ? FOVEA_CAUSAL_TOP_LEFT : FOVEA_CAUSAL_BOTTOM_RIGHT;
    d.batch = d.kv_heads = 1;
    d.q_heads = c->group;
    d.kv_heads = units_for(c, &d, threads, isa);
    d.q_heads = c->group * d.kv_heads;
    return d;
}

/* Where a box has no end, half as much again as its least stands for it. */
static int64_t between(fv_interval range, double where) {
    const double least = (double)fv_max(range.least, 1);
    const double most = range.most < INT64_MAX ? (double)range.most : 1.5 * least;
    return (int64_t)floor(least * pow(most / least, where));
}

fovea_attention_desc tune_class_shape(const tune_class *c, double where, int threads, fv_isa isa) {
    const int64_t rows = between(c->key[FV_KEY_rows], where);
    int64_t q_len = fv_max(rows / c->group, 1), kv_len = between(c->key[FV_KEY_keys], where);
    if (c->square && q_len >= c->key[FV_KEY_keys].least && q_len <= c->key[FV_KEY_keys].most)
        kv_len = q_len;
    while (q_len * c->group < c->key[FV_KEY_rows].least)
        q_len++;
    return sized(c, q_len, kv_len, threads, isa);
}

static void name_class(tune_class *c) {
    const char *few = c->operation == FV_TUNING_attention_few ? "few rows" : "rows";
    char rows[48], keys[48];
    const fv_interval *r = &c->key[FV_KEY_rows], *k = &c->key[FV_KEY_keys];
    snprintf(rows, sizeof rows, r->most == INT64_MAX ? "%" PRId64 "+" : "%" PRId64 "-%" PRId64, r->least, r->most);
    snprintf(keys, sizeof keys, k->most == INT64_MAX ? "%" PRId64 "+" : "%" PRId64 "-%" PRId64, k->least, k->most);
    snprintf(c->name, sizeof c->name, "%s %s, keys %s, d%" PRId64 "%s", few, rows, keys, c->key[FV_KEY_head_dim].least,
             c->key[FV_KEY_limited].least ? ", causal" : "");
}

tune_class tune_class_of(const fovea_attention_desc *desc, int threads, fv_isa isa) {
    static const int64_t few[] = {1, 4, 8, FV_TUNING_FEW_ROWS}, rows[] = {64, 256, 1023},
                         keys[] = {64, 256, 1023, 4095};
    static const int64_t units[] = {1, 7};
    tune_class c = {.search = *desc, .group = desc->q_heads / desc->kv_heads, .square = desc->q_len == desc->kv_len};
    int64_t key[FV_TUNING_KEYS];
    c.operation = fv_tuning_of_attention(desc, key);
    const fv_tuning_key *table = fv_tuning_operations[c.operation].key;
    const bool is_few = c.operation == FV_TUNING_attention_few;
    for (int i = 0; i < FV_TUNING_KEYS; i++)
        c.key[i] = (fv_interval){key[i], key[i]};
    c.key[FV_KEY_rows] = interval_of(key[FV_KEY_rows], is_few ? few : rows, is_few ? 4 : 3, table[FV_KEY_rows].range);
    c.key[FV_KEY_keys] = interval_of(key[FV_KEY_keys], keys, 4, table[FV_KEY_keys].range);
    c.key[FV_KEY_units] =
        threads == 1 ? table[FV_KEY_units].range : interval_of(key[FV_KEY_units], units, 2, table[FV_KEY_units].range);
    const int64_t longest = 1024; /* rows for measuring: from there on it is the same again and again */
    const int64_t q_len = fv_max(fv_min(desc->q_len, longest / c.group), 1);
    int64_t kv_len = fv_min(desc->kv_len, fv_max(2 * longest, c.key[FV_KEY_keys].least));
    if (c.square && q_len >= c.key[FV_KEY_keys].least)
        kv_len = q_len;
    c.search = sized(&c, q_len, kv_len, threads, isa);
    name_class(&c);
    return c;
}

tune_class tune_class_of_row(const fv_tuning_row *row, fv_isa isa) {
    tune_class c = {.operation = row->operation, .group = 1};
    memcpy(c.key, row->key, sizeof c.key);
    fovea_attention_desc_init(&c.search);
    c.square = c.operation != FV_TUNING_attention_few;
    if (c.operation == FV_TUNING_attention_few)
        c.group = fv_max(c.key[FV_KEY_rows].least, 1);
    c.search = tune_class_shape(&c, 0.5, (int)row->threads, isa);
    name_class(&c);
    return c;
}

/* ----------------------------------------------------------------------------------------------------- all of them -- */

typedef struct list {
    tune_class *classes;
    int count, threads;
    fv_isa isa;
} list;

static bool same_class(const tune_class *a, const tune_class *b) {
    return a->operation == b->operation && memcmp(a->key, b->key, sizeof a->key) == 0;
}

static bool add(list *l, const char *text, const char *from) {
    fovea_attention_desc desc;
    char error[256];
    if (!tune_shape_read(text, &desc, error)) {
        fprintf(stderr, "fovea-tune: %s: %s\n", from, error);
        return false;
    }
    const tune_class c = tune_class_of(&desc, l->threads, l->isa);
    for (int i = 0; i < l->count; i++)
        if (same_class(&l->classes[i], &c))
            return true;
    tune_class *grown = realloc(l->classes, (size_t)(l->count + 1) * sizeof *grown);
    if (!grown)
        return false;
    l->classes = grown;
    l->classes[l->count++] = c;
    return true;
}

static bool add_parted(list *l, const char *shapes, const char *from) {
    char text[256];
    for (const char *at = shapes; *at; at += strspn(at, ";")) {
        const size_t length = strcspn(at, ";");
        snprintf(text, sizeof text, "%.*s", (int)length, at);
        if (!add(l, text, from))
            return false;
        at += length;
    }
    return true;
}

static bool add_presets(list *l, const char *names) {
    while (*names) {
        const size_t length = strcspn(names, ",");
        size_t i = 0;
        while (i < sizeof presets / sizeof presets[0] &&
               (strlen(presets[i].name) != length || memcmp(presets[i].name, names, length) != 0))
            i++;
        if (i == sizeof presets / sizeof presets[0]) {
            fprintf(stderr, "fovea-tune: no preset \"%.*s\"; there are", (int)length, names);
            for (i = 0; i < sizeof presets / sizeof presets[0]; i++)
                fprintf(stderr, " %s", presets[i].name);
            fputc('\n', stderr);
            return false;
        }
        if (!add_parted(l, presets[i].shapes, presets[i].name))
            return false;
        names += length + (names[length] == ',');
    }
    return true;
}

static bool add_log(list *l, const char *path) {
    FILE *file = fopen(path, "re");
    char line[512];
    bool ok = file != NULL;
    if (!file)
        fprintf(stderr, "fovea-tune: %s: %s\n", path, strerror(errno));
    while (ok && fgets(line, sizeof line, file))
        ok = line[0] == '\n' || add(l, line, path);
    if (file)
        fclose(file);
    return ok;
}

int tune_classes(const tune_options *options, int threads, fv_isa isa, tune_class **classes) {
    list l = {NULL, 0, threads, isa};
    bool ok = true;
    for (int i = 0; i < options->shape_count && ok; i++)
        ok = add(&l, options->shapes[i], "--shape");
    if (ok && options->log)
        ok = add_log(&l, options->log);
    if (ok && options->presets)
        ok = add_presets(&l, options->presets);
    if (ok && !options->shape_count && !options->log && !options->presets)
        ok = add_presets(&l, default_presets);
    *classes = l.classes;
    if (ok)
        return l.count;
    free(l.classes);
    *classes = NULL;
    return -1;
}
