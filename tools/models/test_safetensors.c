/* test-safetensors: the reader of safetensors files on right files and on hostile ones, each of which must give a
 * sentence that names the file and says what is wrong. */
#include "test_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

static test_option options[] = {TEST_FILE_OPTION, {0}};
static char path[4096];

/* Opens the file, which must be refused with these words. */
static void refused(const char *words, const char *what) {
    char text[512] = "";
    safetensors *file;
    const int status = safetensors_open(path, &file, (complaint){text, sizeof text});
    test_check(status == -1 && file == NULL, "%s is taken", what);
    test_check(strstr(text, words) != NULL && strncmp(text, path, strlen(path)) == 0, "%s: \"%s\", not \"%s\"", what,
               text, words);
    if (status == 0)
        safetensors_close(file);
}

static safetensors *opened(const char *what) {
    char text[512] = "";
    safetensors *file;
    test_check(safetensors_open(path, &file, (complaint){text, sizeof text}) == 0, "%s: %s", what, text);
    return file;
}

/* --------------------------------------------------------------------------------------------------- right files -- */

/* One array of each type that can be read, an empty one and one without dimensions; out of order, with metadata. */
static const char good[] = "{\"__metadata__\":{\"format\":\"pt\"},"
                           "\"f64\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[36,44]},"
                           "\"f32\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]},"
                           "\"empty\":{\"dtype\":\"F32\",\"shape\":[3,0],\"data_offsets\":[8,8]},"
                           "\"f16\":{\"dtype\":\"F16\",\"shape\":[6],\"data_offsets\":[8,20]},"
                           "\"bf16\":{\"dtype\":\"BF16\",\"shape\":[2,2],\"data_offsets\":[20,28]},"
                           "\"i32\":{\"data_offsets\":[28,36],\"shape\":[2],\"dtype\":\"I32\"},"
                           "\"bool\":{\"dtype\":\"BOOL\",\"shape\":[1],\"data_offsets\":[44,45]}}   ";
static const uint8_t good_data[] = {
    0x00, 0x00, 0x80, 0x3f, 0x00, 0x00, 0x20, 0xc0,                         /* 1, -2.5 */
    0x00, 0x3c, 0x01, 0x00, 0xff, 0x03, 0x00, 0x80, 0xff, 0x7b, 0x00, 0xfc, /* halves, below */
    0x80, 0x3f, 0x20, 0xc0, 0x80, 0x7f, 0x01, 0x00,                         /* 1, -2.5, inf, 2^-133 */
    0xff, 0xff, 0xff, 0xff, 0x02, 0x01, 0x00, 0x00,                         /* -1, 258 */
    0x9a, 0x99, 0x99, 0x99, 0x99, 0x99, 0xb9, 0x3f,                         /* 0.1 */
    0x01,
};

static void floats(safetensors *file, const char *name, const float *want, int64_t n) {
    char text[512] = "";
    float got[8];
    poison_fill(got, 8);
    const safetensors_tensor *t = safetensors_find(file, name);
    if (test_check(t != NULL && t->elements == n, "%s is not there", name)) {
        test_check(safetensors_read_f32(file, t, got, (complaint){text, sizeof text}) == 0, "%s", text);
        test_same(got, want, n, "%s", name);
    }
}

