/* Shapes: from words, presets and logs. */
#include "shapes.h"
#include "attention/attention.h"
#include "core/core.h"
#include "model.h"
#include "plural.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------------- presets -- */

typedef struct preset {
    const char *name, *shapes; /* parted by ; dtype=*: each type of quantized weights */
} preset;

/* Each model's attentions and linear maps: projections and MLP, with as many rows as the attention. */
static const preset presets[] = {
    {"bert-base", "q_heads=12 q_len=128 head_dim=64;q_heads=12 q_len=512 head_dim=64;"
                  "linear rows=128 in=768 out=2304;linear rows=512 in=768 out=768;linear rows=512 in=768 out=3072;"
                  "linear rows=128 in=3072 out=768;linear rows=512 in=3072 out=768"},
    {"minilm", "q_heads=12 q_len=128 head_dim=32;q_heads=12 q_len=512 head_dim=32;linear rows=128 in=384 out=1152;"
               "linear rows=512 in=384 out=1536;linear rows=128 in=1536 out=384"},
    {"llama-8b", "q_heads=32 kv_heads=8 q_len=512 head_dim=128 causal=top_left;"
                 "q_heads=32 kv_heads=8 q_len=2048 head_dim=128 causal=top_left;"
                 "q_heads=32 kv_heads=8 q_len=1 kv_len=700 head_dim=128 causal=bottom_right;"
                 "q_heads=32 kv_heads=8 q_len=1 kv_len=3000 head_dim=128 causal=bottom_right;"
                 "linear rows=512 in=4096 out=6144;linear rows=512 in=4096 out=14336;"
                 "linear rows=512 in=14336 out=4096;linear rows=1 in=4096 out=14336;linear rows=8 in=4096 out=6144;"
                 "linear rows=1 in=14336 out=4096"},
    {"llama-8b-quantized",
     "q_heads=32 kv_heads=8 q_len=1 kv_len=3000 head_dim=128 causal=bottom_right k_dtype=bf16 v_dtype=bf16;"
     "q_heads=32 kv_heads=8 q_len=1 kv_len=3000 head_dim=128 causal=bottom_right k_dtype=f16 v_dtype=f16;"
     "q_heads=32 kv_heads=8 q_len=1 kv_len=3000 head_dim=128 causal=bottom_right k_dtype=i8 v_dtype=i8;"
     "q_heads=32 kv_heads=8 q_len=1 kv_len=3000 head_dim=128 causal=bottom_right k_dtype=i4 v_dtype=i4;"
     "q_heads=32 kv_heads=8 q_len=512 head_dim=128 causal=top_left dtype=bf16;"
     "linear rows=1 in=4096 out=14336 dtype=bf16;linear rows=512 in=4096 out=14336 dtype=bf16;"
     "linear rows=1 in=4096 out=14336 dtype=*;linear rows=4 in=4096 out=14336 dtype=*;"
     "linear rows=32 in=4096 out=14336 dtype=*;linear rows=512 in=4096 out=14336 dtype=*"},
    {"smollm2", "q_heads=9 kv_heads=3 q_len=1 kv_len=200 head_dim=64 causal=bottom_right dtype=bf16;"
                "q_heads=9 kv_heads=3 q_len=1 kv_len=700 head_dim=64 causal=bottom_right dtype=bf16;"
                "q_heads=9 kv_heads=3 q_len=1 kv_len=2000 head_dim=64 causal=bottom_right dtype=bf16;"
                "linear rows=1 in=576 out=960 dtype=bf16;linear rows=1 in=576 out=3072 dtype=bf16;"
                "linear rows=1 in=1536 out=576 dtype=bf16;linear rows=1 in=576 out=49152 dtype=bf16"},
    {"whisper", "q_heads=20 q_len=1500 head_dim=64;q_heads=20 q_len=1 kv_len=1500 head_dim=64;"
                "q_heads=20 q_len=1 kv_len=224 head_dim=64 causal=bottom_right;linear rows=1500 in=1280 out=3840;"
                "linear rows=1500 in=5120 out=1280;linear rows=1 in=1280 out=5120;linear rows=5 in=1280 out=1280"},
    {"vit-l", "q_heads=16 q_len=577 head_dim=64;linear rows=577 in=1024 out=3072;linear rows=577 in=4096 out=1024"},
    {"gpt2", "q_heads=12 q_len=1024 head_dim=64 causal=top_left;linear rows=1024 in=768 out=2304;"
             "linear rows=1024 in=3072 out=768"},
};
static const char default_presets[] = "bert-base,minilm,llama-8b,llama-8b-quantized,whisper,vit-l";

