/* test-tokenizers: how bytes are joined by merges, tokens put together again; what is refused. test_words.c cuts texts
 * into words, test_reference.c compares with llama.cpp. */
#include "private.h"
#include "small.h"

#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64, TOKENS = 300 };

static char sentence[1024];
static const complaint to = {sentence, sizeof sentence};

/* -------------------------------------------------------------------------------------------------- vocabularies -- */

/* A vocabulary that is listed: texts behind each other, of which a NULL is the last. */
typedef struct listed {
    const char *const *at;
} listed;

static tk_text next_listed(void *at) {
    listed *l = at;
    const char *text = *l->at++;
    return (tk_text){text, (int64_t)strlen(text)};
}

static int64_t length_of(const char *const *list) {
    int64_t count = 0;
    while (list[count] != NULL)
        count++;
    return count;
}

/* types: a digit for each token, or NULL. */
static int create(const char *model, const char *pre, const char *const *tokens, const char *const *merges,
                  const char *types, const float *scores, tk_tokenizer **t) {
    listed token_list = {tokens}, merge_list = {merges};
    int32_t type_list[TOKENS];
    for (size_t i = 0; types != NULL && types[i] != '\0'; i++)
        type_list[i] = types[i] - '0';
    const tk_description d = {.name = "made",
                              .model = {model, (int64_t)strlen(model)},
                              .pre = {pre, (int64_t)strlen(pre)},
                              .tokens = {length_of(tokens), next_listed, &token_list},
                              .merges = {length_of(merges), next_listed, &merge_list},
                              .types = types != NULL ? type_list : NULL,
                              .scores = scores,
                              .bos = TK_NONE,
                              .eos = TK_NONE};
    sentence[0] = '\0';
    return tk_create(&d, t, to);
}

static const char *const pieces[] = {"a",       "b",   "c",          "ab", "bc",   "abc", "aa",     "aaa",    "\u0120",
                                     "\u0120a", "<x>", "<|im_end|>", "xy", "\n\n", "",    "\u00f0", "\u0141", NULL};
static const char *const merges[] = {"b c", "a b", "a bc", "a a", "\u0120 a", "a b", NULL};
static const char piece_types[] = "11111111113144111";

static void pieces_are(const tk_tokenizer *t, const char *text, unsigned flags, int64_t most, const char *want) {
    int32_t ids[MOST];
    char got[256] = "";
    const int64_t count = tk_encode(t, text, (int64_t)strlen(text), flags, ids, most);
    for (int64_t i = 0; i < count && i < most; i++) {
        strcat(got, i > 0 ? " " : "");
        strcat(got, tk_spelling(t, ids[i]));
    }
    strcat(got, count > most ? " ..." : "");
    test_check(strcmp(got, want) == 0, "\"%s\", %u: %s, not %s", text, flags, got, want);
}

static void decoded_is(tk_decoder *d, int32_t id, const char *want) {
    char got[MOST];
    const int64_t count = id == TK_NONE ? tk_decode_end(d, got) : tk_decode(d, id, got);
    test_check(count == (int64_t)strlen(want) && memcmp(got, want, (size_t)count) == 0, "token %d: %.*s, not %s",
               (int)id, (int)count, got, want);
}

static void test_merges(void) {
    static const struct {
        const char *text, *pieces;
        unsigned flags;
    } cases[] = {{"abc", "abc", 0},
                 {"ab", "ab", 0},
                 {"aab", "a ab", 0},
                 {"aaaa", "aa aa", 0},
                 {"abab", "ab ab", 0},
                 {"aaa", "aa a", 0},
                 {"cab", "c ab", 0},
                 {" abc", "\u0120 abc", 0},
                 {" a bc", "\u0120a \u0120 bc", 0},
                 {"azb", "a b", 0}, /* z is no token, but what it parts stays apart */
                 {" aa", "\u0120 aa", 0},
                 {"", "", 0},
                 {"a<x>b", "a b", 0},
                 {"a<x>b", "a <x> b", TK_SPECIAL},
                 {"axyb", "a xy b", 0}, /* the user's are cut out in any case */
                 {"a\n\n\nb", "a \n\n b", 0},
                 {"<|im_end|>", "<|im_end|>", TK_SPECIAL}, /* a control token by its name */
                 {"<|im_end|>", "", 0}};
    tk_tokenizer *t;
    if (!test_check(create("gpt2", "gpt-2", pieces, merges, piece_types, NULL, &t) == 0, "%s", sentence))
        return;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        pieces_are(t, cases[i].text, cases[i].flags, MOST, cases[i].pieces);
    pieces_are(t, "c c c", 0, 2, "c \u0120 ...");
    pieces_are(t, "c c", 0, 3, "c \u0120 c");
    pieces_are(t, "c", 0, 0, " ...");
    test_check(tk_count(t) == 17 && tk_spelling(t, 14) == NULL && tk_spelling(t, -1) == NULL &&
                   tk_spelling(t, 17) == NULL && tk_find(t, "", 0) == TK_NONE && tk_find(t, "abc", 3) == 5,
               "tokens are not found");
    test_check(tk_ends(t, 11) && !tk_ends(t, 10) && !tk_ends(t, 14) && !tk_ends(t, 17), "other tokens end answers");
    test_check(tk_encode(t, "", TK_TEXT_MOST + 1, 0, NULL, 0) == TK_TOO_LONG, "a text that is too long");
    tk_free(t);
}

