/* make-model: writes a model file of random attention weights in LLaMA's names and bfloat16, to see how fovea-inspect
 * does on large ones:  make-model LAYERS HEADS D_MODEL D_K FILE */
#include "rng.h"

#include <stdio.h>
#include <stdlib.h>

static int fail(const char *what) {
    fprintf(stderr, "make-model: %s\n", what);
    return 1;
}

static int write_numbers(FILE *file, uint64_t array, long long count) {
    rng r = rng_stream(array, "make-model");
    for (long long i = 0; i < count; i++) {
        const float number = rng_normal(&r);
        uint32_t bits;
        memcpy(&bits, &number, sizeof bits);
        fputc((int)(bits >> 16 & 0xff), file);
        fputc((int)(bits >> 24), file);
    }
    return ferror(file);
}

int main(int argc, char **argv) {
    static const char *const parts[] = {"q", "k", "v"};
    const long long layers = argc == 6 ? atoll(argv[1]) : 0, channels = argc == 6 ? atoll(argv[2]) * atoll(argv[4]) : 0;
    const long long d_model = argc == 6 ? atoll(argv[3]) : 0, count = channels * d_model;
    if (layers < 1 || layers > 10000 || count < 1)
        return fail("usage: make-model LAYERS HEADS D_MODEL D_K FILE"), 2;
    FILE *file = fopen(argv[5], "wb");
    const size_t room = (size_t)layers * 3 * 256 + 2;
    char *header = malloc(room);
    if (file == NULL || header == NULL)
        return fail("the file cannot be written");
    size_t length = 0;
    for (long long i = 0; i < 3 * layers; i++)
        length +=
            (size_t)snprintf(header + length, room - length,
                             "%c\"l.%lld.self_attn.%s_proj.weight\":{\"dtype\":\"BF16\",\"shape\":[%lld,%lld],"
                             "\"data_offsets\":[%lld,%lld]}",
                             i ? ',' : '{', i / 3, parts[i % 3], channels, d_model, 2 * i * count, 2 * (i + 1) * count);
    header[length++] = '}';
    for (int i = 0; i < 8; i++)
        fputc((int)((unsigned long long)length >> 8 * i & 0xff), file);
    fwrite(header, 1, length, file);
    int failed = 0;
    for (long long i = 0; i < 3 * layers && !failed; i++)
        failed = write_numbers(file, (uint64_t)i, count);
    free(header);
    return fclose(file) != 0 || failed ? fail("the file could not be written to its end") : 0;
}
