/* TDPBF16PS (probes.h): tiles of one row and 16 columns. The process has permission for tiles. */
#include "probes/probes.h"

#include "amx/tiles_amx.h"

#include <string.h>

void fv_probe_tdpbf16ps(int64_t pairs, const uint32_t *a, const uint32_t *b, const float *c, uint32_t *y) {
    enum { ROWS_AT = 48, BYTES_AT = 16, OUTPUT_BYTES = FV_PROBE_OUTPUTS * 4 };
    uint8_t config[64] = {1}; /* palette 1; tiles: 0 the outputs, 1 a, 2 b */
    const uint16_t bytes[] = {OUTPUT_BYTES, (uint16_t)(4 * pairs), OUTPUT_BYTES};
    memcpy(config + BYTES_AT, bytes, sizeof bytes);
    config[ROWS_AT] = config[ROWS_AT + 1] = 1;
    config[ROWS_AT + 2] = (uint8_t)pairs;
    tiles_load_config(config);
    _tile_loadd(0, c, OUTPUT_BYTES);
    _tile_loadd(1, a, 4 * pairs);
    _tile_loadd(2, b, OUTPUT_BYTES);
    _tile_dpbf16ps(0, 1, 2);
    _tile_stored(0, y, OUTPUT_BYTES);
    _tile_release();
}
