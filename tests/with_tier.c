/* with-tier TIER COMMAND [ARGUMENT...]: runs a command under FOVEA_ISA=TIER.
 *
 * FOVEA_ISA is a cap: on a CPU without AVX-512, FOVEA_ISA=avx512 quietly runs AVX2. A suite must not count that as
 * AVX-512 tested. So this asks the library which tier it would use, and exits with 77 (skipped) if it is not the one
 * named. */
#define _POSIX_C_SOURCE 200112L
#include "fovea/fovea.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: with-tier TIER COMMAND [ARGUMENT...]\n");
        return 2;
    }
    const char *tier = argv[1];
    setenv("FOVEA_ISA", tier, 1);

    fovea_context *ctx;
    if (fovea_context_create(NULL, &ctx) != FOVEA_OK) {
        fprintf(stderr, "with-tier: %s\n", fovea_error_detail());
        return 2;
    }
    fovea_context_facts info;
    fovea_context_facts_init(&info);
    fovea_status status = fovea_context_info(ctx, &info);
    fovea_context_destroy(ctx);
    if (status != FOVEA_OK) {
        fprintf(stderr, "with-tier: %s\n", fovea_error_detail());
        return 2;
    }
    if (strcmp(fovea_isa_name(info.isa), tier) != 0) {
        printf("SKIPPED: no %s here (%s)\n", tier, info.reason);
        return 77;
    }
    execv(argv[2], argv + 2);
    perror(argv[2]);
    return 2;
}
