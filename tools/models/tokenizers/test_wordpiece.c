/* test-tokenizers-wordpiece: word pieces of small vocabularies, with the characters of utf8proc. */
#include "characters.h"
#include "private.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 256 };

/* Lines; a zero ends the last. */
static tk_text next_line(void *at) {
    const char **line = at;
    const tk_text text = {*line, (int64_t)strcspn(*line, "\n")};
    *line += text.count + ((*line)[text.count] == '\n');
    return text;
}

/* With [CLS] and [SEP] about a text, if the lines have them. */
static int create(const char *lines, tk_wordpiece_rules rules, tk_tokenizer **t, complaint to) {
    const char *at = lines;
    int32_t count = 0, cls = TK_NONE, sep = TK_NONE;
    for (const char *line = lines; *line != '\0'; count++) {
        const tk_text text = next_line(&line);
        cls = strncmp(text.bytes, "[CLS]", 5) == 0 ? count : cls;
        sep = strncmp(text.bytes, "[SEP]", 5) == 0 ? count : sep;
    }
    rules.characters = &tk_characters_utf8proc;
    const tk_description d = {.name = "made",
                              .model = {"WordPiece", 9},
                              .tokens = {count, next_line, &at},
                              .bos = cls,
                              .eos = sep,
                              .add_bos = TK_YES,
                              .add_eos = TK_YES,
                              .wordpiece = &rules};
    return tk_create(&d, t, to);
}

static tk_tokenizer *load_text(const char *lines, tk_wordpiece_rules rules) {
    char text[512] = "";
    tk_tokenizer *t;
    test_check(create(lines, rules, &t, (complaint){text, sizeof text}) == 0, "%s", text);
    return t;
}

/* The pieces of a text, with spaces between. */
static void pieces_are(const tk_tokenizer *w, const char *text, size_t bytes, int64_t most, const char *want) {
    int32_t ids[MOST];
    char got[4096] = "";
    const int64_t all = tk_encode(w, text, (int64_t)bytes, TK_FRAME, ids, most), count = all < most ? all : most;
    test_check(all >= 2 && all <= most + 1, "%s: %lld tokens", text, (long long)all);
    for (int64_t i = 0; i < count; i++) {
        strcat(got, i > 0 ? " " : "");
        strcat(got, tk_spelling(w, ids[i]));
    }
    test_check(strcmp(got, want) == 0, "\"%s\": %s, not %s", text, got, want);
}

static void test_rules(void) {
    tk_tokenizer *w =
        load_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n##b\nab\n##c\ncafe\n!\n'\n\xe2\x80\x99\n\xe4\xb8\x96\n\xcf\x83\n"
                  "##\xcf\x83\nx\n##x\n[\n]\nsep\n##fe\n$",
                  (tk_wordpiece_rules){0});
    if (w == NULL)
        return;
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"", "[CLS] [SEP]"},
        {" \t\r\n\xc2\xa0\xe2\x80\xa8 ", "[CLS] [SEP]"},                        /* no-break space, line separator */
        {"a ab abc abcbc", "[CLS] a ab ab ##c ab ##c ##b ##c [SEP]"},           /* longest piece first */
        {"abz a", "[CLS] [UNK] a [SEP]"},                                       /* the whole word is unknown */
        {"A AB aB", "[CLS] a ab ab [SEP]"},                                     /* lower case */
        {"Caf\xc3\xa9 cafe\xcc\x81 CAF\xc3\x89", "[CLS] cafe cafe cafe [SEP]"}, /* accents, composed or not */
        {"a!a'\xe2\x80\x99!!", "[CLS] a ! a ' \xe2\x80\x99 ! ! [SEP]"},         /* punctuation alone */
        {"a$a", "[CLS] a $ a [SEP]"},                                           /* ASCII's symbols are punctuation */
        {"a\xc2\xac"
         "a",
         "[CLS] [UNK] [SEP]"}, /* others are not */
        {"\xe4\xb8\x96\xe4\xb8\x96"
         "a\xe4\xb8\x96",
         "[CLS] \xe4\xb8\x96 \xe4\xb8\x96 a \xe4\xb8\x96 [SEP]"},
        {"\xe7\x95\x8c"
         "a",
         "[CLS] [UNK] a [SEP]"},                                 /* a Chinese character not known */
        {"\xce\xa3\xce\xa3", "[CLS] \xcf\x83 ##\xcf\x83 [SEP]"}, /* sigma: no final form */
        {"a\xe2\x80\x8b"
         "b\x01\x7f"
         "c\xef\xbf\xbd",
         "[CLS] ab ##c [SEP]"}, /* control and format characters */
        {"a\xff"
         "b\xc3",
         "[CLS] ab [SEP]"}, /* what is no UTF-8 */
        {"a\xed\xa0\x80\xed\xbf\xbf"
         "b\xf4\x90\x80\x80\xc0\x80",
         "[CLS] ab [SEP]"},                    /* surrogates, too large, too long */
        {"a\u2260a", "[CLS] a [UNK] a [SEP]"}, /* a symbol without its accent is an ASCII one */
        {"[SEP]", "[CLS] [ sep ] [SEP]"},      /* text, not a token */
        {"##b", "[CLS] [UNK] [UNK] [UNK] [SEP]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        pieces_are(w, cases[i].text, strlen(cases[i].text), MOST, cases[i].want);
    pieces_are(w, "a\0b", 3, MOST, "[CLS] ab [SEP]");
    pieces_are(w, "a a a a", 7, 4, "[CLS] a a a");
    pieces_are(w, "a abc", 5, 3, "[CLS] a ab");
    pieces_are(w, "a abz", 5, 3, "[CLS] a [UNK]");
    char word[102], want[1024] = "[CLS] x";
    memset(word, 'x', sizeof word);
    for (int i = 1; i < 100; i++)
        strcat(want, " ##x");
    pieces_are(w, word, 100, MOST, strcat(want, " [SEP]"));
    pieces_are(w, word, 101, MOST, "[CLS] [UNK] [SEP]");
    test_check(tk_count(w) == 22 && tk_spelling(w, 22) == NULL && tk_spelling(w, -1) == NULL, "ids");
    tk_free(w);
}

