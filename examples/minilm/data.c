/* Reads the data of fovea-minilm. Nothing in the file is believed before it was checked: the sizes in its header must
 * fit the file's length to the byte before anything is allocated by them, and the checksum must fit before any of it is
 * used. */
#include "data.h"

#include "regular_file.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    HEADER_BYTES = 96,
    TITLE_AT = 32,
    TRAILER_BYTES = 4,
    MOST = 65535 /* of tokens, heads and head_dim: their product times the bytes of an element stays below 2^63 */
};

static const char magic[8] = {'F', 'O', 'V', 'E', 'A', 'Q', 'K', 'V'};

/* Little-endian, whatever this machine is. */
static uint32_t read_u32(const uint8_t *at) {
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static float read_f32(const uint8_t *at) {
    uint32_t bits = read_u32(at);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static double read_f64(const uint8_t *at) {
    uint64_t bits = (uint64_t)read_u32(at) | (uint64_t)read_u32(at + 4) << 32;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The CRC-32 of zlib, PNG and Ethernet. */
static uint32_t crc32(const uint8_t *bytes, size_t count) {
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < count; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (0xedb88320u & (0u - (crc & 1u)));
    }
    return ~crc;
}

/* A file being read, and where to complain. */
typedef struct reader {
    const char *path;
    FILE *file;
    uint8_t *bytes; /* the whole file, once it is known to be of the right length */
    char *message;
    size_t size;
} reader;

static int fail(const reader *r, const char *format, ...) {
    va_list arguments;
    int length = snprintf(r->message, r->size, "%s: ", r->path);
    if (length >= 0 && (size_t)length < r->size) {
        va_start(arguments, format);
        vsnprintf(r->message + length, r->size - (size_t)length, format, arguments);
        va_end(arguments);
    }
    return -1;
}

/* Checks the header against itself and against the length of the file. */
static int read_header(reader *r, minilm_data *data, int64_t *file_bytes) {
    uint8_t header[HEADER_BYTES];
    if (fread(header, 1, sizeof header, r->file) != sizeof header)
        return ferror(r->file) ? fail(r, "cannot be read (%s)", strerror(errno))
                               : fail(r, "is cut off: not even its header of %d bytes is there", HEADER_BYTES);
    if (memcmp(header, magic, sizeof magic) != 0)
        return fail(r, "is not data of fovea-minilm: it does not begin with FOVEAQKV");
    if (read_u32(header + 8) != 1)
        return fail(r, "is of version %lu; this program reads version 1", (unsigned long)read_u32(header + 8));
    data->layer = read_u32(header + 12);
    data->tokens = read_u32(header + 16);
    data->heads = read_u32(header + 20);
    data->head_dim = read_u32(header + 24);
    if (data->tokens < 1 || data->tokens > MOST || data->heads < 1 || data->heads > MOST || data->head_dim < 1 ||
        data->head_dim > MOST)
        return fail(r, "is corrupt: %lld tokens, %lld heads and %lld channels a head cannot be",
                    (long long)data->tokens, (long long)data->heads, (long long)data->head_dim);
    memcpy(data->title, header + TITLE_AT, sizeof data->title);
    for (size_t i = 0; i < sizeof data->title; i++)
        if (data->title[i] != 0 && (data->title[i] < ' ' || data->title[i] > '~'))
            return fail(r, "is corrupt: its title is not plain text");
    if (data->title[sizeof data->title - 1] != 0)
        return fail(r, "is corrupt: its title has no end");

    int64_t elements = data->tokens * data->heads * data->head_dim;
    int64_t expected = HEADER_BYTES + elements * (3 * 4 + 8) + TRAILER_BYTES;
    if (fseek(r->file, 0, SEEK_END) != 0 || (*file_bytes = ftell(r->file)) < 0 || fseek(r->file, 0, SEEK_SET) != 0)
        return fail(r, "cannot be read (%s)", strerror(errno));
    if (*file_bytes != expected)
        return fail(r, "is %s: %lld bytes, where its header asks for %lld",
                    *file_bytes < expected ? "cut off" : "too long", (long long)*file_bytes, (long long)expected);
    return 0;
}

/* Reads and checks everything behind the header. */
static int read_arrays(reader *r, minilm_data *data, int64_t file_bytes) {
    size_t bytes = (size_t)file_bytes;
    size_t elements = (size_t)(data->tokens * data->heads * data->head_dim);
    r->bytes = malloc(bytes);
    data->q = malloc(3 * elements * sizeof *data->q);
    data->out = malloc(elements * sizeof *data->out);
    if (r->bytes == NULL || data->q == NULL || data->out == NULL)
        return fail(r, "does not fit in memory");
    if (fread(r->bytes, 1, bytes, r->file) != bytes)
        return fail(r, "cannot be read to its end");
    if (crc32(r->bytes, bytes - TRAILER_BYTES) != read_u32(r->bytes + bytes - TRAILER_BYTES))
        return fail(r, "is corrupt: its checksum does not fit its content");

    const uint8_t *at = r->bytes + HEADER_BYTES;
    int finite = 1;
    for (size_t i = 0; i < 3 * elements; i++, at += 4)
        finite &= isfinite(data->q[i] = read_f32(at)) != 0;
    for (size_t i = 0; i < elements; i++, at += 8)
        finite &= isfinite(data->out[i] = read_f64(at)) != 0;
    if (!finite)
        return fail(r, "holds values that are not finite, with which nothing could be compared");
    data->k = data->q + elements;
    data->v = data->k + elements;
    return 0;
}

int minilm_data_load(const char *path, minilm_data *data, char *message, size_t size) {
    const char *why;
    reader r = {.path = path, .file = regular_file_open(path, &why), .message = message, .size = size};
    int64_t file_bytes = 0;
    memset(data, 0, sizeof *data);
    if (r.file == NULL)
        return fail(&r, "cannot be opened (%s)", why);
    int status = read_header(&r, data, &file_bytes);
    if (status == 0)
        status = read_arrays(&r, data, file_bytes);
    free(r.bytes);
    fclose(r.file);
    if (status != 0)
        minilm_data_free(data);
    return status;
}

void minilm_data_free(minilm_data *data) {
    free(data->q);
    free(data->out);
    memset(data, 0, sizeof *data);
}
