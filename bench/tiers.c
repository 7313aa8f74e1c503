/* The values of isa= in a case. */
#include <inttypes.h>
#include <stdio.h>

#include "bench.h"

const char *const bench_isa_words[] = {
    "best",
#define FV_TIER(word, number, lanes, below) [number] = #word,
#include "tiers.inc"
#undef FV_TIER
    NULL,
};

fv_isa bench_isa_resolve(int64_t choice, char error[BENCH_ERROR_SIZE]) {
    fv_isa best = bench_target(NULL).isa;
    if (choice == 0)
        return best;
    if (fv_isa_capped(best, (fv_isa)choice) != (fv_isa)choice) {
        snprintf(error, BENCH_ERROR_SIZE, "isa=%s: the best that this CPU and FOVEA_ISA allow is %s",
                 bench_isa_words[choice], fv_isa_word(best));
        return (fv_isa)0;
    }
    return (fv_isa)choice;
}
