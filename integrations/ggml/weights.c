/* The buffer type (weights.h): records of weights, and their bytes in and out. weights_pack.c makes the maps. */
#define _GNU_SOURCE
#include "weights.h"
#include "backend_options.h"
#include "mapped.h"
#include "weights_pack.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct weight {
    struct weight *next;
    struct ggml_tensor tensor; /* as it was placed: the program may free its own first */
    size_t bytes;
    size_t written; /* how many of the first bytes were given */
    fovea_linear **_Atomic maps;
    _Atomic bool gone;     /* the bytes are in the maps alone */
    _Atomic bool unpacked; /* it cannot be packed */
} weight;

typedef struct buffer {
    char *base;
    size_t size, packed_from, packed_bytes; /* of the packed weights: bytes in ggml's format, and as they are */
    int packed, weights_count;
    weight *weights;
    pthread_mutex_t lock; /* of maps that are made, and of what is written */
} buffer;

static size_t page(void) { return (size_t)sysconf(_SC_PAGESIZE); }

static const struct ggml_tensor *root_of(const struct ggml_tensor *t) { return t->view_src ? t->view_src : t; }

static weight *weight_of(const struct ggml_tensor *tensor) { return root_of(tensor)->extra; }

/* --------------------------------------------------------------------------------------------------------- maps -- */

static int64_t count_of(const weight *w) { return w->tensor.ne[2] * w->tensor.ne[3]; }

static void destroy(fovea_linear **maps, int64_t count) {
    for (int64_t i = 0; maps && i < count; i++)
        fovea_linear_destroy(maps[i]);
    free(maps);
}

static size_t packed_bytes(const weight *w) {
    size_t bytes = 0;
    for (int64_t i = 0; w->maps && i < count_of(w); i++)
        bytes += fovea_linear_weight_bytes(w->maps[i]);
    return bytes;
}

static void free_maps(buffer *b, weight *w) {
    if (!w->maps)
        return;
    b->packed--;
    b->packed_from -= w->bytes;
    b->packed_bytes -= packed_bytes(w);
    destroy(w->maps, count_of(w));
    w->maps = NULL;
    w->gone = false;
}

/* Gives whole pages back. Tensors begin at pages, so none is shared. */
static void give_back(const buffer *b, const weight *w) {
    const size_t bytes = (w->bytes + page() - 1) / page() * page(), offset = (size_t)((char *)w->tensor.data - b->base);
    madvise(w->tensor.data, bytes < b->size - offset ? bytes : b->size - offset, MADV_DONTNEED);
}

/* only: the maps take the place of the bytes. */
static bool make_maps(buffer *b, weight *w, const char *data, bool only) {
    const struct ggml_tensor *t = &w->tensor;
    const int64_t count = count_of(w);
    fovea_linear **maps = calloc((size_t)count, sizeof *maps);
    const fovea_context *context = fg_weights_context();
    bool made = maps && context;
    for (int64_t i = 0; made && i < count; i++) {
        maps[i] =
            fg_weights_pack(context, t, data + (size_t)(i % t->ne[2]) * t->nb[2] + (size_t)(i / t->ne[2]) * t->nb[3]);
        made = maps[i] != NULL;
    }
    w->unpacked = !made;
    if (!made) {
        destroy(maps, count);
        fg_say("%s is not packed: ggml's CPU backend computes with it", t->name);
        return false;
    }
    w->maps = maps;
    w->gone = only;
    if (only)
        give_back(b, w);
    b->packed++;
    b->packed_from += w->bytes;
    b->packed_bytes += packed_bytes(w);
    if (fg_options_debug() && b->packed == b->weights_count)
        fg_say("%d weights of %.1f MiB are packed in %.1f MiB", b->packed, (double)b->packed_from / 1048576,
               (double)b->packed_bytes / 1048576);
    return true;
}

static bool unpack(const weight *w, char *to) {
    const size_t each = w->bytes / (size_t)count_of(w);
    bool done = true;
    for (int64_t i = 0; done && i < count_of(w); i++)
        done = fovea_linear_unpack(w->maps[i], 0, to + (size_t)i * each, NULL, NULL) == FOVEA_OK;
    if (!done)
        fg_say("%s: %s", w->tensor.name, fovea_error_detail());
    return done;
}

bool fg_weights_known(const struct ggml_tensor *tensor) {
    return fg_weights_hold(tensor) && !tensor->view_src && tensor->extra;
}

