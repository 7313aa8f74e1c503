/* Are the emulated tiles of the calling thread configured (tiles.h)? */
#include "amx/tiles.h"

static _Thread_local int configured;

int fv_tiles_configured_emulated(void) { return configured; }
void fv_tiles_configure_emulated(void) { configured = 1; }
void fv_tiles_release_emulated(void) { configured = 0; }
