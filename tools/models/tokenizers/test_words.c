/* test-tokenizers-words: how texts are cut into words, by the rules that vocabularies name. */
#include "private.h"

#include "test.h"

#include <string.h>

/* Words of each rule, with | between them. */
static const struct {
    const char *rule, *text, *words;
} cuts[] = {
    {"gpt-2", "don't you'll 'sup", "don|'t| you|'ll| '|sup"},
    {"gpt-2", "DON'T I'LL", "DON|'|T| I|'|LL"},
    {"gpt-2", " lead  two   three", " lead| | two|  | three"},
    {"gpt-2", "trail  ", "trail|  "},
    {"gpt-2", "a\n\nb\n c", "a|\n|\n|b|\n| c"},
    {"gpt-2", "km2 3x 1\u00bd 1234", "km|2| 3|x| 1\u00bd| 1234"},
    {"gpt-2", "!?... --'s", "!?...| --'|s"},
    {"gpt-2", "caf\u00e9 n\u0303o", "caf\u00e9| n|\u0303|o"},
    {"gpt-2", "\u00a0x \u3000y", "\u00a0|x| |\u3000|y"},
    {"gpt-2", "it's'", "it|'s|'"},
    {"smollm", "a 12 \u0663x", "a| |1|2| |\u0663|x"},
    {"smollm", "  7", "  |7"},
    {"llama-bpe", "DON'T i'Ll'Sup '", "DON|'T| i|'Ll|'S|up| '"},
    {"llama-bpe", "12345 x", "123|45| x"},
    {"llama-bpe", "(a) \"b\n", "(a|)| \"|b|\n"},
    {"llama-bpe", " !!\n\n x", " !!\n\n| x"},
    {"llama-bpe", "a  \n \n  b", "a|  \n \n| | b"},
    {"llama-bpe", "\ta\r\nb", "\ta|\r\n|b"},
    {"llama-bpe", "x   ", "x|   "},
    {"gpt-4o", "HelloWORLDIs it", "Hello|WORLDIs| it"},
    {"gpt-4o", "DON'T i'Ll'Sup '", "DON'T| i'Ll|'Sup| '"},
    {"gpt-4o", "camelCase XMLHttp", "camel|Case| XMLHttp"},
    {"gpt-4o", "\u00c9A \u00e9B\u00e9 AB\u00e9CD", "\u00c9|A| \u00e9B\u00e9| AB\u00e9|CD"},
    {"gpt-4o", "a//\n/b 12345", "a|//\n/|b| |123|45"},
    {"gpt-4o", " !!\n\n x'", " !!\n\n| x|'"},
    {"qwen2", "12345 x", "1|2|3|4|5| x"},
    {"qwen2", "a'\u017f", "a|'\u017f"},
    {"qwen2", "n\u0303o \u0301a", "n|\u0303o| \u0301|a"},
    {"qwen35", "n\u0303o \u0301a", "n\u0303o| \u0301a"},
    {"qwen35", "\u0e01\u0e33\u0e49 !\u0301! 12", "\u0e01\u0e33\u0e49| !|\u0301|!| |1|2"},
};

static void test_words(void) {
    static tk_classes classes;
    tk_classes_make(&classes);
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        const char *text = cuts[i].text;
        tk_words w = {.rule = tk_rule_find((tk_text){cuts[i].rule, (int64_t)strlen(cuts[i].rule)}),
                      .classes = &classes,
                      .text = text,
                      .bytes = (int64_t)strlen(text)};
        char got[256] = "";
        for (int64_t begin, end; tk_words_next(&w, &begin, &end);) {
            strcat(got, begin > 0 ? "|" : "");
            strncat(got, text + begin, (size_t)(end - begin));
        }
        test_check(strcmp(got, cuts[i].words) == 0, "%s: \"%s\" cut as %s, not %s", cuts[i].rule, text, got,
                   cuts[i].words);
    }
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "tokenizers-words", NULL);
    test_words();
    return test_end();
}
