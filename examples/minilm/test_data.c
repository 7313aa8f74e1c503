/* Gives the loader of fovea-minilm files that are wrong in every way that we could think of: each must be refused with
 * a sentence that names the file and says what is wrong, and leave nothing allocated (which LeakSanitizer sees). Files
 * are written to the folder that is given. */
#include "data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

enum {
    TOKENS = 3,
    HEADS = 2,
    HEAD_DIM = 5,
    ELEMENTS = TOKENS * HEADS * HEAD_DIM,
    HEADER_BYTES = 96,
    FILE_BYTES = HEADER_BYTES + ELEMENTS * 20 + 4
};

static const char *path;
static int passed, failed;

static void put_u32(uint8_t *at, uint32_t value) {
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

/* Seals a file with its checksum, by another way than the loader's: long division by the polynomial, bits reflected. */
static void seal(uint8_t *file) {
    uint32_t remainder = 0;
    for (int bit = 0; bit < 8 * FILE_BYTES; bit++) {
        /* The last 32 bits are zeros to divide on; the first 32 are inverted. */
        int last = bit >= 8 * (FILE_BYTES - 4);
        uint32_t next = last ? 0 : file[bit / 8] >> bit % 8 & 1u;
        next ^= bit < 32;
        remainder = (remainder << 1 | next) ^ (remainder >> 31 ? 0x04c11db7u : 0u);
    }
    uint32_t reflected = 0;
    for (int bit = 0; bit < 32; bit++)
        reflected |= (remainder >> bit & 1u) << (31 - bit);
    put_u32(file + FILE_BYTES - 4, ~reflected);
}

/* A file that is right. Values are small integers: element i of q, k, v is 1 + i, of out 1000 + i. */
static void make_good(uint8_t *file) {
    memset(file, 0, FILE_BYTES);
    memcpy(file, "FOVEAQKV", 8);
    put_u32(file + 8, 1);
    put_u32(file + 12, 4);
    put_u32(file + 16, TOKENS);
    put_u32(file + 20, HEADS);
    put_u32(file + 24, HEAD_DIM);
    memcpy(file + 32, "a title", 7);
    for (int i = 0; i < 3 * ELEMENTS; i++) {
        float value = (float)(1 + i);
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        put_u32(file + HEADER_BYTES + 4 * i, bits);
    }
    for (int i = 0; i < ELEMENTS; i++) {
        double value = 1000.0 + i;
        uint64_t bits;
        memcpy(&bits, &value, sizeof bits);
        put_u32(file + HEADER_BYTES + 12 * ELEMENTS + 8 * i, (uint32_t)bits);
        put_u32(file + HEADER_BYTES + 12 * ELEMENTS + 8 * i + 4, (uint32_t)(bits >> 32));
    }
    seal(file);
}

static void write_file(const uint8_t *bytes, size_t count) {
    FILE *f = fopen(path, "wb");
    if (f == NULL || fwrite(bytes, 1, count, f) != count || fclose(f) != 0) {
        fprintf(stderr, "%s cannot be written\n", path);
        exit(1);
    }
}

static void expect(int good, const char *what, const char *message) {
    if (good) {
        passed++;
    } else {
        failed++;
        printf("FAILED: %s (message: \"%s\")\n", what, message);
    }
}

/* The file at where must be refused with a sentence that names it and holds the words. */
static void expect_refused(const char *where, const char *words, const char *what) {
    static const minilm_data zero;
    minilm_data data;
    char message[512] = "";
    int status = minilm_data_load(where, &data, message, sizeof message);
    expect(status == -1 && strstr(message, where) != NULL && strstr(message, words) != NULL &&
               memcmp(&data, &zero, sizeof data) == 0,
           what, message);
    minilm_data_free(&data);
}

static void test_good(void) {
    uint8_t file[FILE_BYTES];
    minilm_data data;
    char message[512] = "";
    make_good(file);
    write_file(file, sizeof file);
    int status = minilm_data_load(path, &data, message, sizeof message);
    expect(status == 0, "a good file is read", message);
    if (status != 0)
        return;
    expect(data.layer == 4 && data.tokens == TOKENS && data.heads == HEADS && data.head_dim == HEAD_DIM &&
               strcmp(data.title, "a title") == 0,
           "its header", message);
    expect(data.q[0] == 1.0f && data.k[0] == 1.0f + ELEMENTS && data.v[ELEMENTS - 1] == 3.0f * ELEMENTS &&
               data.out[ELEMENTS - 1] == 999.0 + ELEMENTS,
           "its values", message);
    minilm_data_free(&data);
}

static void test_lengths(void) {
    uint8_t file[FILE_BYTES + 1] = {0};
    make_good(file);
    for (size_t count = 0; count < FILE_BYTES; count++) {
        write_file(file, count);
        expect_refused(path, "is cut off", "cut off anywhere");
    }
    write_file(file, sizeof file);
    expect_refused(path, "is too long", "one byte too many");
}

/* Each bit of the file turned over, one at a time: the header's checks or the checksum must see it. */
static void test_every_bit(void) {
    uint8_t file[FILE_BYTES];
    make_good(file);
    for (int bit = 0; bit < 8 * FILE_BYTES; bit++) {
        file[bit / 8] ^= (uint8_t)(1u << bit % 8);
        write_file(file, sizeof file);
        expect_refused(path, "", "one bit turned over");
        file[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

/* Sealed with a right checksum, so that nothing but the check that is meant can refuse them. */
static void test_headers(void) {
    static const struct {
        int at;
        uint32_t value;
        const char *words;
    } cases[] = {
        {0, 0x41564f46u, "does not begin with FOVEAQKV"},
        {8, 0, "is of version 0"},
        {8, 2, "is of version 2"},
        {8, 0x01000000u, "is of version 16777216"},
        {16, 0, "cannot be"},
        {16, 65536, "cannot be"},
        {16, 0xffffffffu, "cannot be"},
        {16, 0x80000000u, "cannot be"},
        {16, 65535, "is cut off"},
        {16, TOKENS + 1, "is cut off"},
        {16, TOKENS - 1, "is too long"},
        {20, 0, "cannot be"},
        {20, 0xffffffffu, "cannot be"},
        {20, HEADS - 1, "is too long"},
        {24, 0, "cannot be"},
        {24, 0x7fffffffu, "cannot be"},
        {24, 65535, "is cut off"},
        {32, 0x0a0a0a0au, "title is not plain text"},
        {92, 0x61616161u, "title has no end"},
        {HEADER_BYTES, 0x7f800000u, "not finite"},
        {HEADER_BYTES + 12 * ELEMENTS - 4, 0x7fc00000u, "not finite"},
        {FILE_BYTES - 8, 0xfff00000u, "not finite"},
    };
    uint8_t file[FILE_BYTES];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        make_good(file);
        put_u32(file + cases[i].at, cases[i].value);
        seal(file);
        write_file(file, sizeof file);
        expect_refused(path, cases[i].words, cases[i].words);
    }
    /* All three sizes at their most: 2^48 elements. */
    make_good(file);
    for (int at = 16; at < 28; at += 4)
        put_u32(file + at, 65535);
    seal(file);
    write_file(file, sizeof file);
    expect_refused(path, "is cut off", "the largest sizes");
}

int main(int argc, char **argv) {
    char file[4096];
    if (argc != 2 || snprintf(file, sizeof file, "%s/test_minilm_data.tmp", argv[1]) >= (int)sizeof file) {
        fputs("usage: test-minilm-data FOLDER\n", stderr);
        return 2;
    }
    path = file;
    /* A file left open by each refusal would now be noticed soon. */
    const struct rlimit few_files = {64, 64};
    setrlimit(RLIMIT_NOFILE, &few_files);
    remove(path); /* a pipe that a stopped run left */
    test_good();
    test_lengths();
    test_every_bit();
    test_headers();
    remove(path);
    expect_refused(path, "cannot be opened", "a file that is not there");
    expect_refused(argv[1], "cannot be opened (not a regular file)", "a folder");
    mkfifo(path, 0600);
    expect_refused(path, "cannot be opened (not a regular file)", "a pipe to which nobody writes");
    remove(path);
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
