/* Strings that end an answer: found wherever tokens cut them, with nothing shown that they take back. */
#include "stop.h"

#include "test.h"

#include <string.h>

typedef struct stop_case {
    const char *stops[3]; /* NULL behind the last */
    const char *text, *left;
} stop_case;

static const stop_case cases[] = {
    {{NULL}, "abc", "abc"},
    {{"b"}, "abc", "a"},
    {{"bc"}, "abc", "a"},
    {{"bd"}, "abc", "abc"},
    {{"aab"}, "aaab", "a"},
    {{"abab"}, "abaababx", "aba"},
    {{"c", "bcd"}, "abcd", "ab"},
    {{"bcd", "c"}, "abce", "ab"},
    {{"\n\n"}, "a\nb\n\nc", "a\nb"},
    {{"xy"}, "ax", "ax"},
    {{"a"}, "a", ""},
    {{"b", "ab"}, "xab", "x"},
    {{"ab", "b"}, "xab", "x"},
    {{"abc"}, "ab", "ab"},
    {{"<end>"}, "so<e<end>x", "so<e"},
};

/* The text in pieces of that many bytes. */
static void test_pieces(const stop_case *c, size_t size) {
    stop_text t = {.stops = c->stops, .stop_count = 0};
    while (t.stop_count < 3 && c->stops[t.stop_count] != NULL)
        t.stop_count++;
    char shown[64] = "";
    size_t done = 0;
    int stopped = 0;
    for (size_t at = 0, count; at < strlen(c->text) && !stopped; at += count) {
        count = strlen(c->text) - at < size ? strlen(c->text) - at : size;
        stopped = stop_add(&t, c->text + at, count);
        if (!test_check(stopped >= 0, "no memory"))
            break;
        const size_t ready = stopped ? t.count : stop_ready(&t);
        test_check(ready >= done, "\"%s\" by %zu: %zu bytes were shown, now only %zu", c->text, size, done, ready);
        memcpy(shown + done, t.bytes + done, ready - done);
        done = ready;
    }
    memcpy(shown + done, t.bytes + done, t.count - done);
    shown[t.count] = '\0';
    test_check(strcmp(shown, c->left) == 0, "\"%s\" by %zu: \"%s\" is left, not \"%s\"", c->text, size, shown, c->left);
    test_check((stopped > 0) == (strlen(c->left) < strlen(c->text)), "\"%s\" by %zu: stopped %d", c->text, size,
               stopped);
    stop_free(&t);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "stop", NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (size_t size = 1; size <= 10; size++)
            test_pieces(&cases[i], size);
    return test_end();
}
