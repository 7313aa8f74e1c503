/* For the fuzzers of saved sequences, which end with a checksum. */
#ifndef FUZZ_SAVED_H
#define FUZZ_SAVED_H

#include "core/core.h"
#include "fovea/fovea.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static void require(int ok, const char *what) {
    if (!ok) {
        fprintf(stderr, "%s: %s\n", what, fovea_error_detail());
        abort();
    }
}

static fovea_context *context(void) {
    static fovea_context *ctx;
    fovea_context_options options;
    fovea_context_options_init(&options);
    options.threads = 1;
    options.tuning_file = "";
    if (!ctx)
        require(fovea_context_create(&options, &ctx) == FOVEA_OK, "no context");
    return ctx;
}

/* Tries an input as it is, and then with the right checksum. */
static void try_sealed(void (*try)(const uint8_t *data, size_t size), const uint8_t *data, size_t size) {
    uint64_t hash;
    try(data, size);
    if (size < sizeof hash)
        return;
    uint8_t *sealed = malloc(size);
    require(sealed != NULL, "no memory");
    memcpy(sealed, data, size);
    hash = fv_hash(FV_HASH_BEGIN, (const char *)sealed, size - sizeof hash);
    memcpy(sealed + size - sizeof hash, &hash, sizeof hash);
    try(sealed, size);
    free(sealed);
}

static void write_seed(const char *folder, int number, const char *data, size_t size) {
    char path[512];
    snprintf(path, sizeof path, "%s/%d", folder, number);
    FILE *file = fopen(path, "wb");
    require(file && fwrite(data, 1, size, file) == size && fclose(file) == 0, "a seed cannot be written");
}

#endif
