/* convert.h. */
#include "convert.h"

#include "progress.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MEGABYTE = 1 << 20, PIECE = 16 * MEGABYTE };

/* The sum of the lines about tensors. */
typedef struct summary {
    const char *worst;
    double relative;
    int64_t before, after, types[TYPES];
} summary;

typedef struct conversion {
    const options *opts;
    const arrays *a;
    const fovea_context *ctx;
    whole_file *o;
    complaint to;
    progress bar;
    summary sum;
} conversion;

/* A tensor on its way, with room for a piece: as it is in the file, as floats, and as what it becomes. */
typedef struct passage {
    const array *t;
    int64_t rows; /* of a piece */
    char *from, *data, *scales;
    float *floats;
    double max, errors, given; /* sums of squares */
} passage;

static int64_t at_least(int64_t a, int64_t b) { return a > b ? a : b; }

static double squares(fovea_dtype dtype, const void *values, int64_t count) {
    enum { SOME = 4096 };
    float some[SOME];
    double sum = 0;
    const int64_t size = dtype == FOVEA_DTYPE_F32 ? 4 : 2;
    for (int64_t i = 0; i < count; i += SOME) {
        const int64_t n = count - i < SOME ? count - i : SOME;
        (void)fovea_convert(n, (const char *)values + i * size, dtype, some, FOVEA_DTYPE_F32);
        for (int64_t k = 0; k < n; k++)
            sum += (double)some[k] * some[k];
    }
    return sum;
}

/* Rows [first, first + count). */
static int quantize(conversion *c, passage *p, int64_t first, int64_t count) {
    const array *t = p->t;
    const fovea_dtype stored = array_dtype(t), dtype = stored != 0 ? stored : FOVEA_DTYPE_F32;
    const int64_t data = (int64_t)t->data / t->rows * count, scales = (int64_t)t->scales / t->rows;
    fovea_quantize_options how;
    fovea_quantize_stats error;
    if (stored == 0 &&
        gguf_to_f32(c->ctx, t->in_gguf->type, (const uint8_t *)p->from, count, t->columns, p->floats) != FOVEA_OK)
        return complain(c->to, weights_path(c->a->w), "%s: %s", t->name, fovea_error_detail());
    const void *values = stored != 0 ? (const void *)p->from : p->floats;
    const fovea_matrix matrix = fovea_matrix_out_in(values, dtype, count, t->columns);
    fovea_quantize_options_init(&how);
    fovea_quantize_stats_init(&error);
    how.group_size = c->opts->group_size;
    how.search = c->opts->search;
    if (fovea_quantize(c->ctx, &matrix, type_dtype(t->type), &how, p->data, p->scales + first * scales, &error) !=
        FOVEA_OK) {
        char rows[64] = "";
        if (first > 0)
            snprintf(rows, sizeof rows, ", rows from %lld on", (long long)first);
        return complain(c->to, weights_path(c->a->w), "%s%s: %s", t->name, rows, fovea_error_detail());
    }
    p->max = fmax(p->max, error.max);
    p->errors += error.rms * error.rms * (double)(count * t->columns);
    p->given += squares(dtype, values, count * t->columns);
    return whole_file_write(c->o, p->data, data, c->to);
}

static int pass(conversion *c, passage *p) {
    const array *t = p->t;
    const int64_t row = t->rows > 0 ? t->bytes / t->rows : 0;
    int status = 0;
    for (int64_t first = 0, count; first < t->rows && status == 0; first += count) {
        count = t->rows - first < p->rows ? t->rows - first : p->rows;
        status = arrays_read(c->a, t, first * row, count * row, p->from, c->to);
        if (status == 0)
            status = t->type == TYPE_KEEP ? whole_file_write(c->o, p->from, count * row, c->to)
                                          : quantize(c, p, first, count);
        c->sum.before += count * row;
        progress_show(&c->bar, c->sum.before / MEGABYTE);
    }
    if (status == 0 && t->type != TYPE_KEEP && t->scales > 0)
        status = whole_file_write(c->o, p->scales, (int64_t)t->scales, c->to);
    return status;
}

