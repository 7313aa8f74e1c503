/* safetensors.h. Nothing in the file is believed before it was checked: sizes are held against the length of the file
 * before anything is allocated by them. JSON is read by jansson. */
#include "safetensors.h"

#include "regular_file.h"

#include <fovea/fovea.h>
#include <jansson.h>

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

enum {
    LENGTH_BYTES = 8,
    HEADER_MOST = 1 << 24, /* parsed JSON takes some 20 times the room; 16 MiB name 100,000 arrays */
    CHUNK_BYTES = 1 << 16  /* read at once */
};

static const struct {
    const char *name;
    int bytes;
} dtypes[SAFETENSORS_DTYPES] = {
    [SAFETENSORS_BOOL] = {"BOOL", 1},       [SAFETENSORS_U8] = {"U8", 1},
    [SAFETENSORS_I8] = {"I8", 1},           [SAFETENSORS_F8_E5M2] = {"F8_E5M2", 1},
    [SAFETENSORS_F8_E4M3] = {"F8_E4M3", 1}, [SAFETENSORS_F8_E8M0] = {"F8_E8M0", 1},
    [SAFETENSORS_I16] = {"I16", 2},         [SAFETENSORS_U16] = {"U16", 2},
    [SAFETENSORS_F16] = {"F16", 2},         [SAFETENSORS_BF16] = {"BF16", 2},
    [SAFETENSORS_I32] = {"I32", 4},         [SAFETENSORS_U32] = {"U32", 4},
    [SAFETENSORS_F32] = {"F32", 4},         [SAFETENSORS_I64] = {"I64", 8},
    [SAFETENSORS_U64] = {"U64", 8},         [SAFETENSORS_F64] = {"F64", 8},
    [SAFETENSORS_C64] = {"C64", 8},
};

struct safetensors {
    char *path;
    FILE *file;
    int64_t file_bytes, data_at;
    json_t *json;
    int64_t count;
    safetensors_tensor *tensors;        /* by place */
    const safetensors_tensor **by_name; /* sorted */
};

const char *safetensors_dtype_name(safetensors_dtype dtype) {
    return (unsigned)dtype < SAFETENSORS_DTYPES ? dtypes[dtype].name : "unknown";
}

/* -------------------------------------------------------------------------------------------------------- header -- */

/* Reads the header's bytes; NULL after a complaint. */
static char *read_header(safetensors *f, int64_t *length, complaint to) {
    uint8_t prefix[LENGTH_BYTES];
    if (fseeko(f->file, 0, SEEK_END) != 0 || (f->file_bytes = ftello(f->file)) < 0 || fseeko(f->file, 0, SEEK_SET) != 0)
        return complain(to, f->path, "cannot be read (%s)", strerror(errno)), NULL;
    if (fread(prefix, 1, sizeof prefix, f->file) != sizeof prefix) {
        if (ferror(f->file))
            return complain(to, f->path, "cannot be read (%s)", strerror(errno)), NULL;
        return complain(to, f->path, "is cut off inside the length of its header"), NULL;
    }
    if (memcmp(prefix, "GGUF", 4) == 0)
        return complain(to, f->path, "is a GGUF file, but a safetensors file is needed"), NULL;
    uint64_t bytes = 0;
    for (int i = LENGTH_BYTES; i-- > 0;)
        bytes = bytes << 8 | prefix[i];
    if (bytes > HEADER_MOST)
        return complain(to, f->path, "is not a safetensors file, or has a header too large to be read: %llu bytes",
                        (unsigned long long)bytes),
               NULL;
    if ((int64_t)bytes > f->file_bytes - LENGTH_BYTES)
        return complain(to, f->path, "is cut off: its header should have %llu bytes, but only %lld follow",
                        (unsigned long long)bytes, (long long)(f->file_bytes - LENGTH_BYTES)),
               NULL;
    char *text = malloc((size_t)bytes + 1);
    if (text == NULL)
        return complain(to, f->path, "out of memory"), NULL;
    if (fread(text, 1, (size_t)bytes, f->file) != (size_t)bytes) {
        free(text);
        return complain(to, f->path, "cannot be read to the end of its header"), NULL;
    }
    *length = (int64_t)bytes;
    f->data_at = LENGTH_BYTES + (int64_t)bytes;
    return text;
}