/* <|end|> ends an answer, unless it is the end of a message of those that end by <|return|> or a call. */
static void test_ends(void) {
    static const char *const lists[][5] = {{"a", "<|end|>", NULL},
                                           {"a", "<|end|>", "<|return|>", NULL},
                                           {"a", "<|end|>", "<|call|>", NULL},
                                           {"a", "<|end|>", "<|return|>", "<|call|>", NULL},
                                           {"a", "<|end|>", "<|calls|>", "<|flush|>", NULL}};
    static const char *const none[] = {NULL};
    for (int i = 0; i < 5; i++) {
        tk_tokenizer *t;
        if (!test_check(create("gpt2", "gpt-2", lists[i], none, NULL, NULL, &t) == 0, "%s", sentence))
            return;
        test_check(tk_ends(t, 1) == (i < 3), "list %d: <|end|> ends an answer, or does not", i);
        for (int k = 2; lists[i][k] != NULL; k++)
            test_check(tk_ends(t, k), "%s does not end an answer", lists[i][k]);
        pieces_are(t, "a<|end|>", 0, MOST, "a");
        tk_free(t);
    }
}

/* Special tokens that overlap: the longest first, of equal ones that of the lower id, and from the left. */
static void test_overlaps(void) {
    static const char *const overlapping[] = {"a",  "b",  "x",   "y",    "z",     "<xy>",  "y>a>", "xyz", "zab",
                                              "xy", "aa", "zba", "zbab", "xyzyz", "zbabx", "yzb",  "y>",  NULL};
    static const char overlapping_types[] = "11111444444434444"; /* zbab is control */
    static const char *const none[] = {NULL};
    static const struct {
        const char *text, *pieces;
        unsigned flags;
    } cases[] = {{"xyzab", "xyz a b", 0},      {"<xy>a>", "<xy> a", 0}, {"xy>a>", "x y>a>", 0},
                 {"xyzbabx", "xy zbabx", 0}, /* xyz is behind zbabx, and xy is left of it */
                 {"aaa", "aa a", 0},           {"zbab", "zba b", 0},    {"zbabxyzyz", "zba b xyzyz", 0},
                 {"zbab", "zbab", TK_SPECIAL}, {"yzbab", "y zba b", 0}, {"yzbab", "y zbab", TK_SPECIAL}};
    tk_tokenizer *t;
    if (!test_check(create("gpt2", "gpt-2", overlapping, none, overlapping_types, NULL, &t) == 0, "%s", sentence))
        return;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        pieces_are(t, cases[i].text, cases[i].flags, MOST, cases[i].pieces);
    tk_free(t);
}

/* SentencePiece: a token may have a space between its letters, and then words are not taken one by one. */
static void test_inner_space(void) {
    enum { BYTES = 256, ALL = BYTES + 8 };
    static const char *const own[] = {"\u2581", "a", "b", "\u2581b", "a\u2581", "\u2581\u2581", "a\u2581b", "aa"};
    static char bytes[BYTES][7];
    static const char *tokens[ALL + 1], *const none[] = {NULL};
    static float scores[ALL];
    for (int i = 0; i < BYTES; i++) {
        snprintf(bytes[i], sizeof bytes[i], "<0x%02X>", (unsigned)i);
        tokens[i] = bytes[i];
    }
    for (int i = 0; i < ALL - BYTES; i++) {
        tokens[BYTES + i] = own[i];
        scores[BYTES + i] = (float)-i;
    }
    for (int inner = 0; inner < 2; inner++) {
        tk_tokenizer *t;
        tokens[BYTES + 6] = inner ? "a\u2581b" : "aab";
        tokens[BYTES + 4] = inner ? "a\u2581" : "ab";
        if (!test_check(create("llama", "", tokens, none, NULL, scores, &t) == 0, "%s", sentence))
            return;
        pieces_are(t, "aa b", 0, MOST, inner ? "\u2581 a a\u2581b" : "\u2581 aa \u2581b");
        tk_free(t);
    }
}