static void test_good(void) {
    test_file_write_safetensors(path, -1, good, good_data, sizeof good_data);
    safetensors *file = opened("a right file");
    if (file == NULL)
        return;
    char text[512] = "";
    const complaint to = {text, sizeof text};
    test_check(safetensors_count(file) == 7 && safetensors_find(file, "f3") == NULL, "its arrays");
    test_check(strcmp(safetensors_at(file, 6)->name, "bool") == 0, "in the order of their places");
    floats(file, "f32", (const float[]){1.0f, -2.5f}, 2);
    floats(file, "f16", (const float[]){1.0f, 0x1p-24f, 1023 * 0x1p-24f, -0.0f, 65504.0f, -INFINITY}, 6);
    floats(file, "bf16", (const float[]){1.0f, -2.5f, INFINITY, 0x1p-133f}, 4);
    floats(file, "f64", (const float[]){0.1f}, 1);
    floats(file, "empty", (const float[]){0.0f}, 0);
    int32_t integers[2];
    test_check(safetensors_read_i32(file, safetensors_find(file, "i32"), integers, to) == 0 && integers[0] == -1 &&
                   integers[1] == 258,
               "i32: %s", text);
    float f;
    test_check(safetensors_read_f32(file, safetensors_find(file, "bool"), &f, to) == -1 &&
                   strstr(text, "bool is of dtype BOOL") != NULL,
               "wrong dtype: %s", text);
    test_check(safetensors_read_i32(file, safetensors_find(file, "f32"), integers, to) == -1 &&
                   strstr(text, "f32 is of dtype F32, not I32") != NULL,
               "wrong dtype: %s", text);
    const int64_t shape[] = {2, -1}, other[] = {3, 1};
    test_check(safetensors_need(file, "f32", 2, shape, to) != NULL, "needed: %s", text);
    test_check(safetensors_need(file, "f32", 2, other, to) == NULL && strstr(text, "is 2, not 3"), "shape: %s", text);
    test_check(safetensors_need(file, "f32", 1, shape, to) == NULL && strstr(text, "2 dimensions"), "dims: %s", text);
    test_check(safetensors_need(file, "none", 1, shape, to) == NULL && strstr(text, "no none"), "name: %s", text);
    safetensors_close(file);
}

/* ------------------------------------------------------------------------------------------------- hostile files -- */

static void test_cut_off(void) {
    uint8_t whole[8 + sizeof good - 1 + sizeof good_data + 1] = {(sizeof good - 1) & 0xff, (sizeof good - 1) >> 8};
    memcpy(whole + 8, good, sizeof good - 1);
    memcpy(whole + 8 + sizeof good - 1, good_data, sizeof good_data);
    for (size_t n = 0; n < sizeof whole - 1; n++) {
        test_file_write(path, whole, n);
        refused(n < 8 + sizeof good - 1 ? "is cut off"
                : n == sizeof whole - 2 ? "past the end"
                                        : "",
                "cut off anywhere");
    }
    test_file_write(path, whole, sizeof whole);
    refused("1 bytes at its end belong to no array", "one byte too many");
    /* One bit of each byte. It may make another right file; no more can be asked than an answer. */
    for (size_t bit = 0; bit < 8 * (sizeof whole - 1); bit += 9) {
        char text[512];
        safetensors *file;
        whole[bit / 8] ^= (uint8_t)(1u << bit % 8);
        test_file_write(path, whole, sizeof whole - 1);
        whole[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (safetensors_open(path, &file, (complaint){text, sizeof text}) == 0)
            safetensors_close(file);
    }
}

#define ENTRY(dtype, shape, begin, end)                                                                                \
    "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" begin "," end "]}"

static void test_headers(void) {
    static const struct {
        const char *header, *words;
    } cases[] = {
        {"", "not a JSON object"},
        {"[]", "not a JSON object"},
        {" {}", "not a JSON object"},
        {"{\"a\":", "not a JSON object"},
        {"{} x", "not a JSON object"},
        {"{}", "16 bytes at its end belong to no array"},
        {"{\"a\":1}", "a must have dtype, shape and data_offsets"},
        {"{\"a\":{}}", "a must have dtype, shape and data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4]}}", "a must have"},
        {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}",
         "two arrays, or two entries"},
        {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[4]}}", "two arrays, or two entries"},
        {"{\"a\":" ENTRY("F31", "[4]", "0", "16") "}", "a is of an unknown dtype"},
        {"{\"a\":" ENTRY("", "[4]", "0", "16") "}", "a is of an unknown dtype"},
        {"{\"a\":{\"dtype\":32,\"shape\":[4],\"data_offsets\":[0,16]}}", "a is of an unknown dtype"},
        {"{\"a\":" ENTRY("F64", "[4]", "0", "16") "}", "has more elements than the file"},
        {"{\"a\":" ENTRY("F16", "[4]", "0", "16") "}", "a has 16 bytes, but its shape and dtype need 8"},
        {"{\"a\":" ENTRY("F32", "4", "0", "16") "}", "its shape is not a list"},
        {"{\"a\":" ENTRY("F32", "[-4]", "0", "16") "}", "not a whole number"},
        {"{\"a\":" ENTRY("F32", "[0.5]", "0", "16") "}", "not a whole number"},
        {"{\"a\":" ENTRY("F32", "[\"4\"]", "0", "16") "}", "not a whole number"},
        {"{\"a\":" ENTRY("F32", "[1e300]", "0", "16") "}", "not a whole number"},
        {"{\"a\":" ENTRY("F32", "[4294967296,4294967296]", "0", "0") "}", "more elements than the file"},
        {"{\"a\":" ENTRY("F32", "[4611686018427387904,4]", "0", "0") "}", "not a whole number"},
        {"{\"a\":" ENTRY("F32", "[9007199254740992,0]", "0", "16") "}", "a has 16 bytes"},
        {"{\"a\":" ENTRY("F32", "[1,1,1,1,1,1,1,1,4]", "0", "16") "}", "more than 8 dimensions"},
        {"{\"a\":" ENTRY("F32", "[4]", "0", "17") "}", "lies past the end of the file"},
        {"{\"a\":" ENTRY("F32", "[4]", "9007199254740976", "9007199254740992") "}", "lies past the end"},
        {"{\"a\":" ENTRY("F32", "[4]", "16", "0") "}", "not a valid range"},
        {"{\"a\":" ENTRY("F32", "[4]", "-16", "0") "}", "not a valid range"},
        {"{\"a\":" ENTRY("F32", "[4]", "18446744073709551600", "0") "}", "not a valid range"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16,16]}}", "not two numbers"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[]}}", "not two numbers"},
        {"{\"a\":" ENTRY("F32", "[2]", "8", "16") "}", "has 8 bytes before a that belong to no array"},
        {"{\"a\":" ENTRY("F32", "[2]", "0", "8") "}", "8 bytes at its end belong to no array"},
        {"{\"a\":" ENTRY("F32", "[3]", "0", "12") ",\"b\":" ENTRY("F32", "[2]", "8", "16") "}", "b overlaps a"},
        {"{\"a\":" ENTRY("F32", "[4]", "0", "16") ",\"b\":" ENTRY("F32", "[4]", "0", "16") "}", "b overlaps a"},
        {"{\"a\":" ENTRY("F32", "[2]", "0", "8") ",\"a\":" ENTRY("F32", "[2]", "8", "16") "}",
         "of the same name, near '\"a\"'"},
        {"{\"a\\u001b[2J\":" ENTRY("F32", "[4]", "0", "16") "}", "control characters"},
    };
    const uint8_t data[16] = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        test_file_write_safetensors(path, -1, cases[i].header, data, sizeof data);
        refused(cases[i].words, cases[i].header);
    }
}

