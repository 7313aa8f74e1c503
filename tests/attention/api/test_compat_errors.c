/* Functions of compat.h refuse, and write nothing then: pointers that are NULL, structs of another
 * version, tensors of another type. */
#include "attention_case.h"
#include "test.h"

#include <string.h>

static const fovea_tensor absent;

/* Each pointer that is needed, in turn: refused by its name, and what is given stays. */
static void test_null(void) {
    float data[8] = {0};
    int32_t seqlens[4] = {0};
    int64_t room[8];
    uint8_t bytes[64] = {0};
    fovea_attention_desc desc;
    fovea_attention_args args;
    fovea_attention_desc_init(&desc);
    fovea_attention_args_init(&args);
    const fovea_attention_desc blank = desc;
    const fovea_attention_args none = args;
#define NEEDS(words, call) check_status(#call, call, FOVEA_ERROR_NULL, words " is NULL")
    NEEDS("desc", fovea_from_torch_mha(NULL, &args, absent, bytes, 2, 1, bytes));
    NEEDS("args", fovea_from_torch_mha(&desc, NULL, absent, bytes, 2, 1, bytes));
    NEEDS("buffer", fovea_from_torch_mha(&desc, &args, absent, bytes, 2, 1, NULL));
    NEEDS("data", fovea_from_torch_key(fovea_tensor_bhtd(NULL, FOVEA_DTYPE_F32, 1, 1, 2, 2), 1, data));
    NEEDS("desc", fovea_from_onnx(NULL, &args, absent, 1, 0, NULL, room));
    NEEDS("args", fovea_from_onnx(&desc, NULL, absent, 1, 0, NULL, room));
    NEEDS("buffer", fovea_from_onnx(&desc, &args, absent, 1, 0, NULL, NULL));
    NEEDS("desc", fovea_from_ort_gqa(NULL, &args, seqlens, 1, 0, room));
    NEEDS("args", fovea_from_ort_gqa(&desc, NULL, seqlens, 1, 0, room));
    NEEDS("seqlens_k", fovea_from_ort_gqa(&desc, &args, NULL, 1, 0, room));
    NEEDS("buffer", fovea_from_ort_gqa(&desc, &args, seqlens, 1, 0, NULL));
    NEEDS("desc", fovea_from_flash(NULL, &args, 1, -1, -1, room));
    NEEDS("args", fovea_from_flash(&desc, NULL, 1, -1, -1, room));
    NEEDS("buffer", fovea_from_flash(&desc, &args, 1, -1, -1, NULL));
    NEEDS("desc", fovea_from_flash_varlen(NULL, &args, 1, seqlens, seqlens, 2, 2, 1, -1, -1, room));
    NEEDS("args", fovea_from_flash_varlen(&desc, NULL, 1, seqlens, seqlens, 2, 2, 1, -1, -1, room));
    NEEDS("cu_seqlens_q", fovea_from_flash_varlen(&desc, &args, 1, NULL, seqlens, 2, 2, 1, -1, -1, room));
    NEEDS("cu_seqlens_k", fovea_from_flash_varlen(&desc, &args, 1, seqlens, NULL, 2, 2, 1, -1, -1, room));
    NEEDS("buffer", fovea_from_flash_varlen(&desc, &args, 1, seqlens, seqlens, 2, 2, 1, -1, -1, NULL));
    NEEDS("desc", fovea_from_flash_kvcache(NULL, &args, seqlens, 1, NULL, 1, -1, -1, room));
    NEEDS("args", fovea_from_flash_kvcache(&desc, NULL, seqlens, 1, NULL, 1, -1, -1, room));
    NEEDS("cache_seqlens", fovea_from_flash_kvcache(&desc, &args, NULL, 1, NULL, 1, -1, -1, room));
    NEEDS("buffer", fovea_from_flash_kvcache(&desc, &args, seqlens, 1, NULL, 1, -1, -1, NULL));
    NEEDS("desc", fovea_from_keras(NULL, &args, bytes, bytes, bytes, absent, 1, bytes));
    NEEDS("args", fovea_from_keras(&desc, NULL, bytes, bytes, bytes, absent, 1, bytes));
    NEEDS("buffer", fovea_from_keras(&desc, &args, bytes, bytes, bytes, absent, 1, NULL));
#undef NEEDS
    test_check(memcmp(&desc, &blank, sizeof desc) == 0 && memcmp(&args, &none, sizeof args) == 0,
               "a refused call has written");
    check_status("no masks need no buffer", fovea_from_torch_mha(&desc, &args, absent, NULL, 2, 0, NULL), FOVEA_OK,
                 NULL);
    desc.batch = 0, desc.kv_len = 2;
    check_status(
        "no sequences need no buffer, whatever the mask repeats",
        fovea_from_torch_mha(&desc, &args, fovea_tensor_bhtd(bytes, FOVEA_DTYPE_BOOL, 1, 1, 2, 2), NULL, 2, 0, NULL),
        FOVEA_OK, NULL);
}