fovea_linear *const *fg_weights_maps(const struct ggml_tensor *weights) {
    weight *w = weight_of(weights);
    if (!w->maps && !w->unpacked) {
        buffer *b = weights->buffer->context;
        pthread_mutex_lock(&b->lock);
        if (!w->maps && !w->unpacked)
            make_maps(b, w, w->tensor.data, weights->buffer->usage == GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
        pthread_mutex_unlock(&b->lock);
    }
    return w->maps;
}

bool fg_weights_multiplied(const struct ggml_tensor *op, int source) {
    return source == 0 && fg_is_product(fg_op_of(op->op)) && fg_weights_known(op->src[0]);
}

bool fg_weights_written(const struct ggml_tensor *op) { return !fg_is_view(op->op) && fg_weights_hold(op); }

bool fg_weights_touched(const struct ggml_tensor *op) {
    bool touched = fg_weights_written(op);
    for (int i = 0; i < GGML_MAX_SRC; i++)
        touched = touched || (op->src[i] && fg_weights_hold(op->src[i]));
    return touched;
}

bool fg_weights_bring(const struct ggml_tensor *tensor) {
    weight *w = fg_weights_hold(tensor) ? weight_of(tensor) : NULL;
    if (!w || !w->gone)
        return true;
    buffer *b = root_of(tensor)->buffer->context;
    pthread_mutex_lock(&b->lock);
    w->gone = w->gone && !unpack(w, w->tensor.data);
    pthread_mutex_unlock(&b->lock);
    return !w->gone;
}

void fg_weights_changed(const struct ggml_tensor *tensor) {
    buffer *b = root_of(tensor)->buffer->context;
    weight *w = weight_of(tensor);
    if (!w)
        return;
    pthread_mutex_lock(&b->lock);
    free_maps(b, w);
    w->unpacked = false;
    pthread_mutex_unlock(&b->lock);
}

/* -------------------------------------------------------------------------------------------------------- buffer -- */

/* Forgets all weights. */
static void reset(ggml_backend_buffer_t ggml) {
    buffer *b = ggml->context;
    pthread_mutex_lock(&b->lock);
    for (weight *w = b->weights, *next; w; w = next) {
        next = w->next;
        free_maps(b, w);
        free(w);
    }
    b->weights = NULL;
    b->weights_count = 0;
    pthread_mutex_unlock(&b->lock);
}

static void free_buffer(ggml_backend_buffer_t ggml) {
    buffer *b = ggml->context;
    reset(ggml);
    if (b->base)
        munmap(b->base, b->size);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

static void *get_base(ggml_backend_buffer_t ggml) {
    const buffer *b = ggml->context;
    return b->base ? b->base : (void *)page(); /* ggml asks of empty buffers, too */
}

static enum ggml_status init_tensor(ggml_backend_buffer_t ggml, struct ggml_tensor *tensor) {
    buffer *b = ggml->context;
    if (tensor->view_src)
        return GGML_STATUS_SUCCESS;
    tensor->extra = NULL;
    if (!fg_is_view(tensor->op) || !fg_weights_serve(tensor))
        return GGML_STATUS_SUCCESS;
    weight *w = calloc(1, sizeof *w);
    if (!w)
        return GGML_STATUS_ALLOC_FAILED;
    w->tensor = *tensor;
    w->bytes = fg_ggml.nbytes(tensor);
    w->next = b->weights;
    b->weights = w;
    b->weights_count++;
    tensor->extra = w;
    return GGML_STATUS_SUCCESS;
}

/* Where bytes of a tensor, or of a view, are in the tensor that was placed. */
static size_t offset_in(const weight *w, const struct ggml_tensor *tensor, size_t offset) {
    return (size_t)((char *)tensor->data - (char *)w->tensor.data) + offset;
}

/* The bytes are in memory again. */
static bool restore(buffer *b, weight *w) {
    const bool done = !w->gone || unpack(w, w->tensor.data);
    if (done)
        free_maps(b, w);
    w->unpacked = w->unpacked && !done;
    return done;
}

static void store(ggml_backend_buffer_t ggml, struct ggml_tensor *tensor, const void *data, int value, size_t offset,
                  size_t size) {
    buffer *b = ggml->context;
    weight *w = weight_of(tensor);
    char *to = (char *)tensor->data + offset;
    if (!w) {
        data ? memcpy(to, data, size) : memset(to, value, size);
        return;
    }
    const bool weights = ggml->usage == GGML_BACKEND_BUFFER_USAGE_WEIGHTS;
    const size_t at = offset_in(w, tensor, offset);
    pthread_mutex_lock(&b->lock);
    if (weights && data && at == 0 && size == w->bytes && (uintptr_t)data % sizeof(float) == 0) {
        free_maps(b, w);
        w->written = size;
        if (make_maps(b, w, data, true))
            fg_mapped_release(data, size);
        else
            memcpy(to, data, size);
    } else if (restore(b, w)) {
        data ? memcpy(to, data, size) : memset(to, value, size);
        w->written = at <= w->written && at + size > w->written ? at + size : w->written;
        if (weights && w->written == w->bytes)
            make_maps(b, w, w->tensor.data, true);
    }
    pthread_mutex_unlock(&b->lock);
}

static void set_tensor(ggml_backend_buffer_t ggml, struct ggml_tensor *tensor, const void *data, size_t offset,
                       size_t size) {
    if (size)
        store(ggml, tensor, data, 0, offset, size);
}

static void memset_tensor(ggml_backend_buffer_t ggml, struct ggml_tensor *tensor, uint8_t value, size_t offset,
                          size_t size) {
    if (size)
        store(ggml, tensor, NULL, value, offset, size);
}

static bool fetch(const weight *w, const struct ggml_tensor *tensor, char *data, size_t offset, size_t size) {
    const size_t at = offset_in(w, tensor, offset);
    if (at == 0 && size == w->bytes)
        return unpack(w, data);
    char *bytes = malloc(w->bytes);
    const bool done = bytes && unpack(w, bytes);
    if (done)
        memcpy(data, bytes + at, size);
    free(bytes);
    return done;
}

static void get_tensor(ggml_backend_buffer_t ggml, const struct ggml_tensor *tensor, void *data, size_t offset,
                       size_t size) {
    buffer *b = ggml->context;
    const weight *w = weight_of(tensor);
    bool done = true;
    pthread_mutex_lock(&b->lock);
    if (w && w->gone)
        done = fetch(w, tensor, data, offset, size);
    else
        memcpy(data, (const char *)tensor->data + offset, size);
    pthread_mutex_unlock(&b->lock);
    if (!done)
        memset(data, 0xff, size); /* NaN, or far off: never weights that look right */
}

static void clear(ggml_backend_buffer_t ggml, uint8_t value) {
    buffer *b = ggml->context;
    pthread_mutex_lock(&b->lock);
    for (weight *w = b->weights; w; w = w->next) {
        free_maps(b, w);
        w->written = 0;
        w->unpacked = false;
    }
    if (value)
        memset(b->base, value, b->size);
    else if (b->base)
        madvise(b->base, b->size, MADV_DONTNEED); /* zeros again */
    pthread_mutex_unlock(&b->lock);
}

static ggml_backend_buffer_t alloc_buffer(ggml_backend_buffer_type_t type, size_t size) {
    static const struct ggml_backend_buffer_i functions = {.free_buffer = free_buffer,
                                                           .get_base = get_base,
                                                           .init_tensor = init_tensor,
                                                           .memset_tensor = memset_tensor,
                                                           .set_tensor = set_tensor,
                                                           .get_tensor = get_tensor,
                                                           .clear = clear,
                                                           .reset = reset};
    buffer *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    pthread_mutex_init(&b->lock, NULL);
    b->size = (size + page() - 1) / page() * page();
    if (size) {
        b->base = mmap(NULL, b->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (b->base == MAP_FAILED) {
            free(b);
            return NULL;
        }
    }
    return fg_ggml.backend_buffer_init(type, functions, b, size);
}

/* ---------------------------------------------------------------------------------------------------------- type -- */

static const char *get_name(ggml_backend_buffer_type_t type) {
    (void)type;
    return "Fovea";
}

static size_t get_alignment(ggml_backend_buffer_type_t type) {
    (void)type;
    return page();
}

static bool is_host(ggml_backend_buffer_type_t type) {
    (void)type;
    return false; /* others may not read packed weights */
}

ggml_backend_buffer_type_t fg_weights_type(ggml_backend_dev_t device) {
    static struct ggml_backend_buffer_type type = {
        .iface = {
            .get_name = get_name, .alloc_buffer = alloc_buffer, .get_alignment = get_alignment, .is_host = is_host}};
    if (device)
        type.device = device;
    return &type;
}

bool fg_weights_hold(const struct ggml_tensor *tensor) {
    const struct ggml_backend_buffer *ggml = root_of(tensor)->buffer;
    return ggml && ggml->buft == fg_weights_type(NULL);
}
