/* Quantized weights (fovea/quantization.h) by libFuzzer: bytes of any type, layout, groups, scales and zeros have
 * numbers, or are refused with a sentence; and maps of them are packed, executed and read back, or refused likewise.
 *
 *     fuzz-quantization --make-seeds FOLDER    writes an input of each type to begin with */
#include "fovea/fovea.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static const fovea_dtype types[] = {FOVEA_DTYPE_I8,     FOVEA_DTYPE_U4,     FOVEA_DTYPE_U8,   FOVEA_DTYPE_Q8_0,
                                    FOVEA_DTYPE_Q4_0,   FOVEA_DTYPE_Q4_1,   FOVEA_DTYPE_Q4_K, FOVEA_DTYPE_Q5_K,
                                    FOVEA_DTYPE_Q6_K,   FOVEA_DTYPE_Q5_0,   FOVEA_DTYPE_Q5_1, FOVEA_DTYPE_MXFP4,
                                    FOVEA_DTYPE_IQ4_NL, FOVEA_DTYPE_F8_E4M3};
enum { TYPES = sizeof types / sizeof types[0] };

enum { HEAD = 16, MOST = 4096, ROWS = 3 }; /* bytes that say what the others are; numbers */

static void require(int ok, const char *what) {
    if (!ok) {
        fprintf(stderr, "%s\n", what);
        abort();
    }
}

/* A copy that ends where what it holds does. */
static void *part(const uint8_t **from, size_t *left, size_t bytes) {
    uint8_t *copy = calloc(bytes + 1, 1), *exact = malloc(bytes ? bytes : 1);
    require(copy && exact, "no memory");
    const size_t n = bytes < *left ? bytes : *left;
    memcpy(copy, *from, n);
    memcpy(exact, copy, bytes);
    free(copy);
    *from += n;
    *left -= n;
    return exact;
}

/* A map of weights that have numbers, or are refused. */
static void use(const fovea_context *ctx, const fovea_matrix *m, int arithmetic, fovea_status want) {
    static const fovea_arithmetic arithmetics[] = {FOVEA_ARITHMETIC_DEFAULT, FOVEA_ARITHMETIC_Q8,
                                                   FOVEA_ARITHMETIC_EXACT};
    static float x[ROWS * MOST], y[ROWS * MOST], numbers[MOST], scales[MOST];
    static uint8_t zeros[MOST];
    static int32_t group_of[MOST];
    fovea_linear_desc desc;
    fovea_linear_desc_init(&desc);
    desc.in_features = m->in;
    desc.part.weight = *m;
    desc.arithmetic = arithmetics[arithmetic];
    fovea_linear *map;
    require(fovea_linear_create(ctx, &desc, &map) == want, "packed, but without numbers, or the other way");
    if (want != FOVEA_OK)
        return;
    fovea_quantization q;
    fovea_quantization_init(&q);
    for (int64_t i = 0; i < ROWS * m->in; i++)
        x[i] = (float)(i % 17 - 8);
    fovea_linear_args args;
    fovea_linear_args_init(&args);
    const fovea_tensor out = fovea_tensor_bhtd(y, FOVEA_DTYPE_F32, 1, 1, ROWS, m->out);
    args.x = fovea_tensor_bhtd(x, FOVEA_DTYPE_F32, 1, 1, ROWS, m->in);
    args.y = &out;
    require(fovea_linear_apply(ctx, map, &args, NULL, 0) == FOVEA_OK, "not executed");
    require(fovea_linear_unpack(map, 0, numbers, NULL, NULL) == FOVEA_OK, "not read back");
    (void)fovea_linear_unpack_groups(map, 0, &q, scales, zeros, group_of);
    fovea_linear_destroy(map);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static fovea_context *ctx;
    static float numbers[MOST];
    fovea_context_options options;
    fovea_context_options_init(&options);
    options.threads = 1;
    require(ctx || fovea_context_create(&options, &ctx) == FOVEA_OK, "no context");
    if (size < HEAD)
        return 0;
    const uint8_t *h = data;
    const uint8_t *rest = data + HEAD;
    size_t left = size - HEAD;
    const fovea_dtype dtype = types[h[0] % TYPES];
    const fovea_dtype_facts *facts = fovea_dtype_info(dtype);
    const int64_t in = facts->block_elements == 256 ? 256 : 16 * (1 + h[1] % 16), out = 1 + h[2] % 16;
    fovea_quantization q;
    fovea_quantization_init(&q);
    q.group_size = h[3] % 4 == 0 ? 0 : h[3] % 4 == 1 ? (int8_t)h[4] : 16 * (h[4] % 8);
    const int64_t groups = q.group_size > 0 ? in / q.group_size : 1;
    q.scale_dtype = (fovea_dtype)(h[5] % 8);
    q.packing = (fovea_packing)(h[6] % 4);
    q.zero_offset = (int8_t)h[7];
    q.out_group_size = h[14] % 4;
    void *words = part(&rest, &left, (size_t)(in * out * 34 / 32 + 16 * out)); /* of each type no less */
    void *scales = part(&rest, &left, (size_t)(groups * out * 4)), *zeros = part(&rest, &left, (size_t)(groups * out));
    int32_t *group_of = part(&rest, &left, (size_t)in * sizeof *group_of);
    for (int64_t i = 0; i < in && h[8] % 2; i++)
        group_of[i] = (int32_t)(((uint32_t)group_of[i] + (uint32_t)i) % (uint32_t)(groups ? groups : 1));
    if (h[9] % 4 == 0)
        q.scales = scales;
    if (h[9] % 4 != 1)
        q.group_scales = scales;
    q.zeros = h[10] % 2 ? zeros : NULL;
    q.group_of = h[11] % 2 ? group_of : NULL;
    fovea_matrix m =
        h[12] % 2 ? fovea_matrix_in_out(words, dtype, in, out) : fovea_matrix_out_in(words, dtype, out, in);
    m.quantization = facts->scaled ? &q : NULL;
    const fovea_status status = fovea_dequantize(ctx, &m, numbers);
    require(status == FOVEA_OK || fovea_error_detail()[0] != '\0', "an error without a sentence");
    const int arithmetic = h[13] % 3;
    use(ctx, &m, arithmetic,
        status == FOVEA_OK && dtype == FOVEA_DTYPE_F8_E4M3 && arithmetic == 1 ? FOVEA_ERROR_UNSUPPORTED : status);
    free(words);
    free(scales);
    free(zeros);
    free(group_of);
    return 0;
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    if (*argc != 3 || strcmp((*argv)[1], "--make-seeds") != 0)
        return 0;
    for (int type = 0; type < TYPES; type++)
        for (int packing = 0; packing < 3; packing++) {
            uint8_t bytes[2048];
            char path[4096];
            memset(bytes, 0x2b, sizeof bytes);
            const uint8_t head[HEAD] = {(uint8_t)type,
                                        1,
                                        7,
                                        2,
                                        1,
                                        FOVEA_DTYPE_F16,
                                        (uint8_t)packing,
                                        0,
                                        1,
                                        2,
                                        types[type] == FOVEA_DTYPE_U4 || types[type] == FOVEA_DTYPE_U8,
                                        (uint8_t)packing};
            memcpy(bytes, head, sizeof head);
            snprintf(path, sizeof path, "%s/weights-%d-%d", (*argv)[2], type, packing);
            FILE *file = fopen(path, "w");
            require(file && fwrite(bytes, sizeof bytes, 1, file) == 1 && fclose(file) == 0, "a seed cannot be written");
        }
    exit(0);
}
