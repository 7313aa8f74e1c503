/* Records (record.h). */
#include "record.h"

#include "fnv.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char record[1 << 16];
static size_t length;

void say(const char *format, ...) {
    va_list values;
    va_start(values, format);
    const int n = vsnprintf(record + length, sizeof record - length, format, values);
    va_end(values);
    length += (size_t)n;
    if (length >= sizeof record)
        exit(TEST_FAILED);
}

void say_lines(const char *text, const char *until) {
    for (const char *line = text; *line && (!until || strncmp(line, until, strlen(until)) != 0);) {
        const size_t n = strcspn(line, "\n"), word = strcspn(line, " \n");
        const size_t blanks = strspn(line + word, " ");
        say("%s%.*s %.*s", line == text ? "  " : " | ", (int)word, line, (int)(n - word - blanks),
            line + word + blanks);
        line += n + (line[n] == '\n');
    }
    say("\n");
}

size_t record_length(void) { return length; }

uint64_t record_cut(size_t from) {
    const uint64_t hash = fv_hash(FV_HASH_BEGIN, record + from, length - from);
    length = from;
    return hash;
}

void say_cleaned(const char *file, const char *what, const char *text) {
    static const char *const words[] = {"# Fovea ", "kernels=", "sum=", "(Fovea "};
    say("%s: ", what);
    while (*text) {
        bool word = false;
        if (*file && strncmp(text, file, strlen(file)) == 0)
            text += strlen(file);
        for (int i = 0; i < 4 && !word; i++)
            if (strncmp(text, words[i], strlen(words[i])) == 0) {
                say("%s*", words[i]);
                text += strlen(words[i]) + strcspn(text + strlen(words[i]), " \n);,");
                word = true;
            }
        if (!word && *text)
            say("%c", *text++);
    }
    say("\n");
}

static void compare(const char *path) {
    static char expected[sizeof record];
    FILE *file = fopen(path, "re");
    const size_t n = file ? fread(expected, 1, sizeof expected - 1, file) : 0;
    if (file)
        fclose(file);
    expected[n] = '\0';
    int line = 1;
    const char *got = record, *want = expected;
    while (*got && *want) {
        const size_t a = strcspn(got, "\n"), b = strcspn(want, "\n");
        if (!test_check(a == b && memcmp(got, want, a) == 0, "%s, line %d: \"%.*s\", not \"%.*s\"", path, line, (int)a,
                        got, (int)b, want))
            break;
        got += a + (got[a] == '\n');
        want += b + (want[b] == '\n');
        line++;
    }
    test_check(*got == *want, "%s: from line %d on another text", path, line);
}

void record_end(const char *path, bool write) {
    if (!write) {
        compare(path);
        return;
    }
    FILE *file = fopen(path, "we");
    test_check(file && fwrite(record, 1, length, file) == length && fclose(file) == 0, "cannot write %s", path);
}
