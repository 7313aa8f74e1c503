/* A small program of somebody else: links the library that was installed, and checks one number it can know. */
#include <fovea/fovea.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

int main(void) {
    /* One query that scores 0 and ln(3) against two keys (scale 1/sqrt(4)): weights 1/4 and 3/4. */
    const float q[4] = {1, 1, 1, 1};
    const float k[2][4] = {{0, 0, 0, 0}, {2 * 1.0986123f, 0, 0, 0}};
    const float v[2][3] = {{4, 8, 0}, {8, 4, -4}};
    const float expected[3] = {7, 5, -3};
    float out[3] = {0, 0, 0};

    fovea_status status = fovea_sdpa_f32(q, k[0], v[0], out, 1, 1, 1, 1, 2, 4, 3, FOVEA_CAUSAL_NONE);
    if (status != FOVEA_OK) {
        fprintf(stderr, "%s: %s\n", fovea_status_name(status), fovea_error_detail());
        return 1;
    }
    for (int c = 0; c < 3; c++)
        if (!(fabsf(out[c] - expected[c]) < 1e-5f)) {
            fprintf(stderr, "out[%d] is %.9g and not %.9g\n", c, out[c], expected[c]);
            return 1;
        }
    if (strcmp(fovea_version(), FOVEA_VERSION_STRING) != 0) {
        fprintf(stderr, "header %s, library %s\n", FOVEA_VERSION_STRING, fovea_version());
        return 1;
    }
    return 0;
}
