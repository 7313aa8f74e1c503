/* Which attention is left to ggml, for any number of threads: attention_pays.c with a context of this test. */
#include "attention.h"

#include <stdio.h>

static fovea_info info;
static const fg_type f16 = {.name = "f16", .dtype = FOVEA_DTYPE_F16, .block = 1, .bytes = 2},
                     q8_0 = {.name = "q8_0", .dtype = FOVEA_DTYPE_Q8_0, .block = 32, .bytes = 34};

const fovea_info *fg_options_info(void) { return &info; }
const fg_type *fg_type_of(enum ggml_type type) { return type == GGML_TYPE_Q8_0 ? &q8_0 : &f16; }

static const struct {
    int threads;
    enum ggml_type keys, values;
    int64_t kv_heads, rows, batch, kv_len;
    bool pays;
} cases[] = {
    {1, GGML_TYPE_F16, GGML_TYPE_F16, 2, 1, 1, 4096, true},
    {64, GGML_TYPE_F16, GGML_TYPE_F16, 2, 1, 1, 4096, true},
    {64, GGML_TYPE_F16, GGML_TYPE_F16, 2, 1, 1, 16, false}, /* hardly any work */
    {4, GGML_TYPE_Q8_0, GGML_TYPE_Q8_0, 2, 1, 1, 4096, true},
    {5, GGML_TYPE_Q8_0, GGML_TYPE_Q8_0, 2, 1, 1, 4096, false}, /* more threads than twice the key heads */
    {5, GGML_TYPE_F16, GGML_TYPE_Q8_0, 2, 1, 1, 4096, false},
    {5, GGML_TYPE_Q8_0, GGML_TYPE_F16, 2, 1, 1, 4096, false},
    {5, GGML_TYPE_Q8_0, GGML_TYPE_Q8_0, 3, 1, 1, 4096, true},
    {12, GGML_TYPE_Q8_0, GGML_TYPE_Q8_0, 2, 3, 1, 4096, true}, /* rows and sequences count */
    {13, GGML_TYPE_Q8_0, GGML_TYPE_Q8_0, 2, 3, 1, 4096, false},
    {12, GGML_TYPE_Q8_0, GGML_TYPE_Q8_0, 2, 1, 3, 4096, true},
    {13, GGML_TYPE_Q8_0, GGML_TYPE_Q8_0, 2, 1, 3, 4096, false},
};

int main(void) {
    int failed = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ggml_tensor q = {.type = GGML_TYPE_F32, .ne = {128, cases[i].rows, 8, cases[i].batch}};
        struct ggml_tensor k = {.type = cases[i].keys, .ne = {128, cases[i].kv_len, cases[i].kv_heads, cases[i].batch}};
        struct ggml_tensor v = k, op = {.src = {&q, &k, &v}};
        v.type = cases[i].values;
        info.threads = cases[i].threads;
        if (fg_attention_pays(&op) != cases[i].pays) {
            printf("FAILED: case %d\n", (int)i);
            failed++;
        }
    }
    printf("%s\n", failed ? "failed" : "passed");
    return failed != 0;
}
