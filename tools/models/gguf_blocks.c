/* Element types of GGUF (gguf.h). */
#include "gguf.h"

#include <strings.h>

const char *gguf_type_name(uint32_t type) {
    static const char *const names[] = {
        [0] = "F32",     [1] = "F16",    [2] = "Q4_0",     [3] = "Q4_1",    [6] = "Q5_0",     [7] = "Q5_1",
        [8] = "Q8_0",    [9] = "Q8_1",   [10] = "Q2_K",    [11] = "Q3_K",   [12] = "Q4_K",    [13] = "Q5_K",
        [14] = "Q6_K",   [15] = "Q8_K",  [16] = "IQ2_XXS", [17] = "IQ2_XS", [18] = "IQ3_XXS", [19] = "IQ1_S",
        [20] = "IQ4_NL", [21] = "IQ3_S", [22] = "IQ2_S",   [23] = "IQ4_XS", [24] = "I8",      [25] = "I16",
        [26] = "I32",    [27] = "I64",   [28] = "F64",     [29] = "IQ1_M",  [30] = "BF16",    [34] = "TQ1_0",
        [35] = "TQ2_0",  [39] = "MXFP4", [40] = "NVFP4",   [41] = "Q1_0",   [42] = "Q2_0"};
    const char *name = type < sizeof names / sizeof names[0] ? names[type] : NULL;
    return name != NULL ? name : "unknown";
}

fovea_dtype gguf_dtype(gguf_type type) {
    const fovea_dtype_facts *facts;
    const char *name = gguf_type_name(type);
    for (int dtype = 1; (facts = fovea_dtype_info((fovea_dtype)dtype)) != NULL; dtype++)
        if (facts->stored && !facts->scaled && strcasecmp(facts->name, name) == 0)
            return (fovea_dtype)dtype;
    return (fovea_dtype)0;
}

bool gguf_quantized(gguf_type type) { return gguf_block_elements(type) > 1; }

int gguf_block_elements(gguf_type type) {
    const fovea_dtype_facts *facts = fovea_dtype_info(gguf_dtype(type));
    return facts != NULL ? facts->block_elements : 0;
}

int gguf_block_bytes(gguf_type type) {
    const fovea_dtype_facts *facts = fovea_dtype_info(gguf_dtype(type));
    return facts != NULL ? facts->block_bytes : 0;
}

fovea_status gguf_to_f32(const fovea_context *ctx, gguf_type type, const uint8_t *from, int64_t rows, int64_t columns,
                         float *to) {
    const fovea_dtype dtype = gguf_dtype(type);
    const fovea_matrix matrix = fovea_matrix_out_in(from, dtype, rows, columns);
    return gguf_quantized(type) ? fovea_dequantize(ctx, &matrix, to)
                                : fovea_convert(rows * columns, from, dtype, to, FOVEA_DTYPE_F32);
}