static void tell(conversion *c, const passage *p) {
    const array *t = p->t;
    progress_end(&c->bar);
    printf("%s  ", t->name);
    for (int i = 0; i < t->dims; i++)
        printf("%s%lld", i > 0 ? " x " : "", (long long)t->shape[i]);
    printf("%s%s", t->dims > 0 ? "  " : "", t->type == TYPE_KEEP ? t->stored : type_name(t->type));
    if (t->type == TYPE_KEEP)
        printf(" kept");
    if (t->why != NULL)
        printf(" (%s)", t->why);
    if (t->type != TYPE_KEEP) {
        const double relative = p->given > 0 ? sqrt(p->errors / p->given) : 0;
        printf("  max %.3g  rms %.3g  relative %.4f", p->max, sqrt(p->errors / (double)t->elements), relative);
        if (c->sum.worst == NULL || relative > c->sum.relative) {
            c->sum.worst = t->name;
            c->sum.relative = relative;
        }
    }
    printf("  %lld bytes\n", (long long)convert_bytes_of(t));
}

static int convert_one(conversion *c, const array *t, convert_end *end) {
    const int64_t row = t->rows > 0 ? t->bytes / t->rows : 0;
    const bool floats = t->type != TYPE_KEEP && array_dtype(t) == 0;
    passage p = {.t = t, .rows = at_least(PIECE / at_least(floats ? t->columns * 4 : row, 1), 1)};
    p.rows = p.rows < t->rows ? p.rows : t->rows;
    p.from = malloc((size_t)(p.rows * row) + 1);
    p.data = malloc(t->rows > 0 ? t->data / (size_t)t->rows * (size_t)p.rows + 1 : 1);
    p.scales = malloc(t->scales + 1);
    p.floats = malloc(floats ? (size_t)(p.rows * t->columns) * sizeof *p.floats : 1);
    int status = p.from != NULL && p.data != NULL && p.scales != NULL && p.floats != NULL
                     ? pass(c, &p)
                     : complain(c->to, weights_path(c->a->w), "out of memory");
    if (status == 0)
        status = end(c->o, t, c->to);
    if (status == 0)
        tell(c, &p);
    c->sum.types[t->type]++;
    c->sum.after += convert_bytes_of(t);
    free(p.from);
    free(p.data);
    free(p.scales);
    free(p.floats);
    return status;
}

int64_t convert_bytes_of(const array *t) { return t->type == TYPE_KEEP ? t->bytes : (int64_t)(t->data + t->scales); }

int64_t convert_bytes(const arrays *a) {
    int64_t bytes = 0;
    for (int64_t i = 0; i < a->count; i++)
        bytes += convert_bytes_of(&a->at[i]);
    return bytes;
}

static void tell_all(const summary *sum, const arrays *a) {
    printf("%lld of %lld tensors quantized", (long long)a->quantized, (long long)a->count);
    const char *before = " (";
    for (int t = TYPE_Q8_0; t < TYPES; t++)
        if (sum->types[t] > 0) {
            printf("%s%lld %s", before, (long long)sum->types[t], type_name((tensor_type)t));
            before = ", ";
        }
    printf("), %.1f MB from %.1f MB; largest relative error %.4f, of %s\n", (double)sum->after * 1e-6,
           (double)sum->before * 1e-6, sum->relative, sum->worst);
    if (a->others > 0)
        fprintf(stderr, "fovea-quantize: %lld matri%s q4_1: rows are no whole blocks of 256\n", (long long)a->others,
                a->others == 1 ? "x is" : "ces are");
    if (a->unfit > 0)
        fprintf(stderr, "fovea-quantize: %lld matri%s kept: rows are no whole blocks or groups\n", (long long)a->unfit,
                a->unfit == 1 ? "x is" : "ces are");
}

int convert(const options *opts, const arrays *a, whole_file *o, convert_end *end, complaint to) {
    fovea_context_options context;
    fovea_context *ctx;
    int64_t all = 0;
    int status = 0;
    fovea_context_options_init(&context);
    context.threads = opts->threads;
    context.threads_backend = FOVEA_THREADS_POOL;
    if (fovea_context_create(&context, &ctx) != FOVEA_OK)
        return complain(to, "context", "%s", fovea_error_detail());
    for (int64_t i = 0; i < a->count; i++)
        all += a->at[i].bytes;
    conversion c = {.opts = opts, .a = a, .ctx = ctx, .o = o, .to = to};
    progress_begin(&c.bar, "MB", all / MEGABYTE);
    c.bar.shown += 2 - (c.bar.terminal ? 0.1 : 10); /* nothing in the first two seconds */
    for (int64_t i = 0; i < a->count && status == 0; i++)
        status = convert_one(&c, &a->at[i], end);
    progress_end(&c.bar);
    fovea_context_destroy(ctx);
    if (status == 0)
        tell_all(&c.sum, a);
    return status;
}