/* Headers that claim to be huge, that are, and that nest without end. */
static void test_huge(void) {
    static const int64_t claims[] = {3, (1 << 24), (1 << 24) + 1, INT64_C(100000000), INT64_MAX};
    for (size_t i = 0; i < sizeof claims / sizeof claims[0]; i++) {
        test_file_write_safetensors(path, claims[i], "{}", "", 0);
        refused(claims[i] > 1 << 24 ? "header too large" : "is cut off", "a header of a claimed length");
    }
    uint8_t ones[12];
    memset(ones, 0xff, sizeof ones);
    test_file_write(path, ones, sizeof ones);
    refused("header too large", "a header of 2^64 - 1 bytes");
    enum { DEEP = 1 << 20 };
    char *deep = malloc(DEEP + 1);
    memset(deep, '[', DEEP);
    memcpy(deep, "{\"a\":", 5);
    deep[DEEP] = 0;
    test_file_write_safetensors(path, -1, deep, "", 0);
    refused("not a JSON object", "a header that nests a million times");
    free(deep);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "safetensors", options);
    snprintf(path, sizeof path, "%s", test_file_path(options, "test_safetensors.tmp"));
    /* A file left open by each refusal would soon be noticed. */
    const struct rlimit few_files = {64, 64};
    setrlimit(RLIMIT_NOFILE, &few_files);
    remove(path); /* a pipe that a stopped run left */
    test_good();
    test_cut_off();
    test_headers();
    test_huge();
    remove(path);
    refused("cannot be opened", "a file that is not there");
    mkfifo(path, 0600);
    refused("cannot be opened (not a regular file)", "a pipe to which nobody writes");
    remove(path);
    return test_end();
}