static int parse_header(safetensors *f, complaint to) {
    int64_t length;
    char *text = read_header(f, &length, to);
    if (text == NULL)
        return -1;
    /* Whole numbers as reals: one of more than 64 bits is then a wrong place, not a broken file. */
    json_error_t error = {.text = ""};
    const size_t flags = JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL;
    const bool object = text[0] == '{';
    f->json = object ? json_loadb(text, (size_t)length, flags, &error) : NULL;
    free(text);
    if (f->json != NULL)
        return 0;
    if (json_error_code(&error) == json_error_duplicate_key)
        return complain(to, f->path, "has two arrays, or two entries of an array, of the same name, %s",
                        strstr(error.text, "near") != NULL ? strstr(error.text, "near") : "in its header");
    if (object && error.text[0] == '\0') /* what jansson says then */
        return complain(to, f->path, "out of memory");
    return complain(to, f->path, "is not a safetensors file: its header is not a JSON object");
}

/* A JSON number that is a whole number of at least 0 and exact in a double; -1 if it is none. */
static int64_t whole_number(const json_t *item) {
    const double number = json_is_real(item) ? json_real_value(item) : -1.0;
    const int64_t value = number >= 0.0 && number <= 0x1p53 ? (int64_t)number : -1;
    return (double)value == number ? value : -1;
}

