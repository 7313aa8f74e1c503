/* test_model.h. */
#include "test_model.h"

#include "test_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_MOST = 8192 };

static void add(model *m, rng *r, const char *prefix, const char *suffix, int64_t rows, int64_t columns) {
    array *a = &m->arrays[m->count++];
    const int64_t n = (rows > 0 ? rows : 1) * columns;
    snprintf(a->name, sizeof a->name, "%s%s", prefix, suffix);
    a->dims = rows > 0 ? 2 : 1;
    a->shape[0] = rows > 0 ? rows : columns;
    a->shape[1] = columns;
    a->values = m->values + m->used;
    for (int64_t i = 0; i < n; i++)
        m->values[m->used++] = 0.3f * rng_normal(r);
}

model *model_make(void) {
    static const struct {
        const char *name;
        int64_t out, in; /* in 0: a layer norm */
    } parts[] = {{"attention.self.query", WIDTH, WIDTH},   {"attention.self.key", WIDTH, WIDTH},
                 {"attention.self.value", WIDTH, WIDTH},   {"attention.output.dense", WIDTH, WIDTH},
                 {"attention.output.LayerNorm", WIDTH, 0}, {"intermediate.dense", INNER, WIDTH},
                 {"output.dense", WIDTH, INNER},           {"output.LayerNorm", WIDTH, 0}};
    model *m = calloc(1, sizeof *m);
    rng r = rng_stream(test_seed(), "model");
    add(m, &r, "embeddings.", "word_embeddings.weight", WORDS, WIDTH);
    add(m, &r, "embeddings.", "position_embeddings.weight", TOKENS, WIDTH);
    add(m, &r, "embeddings.", "token_type_embeddings.weight", 2, WIDTH);
    add(m, &r, "embeddings.", "LayerNorm.weight", 0, WIDTH);
    add(m, &r, "embeddings.", "LayerNorm.bias", 0, WIDTH);
    for (int layer = 0; layer < LAYERS; layer++)
        for (int i = 0; i < 8; i++) {
            char prefix[64];
            snprintf(prefix, sizeof prefix, "encoder.layer.%d.%s", layer, parts[i].name);
            add(m, &r, prefix, ".weight", parts[i].in > 0 ? parts[i].out : 0, parts[i].in > 0 ? parts[i].in : WIDTH);
            add(m, &r, prefix, ".bias", 0, parts[i].out);
        }
    return m;
}

void model_write(const model *m, const char *path, int index, damage how) {
    static char header[HEADER_MOST];
    strcpy(header, "{");
    uint8_t *data = malloc((size_t)m->used * 4);
    int64_t bytes = 0;
    for (int i = 0; i < m->count; i++) {
        const array *a = &m->arrays[i];
        const int64_t n = a->dims == 2 ? a->shape[0] * a->shape[1] : a->shape[0];
        const int64_t flat[] = {n / 2, 2};
        if (i == index && how == LEFT_OUT)
            continue;
        test_file_add(header, sizeof header, a->name, i == index && how == OTHER_DTYPE ? "I32" : "F32",
                      i == index && how == OTHER_SHAPE ? 2 : a->dims,
                      i == index && how == OTHER_SHAPE ? flat : a->shape, bytes, bytes + 4 * n);
        for (int64_t k = 0; k < n; k++)
            for (int b = 0; b < 4; b++)
                data[bytes++] = (uint8_t)(float_bits(a->values[k]) >> 8 * b);
    }
    test_file_write_safetensors(path, -1, header, data, (size_t)bytes);
    free(data);
}