/* --------------------------------------------------------------------------------------------------------- words -- */

/* Reads words, of which there must be some. */
static bool read_words(const char *text, const cli_key *keys, const char *example, char error[CLI_WORDS_ERROR]) {
    const int count = cli_read_words(text, keys, error);
    if (count == 0)
        snprintf(error, CLI_WORDS_ERROR, "a shape needs words, as in: %s", example);
    return count > 0;
}

static bool read_linear(const char *text, tune_shape *shape, char error[CLI_WORDS_ERROR]) {
    const int64_t most = (int64_t)1 << 40;
    int64_t threads = 0; /* of a log: another matter */
    int64_t dtype = 0;
    *shape = (tune_shape){.linear = true, .rows = 1, .in = 768, .out = 768};
    const cli_key keys[] = {{"rows", NULL, 1, most, &shape->rows},
                            {"in", NULL, 1, most, &shape->in},
                            {"out", NULL, 1, most, &shape->out},
                            {"dtype", fv_weight_dtype_words, 0, 0, &dtype},
                            {"threads", NULL, INT64_MIN, INT64_MAX, &threads},
                            {NULL, NULL, 0, 0, NULL}};
    const bool read = read_words(text, keys, "linear rows=8 in=768 out=768", error);
    shape->dtype = fv_dtype_of_word[dtype];
    return read;
}

bool tune_shape_read(const char *text, tune_shape *shape, char error[CLI_WORDS_ERROR]) {
    text += strspn(text, CLI_BLANKS);
    if (strncmp(text, "linear ", 7) == 0)
        return read_linear(text + 7, shape, error);
    int64_t causal = 0, masked = 0, packed = 0, threads = 0, dtype = 0, types[3] = {-1, -1, -1}, arithmetic = 0;
    /* Fields of the description, whose keys have their names; the library itself says what is wrong with a shape. */
#define FOVEA_DESC_SHAPE(name, initial, least, most, status, text) int64_t name;
    struct {
#include "fovea/fields.inc"
    } d = {
        .batch = 1, .q_heads = 12, .q_len = 512, .kv_len = -1, .head_dim = 64, .window_left = -1, .window_right = -1};
    const cli_key keys[] = {
#define FOVEA_DESC_SHAPE(name, initial, least, most, status, text) {#name, NULL, INT64_MIN, INT64_MAX, &d.name},
#include "fovea/fields.inc"
        {"causal", fv_causal_words, 0, 0, &causal},
        {"masked", NULL, 0, 1, &masked},
        {"packed", NULL, 0, 1, &packed},
        {"dtype", fv_dtype_words, 0, 0, &dtype},
        {"arithmetic", fv_arithmetic_words, 0, 0, &arithmetic},
        {"k_dtype", fv_kv_dtype_words, 0, 0, &types[0]},
        {"v_dtype", fv_kv_dtype_words, 0, 0, &types[1]},
        {"out_dtype", fv_dtype_words, 0, 0, &types[2]},
        {"threads", NULL, INT64_MIN, INT64_MAX, &threads},
        {NULL, NULL, 0, 0, NULL}};
    if (strncmp(text, "attention ", 10) == 0)
        text += 10;
    if (!read_words(text, keys, "q_heads=12 q_len=512 head_dim=64, or linear rows=8 in=768 out=768", error))
        return false;
    *shape = (tune_shape){.linear = false};
    fovea_attention_desc *desc = &shape->attention;
    fovea_attention_desc_init(desc);
    fovea_dtype *const dtypes[] = {&desc->k_dtype, &desc->v_dtype, &desc->out_dtype};
    desc->dtype = fv_dtype_of_word[dtype];
    desc->arithmetic = (fovea_arithmetic)arithmetic;
    for (int i = 0; i < 3; i++)
        *dtypes[i] = types[i] >= 0 ? fv_kv_dtype_of_word[types[i]] : desc->dtype;
    d.kv_heads = d.kv_heads ? d.kv_heads : d.q_heads;
    d.kv_len = d.kv_len >= 0 ? d.kv_len : d.q_len;
    d.value_dim = d.value_dim ? d.value_dim : d.head_dim;
#define FOVEA_DESC_SHAPE(name, initial, least, most, status, text) desc->name = d.name;
#include "fovea/fields.inc"
    desc->causal = (fovea_causal)causal;
    desc->mask = masked ? FOVEA_MASK_RANGES : FOVEA_MASK_NONE; /* which stands for all kinds */
    desc->packed = (int)packed;
    if (fv_dtype_paged(desc->k_dtype) || fv_dtype_paged(desc->v_dtype))
        desc->page_keys = FOVEA_KV_PAGE_KEYS;
    fovea_attention_desc checked;
    if (fv_attention_read_desc(desc, &checked) != FOVEA_OK) {
        snprintf(error, CLI_WORDS_ERROR, "%.250s", fovea_error_detail());
        return false;
    }
    const bool empty = fv_attention_empty(desc);
    if (empty)
        snprintf(error, CLI_WORDS_ERROR,
                 "batch, q_heads or q_len is 0: there is nothing to compute, so nothing to tune");
    return !empty;
}

