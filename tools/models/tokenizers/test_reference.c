/* test-tokenizers-reference: tokens of the hostile texts have the hashes that llama.cpp's tokens have (reference.txt,
 * by make_reference.py); of those that are UTF-8 each comes back.
 *
 *     test-tokenizers-reference                            with the small vocabularies
 *     test-tokenizers-reference --vocabulary FILE.gguf     with a model's
 *     test-tokenizers-reference --write-texts FILE         writes the texts, for make_reference.py */
#include "hostile.h"
#include "small.h"
#include "text.h"

#include "test.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 250, BLOCKS = HOSTILE_TEXTS / BLOCK, IDS_MOST = 3 * HOSTILE_MOST + 2 };

static char sentence[1024], text[HOSTILE_MOST], *back;
static const complaint to = {sentence, sizeof sentence};
static int32_t *ids;

/* The recorded hashes; false: there is no such line. */
static bool find_line(const char *name, unsigned flags, uint64_t want[BLOCKS]) {
    char begin[64], line[32 * BLOCKS];
    bool found = false;
    FILE *file = fopen(FOVEA_TOKENIZERS "/reference.txt", "r");
    snprintf(begin, sizeof begin, "%s %u ", name, flags);
    while (file != NULL && !found && fgets(line, sizeof line, file) != NULL)
        found = strncmp(line, begin, strlen(begin)) == 0;
    if (file != NULL)
        fclose(file);
    char *at = line + strlen(begin);
    for (int i = 0; found && i < BLOCKS; i++)
        want[i] = strtoull(at, &at, 16);
    return found;
}

/* U+2581 is a space to SentencePiece. */
static size_t without_blocks(char *bytes, size_t count) {
    size_t kept = 0;
    for (size_t i = 0; i < count; kept++)
        if (count - i >= 3 && memcmp(bytes + i, "\u2581", 3) == 0) {
            bytes[kept] = ' ';
            i += 3;
        } else
            bytes[kept] = bytes[i++];
    return kept;
}

/* Whether tokens of a text with the flag TK_SPECIAL give the text. */
static bool comes_back(const tk_tokenizer *t, bool pieces, int64_t count, size_t bytes) {
    tk_decoder d = tk_decoder_begin(t, true);
    int64_t used = 0;
    const int64_t end = count - (tk_behind(t) != TK_NONE);
    for (int64_t i = tk_before(t) != TK_NONE; i < end; i++)
        used += tk_decode(&d, ids[i], back + used);
    used += tk_decode_end(&d, back + used);
    if (pieces) {
        bytes = without_blocks(text, bytes);
        used = (int64_t)without_blocks(back, (size_t)used);
    }
    return used == (int64_t)bytes && memcmp(back, text, bytes) == 0;
}

static void check(const tk_tokenizer *t, const char *name, bool pieces, bool all_bytes) {
    uint64_t want[BLOCKS];
    for (unsigned flags = 0; flags <= 3; flags += 3) {
        if (!test_check(find_line(name, flags, want), "reference.txt has no line \"%s %u\"", name, flags))
            continue;
        for (int block = 0; block < BLOCKS; block++) {
            uint64_t hash = 0xcbf29ce484222325;
            if (!test_takes(block))
                continue;
            for (int i = block * BLOCK; i < (block + 1) * BLOCK; i++) {
                const size_t bytes = hostile_text(i, text);
                const int64_t count = tk_encode(t, text, (int64_t)bytes, flags, ids, IDS_MOST);
                hash = (hash ^ (uint64_t)count) * 0x100000001b3;
                for (int64_t j = 0; j < count; j++)
                    hash = (hash ^ (uint64_t)ids[j]) * 0x100000001b3;
                if (flags == 3 && i % 3 == 0 && all_bytes && i % BLOCK != BLOCK - 1)
                    test_check(comes_back(t, pieces, count, bytes), "%s: text %d does not come back", name, i);
            }
            test_check(hash == want[block],
                       "%s, flags %u: other tokens than llama.cpp's in texts %d to %d: %016" PRIx64, name, flags,
                       block * BLOCK, (block + 1) * BLOCK - 1, hash);
        }
    }
}

static int write_texts(const char *path) {
    FILE *file = fopen(path, "wb");
    bool good = file != NULL;
    for (int i = 0; good && i < HOSTILE_TEXTS; i++) {
        const size_t bytes = hostile_text(i, text);
        const uint8_t count[] = {(uint8_t)bytes, (uint8_t)(bytes >> 8), (uint8_t)(bytes >> 16), 0};
        good = fwrite(count, 1, 4, file) == 4 && fwrite(text, 1, bytes, file) == bytes;
    }
    test_check(file != NULL && fclose(file) == 0 && good, "%s cannot be written", path);
    return test_end();
}

static void check_small(void) {
    for (int i = 0; i < SMALL_NAMES; i++) {
        tk_tokenizer *t;
        char name[32];
        snprintf(name, sizeof name, "small-%s", small_names[i]);
        if (test_check(small_create(FOVEA_TOKENIZERS "/small.txt", small_names[i], &t, to) == 0, "%s", sentence))
            check(t, name, strcmp(small_names[i], "llama") == 0, true);
        tk_free(t);
    }
}

/* "llama-bpe" of .../ggml-vocab-llama-bpe.gguf; "SmolLM2-135M" of SmolLM2-135M-Instruct.Q4_1.gguf. */
static void name_of(const char *path, char name[64]) {
    const char *slash = strrchr(path, '/'), *base = slash != NULL ? slash + 1 : path;
    base += strncmp(base, "ggml-vocab-", 11) == 0 ? 11 : 0;
    const char *end = strstr(base, "-Instruct");
    end = end != NULL ? end : strstr(base, ".gguf");
    snprintf(name, 64, "%.*s", end != NULL ? (int)(end - base) : 63, base);
}

static void check_file(const char *path) {
    char name[64];
    gguf *f;
    text_codec *c = NULL;
    if (access(path, F_OK) != 0) {
        test_skip("%s does not exist: python3 integrations/ggml/fetch.py --vocabularies FOLDER fetches it", path);
        return;
    }
    name_of(path, name);
    if (test_check(gguf_open(path, &f, to) == 0 && text_from_gguf(f, &c, to) == 0, "%s", sentence)) {
        const bool pieces = tk_find(text_tokenizer(c), "<0x00>", 6) != TK_NONE;
        check(text_tokenizer(c), name, pieces, strncmp(name, "SmolLM2", 7) != 0); /* which has not all bytes */
    }
    text_free(c);
    gguf_close(f);
}

int main(int argc, char **argv) {
    test_option options[] = {{"--vocabulary", "FILE", "a GGUF file, in place of the small vocabularies", NULL},
                             {"--write-texts", "FILE", "write the texts and test nothing", NULL},
                             {NULL, NULL, NULL, NULL}};
    test_begin(argc, argv, "tokenizers-reference", options);
    const char *path = test_option_value(options, "--vocabulary"), *texts = test_option_value(options, "--write-texts");
    if (texts != NULL)
        return write_texts(texts);
    ids = malloc(IDS_MOST * sizeof *ids);
    back = malloc(4 * IDS_MOST);
    if (path != NULL)
        check_file(path);
    else
        check_small();
    free(ids);
    free(back);
    return test_end();
}
