# What a row of kernels.inc is an instance of, unless it has a file of its own, <tier>/<row>.c: KernelList.cmake writes
# that file into the build tree. The first line that matches the row's name counts; where none does,
# body/<operation>_<type>.h with simd_<tier>.h. Tiles become FV_MR and FV_NR. In definitions @type@ and @tier@ are the
# row's; the type of a product is the format of B. Long rows go on in the next line.
#    row                              words of   body                     definitions
set(bodies
    "^exp_f32_1x8_                    simd       body/exp_f32.h           FV_SIDE=2"
    "^exp_f32_1x1_                    simd       body/exp_f32.h           FV_SIDE=1"
    "^exp_f32_                        simd       body/exp_f32.h           FV_SIDE=4"
    "^expand_.*_scalar                simd       scalar/expand.h"
    "^multiply_i16_i[4-8]g_.*_scalar  simd       scalar/multiply_groups.h FV_GROUP_KIND=FV_KIND_i16"
    "^multiply_i8x2_i[4-8]g_.*_scalar simd       scalar/multiply_groups.h FV_GROUP_KIND=FV_KIND_i8x2"
    "^multiply_i8_i[4-8]g_.*_scalar   simd       scalar/multiply_groups.h FV_GROUP_KIND=FV_KIND_i8"
    "^multiply_i8x2_i8g_4x8_neon      int8       neon/multiply_groups.h
         FV_GROUP_FORMAT=FV_FORMAT_@type@ FV_GROUP_SUMS=\"neon/group_sums_i8mm.h\""
    "^multiply_i8x2_i[4-8]g_(8x32|4x16)_neon int8 neon/multiply_groups.h
         FV_GROUP_FORMAT=FV_FORMAT_@type@ FV_GROUP_SUMS=\"neon/group_sums.h\" FV_I8_PLANES"
    "^multiply_i8_i8g_4x8_neon        int8       neon/multiply_groups.h
         FV_GROUP_FORMAT=FV_FORMAT_@type@ FV_GROUP_SUMS=\"neon/group_sums_i8mm.h\" FV_GROUP_LOW"
    "^multiply_i8_i8g_4x16_neon       int8       neon/multiply_groups.h
         FV_GROUP_FORMAT=FV_FORMAT_@type@ FV_GROUP_SUMS=\"neon/group_sums.h\" FV_I8_PLANES FV_GROUP_LOW"
    "^multiply_i16_i[4-8]g_.*_neon    int8       neon/multiply_groups.h
         FV_GROUP_FORMAT=FV_FORMAT_@type@ FV_GROUP_SUMS=\"neon/group_sums.h\""
    "^multiply_i(16|8x2)_i[4-8]g_8x   groups     body/multiply_groups_few.h FV_GROUPS=\"body/groups/@type@.h\""
    "^scales_f32_                     int8       body/scales_f32.h        FV_HALF=\"simd/half_@tier@.h\""
    "^quantise_i8_                    int8       body/quantise_i8.h"
    "^expand_i4_                      integers   body/expand.h            FV_BITS=4"
    "^expand_i5_                      integers   body/expand.h            FV_BITS=5"
    "^expand_i6_                      integers   body/expand.h            FV_BITS=6"
    "^multiply_i8x2_i8g_16x32_avx512  simd       amx/multiply_groups_row.h FV_PLANES=2"
    "^multiply_i8_i8g_32x32_avx512    simd       amx/multiply_groups_row.h FV_PLANES=1"
    "^multiply_i16_i8g_               integers   body/multiply_groups.h"
    "^multiply_i8_i8g_6x64_avx512     integers   body/multiply_groups.h   FV_BYTES"
    "^unpack_i8g_.*_(avx|neon)        integers   body/unpack_groups.h"
    "^multiply_i16_i8x4_8x32_         int8       body/multiply_i16_i8x4.h FV_I8_PLANES"
    "^multiply_i16_i8x4_              int8       body/multiply_i16_i8x4.h"
    "^multiply_f32_f32_rows_.*_scalar simd       scalar/multiply_keys.h   FV_WORDS=\"body/to_float/f32.h\""
    "^multiply_f32_bf16_rows_.*_scalar half      scalar/multiply_keys.h   FV_WORDS=\"body/to_float/bf16.h\""
    "^multiply_f32_f16_rows_.*_scalar half       scalar/multiply_keys.h   FV_WORDS=\"body/to_float/f16.h\""
    "^multiply_f32_bf16x2_8x32_scalar half       scalar/multiply_keys.h   FV_WORDS=\"body/to_float/bf16x2.h\""
    "^multiply_f32_f32_rows_          simd       body/multiply_rows.h     FV_ELEMENT=float"
    "^multiply_f32_bf16_rows_         half       body/multiply_rows.h     FV_ELEMENT=uint16_t FV_PAIR=v_pair_bf16"
    "^multiply_f32_f16_rows_          half       body/multiply_rows.h     FV_ELEMENT=uint16_t FV_PAIR=v_pair_f16"
    "^multiply_bf16x2_bf16x2_.*_scalar half      scalar/multiply.h        FV_WORDS=\"body/to_float/@type@.h\" FV_PAIRS"
    "^multiply_f32_amx_order_masked_  simd       scalar/multiply.h
         FV_WORDS=\"body/to_float/@type@.h\" FV_AMX_ORDER FV_MASKED"
    "^multiply_f32_amx_order_.*_scalar simd      scalar/multiply.h
         FV_WORDS=\"body/to_float/@type@.h\" FV_AMX_ORDER"
    "^multiply_f32_masked_.*_scalar   simd       scalar/multiply.h        FV_WORDS=\"body/to_float/@type@.h\" FV_MASKED"
    "^multiply_f32_f32_.*_scalar      simd       scalar/multiply.h        FV_WORDS=\"body/to_float/@type@.h\""
    "^multiply_f32_i.*_scalar         int8       scalar/multiply.h        FV_WORDS=\"body/to_float/@type@.h\""
    "^multiply_f32_.*_scalar          half       scalar/multiply.h        FV_WORDS=\"body/to_float/@type@.h\""
    "^multiply_f32_f32_.*_avx2        simd       body/multiply_many.h          FV_TILE_SIZES=\"avx2/multiply_tiles.h\""
    "^multiply_bf16x2_bf16x2_.*_avx512 bf16x2     avx512/multiply_f32.h
         FV_PER_WORD=2 FV_ACCUMULATE=v_accumulate_pairs"
    "^multiply_bf16x2_bf16x2_         bf16x2     body/multiply_many.h
         FV_PER_WORD=2 FV_ACCUMULATE=v_accumulate_pairs"
    "^multiply_f32_amx_order_f32_     simd       body/multiply_many.h          FV_TILE_STEPS=\"body/multiply_amx_order.h\""
    "^multiply_f32_masked_            simd       body/multiply_masked.h"
    "^multiply_f32_bf16x2_            half       body/multiply_widen.h    FV_WORDS=\"body/to_float/@type@.h\""
    "^multiply_f32_f16_6x             half       body/multiply_widen.h    FV_WORDS=\"body/to_float/@type@.h\""
    "^multiply_f32_.*_columns_        int8       body/multiply_widen.h    FV_WORDS=\"body/to_float/@type@.h\""
    "^multiply_f32_f32_8x16_          simd       body/multiply_few_rows.h    FV_ELEMENT=float FV_WIDEN=v_load"
    "^multiply_f32_f32_.*_avx512      simd       avx512/multiply_f32.h"
    "^multiply_f32_f32_.*_neon        simd       body/multiply_many.h          FV_TILE_STEPS=\"neon/multiply_lanes.h\""
    "^multiply_f32_f32_               simd       body/multiply_many.h"
    "^multiply_f32_i8_.*_avx512       int8       body/multiply_few_rows.h
         FV_ELEMENT=int8_t FV_WIDEN=v_load_i8 FV_MANY_ROWS=4"
    "^multiply_f32_i8_                int8       body/multiply_few_rows.h    FV_ELEMENT=int8_t FV_WIDEN=v_load_i8"
    "^multiply_f32_bf16_.*_avx2       half       body/multiply_few_rows.h
         FV_ELEMENT=uint16_t FV_WIDEN=v_load_bf16 FV_PAIR=v_pair_bf16 FV_MANY_ROWS=2"
    "^multiply_f32_bf16_              half       body/multiply_few_rows.h
         FV_ELEMENT=uint16_t FV_WIDEN=v_load_bf16 FV_PAIR=v_pair_bf16"
    "^multiply_f32_f16_.*_avx512      half       body/multiply_few_rows.h
         FV_ELEMENT=uint16_t FV_WIDEN=v_load_f16 FV_MANY_ROWS=4"
    "^multiply_f32_f16_               half       body/multiply_few_rows.h    FV_ELEMENT=uint16_t FV_WIDEN=v_load_f16"
    "^narrow_                         half       body/narrow.h
         FV_NARROW=v_narrow_@type@ FV_NARROW_N=v_narrow_@type@_n"
    "^softcap_f32_1x1_                simd       body/softcap_f32.h       FV_SIDE=16"
    "^softcap_f32_                    simd       body/softcap_f32.h       FV_SIDE=4"
    "^softmax_bf16_.*_scalar          half       body/softmax_f32.h       FV_SIDE=16 FV_ROUND_P"
    "^softmax_bf16_.*_neon            half       body/softmax_f32.h       FV_SIDE=4 FV_ROUND_P"
    "^softmax_bf16_                   half       body/softmax_f32.h       FV_SIDE=2 FV_ROUND_P"
    "^softmax_f32_.*_scalar           simd       body/softmax_f32.h       FV_SIDE=16"
    "^softmax_f32_.*_neon             simd       body/softmax_f32.h       FV_SIDE=4"
    "^softmax_f32_                    simd       body/softmax_f32.h       FV_SIDE=2"
    "^unpack_.*_columns_              int8       body/unpack.h            FV_WORDS=\"body/to_float/@type@.h\""
    "^unpack_                         half       body/unpack.h            FV_WORDS=\"body/to_float/@type@.h\""
    "^widen_                          half       body/widen.h
         FV_WIDEN=v_widen_@type@ FV_WIDEN_N=v_widen_@type@_n")