/* "_bf16"; float32 goes without saying. */
static const char *type_suffix(fovea_dtype dtype, char text[8]) {
    text[0] = '\0';
    if (dtype != FOVEA_DTYPE_F32)
        snprintf(text, 8, "_%s", fv_dtype_word(dtype));
    return text;
}

const char *tune_shape_name(const tune_shape *shape, char *text, size_t size) {
    char type[8];
    if (shape->linear) {
        snprintf(text, size, "r%" PRId64 "_in%" PRId64 "_out%" PRId64 "%s", shape->rows, shape->in, shape->out,
                 type_suffix(shape->dtype, type));
        return text;
    }
    const fovea_attention_desc *d = &shape->attention;
    int n = snprintf(text, size, "b%" PRId64 "_h%" PRId64, d->batch, d->q_heads);
    if (d->kv_heads != d->q_heads)
        n += snprintf(text + n, size - (size_t)n, "-%" PRId64, d->kv_heads);
    n +=
        snprintf(text + n, size - (size_t)n, "_q%" PRId64 "_kv%" PRId64 "_d%" PRId64, d->q_len, d->kv_len, d->head_dim);
    if (d->value_dim != d->head_dim)
        n += snprintf(text + n, size - (size_t)n, "-%" PRId64, d->value_dim);
    static const char *const causal[] = {"", "_causal", "_decode", "_offset"};
    snprintf(text + n, size - (size_t)n, "%s%s%s%s%s%s%s", causal[d->causal],
             d->window_left >= 0 || d->window_right >= 0 ? "_window" : "", d->mask ? "_masked" : "",
             d->packed ? "_packed" : "", type_suffix(d->k_dtype, type), d->arithmetic ? "_as_" : "",
             d->arithmetic ? fovea_arithmetic_name(d->arithmetic) : "");
    return text;
}

fv_tuning_op tune_shape_keys(const tune_shape *shape, int64_t key[FV_TUNING_KEYS]) {
    return shape->linear ? fv_linear_tuning_keys(shape->dtype, shape->rows, shape->in, shape->out, key)
                         : fv_attention_tuning_keys(&shape->attention, key);
}

double tune_flops(const tune_shape *shape) {
    const fovea_attention_desc *d = &shape->attention;
    if (shape->linear)
        return 2.0 * (double)shape->rows * (double)shape->in * (double)shape->out;
    const double pairs = fv_attention_pairs(d) / (d->mask ? TUNE_DOCUMENTS : 1);
    return 2.0 * (double)(d->head_dim + d->value_dim) * pairs * (double)(d->batch * d->q_heads);
}

double tune_bytes(const tune_shape *shape) {
    const fovea_attention_desc *d = &shape->attention;
    if (shape->linear)
        return (double)fv_dtype_bytes(shape->dtype, shape->in * shape->out) +
               (double)fv_dtype_size(tune_x_dtype(shape)) * (double)shape->rows *
                   ((double)shape->in + (double)shape->out);
    const double keys = (double)(d->kv_heads * fv_attention_keys(d));
    const double rows = (double)(d->q_heads * d->q_len) * (double)(d->head_dim + d->value_dim);
    return (double)d->batch * ((double)fv_dtype_bytes(d->k_dtype, d->head_dim + d->value_dim) * keys +
                               (double)fv_dtype_size(d->dtype) * rows);
}

