/* characters.h. */
#include "characters.h"

#include <utf8proc.h>

/* PyPI's tokenizers has older tables than utf8proc: later characters are letters there. */
static utf8proc_category_t category_of(uint32_t c) {
    static const uint32_t newer[][2] = {
#include "characters_newer.inc"
    };
    enum { CANADIAN_SIGN = 0x166d }; /* once punctuation, today a symbol */
    size_t low = 0, high = sizeof newer / sizeof newer[0];
    if (c == CANADIAN_SIGN)
        return UTF8PROC_CATEGORY_PO;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (c > newer[middle][1])
            low = middle + 1;
        else
            high = middle;
    }
    return low < sizeof newer / sizeof newer[0] && c >= newer[low][0] ? UTF8PROC_CATEGORY_CN
                                                                      : utf8proc_category((utf8proc_int32_t)c);
}

/* The replacement character stands for what could not be read. ASCII's symbols are punctuation, too. */
static tk_kind kind(uint32_t c) {
    switch (category_of(c)) {
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return TK_KIND_SPACE;
    case UTF8PROC_CATEGORY_CC: return c == '\t' || c == '\n' || c == '\r' ? TK_KIND_SPACE : TK_KIND_CONTROL;
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CO: return TK_KIND_CONTROL;
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO: return TK_KIND_PUNCTUATION;
    case UTF8PROC_CATEGORY_SM:
    case UTF8PROC_CATEGORY_SC:
    case UTF8PROC_CATEGORY_SK:
    case UTF8PROC_CATEGORY_SO: return c == 0xfffd ? TK_KIND_CONTROL : c < 0x80 ? TK_KIND_PUNCTUATION : TK_KIND_LETTER;
    case UTF8PROC_CATEGORY_MN: return TK_KIND_MARK;
    default: return TK_KIND_LETTER;
    }
}

static int decompose(uint32_t c, uint32_t parts[TK_PARTS_MOST]) {
    utf8proc_int32_t to[TK_PARTS_MOST];
    int bound = 0;
    const utf8proc_ssize_t count =
        utf8proc_decompose_char((utf8proc_int32_t)c, to, TK_PARTS_MOST, UTF8PROC_DECOMPOSE, &bound);
    for (utf8proc_ssize_t i = 0; i < count && i < TK_PARTS_MOST; i++)
        parts[i] = (uint32_t)to[i];
    return count > TK_PARTS_MOST ? TK_PARTS_MOST : (int)count;
}

static uint32_t lower(uint32_t c) { return (uint32_t)utf8proc_tolower((utf8proc_int32_t)c); }

static bool breaks(uint32_t before, uint32_t behind, int32_t *state) {
    return utf8proc_grapheme_break_stateful((utf8proc_int32_t)before, (utf8proc_int32_t)behind, state);
}

const tk_characters tk_characters_utf8proc = {kind, decompose, lower, breaks};
