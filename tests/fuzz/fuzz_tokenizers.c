/* Tokenizers (tools/models/tokenizers/tokenizers.h) by libFuzzer: vocabularies and texts of any bytes. A vocabulary is
 * taken, or refused in a sentence; of a text there are as many tokens as it says, in as many bytes as it says.
 *
 *     fuzz-tokenizers --make-seeds FOLDER    writes sound ones to begin with
 *
 * The input: what it is (below), then texts, each behind its length: tokens (begun by its type), an empty one, merges,
 * an empty one; and the rest is the text. */
#include "tokenizers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

enum { TOKENS_MOST = 1024, TEXT_ROOM = 8192, IDS_MOST = 3 * TEXT_ROOM + 2 };

typedef struct input {
    const uint8_t *at, *end;
    int64_t bytes; /* tokens <0x00> ... that are still to come */
    char byte[8];
} input;

static void require(int ok, const char *what) {
    if (!ok) {
        fprintf(stderr, "%s\n", what);
        abort();
    }
}

static tk_text take(input *in) {
    const int64_t left = in->end - in->at, count = left > 0 ? *in->at : 0;
    const tk_text text = {(const char *)in->at + 1, count < left ? count : left > 0 ? left - 1 : 0};
    in->at += left > 0 ? text.count + 1 : 0;
    return left > 0 ? text : (tk_text){"", 0};
}

static tk_text next_token(void *at) {
    input *in = at;
    if (in->bytes > 0) {
        snprintf(in->byte, sizeof in->byte, "<0x%02X>", (unsigned)(256 - in->bytes--));
        return (tk_text){in->byte, 6};
    }
    const tk_text text = take(in);
    return (tk_text){text.bytes + 1, text.count - 1};
}

/* Characters without Unicode: of ASCII, and two parts for every third one. */
static tk_kind kind(uint32_t c) {
    return c == ' ' ? TK_KIND_SPACE : c < ' ' ? TK_KIND_CONTROL : c < '0' ? TK_KIND_PUNCTUATION : TK_KIND_LETTER;
}

static int decompose(uint32_t c, uint32_t parts[TK_PARTS_MOST]) {
    parts[0] = parts[1] = c;
    return c > 127 && c % 3 == 0 ? 2 : 1;
}

static uint32_t lower(uint32_t c) { return c >= 'A' && c <= 'Z' ? c + 'a' - 'A' : c; }

static const tk_characters characters = {.kind = kind, .decompose = decompose, .lower = lower};

static tk_text next_merge(void *at) { return take(at); }

static void use(const tk_tokenizer *t, const char *text, int64_t bytes, unsigned flags) {
    static int32_t ids[IDS_MOST], few[16];
    char *to = malloc((size_t)tk_decode_most(t));
    const int64_t count = tk_encode(t, text, bytes, flags, ids, IDS_MOST);
    require(count >= 0 && count <= IDS_MOST, "more tokens than bytes allow");
    const int64_t short_count = tk_encode(t, text, bytes, flags, few, 16);
    require(short_count == (count > 16 ? 17 : count), "another number of tokens");
    require(memcmp(ids, few, (size_t)(count > 16 ? 16 : count) * sizeof *ids) == 0, "other tokens");
    tk_decoder d = tk_decoder_begin(t, flags & TK_SPECIAL);
    for (int64_t i = 0; i < count; i++) {
        require(ids[i] >= 0 && ids[i] < tk_count(t) && tk_spelling(t, ids[i]) != NULL, "an id that is no token");
        const int64_t written = tk_decode(&d, ids[i], to);
        require(written >= 0 && written <= tk_decode_most(t), "a token of more bytes than it says");
    }
    require(tk_decode_end(&d, to) <= 3, "more than a character waits");
    free(to);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const rules[] = {"llama-bpe", "qwen2", "gpt-2", "smollm"};
    static int32_t types[TOKENS_MOST];
    static float scores[TOKENS_MOST];
    char sentence[256] = "";
    if (size < 1)
        return 0;
    enum { SPM = 4, WORDS = 5, KINDS = 6 };
    const int what = data[0] % KINDS;
    const tk_wordpiece_rules rule = {&characters, data[0] & 8, data[0] & 16, data[0] & 64};
    input tokens = {data + 1, data + size, what == SPM ? 256 : 0, ""}, merges = tokens;
    tk_description d = {.name = "fuzz", .types = types, .scores = scores, .bos = 0, .eos = data[0] & 64 ? 1 : TK_NONE};
    d.model = what == SPM ? (tk_text){"llama", 5} : what == WORDS ? (tk_text){"WordPiece", 9} : (tk_text){"gpt2", 4};
    d.pre = (tk_text){rules[what % 4], (int64_t)strlen(rules[what % 4])};
    d.wordpiece = what == WORDS ? &rule : NULL;
    d.add_bos = data[0] & 32 ? TK_YES : TK_NO;
    d.add_eos = data[0] & 128 ? TK_YES : TK_NO;
    d.tokens = (tk_list){tokens.bytes, next_token, &tokens};
    d.merges = (tk_list){0, next_merge, &merges};
    for (tk_text text = take(&merges); text.count > 0 && d.tokens.count < TOKENS_MOST; text = take(&merges)) {
        types[d.tokens.count] = text.bytes[0] & 7;
        scores[d.tokens.count++] = (float)(text.bytes[0] >> 3);
    }
    input rest = merges;
    while (take(&rest).count > 0)
        d.merges.count++;
    tk_tokenizer *t;
    if (tk_create(&d, &t, (complaint){sentence, sizeof sentence}) == 0) {
        const int64_t bytes = rest.end - rest.at < TEXT_ROOM ? rest.end - rest.at : TEXT_ROOM;
        for (unsigned flags = 0; flags < 4; flags++)
            use(t, (const char *)rest.at, bytes, flags);
    } else
        require(t == NULL && strncmp(sentence, "fuzz: ", 6) == 0, "an error without a sentence");
    tk_free(t);
    return 0;
}

static void write_seed(const char *folder, char kind, const char *const *texts, const char *text) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%c", folder, 'a' + kind);
    FILE *file = fopen(path, "wb");
    require(file != NULL && fputc(kind, file) == kind, "a seed cannot be written");
    for (; *texts != NULL; texts++)
        require(fputc((int)strlen(*texts), file) >= 0 && fputs(*texts, file) >= 0, "a seed cannot be written");
    require(fputs(text, file) >= 0 && fclose(file) == 0, "a seed cannot be written");
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    static const char *const texts[] = {"\001a",      "\001b",       "\001c",      "\001ab",  "\011abc",
                                        "\001'",      "\0011",       "\001\u0120", "\003<x>", "\004\n\n",
                                        "\001\u2581", "\001\u2581a", "\001[UNK]",  "\001##b", "\002<unk>",
                                        "",           "a b",         "ab c",       "",        NULL};
    static const char text[] = "abc <x>a 'S11\n\n\n\xff\u00e9 c\U0001f600";
    if (*argc == 3 && strcmp((*argv)[1], "--make-seeds") == 0) {
        for (int i = 0; i < 6; i++)
            write_seed((*argv)[2], (char)i, texts, text);
        exit(0);
    }
    return 0;
}
