/* test-wordpiece: word pieces by a small vocabulary; vocabularies that are none; and, where the model was fetched, by
 * its vocabulary against ids of the tokenizers package 0.23.3 with the model's tokenizer.json. */
#include "test_file.h"
#include "wordpiece.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static test_option options[] = {TEST_FILE_OPTION, {0}};
static char path[4096];

enum { MOST = 256 };

static wordpiece *load_text(const char *lines) {
    char text[512] = "";
    wordpiece *w;
    test_file_write(path, lines, strlen(lines));
    test_check(wordpiece_load(path, &w, (complaint){text, sizeof text}) == 0, "%s", text);
    return w;
}

/* The pieces of a text, with spaces between. */
static void pieces_are(const wordpiece *w, const char *text, size_t bytes, int64_t most, const char *want) {
    int32_t ids[MOST];
    char got[4096] = "";
    const int64_t count = wordpiece_tokens(w, text, bytes, ids, most);
    test_check(count >= 2 && count <= most, "%s: %lld tokens of at most %lld", text, (long long)count, (long long)most);
    for (int64_t i = 0; i < count; i++) {
        strcat(got, i > 0 ? " " : "");
        strcat(got, wordpiece_text(w, ids[i]));
    }
    test_check(strcmp(got, want) == 0, "\"%s\": %s, not %s", text, got, want);
}

static void test_rules(void) {
    wordpiece *w =
        load_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n##b\nab\n##c\ncafe\n!\n'\n\xe2\x80\x99\n\xe4\xb8\x96\n\xcf\x83\n"
                  "##\xcf\x83\nx\n##x\n[\n]\nsep\n##fe\n$");
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
        {"a\xed\xa0\x80"
         "b\xf4\x90\x80\x80\xc0\x80",
         "[CLS] ab [SEP]"},               /* surrogate, too large, too long */
        {"[SEP]", "[CLS] [ sep ] [SEP]"}, /* text, not a token */
        {"##b", "[CLS] [UNK] [UNK] [UNK] [SEP]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        pieces_are(w, cases[i].text, strlen(cases[i].text), MOST, cases[i].want);
    pieces_are(w, "a\0b", 3, MOST, "[CLS] ab [SEP]");
    pieces_are(w, "a a a a", 7, 5, "[CLS] a a a [SEP]");
    pieces_are(w, "a abc", 5, 4, "[CLS] a ab [SEP]");
    pieces_are(w, "a a", 3, 2, "[CLS] [SEP]");
    char word[102], want[1024] = "[CLS] x";
    memset(word, 'x', sizeof word);
    for (int i = 1; i < 100; i++)
        strcat(want, " ##x");
    pieces_are(w, word, 100, MOST, strcat(want, " [SEP]"));
    pieces_are(w, word, 101, MOST, "[CLS] [UNK] [SEP]");
    test_check(wordpiece_count(w) == 22 && wordpiece_text(w, 22) == NULL && wordpiece_text(w, -1) == NULL, "ids");
    wordpiece_free(w);
}

/* Models that keep what others drop. */
static void test_other_rules(void) {
    static const struct {
        wordpiece_rules rules;
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
    char text[512] = "";
    const complaint to = {text, sizeof text};
    test_file_write(path, lines, strlen(lines));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        vocabulary *v;
        wordpiece *w = NULL;
        if (!test_check(vocabulary_load(path, &v, to) == 0 && wordpiece_create(v, cases[i].rules, path, &w, to) == 0,
                        "%s", text))
            return;
        pieces_are(w, sentence, strlen(sentence), MOST, cases[i].want);
        wordpiece_free(w);
    }
}

