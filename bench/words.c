/* The language of --case: key=value words, checked against a table of keys. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

const char *const bench_isa_words[] = {
    "best",
#define FV_TIER(word, number, lanes, below) [number] = #word,
#include "tiers.inc"
#undef FV_TIER
    NULL,
};

int bench_words_split(const char *text, bench_words *words, char error[BENCH_ERROR_SIZE]) {
    static const char space[] = " \t\n";
    words->count = 0;
    for (text += strspn(text, space); *text != '\0'; text += strspn(text, space)) {
        size_t length = strcspn(text, space), key = strcspn(text, "= \t\n");
        size_t value = length - key - 1;
        if (key == length || key == 0 || value == 0) {
            snprintf(error, BENCH_ERROR_SIZE, "\"%.*s\" is not of the form key=value", (int)length, text);
            return -1;
        }
        if (words->count == (int)(sizeof words->word / sizeof words->word[0])) {
            snprintf(error, BENCH_ERROR_SIZE, "too many words in one case");
            return -1;
        }
        if (key >= sizeof words->word[0].key || value >= sizeof words->word[0].value) {
            snprintf(error, BENCH_ERROR_SIZE, "\"%.*s\" is too long", (int)length, text);
            return -1;
        }
        snprintf(words->word[words->count].key, sizeof words->word[0].key, "%.*s", (int)key, text);
        snprintf(words->word[words->count].value, sizeof words->word[0].value, "%.*s", (int)value, text + key + 1);
        words->count++;
        text += length;
    }
    return 0;
}

/* Reads one value; 0, or -1 and a sentence. */
static int read_value(const bench_key *key, const char *text, char error[BENCH_ERROR_SIZE]) {
    if (key->choices == NULL) {
        char *end;
        errno = 0;
        long long number = strtoll(text, &end, 10);
        if (end == text || *end != '\0' || errno != 0 || number < key->least || number > key->most) {
            snprintf(error, BENCH_ERROR_SIZE, "%s=%s: must be a whole number from %" PRId64 " to %" PRId64, key->name,
                     text, key->least, key->most);
            return -1;
        }
        *key->value = number;
        return 0;
    }
    int used = snprintf(error, BENCH_ERROR_SIZE, "%s=%s: must be one of", key->name, text);
    for (int i = 0; key->choices[i] != NULL; i++) {
        if (strcmp(key->choices[i], text) == 0) {
            *key->value = i;
            return 0;
        }
        if (used < BENCH_ERROR_SIZE)
            used += snprintf(error + used, (size_t)(BENCH_ERROR_SIZE - used), " %s", key->choices[i]);
    }
    return -1;
}

int bench_words_read(const bench_words *words, const bench_key *keys, char error[BENCH_ERROR_SIZE]) {
    for (int i = 0; i < words->count; i++) {
        const bench_key *key = keys;
        while (key->name != NULL && strcmp(key->name, words->word[i].key) != 0)
            key++;
        if (key->name == NULL) {
            int used = snprintf(error, BENCH_ERROR_SIZE, "unknown key \"%s\"; known are", words->word[i].key);
            for (key = keys; key->name != NULL && used < BENCH_ERROR_SIZE; key++)
                used += snprintf(error + used, (size_t)(BENCH_ERROR_SIZE - used), " %s", key->name);
            return -1;
        }
        for (int j = 0; j < i; j++) {
            if (strcmp(words->word[j].key, key->name) == 0) {
                snprintf(error, BENCH_ERROR_SIZE, "%s is given twice", key->name);
                return -1;
            }
        }
        if (read_value(key, words->word[i].value, error) != 0)
            return -1;
    }
    return 0;
}

fv_isa bench_isa_resolve(int64_t choice, char error[BENCH_ERROR_SIZE]) {
    fv_isa best = bench_target(NULL).isa;
    if (choice == 0)
        return best;
    if (fv_isa_capped(best, (fv_isa)choice) != (fv_isa)choice) {
        snprintf(error, BENCH_ERROR_SIZE, "isa=%s: the best that this CPU and FOVEA_ISA allow is %s",
                 bench_isa_words[choice], fv_isa_word(best));
        return (fv_isa)0;
    }
    return (fv_isa)choice;
}
