/* test-bpe: how texts are cut into words, and bytes joined by merges; the answers are those of the tokenizers package
 * 0.23 (ByteLevel, BPE). */
#include "bpe.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 64 };

static void test_words(void) {
    static const struct {
        const char *text, *words; /* with | between them */
    } cases[] = {
        {"don't you'll 'sup", "don|'t| you|'ll| '|sup"},
        {" lead  two   three", " lead| | two|  | three"},
        {"trail  ", "trail|  "},
        {"a\n\nb\n c", "a|\n|\n|b|\n| c"},
        {"km2 3x 1\u00bd", "km|2| 3|x| 1\u00bd"},
        {"!?... --'s", "!?...| --'|s"},
        {"caf\u00e9 n\u0303o", "caf\u00e9| n|\u0303|o"},
        {"\u00a0x \u3000y", "\u00a0|x| |\u3000|y"},
        {"it's'", "it|'s|'"},
        {"a\xff\xfe b", "a|\xff\xfe| b"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *text = cases[i].text;
        const size_t bytes = strlen(text);
        char got[256] = "";
        for (size_t at = 0, end; at < bytes; at = end) {
            end = bpe_word_end(text, bytes, at);
            if (at > 0)
                strcat(got, "|");
            strncat(got, text + at, end - at);
        }
        test_check(strcmp(got, cases[i].words) == 0, "\"%s\" cut as %s, not %s", text, got, cases[i].words);
    }
}

static bpe *make(void) {
    static const char *const pieces[] = {"a", "b", "c", "ab", "bc", "abc", "aa", "aaa", "\u0120", "\u0120a"};
    static const char *const merges[][2] = {{"b", "c"}, {"a", "b"}, {"a", "bc"}, {"a", "a"}, {"\u0120", "a"}};
    char text[256] = "";
    const complaint to = {text, sizeof text};
    json_t *object = json_object();
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++)
        json_object_set_new(object, pieces[i], json_integer((json_int_t)i));
    vocabulary *v;
    bpe *b = NULL;
    if (test_check(vocabulary_from_json("pieces", object, &v, to) == 0, "%s", text))
        test_check(bpe_create(v, 5, "pieces", &b, to) == 0, "%s", text);
    json_decref(object);
    for (int i = 0; b != NULL && i < 5; i++)
        test_check(
            bpe_add_merge(b, merges[i][0], strlen(merges[i][0]), merges[i][1], strlen(merges[i][1]), "merges", to) == 0,
            "%s", text);
    if (b != NULL)
        test_check(bpe_add_merge(b, "a", 1, "a", 1, "merges", to) != 0 && strstr(text, "merge 6 ") != NULL,
                   "more merges than there should be: %s", text);
    return b;
}

static void pieces_are(const bpe *b, const char *text, int64_t most, const char *want) {
    int32_t ids[MOST];
    char got[256] = "";
    const int64_t count = bpe_tokens(b, text, strlen(text), ids, most);
    for (int64_t i = 0; i < count; i++) {
        strcat(got, i > 0 ? " " : "");
        strcat(got, vocabulary_text(bpe_pieces(b), ids[i]));
    }
    test_check(strcmp(got, want) == 0, "\"%s\": %s, not %s", text, got, want);
}

static void test_merges(void) {
    static const struct {
        const char *text, *pieces;
    } cases[] = {{"abc", "abc"},    {"ab", "ab"},           {"aab", "a ab"},
                 {"aaaa", "aa aa"}, {"abab", "ab ab"},      {"aaa", "aa a"},
                 {"cab", "c ab"},   {" abc", "\u0120 abc"}, {" a bc", "\u0120a \u0120 bc"},
                 {"axb", "ab"},     {" aa", "\u0120 aa"},   {"", ""}};
    bpe *b = make();
    if (b == NULL)
        return;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        pieces_are(b, cases[i].text, MOST, cases[i].pieces);
    pieces_are(b, "c c c", 2, "c \u0120");
    /* A word that is too long is cut: 4097 times a, joined in pairs within 4096 of them. */
    enum { LONG = 4097 };
    char *text = malloc(LONG);
    int32_t *ids = malloc(LONG * sizeof *ids);
    memset(text, 'a', LONG);
    test_check(bpe_tokens(b, text, LONG, ids, LONG) == 2049 && ids[2047] == 6 && ids[2048] == 0, "a long word");
    free(ids);
    free(text);
    bpe_free(b);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "bpe", NULL);
    test_words();
    test_merges();
    return test_end();
}
