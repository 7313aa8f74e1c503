/* Classes of characters, and UTF-8 (private.h). */
#include "private.h"

/* Length * 8 + class of each run of characters; what is behind the last is TK_OTHER. */
static const uint32_t lengths[] = {
#include "unicode.inc"
};
_Static_assert(sizeof lengths / sizeof lengths[0] == TK_RUNS - 1, "TK_RUNS");

void tk_classes_make(tk_classes *classes) {
    uint32_t begin = 0;
    for (int i = 0; i < TK_RUNS - 1; i++) {
        classes->runs[i] = begin * 8 + lengths[i] % 8;
        begin += lengths[i] / 8;
    }
    classes->runs[TK_RUNS - 1] = begin * 8 + TK_OTHER;
    for (uint32_t code = 0, i = 0; code < 128; code++) {
        i += code >= classes->runs[i + 1] / 8;
        classes->ascii[code] = classes->runs[i] % 8;
    }
}

tk_class tk_class_of(const tk_classes *classes, uint32_t code) {
    if (code < 128)
        return (tk_class)classes->ascii[code];
    int low = 0, high = TK_RUNS; /* the last run that begins at code or before */
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (classes->runs[middle] / 8 <= code)
            low = middle;
        else
            high = middle;
    }
    return (tk_class)(classes->runs[low] % 8);
}

bool tk_character(const char *text, int64_t count, uint32_t *code, int *length) {
    const unsigned char first = (unsigned char)text[0];
    const int bytes = first < 0x80 ? 1 : first < 0xc0 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf8 ? 4 : 0;
    if (bytes == 0 || bytes > count)
        return false;
    uint32_t c = bytes == 1 ? first : first & (0x7fu >> bytes);
    for (int i = 1; i < bytes; i++) {
        if (((unsigned char)text[i] & 0xc0) != 0x80)
            return false;
        c = c << 6 | ((unsigned char)text[i] & 0x3f);
    }
    *code = c;
    *length = bytes;
    return c <= 0x10ffff;
}

bool tk_sound_character(const char *text, int64_t count, uint32_t *code, int *length) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    return tk_character(text, count, code, length) && *code >= least[*length] && (*code < 0xd800 || *code > 0xdfff);
}

int tk_put_character(uint32_t code, char *to) {
    const int bytes = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    if (bytes == 1) {
        to[0] = (char)code;
        return 1;
    }
    for (int i = bytes - 1; i > 0; i--, code >>= 6)
        to[i] = (char)(0x80 | (code & 0x3f));
    to[0] = (char)((0xf00u >> bytes & 0xff) | code);
    return bytes;
}