double tune_work(const tune_shape *shape) {
    int64_t key[FV_TUNING_KEYS];
    return tune_is_cold(tune_shape_keys(shape, key)) ? tune_bytes(shape) : tune_flops(shape);
}

/* --------------------------------------------------------------------------------------------------- all of them -- */

typedef struct list {
    tune_shape *shapes;
    int count;
} list;

static bool add(void *to, const char *text, const char *from) {
    list *l = to;
    tune_shape shape;
    char error[CLI_WORDS_ERROR];
    if (!tune_shape_read(text, &shape, error)) {
        fprintf(stderr, "fovea-tune: %s: %s\n", from, error);
        return false;
    }
    tune_shape *grown = realloc(l->shapes, (size_t)(l->count + 1) * sizeof *grown);
    if (!grown)
        return false;
    l->shapes = grown;
    l->shapes[l->count++] = shape;
    return true;
}

static bool add_each_type(void *to, const char *text, const char *from) {
    for (int i = 0; fv_weight_dtype_words[i]; i++) {
        char words[256];
        snprintf(words, sizeof words, "%.*s%s", (int)strcspn(text, "*"), text, fv_weight_dtype_words[i]);
        if (fv_dtype_quantized(fv_dtype_of_word[i]) && !add(to, words, from))
            return false;
    }
    return true;
}

static bool add_parted(list *l, const char *shapes, const char *from) {
    char text[256];
    for (const char *at = shapes; *at; at += strspn(at, ";")) {
        const size_t length = strcspn(at, ";");
        snprintf(text, sizeof text, "%.*s", (int)length, at);
        if (!(strchr(text, '*') ? add_each_type : add)(l, text, from))
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
            fprintf(stderr, "fovea-tune: there is no preset \"%.*s\"; presets are", (int)length, names);
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

/* The lines of a log. Blank lines and those with NULs, which a crash may leave at the end of a file, are skipped; what
 * is text must be a shape. */
static bool add_lines(list *l, char *text, size_t length, const char *path) {
    char from[FV_FILE_ERROR];
    int line = 0, skipped = 0, first = 0;
    for (char *at = text; at < text + length; line++) {
        char *end = memchr(at, '\n', (size_t)(text + length - at));
        const size_t size = end ? (size_t)(end - at) : (size_t)(text + length - at);
        at[size] = '\0';
        snprintf(from, sizeof from, "%.400s line %d", path, line + 1);
        if (strlen(at) != size || strspn(at, CLI_BLANKS) == size) {
            first = skipped++ ? first : line + 1;
        } else if (!add(l, at, from))
            return false;
        at += size + 1;
    }
    if (skipped > 0)
        fprintf(stderr, "fovea-tune: %s: skipped %d of %d line%s, blank or not text; the first is line %d\n", path,
                skipped, line, plural(line), first);
    return true;
}

static bool add_log(list *l, const char *path) {
    enum { MOST = 1 << 24 }; /* several times what the library writes into one log */
    char error[FV_FILE_ERROR];
    size_t length;
    bool absent;
    char *text = malloc(MOST + 1);
    const int before = l->count;
    bool ok = text != NULL;
    if (!ok)
        fprintf(stderr, "fovea-tune: out of memory\n");
    else if (fv_file_read(path, text, MOST, &length, &absent, error) != FOVEA_OK) {
        fprintf(stderr, "fovea-tune: %s\n", error);
        ok = false;
    } else
        ok = add_lines(l, text, length, path);
    if (ok && l->count == before) {
        fprintf(stderr, "fovea-tune: %s: it contains no shapes\n", path);
        ok = false;
    }
    free(text);
    return ok;
}

int tune_shapes(const tune_options *options, tune_shape **shapes) {
    list l = {NULL, 0};
    bool ok = true;
    for (int i = 0; i < options->shapes.count && ok; i++)
        ok = add(&l, options->shapes.text[i], "--shape");
    if (ok && options->log)
        ok = add_log(&l, options->log);
    if (ok && options->model)
        ok = tune_model_shapes(options->model, add, &l);
    if (ok && options->presets)
        ok = add_presets(&l, options->presets);
    if (ok && !options->shapes.count && !options->log && !options->model && !options->presets)
        ok = add_presets(&l, default_presets);
    *shapes = l.shapes;
    if (ok)
        return l.count;
    free(l.shapes);
    *shapes = NULL;
    return -1;
}