static void test_vocabularies(void) {
    static const struct {
        const char *vocabulary, *words;
    } cases[] = {
        {"", "line 1 is empty"},
        {"[CLS]\n[SEP]\n", "has no [UNK]"},
        {"[CLS]\n[UNK]\n", "has no [SEP]"},
        {"[SEP]\n[UNK]\n", "has no [CLS]"},
        {"[CLS]\r\n[SEP]\r\n[UNK]\r\n", "has no [CLS]"},
        {"[CLS]\n[SEP]\n\n[UNK]\n", "line 3 is empty"},
        {"[CLS]\n[SEP]\n[UNK]\na\nb\na\n", "line 6 repeats line 4"},
    };
    char text[512];
    wordpiece *w;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        text[0] = 0;
        test_file_write(path, cases[i].vocabulary, strlen(cases[i].vocabulary));
        test_check(wordpiece_load(path, &w, (complaint){text, sizeof text}) == -1 && w == NULL &&
                       strstr(text, cases[i].words) != NULL,
                   "vocabulary %d: \"%s\", not \"%s\"", (int)i, text, cases[i].words);
        wordpiece_free(w);
    }
    test_file_write(path, "[CLS]\0\n[SEP]", 12);
    test_check(wordpiece_load(path, &w, (complaint){text, sizeof text}) == -1 && strstr(text, "zero bytes") != NULL,
               "zero bytes: %s", text);
    remove(path);
    test_check(wordpiece_load(path, &w, (complaint){text, sizeof text}) == -1 &&
                   strstr(text, "cannot be opened") != NULL,
               "no file: %s", text);
}

static void test_model(void) {
    static const struct {
        const char *text;
        int count;
        int32_t ids[32]; /* between [CLS] and [SEP] */
    } cases[] = {
        {"Caf\u00e9 na\u00efve co\u00f6perate \u00c5ngstr\u00f6m", 5, {7668, 15743, 17654, 17076, 15687}},
        {"\u00c0\u00c9\u00ce\u00d5\u00dc \u00df\u1e9e \u0130stanbul \u0131I",
         8,
         {29347, 3695, 2226, 1096, 19310, 9960, 1104, 2072}},
        {"\u4f60\u597d world \u4e16\u754cabc", 6, {100, 100, 2088, 1745, 100, 5925}},
        {"\u4e2d\u6587!? \u2026\u2014\u201cx\u201d $5+3=8~^`|",
         19,
         {1746, 1861, 999, 1029, 1529, 1517, 1523, 1060, 1524, 1002, 1019, 1009, 1017, 1027, 1022, 1066, 1034, 1036,
          1064}},
        {"\ud55c\uad6d\uc5b4 \u3072\u3089\u304c\u306a \u30ab\u30bf\u30ab\u30ca",
         16,
         {1469, 30006, 30021, 29991, 30014, 30020, 29999, 30008, 1673, 30211, 30177, 30193, 1700, 30235, 30226, 30241}},
        {"\u03a3\u03af\u03c3\u03c5\u03c6\u03bf\u03c2", 6, {1173, 18199, 29733, 29735, 29736, 15297}},
        {"Z\u00fcrich's \u21165 \u00bd \u2167", 7, {10204, 1005, 1055, 1578, 2629, 1092, 100}},
        {"don't can\u2019t", 6, {2123, 1005, 1056, 2064, 1521, 1056}},
        {"\U0001f600 smile \ufb01", 3, {100, 2868, 1984}},
    };
    char text[512] = "";
    wordpiece *w;
    FILE *file = fopen(FOVEA_MINILM_MODEL "/vocab.txt", "rb");
    if (file == NULL) {
        test_skip("the model's vocabulary: not fetched (make run)");
        return;
    }
    fclose(file);
    if (!test_check(wordpiece_load(FOVEA_MINILM_MODEL "/vocab.txt", &w, (complaint){text, sizeof text}) == 0, "%s",
                    text))
        return;
    test_check(wordpiece_count(w) == 30522, "%lld pieces", (long long)wordpiece_count(w));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int32_t ids[MOST];
        const int64_t count = wordpiece_tokens(w, cases[i].text, strlen(cases[i].text), ids, MOST);
        bool same = count == 2 + cases[i].count && ids[0] == 101 && ids[count - 1] == 102;
        for (int k = 0; same && k < cases[i].count; k++)
            same = ids[1 + k] == cases[i].ids[k];
        test_check(same, "\"%s\" by the model's vocabulary", cases[i].text);
    }
    wordpiece_free(w);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "wordpiece", options);
    snprintf(path, sizeof path, "%s", test_file_path(options, "test_wordpiece.tmp"));
    test_rules();
    test_other_rules();
    test_vocabularies();
    test_model();
    return test_end();
}
