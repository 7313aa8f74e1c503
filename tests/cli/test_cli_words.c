/* The words of shapes and cases: what a table of keys reads, and what each wrong text is told. */
#include "test.h"
#include "words.h"

#include <string.h>

static const char *const colours[] = {"red", "blue", NULL};

static int64_t number, any, colour;

static int read(const char *text, char error[CLI_WORDS_ERROR]) {
    const cli_key keys[] = {{"number", NULL, -3, 99, &number},
                            {"any", NULL, INT64_MIN, INT64_MAX, &any},
                            {"colour", colours, 0, 0, &colour},
                            {NULL, NULL, 0, 0, NULL}};
    number = any = colour = -100;
    return cli_read_words(text, keys, error);
}

static void test_read(void) {
    static const struct {
        const char *text;
        int words;
        int64_t number, any, colour;
    } cases[] = {{"", 0, -100, -100, -100},
                 {" ,\t\r\n", 0, -100, -100, -100},
                 {"number=5", 1, 5, -100, -100},
                 {" colour=blue,\tany=-7 number=-3\r\n", 3, -3, -7, 1},
                 {"any=999999999999999999 number=99", 2, 99, 999999999999999999, -100}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char error[CLI_WORDS_ERROR];
        const int words = read(cases[i].text, error);
        test_check(words == cases[i].words && !error[0], "\"%s\": %d words: %s", cases[i].text, words, error);
        test_check(number == cases[i].number && any == cases[i].any && colour == cases[i].colour,
                   "\"%s\": %lld, %lld, %lld", cases[i].text, (long long)number, (long long)any, (long long)colour);
    }
}

static void test_refused(void) {
    static const struct {
        const char *text, *error;
    } cases[] = {{"number", "\"number\" is not of the form key=value"},
                 {"number=1 =5 any=2", "\"=5\" is not of the form key=value"},
                 {"number=", "\"number=\" is not of the form key=value"},
                 {"size=1", "unknown key \"size\"; known are number any colour"},
                 {"numbe=1", "unknown key \"numbe\"; known are number any colour"},
                 {"number=1 any=1 number=2", "number is given twice"},
                 {"number=-4", "number=-4: must be a whole number from -3 to 99"},
                 {"number=100", "number=100: must be a whole number from -3 to 99"},
                 {"number=5x", "number=5x: must be a whole number from -3 to 99"},
                 {"any=5.5", "any=5.5: must be a whole number"},
                 {"any=12345678901234567890", "any=12345678901234567890: must be a whole number"},
                 {"colour=green", "colour=green: must be one of red blue"},
                 {"colour=blu", "colour=blu: must be one of red blue"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char error[CLI_WORDS_ERROR];
        const int words = read(cases[i].text, error);
        test_check(words == -1 && strcmp(error, cases[i].error) == 0, "\"%s\": %d words: %s", cases[i].text, words,
                   error);
    }
    char text[400], error[CLI_WORDS_ERROR]; /* a sentence is cut, not overrun */
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    test_check(read(text, error) == -1 && strlen(error) == CLI_WORDS_ERROR - 1, "a long word: %s", error);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "cli_words", NULL);
    test_read();
    test_refused();
    return test_end();
}