/* desc or args of version 0.2, not initialized, or newer: refused by its name before a field is read, and nothing is
 * written. The sizes of 0.2 are its largest (test_structs.c). */
static void test_versions(void) {
    enum { DESC_0_2 = 208, ARGS_0_2 = 960 };
    const struct {
        size_t desc, args;
        const char *words;
    } cases[] = {
        {DESC_0_2, ARGS_0_2, "fovea_attention_desc has struct_size 208"},
        {DESC_0_2, sizeof(fovea_attention_args), "compiled for a version before 0.4"},
        {0, sizeof(fovea_attention_args), "or without fovea_attention_desc_init"},
        {sizeof(fovea_attention_desc) + 8, sizeof(fovea_attention_args), "needs a newer library"},
        {sizeof(fovea_attention_desc), ARGS_0_2, "fovea_attention_args has struct_size 960"},
        {sizeof(fovea_attention_desc), 0, "or without fovea_attention_args_init"},
        {sizeof(fovea_attention_desc), sizeof(fovea_attention_args) + 8, "needs a newer library"},
    };
    const int32_t seqlens[3] = {0, 1, 2};
    const uint8_t ones[64] = {1, 1, 1, 1};
    int64_t room[16], room_before[16];
    uint8_t bytes[64], bytes_before[64];
    memset(room, 0x5a, sizeof room);
    memset(bytes, 0x5a, sizeof bytes);
    memcpy(room_before, room, sizeof room);
    memcpy(bytes_before, bytes, sizeof bytes);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fovea_attention_desc desc;
        fovea_attention_args args;
        fovea_attention_desc_init(&desc);
        fovea_attention_args_init(&args);
        desc.struct_size = cases[i].desc;
        args.struct_size = cases[i].args;
        desc.batch = desc.q_len = desc.kv_len = 2;
        const fovea_attention_desc desc_before = desc;
        const fovea_attention_args args_before = args;
#define REFUSED(call) check_status(#call, call, FOVEA_ERROR_VERSION, cases[i].words)
        REFUSED(fovea_from_torch_mha(&desc, &args, absent, ones, 2, 1, bytes));
        REFUSED(fovea_from_torch_mha(&desc, &args, absent, NULL, 2, 1, NULL));
        REFUSED(fovea_from_onnx(&desc, &args, absent, 1, 0, NULL, room));
        REFUSED(fovea_from_ort_gqa(&desc, &args, seqlens, 1, 0, room));
        REFUSED(fovea_from_flash(&desc, &args, 1, -1, -1, room));
        REFUSED(fovea_from_flash_varlen(&desc, &args, 2, seqlens, seqlens, 2, 2, 1, -1, -1, room));
        REFUSED(fovea_from_flash_kvcache(&desc, &args, seqlens, 1, NULL, 1, -1, -1, room));
        REFUSED(fovea_from_keras(&desc, &args, ones, ones, ones, absent, 1, bytes));
        REFUSED(fovea_from_keras(&desc, &args, NULL, NULL, NULL, absent, 1, NULL));
#undef REFUSED
        test_check(memcmp(&desc, &desc_before, sizeof desc) == 0 && memcmp(&args, &args_before, sizeof args) == 0,
                   "%s: a refused call has written to a struct", cases[i].words);
        test_check(memcmp(room, room_before, sizeof room) == 0 && memcmp(bytes, bytes_before, sizeof bytes) == 0,
                   "%s: a refused call has written to a buffer", cases[i].words);
    }
}

/* Tensors of another type are refused before anything is written: elements of 2 bytes end earlier. */
static void test_key_types(void) {
    enum { SIZE = 3 * 2 };
    const fovea_dtype types[] = {FOVEA_DTYPE_BF16, FOVEA_DTYPE_F16, FOVEA_DTYPE_I8,
                                 FOVEA_DTYPE_BOOL, (fovea_dtype)0,  (fovea_dtype)99};
    const float value[2] = {1, 2};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        uint16_t x[SIZE] = {0};
        const uint16_t zeros[SIZE] = {0};
        check_status("fovea_from_torch_key", fovea_from_torch_key(fovea_tensor_bhtd(x, types[i], 1, 1, 3, 2), 2, value),
                     FOVEA_ERROR_DTYPE, "the tensor's dtype is");
        test_check(memcmp(x, zeros, sizeof x) == 0, "dtype %d: a refused call has written", (int)types[i]);
        check_status("no such token", fovea_from_torch_key(fovea_tensor_bhtd(x, types[i], 1, 1, 3, 2), 3, value),
                     FOVEA_OK, NULL);
    }
}
int main(int argc, char **argv) {
    test_begin(argc, argv, "compat_errors", NULL);
    test_null();
    test_versions();
    test_key_types();
    return test_end();
}