static int check_name(const safetensors *f, const char *name, complaint to) {
    for (const char *c = name; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            return complain(to, f->path, "has an array whose name contains control characters");
    return 0;
}

/* The shape of an array, and its number of elements and bytes, none of them larger than the file can hold. */
static int parse_shape(const safetensors *f, const json_t *shape, safetensors_tensor *t, complaint to) {
    if (!json_is_array(shape))
        return complain(to, f->path, "%s: its shape is not a list", t->name);
    bool empty = false;
    t->elements = 1;
    for (size_t i = 0; i < json_array_size(shape); i++) {
        const int64_t size = whole_number(json_array_get(shape, i));
        if (t->dims == SAFETENSORS_MOST_DIMS)
            return complain(to, f->path, "%s has more than %d dimensions", t->name, SAFETENSORS_MOST_DIMS);
        if (size < 0)
            return complain(to, f->path, "%s: a size in its shape is not a whole number", t->name);
        t->shape[t->dims++] = size;
        empty = empty || size == 0;
        /* Sizes up to 2^53 each: divide, do not multiply. */
        if (size > 0 && t->elements > f->file_bytes / size)
            t->elements = f->file_bytes + 1;
        else if (size > 0)
            t->elements *= size;
    }
    if (empty)
        t->elements = 0;
    if (t->elements > (f->file_bytes - f->data_at) / dtypes[t->dtype].bytes)
        return complain(to, f->path, "%s: its shape has more elements than the file", t->name);
    t->bytes = t->elements * dtypes[t->dtype].bytes;
    return 0;
}

static int parse_tensor(const safetensors *f, const char *name, const json_t *entry, safetensors_tensor *t,
                        complaint to) {
    const json_t *dtype = json_object_get(entry, "dtype"), *shape = json_object_get(entry, "shape");
    const json_t *offsets = json_object_get(entry, "data_offsets");
    if (check_name(f, name, to) != 0)
        return -1;
    t->name = name;
    if (json_object_size(entry) != 3 || dtype == NULL || offsets == NULL || shape == NULL)
        return complain(to, f->path, "%s must have dtype, shape and data_offsets, and nothing else", t->name);
    const char *word = json_is_string(dtype) ? json_string_value(dtype) : "";
    while (t->dtype < SAFETENSORS_DTYPES && strcmp(word, dtypes[t->dtype].name) != 0)
        t->dtype++;
    if (t->dtype == SAFETENSORS_DTYPES)
        return complain(to, f->path, "%s is of an unknown dtype", t->name);
    if (parse_shape(f, shape, t, to) != 0)
        return -1;
    if (json_array_size(offsets) != 2)
        return complain(to, f->path, "%s: its data_offsets are not two numbers", t->name);
    const int64_t begin = whole_number(json_array_get(offsets, 0)), end = whole_number(json_array_get(offsets, 1));
    if (begin < 0 || end < begin)
        return complain(to, f->path, "%s: its data_offsets are not a valid range", t->name);
    if (end > f->file_bytes - f->data_at)
        return complain(to, f->path, "%s lies past the end of the file: its data ends at %lld, the file's at %lld",
                        t->name, (long long)end, (long long)(f->file_bytes - f->data_at));
    if (end - begin != t->bytes)
        return complain(to, f->path, "%s has %lld bytes, but its shape and dtype need %lld", t->name,
                        (long long)(end - begin), (long long)t->bytes);
    t->begin = f->data_at + begin;
    return 0;
}

static int by_place(const void *a, const void *b) {
    const safetensors_tensor *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    if (x->bytes != y->bytes) /* an empty one comes before what begins at the same place */
        return x->bytes < y->bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int by_name(const void *a, const void *b) {
    const safetensors_tensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static int check_places(const safetensors *f, complaint to) {
    int64_t end = f->data_at;
    for (int64_t i = 0; i < f->count; i++) {
        const safetensors_tensor *t = &f->tensors[i];
        if (t->begin < end)
            return complain(to, f->path, "%s overlaps %s", t->name, t[-1].name);
        if (t->begin > end)
            return complain(to, f->path, "has %lld bytes before %s that belong to no array",
                            (long long)(t->begin - end), t->name);
        end = t->begin + t->bytes;
    }
    return end == f->file_bytes ? 0
                                : complain(to, f->path, "is too long: %lld bytes at its end belong to no array",
                                           (long long)(f->file_bytes - end));
}

static int list_tensors(safetensors *f, complaint to) {
    const size_t most = json_object_size(f->json) + 1;
    f->tensors = calloc(most, sizeof *f->tensors);
    f->by_name = malloc(most * sizeof *f->by_name);
    if (f->tensors == NULL || f->by_name == NULL)
        return complain(to, f->path, "out of memory");
    const char *name;
    json_t *entry;
    json_object_foreach(f->json, name, entry) {
        if (strcmp(name, "__metadata__") != 0 && parse_tensor(f, name, entry, &f->tensors[f->count++], to) != 0)
            return -1;
    }
    qsort(f->tensors, (size_t)f->count, sizeof *f->tensors, by_place);
    for (int64_t i = 0; i < f->count; i++)
        f->by_name[i] = &f->tensors[i];
    qsort(f->by_name, (size_t)f->count, sizeof *f->by_name, by_name);
    return check_places(f, to);
}

/* ---------------------------------------------------------------------------------------------------------- file -- */

int safetensors_open(const char *path, safetensors **file, complaint to) {
    *file = NULL;
    safetensors *f = calloc(1, sizeof *f);
    const size_t length = strlen(path) + 1;
    if (f == NULL || (f->path = malloc(length)) == NULL) {
        free(f);
        return complain(to, path, "out of memory");
    }
    memcpy(f->path, path, length);
    const char *why;
    f->file = regular_file_open(path, &why);
    if (f->file == NULL)
        complain(to, path, "cannot be opened (%s)", why);
    else if (parse_header(f, to) == 0 && list_tensors(f, to) == 0)
        return *file = f, 0;
    safetensors_close(f);
    return -1;
}

void safetensors_close(safetensors *f) {
    if (f == NULL)
        return;
    if (f->file != NULL)
        fclose(f->file);
    json_decref(f->json);
    free(f->tensors);
    free(f->by_name);
    free(f->path);
    free(f);
}

const char *safetensors_path(const safetensors *f) { return f->path; }
int64_t safetensors_count(const safetensors *f) { return f->count; }

const safetensors_tensor *safetensors_at(const safetensors *f, int64_t index) { return &f->tensors[index]; }

const safetensors_tensor *safetensors_find(const safetensors *f, const char *name) {
    const safetensors_tensor wanted = {.name = name}, *key = &wanted;
    const safetensors_tensor **found = bsearch(&key, f->by_name, (size_t)f->count, sizeof *f->by_name, by_name);
    return found != NULL ? *found : NULL;
}

const safetensors_tensor *safetensors_need(const safetensors *f, const char *name, int dims, const int64_t *shape,
                                           complaint to) {
    const safetensors_tensor *t = safetensors_find(f, name);
    if (t == NULL)
        return complain(to, f->path, "has no %s", name), NULL;
    if (t->dims != dims)
        return complain(to, f->path, "%s has %d dimensions, not %d", name, t->dims, dims), NULL;
    for (int i = 0; i < dims; i++)
        if (shape[i] >= 0 && t->shape[i] != shape[i])
            return complain(to, f->path, "%s: size %d of its shape is %lld, not %lld", name, i, (long long)t->shape[i],
                            (long long)shape[i]),
                   NULL;
    return t;
}

/* ------------------------------------------------------------------------------------------------------ elements -- */

/* Little-endian, whatever this machine is. */
static uint64_t read_bits(const uint8_t *at, int bytes) {
    uint64_t bits = 0;
    for (int i = bytes; i-- > 0;)
        bits = bits << 8 | at[i];
    return bits;
}

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void decode_f32(safetensors_dtype dtype, const uint8_t *from, float *values, size_t count) {
    uint16_t halves[CHUNK_BYTES / 2];
    for (size_t i = 0; i < count; i++)
        if (dtype == SAFETENSORS_F32) {
            values[i] = float_of((uint32_t)read_bits(from + 4 * i, 4));
        } else if (dtype == SAFETENSORS_F64) {
            const uint64_t bits = read_bits(from + 8 * i, 8);
            double value;
            memcpy(&value, &bits, sizeof value);
            values[i] = (float)value;
        } else {
            halves[i] = (uint16_t)read_bits(from + 2 * i, 2);
        }
    if (dtype == SAFETENSORS_F16 || dtype == SAFETENSORS_BF16)
        (void)fovea_convert((int64_t)count, halves, dtype == SAFETENSORS_F16 ? FOVEA_DTYPE_F16 : FOVEA_DTYPE_BF16,
                            values, FOVEA_DTYPE_F32);
}

static void decode_i32(const uint8_t *from, int32_t *values, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const uint32_t bits = (uint32_t)read_bits(from + 4 * i, 4);
        memcpy(&values[i], &bits, sizeof bits);
    }
}

/* Reads elements of the array piece by piece, as floats or else as integers. */
static int read_elements(safetensors *f, const safetensors_tensor *t, int64_t first, int64_t elements, float *floats,
                         int32_t *integers, complaint to) {
    uint8_t chunk[CHUNK_BYTES];
    const size_t size = (size_t)dtypes[t->dtype].bytes, most = sizeof chunk / size;
    if (fseeko(f->file, (off_t)(t->begin + first * (int64_t)size), SEEK_SET) != 0)
        return complain(to, f->path, "%s cannot be read (%s)", t->name, strerror(errno));
    for (size_t done = 0, count, all = (size_t)elements; done < all; done += count) {
        count = all - done < most ? all - done : most;
        if (fread(chunk, size, count, f->file) != count)
            return complain(to, f->path, "%s cannot be read to its end", t->name);
        if (floats != NULL)
            decode_f32(t->dtype, chunk, floats + done, count);
        else
            decode_i32(chunk, integers + done, count);
    }
    return 0;
}

int safetensors_read_part(safetensors *f, const safetensors_tensor *t, int64_t first, int64_t count, float *values,
                          complaint to) {
    if (t->dtype != SAFETENSORS_F32 && t->dtype != SAFETENSORS_F16 && t->dtype != SAFETENSORS_BF16 &&
        t->dtype != SAFETENSORS_F64)
        return complain(to, f->path, "%s is of dtype %s, not of floating-point numbers that can be read", t->name,
                        dtypes[t->dtype].name);
    return read_elements(f, t, first, count, values, NULL, to);
}

int safetensors_read_f32(safetensors *f, const safetensors_tensor *t, float *values, complaint to) {
    return safetensors_read_part(f, t, 0, t->elements, values, to);
}

int safetensors_read_i32(safetensors *f, const safetensors_tensor *t, int32_t *values, complaint to) {
    if (t->dtype != SAFETENSORS_I32)
        return complain(to, f->path, "%s is of dtype %s, not I32", t->name, dtypes[t->dtype].name);
    return read_elements(f, t, 0, t->elements, NULL, values, to);
}

int safetensors_read_bytes(safetensors *f, const safetensors_tensor *t, int64_t first, int64_t count, void *bytes,
                           complaint to) {
    return fseeko(f->file, (off_t)(t->begin + first), SEEK_SET) == 0 &&
                   fread(bytes, 1, (size_t)count, f->file) == (size_t)count
               ? 0
               : complain(to, f->path, "%s cannot be read to its end", t->name);
}
