# The body that a row of kernels.inc is an instance of, unless it has its own file <tier>/<row>.c: KernelList.cmake
# writes that file into the build tree, by the first line whose fields match the row. A row without a line is an instance
# of body/<operation>_<type>.h with simd_<tier>.h; if there is no such file, or a line has no row, the build stops.
#   operation   its name: products of many rows are multiply, those of few rows multiply_few
#   type        <kind>_<format> of a product, <source>_<format> of a packer
#   tier        and what the row needs beyond it, as neon+i8mm
#   words of    the vocabulary: simd/<words of>_<tier>.h
# In the first three a|b is one of both, and * anything.
# Tiles become FV_MR and FV_NR. In definitions @kind@, @type@, @element@ and @tier@ are the row's: a product's kind of
# A, its format of B, that format without what follows an underscore. Long lines go on in the next one.
#    operation    type                tier    words    body                     definitions
set(bodies
    "exp          f32                 avx2    simd     body/exp_f32.h           FV_SIDE=2"
    "exp          f32                 scalar  simd     body/exp_f32.h           FV_SIDE=1"
    "exp          f32                 *       simd     body/exp_f32.h           FV_SIDE=4"
    "delta        f32                 scalar  simd     body/delta_f32.h         FV_GROUP=1"
    "delta        f32                 *       simd     body/delta_f32.h         FV_GROUP=4"
    "scan         f32                 scalar  simd     body/scan_f32.h          FV_GROUP=1"
    "scan         f32                 neon    simd     body/scan_f32.h          FV_GROUP=4"
    "scan         f32                 *       simd     body/scan_f32.h          FV_GROUP=2"
    "narrow       *                   *       half     body/narrow.h
        FV_NARROW=v_narrow_@type@ FV_NARROW_N=v_narrow_@type@_n"
    "widen        *                   *       half     body/widen.h FV_WIDEN=v_widen_@type@ FV_WIDEN_N=v_widen_@type@_n"
    "softcap      f32                 scalar  simd     body/softcap_f32.h       FV_SIDE=16"
    "softcap      f32                 *       simd     body/softcap_f32.h       FV_SIDE=4"
    "softmax      bf16                scalar  half     body/softmax_f32.h       FV_SIDE=16 FV_ROUND_P"
    "softmax      bf16                neon    half     body/softmax_f32.h       FV_SIDE=4 FV_ROUND_P"
    "softmax      bf16                *       half     body/softmax_f32.h       FV_SIDE=2 FV_ROUND_P"
    "softmax      f32                 scalar  simd     body/softmax_f32.h       FV_SIDE=16"
    "softmax      f32                 neon    simd     body/softmax_f32.h       FV_SIDE=4"
    "softmax      f32                 *       simd     body/softmax_f32.h       FV_SIDE=2"
    "scales       f32                 *       int8     body/scales_f32.h        FV_HALF=\"simd/half_@tier@.h\""
    "quantize     i8                  *       int8     body/quantize_i8.h"
    "expand       *                   scalar  simd     scalar/expand.h"
    "expand       *                   *       integers body/expand.h            FV_BITS=FV_BITS_@type@"
    "unpack       i8g                 *       integers body/unpack_groups.h"
    "unpack       f8g                 scalar  simd     scalar/unpack_f8g.h"
    "unpack       f8g                 *       integers body/unpack_groups.h     FV_FLOATS"
    "unpack       *_columns           *       int8     body/unpack.h            FV_WORDS=\"body/to_float/@type@.h\""
    "unpack       *                   *       half     body/unpack.h            FV_WORDS=\"body/to_float/@type@.h\""

    # Products of integers in groups.
    "multiply*    i*_i*g              scalar  simd     scalar/multiply_groups.h FV_GROUP_KIND=FV_KIND_@kind@"
    "multiply     i8x2_i8g            neon+i8mm int8     neon/multiply_groups.h
        FV_GROUP_FORMAT=FV_FORMAT_@type@ FV_GROUP_SUMS=\"neon/group_sums_i8mm.h\""
    "multiply     i8_i8g              neon+i8mm int8     neon/multiply_groups.h
        FV_GROUP_FORMAT=FV_FORMAT_@type@ FV_GROUP_SUMS=\"neon/group_sums_i8mm.h\" FV_GROUP_LOW"
    "multiply*    i8x2_i*g            neon+dotprod int8     neon/multiply_groups.h
        FV_GROUP_FORMAT=FV_FORMAT_@type@ FV_GROUP_SUMS=\"neon/group_sums.h\" FV_I8_PLANES"
    "multiply     i8_i8g              neon+dotprod int8     neon/multiply_groups.h
        FV_GROUP_FORMAT=FV_FORMAT_@type@ FV_GROUP_SUMS=\"neon/group_sums.h\" FV_I8_PLANES FV_GROUP_LOW"
    "multiply*    i16_i*g             neon    int8     neon/multiply_groups.h
        FV_GROUP_FORMAT=FV_FORMAT_@type@ FV_GROUP_SUMS=\"neon/group_sums.h\""
    "multiply     i8x2_i8g            avx512+amx_int8 simd     amx/multiply_groups_row.h FV_PLANES=2"
    "multiply     i8_i8g              avx512+amx_int8 simd     amx/multiply_groups_row.h FV_PLANES=1"
    "multiply     i16_i8g             *       integers body/multiply_groups.h"
    "multiply     i8_i8g              *       integers body/multiply_groups.h   FV_BYTES"
    "multiply_few i*_i4tg             *       groups   body/multiply_groups_few.h
        FV_GROUPS=\"@tier@/groups/i4g.h\" FV_TABLE"
    "multiply_few i*_i*g              *       groups   body/multiply_groups_few.h
        FV_GROUPS=\"@tier@/groups/@type@.h\""

    # Products of floats and words on the portable tier.
    "multiply_few f32_*_rows|f32_bf16x2 scalar  half     scalar/multiply_keys.h FV_WORDS=\"body/to_float/@element@.h\""
    "multiply     bf16x2_bf16x2       scalar  half     scalar/multiply.h FV_WORDS=\"body/to_float/@type@.h\" FV_PAIRS"
    "multiply     f32_amx_order_masked_f32 scalar  simd     scalar/multiply.h
        FV_WORDS=\"body/to_float/@type@.h\" FV_AMX_ORDER FV_MASKED"
    "multiply     f32_amx_order_f32   scalar  simd     scalar/multiply.h
        FV_WORDS=\"body/to_float/@type@.h\" FV_AMX_ORDER"
    "multiply     f32_masked_f32      scalar  simd     scalar/multiply.h FV_WORDS=\"body/to_float/@type@.h\" FV_MASKED"
    "multiply*    f32_f32             scalar  simd     scalar/multiply.h        FV_WORDS=\"body/to_float/@type@.h\""
    "multiply*    f32_i8|f32_i8_*     scalar  int8     scalar/multiply.h        FV_WORDS=\"body/to_float/@type@.h\""
    "multiply*    f32_*               scalar  half     scalar/multiply.h        FV_WORDS=\"body/to_float/@type@.h\""

    # Products of few rows: of keys, then of values as they lie.
    "multiply_few i16_i8x4            avx512+avx512_vnni|neon+dotprod int8     body/multiply_i16_i8x4.h FV_I8_PLANES"
    "multiply_few i16_i8x4            *       int8     body/multiply_i16_i8x4.h"
    "multiply_few f32_f32_rows        *       simd     body/multiply_rows.h     FV_ELEMENT=float"
    "multiply_few f32_*_rows          *       half     body/multiply_rows.h
        FV_ELEMENT=uint16_t FV_PAIR=v_pair_@element@"
    "multiply_few f32_f32             *       simd     body/multiply_few_rows.h FV_ELEMENT=float FV_WIDEN=v_load"
    "multiply_few f32_i8              avx2    int8     body/multiply_few_rows.h
        FV_ELEMENT=int8_t FV_WIDEN=v_load_i8 FV_STEP_SCALES FV_STRIPS"
    "multiply_few f32_i8              *       int8     body/multiply_few_rows.h
        FV_ELEMENT=int8_t FV_WIDEN=v_load_i8 FV_STEP_SCALES"
    "multiply_few f32_bf16            avx2    half     body/multiply_few_rows.h
        FV_ELEMENT=uint16_t FV_WIDEN=v_load_bf16 FV_PAIR=v_pair_bf16 FV_WHOLE=1"
    "multiply_few f32_bf16            *       half     body/multiply_few_rows.h
        FV_ELEMENT=uint16_t FV_WIDEN=v_load_bf16 FV_PAIR=v_pair_bf16"
    "multiply_few f32_f16             *       half     body/multiply_few_rows.h FV_ELEMENT=uint16_t FV_WIDEN=v_load_f16"

    # Products of many rows.
    "multiply     f32_masked_f32      *       simd     body/multiply_masked.h"
    "multiply     f32_amx_order_f32   *       simd     body/multiply_many.h FV_TILE_STEPS=\"body/multiply_amx_order.h\""
    "multiply     f32_f32             avx2    simd     body/multiply_many.h     FV_TILE_SIZES=\"avx2/multiply_tiles.h\""
    "multiply     f32_f32             avx512  simd     avx512/multiply_f32.h"
    "multiply     f32_f32             neon    simd     body/multiply_many.h     FV_TILE_STEPS=\"neon/multiply_lanes.h\""
    "multiply     bf16x2_bf16x2       avx512  bf16x2   avx512/multiply_f32.h
        FV_PER_WORD=2 FV_ACCUMULATE=v_accumulate_pairs"
    "multiply     f32_*_columns       *       int8     body/multiply_widen.h    FV_WORDS=\"body/to_float/@type@.h\""
    "multiply     f32_bf16x2|f32_f16  *       half     body/multiply_widen.h    FV_WORDS=\"body/to_float/@type@.h\"")
