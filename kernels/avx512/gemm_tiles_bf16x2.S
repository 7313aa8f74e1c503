/* The tiles of gemm_tiles.S with words of two bfloat16: fv_gemm_tiles_bf16x2_avx512(gemm_tiles *t). Only tiles of one
 * and of four vectors: VDPBF16PS starts once a cycle, so eight rows of one vector keep its unit as busy as more vectors
 * do. */
#define GEMM_TILES_BF16X2
#define GEMM_TILES fv_gemm_tiles_bf16x2_avx512
#define MULTIPLY_ADD vdpbf16ps
#include "gemm_tiles.S"