/* Unigram: a character that is no piece, though one begins with it, is unknown. */
static void test_unigram(void) {
    static const char *const pieces_of[] = {"<unk>", "ab", "bc", "c", "\u2581", NULL};
    static const double scores[] = {0, -1, -1, -1, 0};
    listed list = {pieces_of};
    tk_tokenizer *t;
    const tk_unigram_rules rules = {.scores = scores};
    const tk_description made = {
        .name = "made", .model = {"Unigram", 7}, .tokens = {5, next_listed, &list}, .unigram = &rules};
    if (!test_check(tk_create(&made, &t, to) == 0, "%s", sentence))
        return;
    static const struct {
        const char *text, *want;
    } cases[] = {{"abc", "\u2581 ab c"},   {"ac", "\u2581 <unk> c"},   {"aac", "\u2581 <unk> c"},
                 {"abbc", "\u2581 ab bc"}, {"aab", "\u2581 <unk> ab"}, {"bca c", "\u2581 bc <unk> \u2581 c"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        pieces_are(t, cases[i].text, 0, MOST, cases[i].want);
    tk_decoder d = tk_decoder_begin(t, false);
    decoded_is(&d, 4, "");
    decoded_is(&d, 1, "ab");
    decoded_is(&d, 4, " ");
    tk_free(t);
}

/* A frame that is named by its spelling stays whole about a text that is cut off; a space may come before a text. */
static void test_frame(void) {
    static const struct {
        const char *text, *behind;
        int64_t most, count;
        int32_t ids[5];
    } cases[] = {{"c c", "xy", 5, 5, {10, 8, 2, 8, 12}}, /* c has no space before it in the vocabulary */
                 {" c", "xy", 5, 4, {10, 8, 2, 12}},     {"", "xy", 5, 2, {10, 12}},
                 {"c c", "xy", 4, 4, {10, 8, 2, 12}},    {"c c", "xy", 2, 2, {10, 12}},
                 {"c c", NULL, 3, 3, {10, 8, 2}}};
    listed token_list, merge_list;
    tk_description d = {.name = "made", .model = {"gpt2", 4}, .pre = {"gpt-2", 5}, .bos = TK_NONE, .eos = TK_NONE};
    d.space_first = true;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int32_t ids[6] = {0};
        tk_tokenizer *t;
        token_list.at = pieces;
        merge_list.at = merges;
        d.tokens = (tk_list){length_of(pieces), next_listed, &token_list};
        d.merges = (tk_list){length_of(merges), next_listed, &merge_list};
        d.before = "<x>";
        d.behind = cases[i].behind;
        if (!test_check(tk_create(&d, &t, to) == 0, "%s", sentence))
            return;
        const char *text = cases[i].text;
        const int64_t count = tk_encode_cut(t, text, (int64_t)strlen(text), ids, cases[i].most);
        test_check(count == cases[i].count && memcmp(ids, cases[i].ids, (size_t)count * sizeof *ids) == 0,
                   "\"%s\", at most %d: %lld tokens", text, (int)cases[i].most, (long long)count);
        tk_free(t);
    }
    token_list.at = pieces;
    merge_list.at = merges;
    d.behind = "[SEP]";
    tk_tokenizer *t;
    test_check(tk_create(&d, &t, to) == -1 && strstr(sentence, "its vocabulary has no [SEP]") != NULL, "%s", sentence);
}

/* Letters of a word are joined in time that does not grow with their square. */
static void test_long(void) {
    enum { LONG = 1 << 22 };
    tk_tokenizer *t;
    char *text = malloc(LONG);
    int32_t *ids = malloc(LONG * sizeof *ids);
    memset(text, 'a', LONG);
    if (test_check(create("gpt2", "llama-bpe", pieces, merges, piece_types, NULL, &t) == -1, "BOS without a token"))
        test_check(strstr(sentence, "asks for BOS") != NULL, "%s", sentence);
    if (test_check(create("gpt2", "qwen2", pieces, merges, piece_types, NULL, &t) == 0, "%s", sentence)) {
        const int64_t count = tk_encode(t, text, LONG, 0, ids, LONG);
        test_check(count == LONG / 2 && ids[0] == 6 && ids[count - 1] == 6, "%lld tokens", (long long)count);
        memset(text, '<', LONG);
        test_check(tk_encode(t, text, LONG, TK_SPECIAL, ids, LONG) == 0, "of < there is no token");
    }
    free(text);
    free(ids);
    tk_free(t);
}

/* ------------------------------------------------------------------------------------------------ and back again -- */

static int32_t byte_token(const tk_tokenizer *t, unsigned byte) {
    char spelling[8];
    snprintf(spelling, sizeof spelling, "<0x%02X>", byte);
    return tk_find(t, spelling, 6);
}

static void test_decode(void) {
    tk_tokenizer *t;
    if (test_check(create("gpt2", "gpt-2", pieces, merges, piece_types, NULL, &t) == 0, "%s", sentence)) {
        tk_decoder d = tk_decoder_begin(t, false);
        decoded_is(&d, 9, " a");
        decoded_is(&d, 15, ""); /* f0 waits, */
        decoded_is(&d, 16, ""); /* f0 9f too: they may become one character */
        decoded_is(&d, 0,
                   "\xf0\x9f"
                   "a"); /* which they do not */
        decoded_is(&d, 15, "");
        decoded_is(&d, TK_NONE, "\xf0");
        decoded_is(&d, TK_NONE, "");
        decoded_is(&d, 10, "");
        decoded_is(&d, 12, "xy");
        decoded_is(&d, 14, "");
        decoded_is(&d, 99, "");
        d = tk_decoder_begin(t, true);
        decoded_is(&d, 10, "<x>");
    }
    tk_free(t);
    if (test_check(small_create(FOVEA_TOKENIZERS "/small.txt", "llama", &t, to) == 0, "%s", sentence)) {
        tk_decoder d = tk_decoder_begin(t, true);
        const int32_t the = tk_find(t, "\u2581the", 6), bos = tk_before(t);
        test_check(bos == 1 && tk_behind(t) == 2 && the != TK_NONE, "BOS is %d, EOS %d", (int)bos, (int)tk_behind(t));
        decoded_is(&d, the, "the"); /* the first space was added */
        decoded_is(&d, the, " the");
        decoded_is(&d, byte_token(t, 0xe4), "");
        decoded_is(&d, byte_token(t, 0xb8), "");
        decoded_is(&d, byte_token(t, 0xad), "\u4e2d");
        decoded_is(&d, bos, "<s>");
        decoded_is(&d, the, "the");
        d = tk_decoder_begin(t, false);
        decoded_is(&d, bos, "");
        decoded_is(&d, the, "the");
        decoded_is(&d, bos, "");
        decoded_is(&d, the, " the");
    }
    tk_free(t);
}

/* ----------------------------------------------------------------------------------------------- what is refused -- */

static void test_refused(void) {
    static const char *const none[] = {NULL}, *const twice[] = {"a", "b", "a", NULL},
                             *const unknown[] = {"a b", "b d", NULL}, *const half[] = {"ab", NULL};
    static const float scores[17] = {0}, no_number[17] = {0, NAN};
    static const struct {
        const char *model, *pre;
        const char *const *tokens, *const *merges;
        const float *scores;
        const char *words;
    } wrong[] = {
        {"bert", "", pieces, none, NULL, "made: the tokenizer bert (word pieces) is not served; served are gpt2"},
        {"t5", "", pieces, none, NULL, "the tokenizer t5 (unigram) is not served"},
        {"rwkv", "", pieces, none, NULL, "the tokenizer rwkv (a trie) is not served"},
        {"plamo2", "", pieces, none, NULL, "the tokenizer plamo2 is not served"},
        {"gpt2", "chatglm-bpe", pieces, merges, NULL, "the pre-tokenizer chatglm-bpe is not served"},
        {"gpt2", "", pieces, merges, NULL, "the pre-tokenizer (none) is not served"},
        {"gpt2", "gpt-\n2", pieces, merges, NULL, "the pre-tokenizer gpt-?2 is not served"},
        {"gpt2", "gpt-2", none, merges, NULL, "has 0 tokens"},
        {"gpt2", "gpt-2", twice, none, NULL, "tokens 0 and 2 are spelt alike"},
        {"gpt2", "gpt-2", pieces, unknown, NULL, "merge 2 is not of tokens of the vocabulary"},
        {"gpt2", "gpt-2", pieces, half, NULL, "merge 1 is not of tokens of the vocabulary"},
        {"llama", "", pieces, none, NULL, "its vocabulary has no scores"},
        {"llama", "", pieces, none, no_number, "the score of token 1 is not a number"},
        {"llama", "", pieces, none, scores, "its vocabulary has no token <0x00>"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        tk_tokenizer *t = (tk_tokenizer *)&i;
        const int status =
            create(wrong[i].model, wrong[i].pre, wrong[i].tokens, wrong[i].merges, NULL, wrong[i].scores, &t);
        test_check(status == -1 && t == NULL && strstr(sentence, wrong[i].words) != NULL, "\"%s\" does not say: %s",
                   sentence, wrong[i].words);
    }
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "tokenizers", NULL);
    test_merges();
    test_ends();
    test_overlaps();
    test_inner_space();
    test_unigram();
    test_frame();
    test_long();
    test_decode();
    test_refused();
    return test_end();
}
