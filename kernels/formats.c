/* The table of operand formats, and those of integers (operand.h). */
#include "operand.h"

const fv_format_info fv_formats[FV_FORMAT_COUNT] = {
#define FV_FORMAT(name, element, per_word, word, scale)                                                                \
    [FV_FORMAT_##name] = {#name, FV_TYPE_##element, FV_BITS_##element, per_word, FV_WORD_##word, FV_SCALE_##scale},
#include "formats.inc"
};

const int8_t fv_tables[FV_TABLE_COUNT][16] = {
    [FV_TABLE_codes] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    [FV_TABLE_e2m1] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12},
    [FV_TABLE_iq4_nl] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113},
};
