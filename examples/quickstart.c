#include <fovea/fovea.h>
#include <stdio.h>

int main(void) {
    enum { HEADS = 2, TOKENS = 4, DIM = 8, SIZE = HEADS * TOKENS * DIM };
    float q[SIZE], k[SIZE], v[SIZE], out[SIZE]; /* [batch = 1][head][token][channel] */
    for (int i = 0; i < SIZE; i++)
        q[i] = (float)(i % 3), k[i] = (float)(i % 5), v[i] = (float)i;

    if (fovea_sdpa_f32(q, k, v, out, 1, HEADS, HEADS, TOKENS, TOKENS, DIM, DIM, FOVEA_CAUSAL_TOP_LEFT) != FOVEA_OK)
        return fprintf(stderr, "%s\n", fovea_error_detail()), 1;
    printf("last token of the last head: %.9g ... %.9g\n", out[SIZE - DIM], out[SIZE - 1]);
    return 0;
}
