/* convert.h. */
#include "convert.h"

#include "progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the lines about tensors add up to. */
typedef struct summary {
    const char *worst;
    double relative;
    int64_t before, after;
} summary;

static fovea_dtype dtype_of(const char *type) {
    return strcmp(type, "F32") == 0 ? FOVEA_DTYPE_F32 : strcmp(type, "F16") == 0 ? FOVEA_DTYPE_F16 : FOVEA_DTYPE_BF16;
}

static int quantise(const options *opts, const fovea_context *ctx, const arrays *a, const array *t, const void *from,
                    void *data, void *scales, summary *sum, complaint to) {
    const fovea_matrix matrix = fovea_matrix_out_in(from, dtype_of(t->type), t->shape[0], t->shape[1]);
    fovea_quantize_options how;
    fovea_quantize_error error;
    fovea_quantize_options_init(&how);
    fovea_quantize_error_init(&error);
    how.group_size = opts->group_size;
    how.search = opts->search;
    if (fovea_quantize(ctx, &matrix, options_dtype(opts), &how, data, scales, &error) != FOVEA_OK)
        return complain(to, weights_path(a->w), "%s: %s", t->name, fovea_error_detail());
    printf("%s  %lld x %lld  %s  max %.3g  rms %.3g  relative %.4f\n", t->name, (long long)t->shape[0],
           (long long)t->shape[1], options_type_name(opts), error.max, error.rms, error.relative);
    if (sum->worst == NULL || error.relative > sum->relative) {
        sum->worst = t->name;
        sum->relative = error.relative;
    }
    return 0;
}

static int convert_one(const options *opts, const fovea_context *ctx, const arrays *a, const array *t,
                       convert_write *write, void *arg, summary *sum, complaint to) {
    char *from = malloc((size_t)t->bytes + 1), *data = malloc(t->data + 1), *scales = malloc(t->scales + 1);
    int status = from != NULL && data != NULL && scales != NULL ? arrays_read(a, t, from, to)
                                                                : complain(to, weights_path(a->w), "out of memory");
    if (status == 0 && t->quantise)
        status = quantise(opts, ctx, a, t, from, data, scales, sum, to);
    else if (status == 0)
        printf("%s  kept  %s\n", t->name, t->type);
    if (status == 0)
        status = write(arg, t, t->quantise ? data : from, t->scales > 0 ? scales : NULL);
    sum->before += t->bytes;
    sum->after += t->quantise ? (int64_t)(t->data + t->scales) : t->bytes;
    free(from);
    free(data);
    free(scales);
    return status;
}

int64_t convert_bytes(const arrays *a) {
    int64_t bytes = 0;
    for (int64_t i = 0; i < a->count; i++)
        bytes += a->at[i].quantise ? (int64_t)(a->at[i].data + a->at[i].scales) : a->at[i].bytes;
    return bytes;
}

int convert(const options *opts, const arrays *a, convert_write *write, void *arg, complaint to) {
    enum { MEGABYTE = 1 << 20 };
    fovea_context_options context;
    fovea_context *ctx;
    progress bar;
    summary sum = {0};
    int64_t all = 0;
    int status = 0;
    fovea_context_options_init(&context);
    context.threads = opts->threads;
    context.threads_backend = FOVEA_THREADS_POOL;
    if (fovea_context_create(&context, &ctx) != FOVEA_OK)
        return complain(to, "context", "%s", fovea_error_detail());
    for (int64_t i = 0; i < a->count; i++)
        all += a->at[i].bytes;
    progress_begin(&bar, "MB", all / MEGABYTE);
    bar.shown += 2 - (bar.terminal ? 0.1 : 10); /* nothing in the first two seconds */
    for (int64_t i = 0; i < a->count && status == 0; i++) {
        status = convert_one(opts, ctx, a, &a->at[i], write, arg, &sum, to);
        progress_show(&bar, sum.before / MEGABYTE);
    }
    progress_end(&bar);
    fovea_context_destroy(ctx);
    if (status != 0)
        return status;
    printf("%lld of %lld tensors quantised, %.1f MB from %.1f MB; largest relative error %.4f, of %s\n",
           (long long)a->quantised, (long long)a->count, (double)sum.after * 1e-6, (double)sum.before * 1e-6,
           sum.relative, sum.worst);
    if (a->unfit > 0)
        fprintf(stderr, "fovea-quantize: %lld matri%s kept: rows are no whole blocks or groups\n", (long long)a->unfit,
                a->unfit == 1 ? "x is" : "ces are");
    return 0;
}
