/* Configures and releases the calling thread's tiles (tiles.h). */
#include "amx/tiles_amx.h"

#include <stdint.h>
#include <string.h>

void fv_tiles_configure_amx(void) {
    enum { TILES = 8, BYTES_AT = 16, ROWS_AT = 48 };
    uint8_t config[64] = {1}; /* palette 1 */
    for (int t = 0; t < TILES; t++) {
        const uint16_t bytes = TILE * 4;
        memcpy(config + BYTES_AT + t * (int)sizeof bytes, &bytes, sizeof bytes);
        config[ROWS_AT + t] = TILE;
    }
    tiles_load_config(config);
}

void fv_tiles_release_amx(void) { _tile_release(); }
