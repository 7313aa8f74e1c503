/* The tiles of multiply_tiles.S with words of two bfloat16: fv_multiply_tiles_bf16x2_avx512(multiply_tiles *t). Only
 * tiles of one and of four vectors: VDPBF16PS starts once a cycle, so eight rows of one vector keep its unit as busy as
 * more vectors do. What is not a whole vector is masked. */
#define MULTIPLY_TILES_BF16X2
#define MULTIPLY_TILES fv_multiply_tiles_bf16x2_avx512
#define MULTIPLY_ADD vdpbf16ps
#include "multiply_tiles.S"
