/* The table of operand formats (operand.h). */
#include "operand.h"

const fv_format_info fv_formats[FV_FORMAT_COUNT] = {
#define FV_FORMAT(name, element, per_word, word, scale)                                                                \
    [FV_FORMAT_##name] = {#name, FV_TYPE_##element, FV_BITS_##element, per_word, FV_WORD_##word, FV_SCALE_##scale},
#include "formats.inc"
};
