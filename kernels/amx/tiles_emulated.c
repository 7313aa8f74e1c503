/* The emulated tiles of the calling thread (tiles.h). */
#include "amx/tiles_emulated.h"

#include <stdlib.h>

static _Thread_local fv_emulated_tiles tiles;

fv_emulated_tiles *fv_tiles_emulated(void) {
    if (!tiles.configured)
        abort();
    return &tiles;
}

void fv_tiles_configure_emulated(void) {
    tiles.configured = 1;
    memset(tiles.word, 0, sizeof tiles.word);
}

void fv_tiles_release_emulated(void) { tiles.configured = 0; }
