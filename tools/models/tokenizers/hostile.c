/* hostile.h. */
#include "hostile.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef struct writing {
    uint64_t state;
    char *at, *end;
} writing;

static uint32_t below(writing *w, uint32_t count) {
    w->state = w->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((w->state >> 33) * count >> 31);
}

static void put(writing *w, const char *bytes, size_t count) {
    if ((size_t)(w->end - w->at) >= count) {
        memcpy(w->at, bytes, count);
        w->at += count;
    }
}

static void put_text(writing *w, const char *text) { put(w, text, strlen(text)); }

/* In as many bytes as it takes, or in more than it should. */
static void put_code(writing *w, uint32_t code, bool overlong) {
    int bytes = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    char text[4];
    bytes += overlong && bytes < 4;
    if (bytes == 1)
        text[0] = (char)code;
    else {
        for (int i = bytes - 1; i > 0; i--, code >>= 6)
            text[i] = (char)(0x80 | (code & 0x3f));
        text[0] = (char)((0xf00u >> bytes & 0xff) | code);
    }
    put(w, text, (size_t)bytes);
}

/* Blocks whose characters differ in class, in case or in how they combine. */
static const struct {
    uint32_t first, last;
} blocks[] = {{0x20, 0x7e},       {0xa0, 0xff},       {0x100, 0x24f},     {0x2b0, 0x36f},      {0x370, 0x52f},
              {0x590, 0x6ff},     {0x660, 0x669},     {0x900, 0x97f},     {0x966, 0x96f},      {0xe00, 0xe7f},
              {0xf00, 0xfff},     {0x10a0, 0x10ff},   {0x1100, 0x11ff},   {0x1680, 0x169c},    {0x1780, 0x17ff},
              {0x1f00, 0x1fff},   {0x2000, 0x206f},   {0x2070, 0x218f},   {0x2460, 0x24ff},    {0x2580, 0x259f},
              {0x2600, 0x27bf},   {0x2e80, 0x2fdf},   {0x3000, 0x30ff},   {0x3200, 0x33ff},    {0x3400, 0x4dff},
              {0x4e00, 0x9fff},   {0xa640, 0xa69f},   {0xac00, 0xd7a3},   {0xd800, 0xdfff},    {0xe000, 0xf8ff},
              {0xf900, 0xfaff},   {0xfb00, 0xfdff},   {0xfe00, 0xfe0f},   {0xff00, 0xffff},    {0x10000, 0x1007f},
              {0x10100, 0x1018f}, {0x10400, 0x104af}, {0x12400, 0x1246f}, {0x1d100, 0x1d1ff},  {0x1d7ce, 0x1d7ff},
              {0x1e900, 0x1e95f}, {0x1f1e6, 0x1f1ff}, {0x1f300, 0x1f6ff}, {0x20000, 0x2a6df},  {0x2ebf0, 0x2ee5d},
              {0x30000, 0x323af}, {0xe0000, 0xe007f}, {0xe0100, 0xe01ef}, {0x100000, 0x10ffff}};

static uint32_t any_code(writing *w) {
    if (below(w, 8) == 0)
        return below(w, 0x110000);
    const size_t i = below(w, sizeof blocks / sizeof blocks[0]);
    return blocks[i].first + below(w, blocks[i].last - blocks[i].first + 1);
}

static void put_block(writing *w) {
    const size_t i = below(w, sizeof blocks / sizeof blocks[0]);
    for (uint32_t n = 1 + below(w, 12); n > 0; n--)
        put_code(w, blocks[i].first + below(w, blocks[i].last - blocks[i].first + 1), false);
}

static void put_codes(writing *w) {
    for (uint32_t n = 1 + below(w, 20); n > 0; n--)
        put_code(w, any_code(w), false);
}

static void put_word(writing *w) {
    static const char *const words[] = {"the",
                                        "don't",
                                        "DON'T",
                                        "we've",
                                        "WE'VE",
                                        "I'll",
                                        "i'LL",
                                        "she'd",
                                        "'s",
                                        "'S",
                                        "'re",
                                        "'rE",
                                        "it's",
                                        "'tis",
                                        "o'clock",
                                        "''",
                                        "'",
                                        "rock'n'roll",
                                        "Hello",
                                        "world",
                                        "naïve",
                                        "straße",
                                        "ΣΊΣΥΦΟΣ",
                                        "привет",
                                        "İstanbul",
                                        "ſ't",
                                        "'ſ",
                                        "\u212aelvin",
                                        "'\u212a",
                                        "中文",
                                        "日本語テキスト",
                                        "한국어",
                                        "ไทย",
                                        "हिन्दी",
                                        "العربية",
                                        "עברית",
                                        "e\u0301\u0323",
                                        "a\u0300\u0301\u0302",
                                        "fooBarBaz",
                                        "HTTPServer",
                                        "snake_case_name",
                                        "x86_64",
                                        "3.14159",
                                        "1,000,000",
                                        "0x7fff",
                                        "1e-5",
                                        "½",
                                        "Ⅷ",
                                        "x²",
                                        "http://example.com/a?b=c&d=%20",
                                        "user@example.org",
                                        "#include <stdio.h>",
                                        "for (i = 0; i < n; i++) {",
                                        "👨‍👩‍👧‍👦",
                                        "🏳️‍🌈",
                                        "🇩🇪",
                                        "👍🏽",
                                        "❤️",
                                        "☃"};
    for (uint32_t n = 1 + below(w, 6); n > 0; n--) {
        put_text(w, words[below(w, sizeof words / sizeof words[0])]);
        if (below(w, 4) > 0)
            put_text(w, " ");
    }
}