/* Models that keep what others drop. */
static void test_other_rules(void) {
    static const struct {
        tk_wordpiece_rules rules;
        const char *want;
    } cases[] = {
        {{0}, "[CLS] ae a [UNK] [UNK] a e [SEP]"},
        {{.keep_case = true}, "[CLS] Ae a [UNK] [UNK] a e [SEP]"},
        {{.keep_case = true, .keep_accents = true}, "[CLS] A\u00e9 a [UNK] [UNK] a e\u0301 [SEP]"},
        {{.keep_accents = true}, "[CLS] a\u00e9 a [UNK] [UNK] a e\u0301 [SEP]"},
        {{.join_chinese = true}, "[CLS] ae a\u4e2d\u6587a e [SEP]"},
    };
    static const char lines[] = "[UNK]\n[CLS]\n[SEP]\na\nae\nAe\nA\u00e9\na\u00e9\na\u4e2d\u6587a\ne\ne\u0301";
    static const char sentence[] = "A\u00e9 a\u4e2d\u6587a e\u0301";
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tk_tokenizer *w = load_text(lines, cases[i].rules);
        if (w != NULL)
            pieces_are(w, sentence, strlen(sentence), MOST, cases[i].want);
        tk_free(w);
    }
}

/* The first and the last character of each Chinese block stand alone, their neighbours do not: as PyPI's tokenizers
 * has it, of which a block begins at 2b920 where Unicode's does at 2b820. Two blocks here are one. */
static void test_chinese_blocks(void) {
    static const uint32_t blocks[][2] = {{0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xf900, 0xfaff},  {0x20000, 0x2a6df},
                                         {0x2a700, 0x2b81f}, {0x2b920, 0x2ceaf}, {0x2f800, 0x2fa1f}};
    tk_tokenizer *w = load_text("[UNK]\n[CLS]\n[SEP]\na", (tk_wordpiece_rules){0});
    for (size_t i = 0; w != NULL && i < sizeof blocks / sizeof blocks[0]; i++)
        for (int k = 0; k < 4; k++) { /* before it, first, last, behind it */
            char text[8] = "a";
            const int length = tk_put_character(blocks[i][k / 2] - (k == 0) + (k == 3), text + 1);
            text[1 + length] = 'a';
            pieces_are(w, text, (size_t)length + 2, MOST, k % 3 == 0 ? "[CLS] [UNK] [SEP]" : "[CLS] a [UNK] a [SEP]");
        }
    tk_free(w);
}

static void test_decoding(void) {
    tk_tokenizer *t = load_text("[UNK]\n[CLS]\n[SEP]\na\n##b\nab\n##", (tk_wordpiece_rules){0});
    char got[256] = "";
    size_t at = 0;
    if (t == NULL)
        return;
    tk_decoder d = tk_decoder_begin(t, false);
    for (int32_t id = 3; id < 7; id++)
        at += (size_t)tk_decode(&d, id, got + at);
    at += (size_t)tk_decode_end(&d, got + at);
    test_check(at == 8 && memcmp(got, "ab ab ##", 8) == 0, "decoded: \"%s\"", got);
    tk_free(t);
}

static void test_vocabularies(void) {
    static const struct {
        const char *vocabulary, *words;
    } cases[] = {
        {"", "made: its vocabulary has 0 tokens"},
        {"[CLS]\n[SEP]\na", "made: its vocabulary has no [UNK]"},
        {"[CLS]\n[UNK]\n", "made: asks for EOS, but does not say which token it is"},
        {"[CLS]\n[SEP]\n[UNK]\na\nb\na\n", "made: tokens 3 and 5 are spelt alike"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[512] = "";
        tk_tokenizer *t;
        test_check(create(cases[i].vocabulary, (tk_wordpiece_rules){0}, &t, (complaint){text, sizeof text}) == -1 &&
                       t == NULL && strstr(text, cases[i].words) == text,
                   "vocabulary %d: \"%s\", not \"%s\"", (int)i, text, cases[i].words);
        tk_free(t);
    }
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "tokenizers-wordpiece", NULL);
    test_rules();
    test_other_rules();
    test_chinese_blocks();
    test_decoding();
    test_vocabularies();
    return test_end();
}
