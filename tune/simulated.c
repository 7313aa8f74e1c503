/* fovea-tune on a machine that is made up (simulation.h), in the weather that FOVEA_TUNE_WEATHER names, with the
 * kernels, caches and threads of the description that FOVEA_TUNE_MACHINE names (tests/support/described.h): what it
 * prints and stores there does not depend on this host, and its minutes take no time. For tests. */
#include "described.h"
#include "simulation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int tune_main(int argc, char **argv); /* main() of main.c */

int main(int argc, char **argv) {
    static const weather all[] = {{.name = "calm", .jitter = 0.003},
                                  {.name = "busy", .jitter = 0.003, .stall = 1e-5},
                                  {.name = "interrupted", .jitter = 0.003, .interrupts = true},
                                  {.name = "clouds", .jitter = 0.003, .interrupts = true, .clear = 3},
                                  {.name = "stolen", .jitter = 0.003, .steals = 1000, .stolen = 0.001},
                                  {.name = "slow", .jitter = 0.003, .sleep = 0.002}};
    /* The default's tiles of the shapes of test.sh are four times as large as the best: whichever kernels a tier has,
     * there is something to win. */
    const machine m = {.seconds = 0.002, .tile_rows = 16};
    const char *name = getenv("FOVEA_TUNE_WEATHER"), *path = getenv("FOVEA_TUNE_MACHINE");
    char why[MACHINE_WHY];
    if (!path || !machine_enter(path, why)) {
        fprintf(stderr, "FOVEA_TUNE_MACHINE: %s\n", path ? why : "no description of a machine");
        return 77;
    }
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (strcmp(name ? name : "calm", all[i].name) == 0) {
            sim_enter(&m, &all[i], 0);
            return tune_main(argc, argv);
        }
    fprintf(stderr, "no weather %s\n", name);
    return 70;
}