static void put_white(writing *w) {
    static const char *const white[] = {" ",      " ",      " ",      "\n",       "\n",     "\r\n",   "\r",
                                        "\t",     "\v",     "\f",     "\xc2\x85", "\u00a0", "\u1680", "\u2003",
                                        "\u2028", "\u2029", "\u202f", "\u3000",   "\u200b", "\ufeff", "\u2581"};
    const size_t i = below(w, sizeof white / sizeof white[0]);
    const bool same = below(w, 2) == 0;
    for (uint32_t n = 1 + below(w, below(w, 16) == 0 ? 300 : 9); n > 0; n--)
        put_text(w, white[same ? i : below(w, sizeof white / sizeof white[0])]);
}

static void put_digits(writing *w) {
    static const uint32_t zeros[] = {'0', '0', '0', '0', 0x660, 0x966, 0xe50, 0xff10, 0x1d7d8, 0x2460};
    const uint32_t zero = zeros[below(w, sizeof zeros / sizeof zeros[0])];
    for (uint32_t n = 1 + below(w, 24); n > 0; n--)
        put_code(w, zero + below(w, 10), false);
}

static void put_special(writing *w) {
    static const char *const special[] = {"<|endoftext|>",
                                          "<|im_start|>",
                                          "<|im_end|>",
                                          "<s>",
                                          "</s>",
                                          "<unk>",
                                          "<|begin_of_text|>",
                                          "<|end_of_text|>",
                                          "<|reserved_special_token_0|>",
                                          "<|reserved_special_token_25",
                                          "[PAD151646]",
                                          "[PAD151935]",
                                          "[PAD15164",
                                          "<0x0A>",
                                          "<0xE2>",
                                          "<tool>",
                                          "<tool",
                                          "<ab>>",
                                          "<ab",
                                          "b>>>",
                                          "<repo_name>",
                                          "<file_sep>",
                                          "<jupyter_text>",
                                          "<|im_st",
                                          "art|>",
                                          "<<s>>",
                                          "<|",
                                          "|>",
                                          "</",
                                          "[INST]",
                                          "\n\n\n",
                                          "\n\n"};
    for (uint32_t n = 1 + below(w, 4); n > 0; n--)
        put_text(w, special[below(w, sizeof special / sizeof special[0])]);
}

static void put_bytes(writing *w) {
    for (uint32_t n = 1 + below(w, 8); n > 0; n--) {
        const char byte = (char)(below(w, 3) == 0 ? below(w, 256) : 0x80 + below(w, 128));
        put(w, &byte, 1);
    }
}

static void put_cut(writing *w) { /* a part of a character */
    char *begin = w->at;
    put_code(w, any_code(w), below(w, 3) == 0);
    if (w->at > begin + 1)
        w->at -= 1 + below(w, (uint32_t)(w->at - begin) - 1);
}

static void put_overlong(writing *w) { put_code(w, below(w, 2) == 0 ? below(w, 128) : any_code(w), true); }

static void put_control(writing *w) {
    for (uint32_t n = 1 + below(w, 4); n > 0; n--)
        put_code(w, below(w, 4) == 0 ? 0 : below(w, 33), false);
}

static void put_marks(writing *w) {
    static const char marks[] = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
    const bool same = below(w, 2) == 0;
    const char one = marks[below(w, sizeof marks - 1)];
    for (uint32_t n = 1 + below(w, 12); n > 0; n--) {
        const char other = marks[below(w, sizeof marks - 1)];
        put(w, same ? &one : &other, 1);
    }
}

/* A word of 100 KB, or what is none. */
static void put_long(writing *w, uint32_t kind) {
    static const char *const units[] = {"a", "ab", " ", "7", "\n", "=", "\u4e2d", "\u0301", "\U0001f600", "\xe2\x96"};
    char *end = w->at + HOSTILE_LONG;
    while (w->at < end) {
        char *before = w->at;
        if (kind < 10)
            put_text(w, units[kind]);
        else if (kind < 14) {
            const char letter = (char)('a' + below(w, kind < 12 ? 2 : 26));
            put(w, &letter, 1);
        } else
            put_code(w, kind < 16 ? 0x4e00 + below(w, 0x5000) : 0x1f300 + below(w, 0x300), false);
        if (w->at == before)
            break;
    }
}

/* Four bytes beyond U+10FFFF make llama.cpp throw. */
static void avoid_beyond(char *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const unsigned char lead = (unsigned char)bytes[i], next = i + 1 < count ? (unsigned char)bytes[i + 1] : 0;
        if ((lead >= 0xf5 && lead <= 0xf7) || (lead == 0xf4 && next >= 0x90 && next < 0xc0))
            bytes[i] = '?';
    }
}

size_t hostile_text(int i, char *to) {
    static void (*const parts[])(writing *) = {put_block, put_codes,    put_word,    put_word,  put_white,
                                               put_white, put_digits,   put_special, put_bytes, put_cut,
                                               put_marks, put_overlong, put_control};
    writing w = {((uint64_t)i + 1) * 0x9e3779b97f4a7c15u, to, to + HOSTILE_MOST};
    enum { LONG_EVERY = 250 };
    const bool sound = i % 3 == 0; /* UTF-8 */
    below(&w, 2);
    for (uint32_t n = below(&w, 40); n > 0; n--) {
        const uint32_t part = below(&w, sizeof parts / sizeof parts[0]);
        if (!sound || (part != 8 && part != 9 && part != 11))
            parts[part](&w);
    }
    if (i % LONG_EVERY == LONG_EVERY - 1) {
        w.end = to + HOSTILE_MOST;
        w.at = w.at < to + 4000 ? w.at : to + 4000;
        put_long(&w, (uint32_t)(i / LONG_EVERY));
    }
    avoid_beyond(to, (size_t)(w.at - to));
    return (size_t)(w.at - to);
}
