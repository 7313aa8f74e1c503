/* test-minilm-vocabulary: vocab.txt as it should not be; and, where the model was fetched, its own, against ids of the
 * tokenizers package 0.23.3 with the model's tokenizer.json. */
#include "folder_tokenizer.h"
#include "test_file.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static test_option options[] = {TEST_FILE_OPTION, {0}};

enum { MOST = 256 };

static void test_vocabularies(void) {
    static const struct {
        const char *vocabulary, *words;
    } cases[] = {
        {"", "line 1 is empty"},
        {"[CLS]\n[SEP]\n", "has no [UNK]"},
        {"[CLS]\n[UNK]\n", "has no [SEP]"},
        {"[SEP]\n[UNK]\n", "has no [CLS]"},
        {"[CLS]\r\n[SEP]\r\n[UNK]\r\n", "has no [UNK]"},
        {"[CLS]\n[SEP]\n\n[UNK]\n", "line 3 is empty"},
        {"[CLS]\n[SEP]\n[UNK]\na\nb\na\n", "tokens 3 and 5 are spelt alike"},
    };
    char folder[4096], path[4200], text[512];
    const complaint to = {text, sizeof text};
    tk_tokenizer *t;
    snprintf(folder, sizeof folder, "%s", test_file_path(options, "test_vocabulary.folder"));
    snprintf(path, sizeof path, "%s/vocab.txt", folder);
    mkdir(folder, 0777);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        text[0] = 0;
        test_file_write(path, cases[i].vocabulary, strlen(cases[i].vocabulary));
        test_check(folder_tokenizer(folder, FOLDER_NONE, &t, to) == -1 && t == NULL &&
                       strstr(text, cases[i].words) != NULL,
                   "vocabulary %d: \"%s\", not \"%s\"", (int)i, text, cases[i].words);
        tk_free(t);
    }
    test_file_write(path, "[CLS]\0\n[SEP]", 12);
    test_check(folder_tokenizer(folder, FOLDER_NONE, &t, to) == -1 && strstr(text, "zero bytes") != NULL,
               "zero bytes: %s", text);
    remove(path);
    rmdir(folder);
    test_check(folder_tokenizer(folder, FOLDER_NONE, &t, to) == -1 && strstr(text, "has no tokenizer") != NULL,
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
    tk_tokenizer *t;
    FILE *file = fopen(FOVEA_MINILM_MODEL "/vocab.txt", "rb");
    if (file == NULL) {
        test_skip("the model's vocabulary: not fetched (make run)");
        return;
    }
    fclose(file);
    if (!test_check(folder_tokenizer(FOVEA_MINILM_MODEL, FOLDER_NONE, &t, (complaint){text, sizeof text}) == 0, "%s",
                    text))
        return;
    test_check(tk_spelling(t, 30521) != NULL && tk_spelling(t, 30522) == NULL, "another number of pieces");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int32_t ids[MOST];
        const int64_t count = tk_encode_cut(t, cases[i].text, (int64_t)strlen(cases[i].text), ids, MOST);
        bool same = count == 2 + cases[i].count && ids[0] == 101 && ids[count - 1] == 102;
        for (int k = 0; same && k < cases[i].count; k++)
            same = ids[1 + k] == cases[i].ids[k];
        test_check(same, "\"%s\" by the model's vocabulary", cases[i].text);
    }
    tk_free(t);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "minilm-vocabulary", options);
    test_vocabularies();
    test_model();
    return test_end();
}
