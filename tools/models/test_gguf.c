/* The reader of GGUF files: what it reads, and that no file, however broken, is trusted: each refusal is a sentence.
 * fuzz-gguf tries more of them. */
#include "make_gguf.h"
#include "text.h"

#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static char sentence[1024];
static const complaint to = {sentence, sizeof sentence};
static fovea_context *ctx;

/* Opens a copy that ends where its memory ends, so that a byte read beyond it is found by sanitizers. */
static int open_copy(const made_gguf *g, uint8_t **copy, gguf **f) {
    *copy = malloc(g->size + (g->size == 0));
    memcpy(*copy, g->bytes, g->size);
    sentence[0] = '\0';
    return gguf_open_memory(*copy, g->size, "made", f, to);
}

static void test_values(void) {
    made_gguf g;
    made_good(&g);
    uint8_t *copy;
    gguf *f;
    if (test_check(open_copy(&g, &copy, &f) == 0, "%s", sentence)) {
        const uint8_t *data = copy + g.size - 256 * MADE_TENSORS;
        for (int i = 0; i < MADE_TENSORS; i++) {
            float got[64];
            const gguf_tensor *t = gguf_tensor_at(f, i);
            test_check(gguf_find_tensor(f, t->name) == t && t->elements == 64, "%s", t->name);
            test_check(gguf_read_f32(ctx, f, t, got, to) == 0, "%s", sentence);
            for (int j = 0; j < 64; j++) {
                const uint8_t *at = data + 256 * i, *block = at + j / 32 * gguf_block_bytes(t->type);
                float want = 0.0f, d = 0.0f,
                      m = 0.0f; /* scales are halves below 2 here: exponent and fraction by hand */
                const uint32_t h = (uint32_t)block[0] | (uint32_t)block[1] << 8,
                               h2 = (uint32_t)block[2] | (uint32_t)block[3] << 8;
                d = ldexpf((float)((h & 0x3ff) + (h >> 10 ? 1024 : 0)), (int)(h >> 10 ? h >> 10 : 1) - 25);
                m = ldexpf((float)((h2 & 0x3ff) + (h2 >> 10 ? 1024 : 0)), (int)(h2 >> 10 ? h2 >> 10 : 1) - 25);
                const int half = j % 32 / 16, k = j % 16;
                switch (t->type) {
                case GGUF_F32S: memcpy(&want, at + 4 * j, 4); break;
                case GGUF_F16S: {
                    const uint32_t x = (uint32_t)at[2 * j] | (uint32_t)at[2 * j + 1] << 8;
                    want = ldexpf((float)((x & 0x3ff) + (x >> 10 ? 1024 : 0)), (int)(x >> 10 ? x >> 10 : 1) - 25);
                    break;
                }
                case GGUF_BF16S: want = bits_float((uint32_t)at[2 * j] << 16 | (uint32_t)at[2 * j + 1] << 24); break;
                case GGUF_Q4_0: want = d * (float)((block[2 + k] >> 4 * half & 15) - 8); break;
                case GGUF_Q4_1: want = d * (float)(block[4 + k] >> 4 * half & 15) + m; break;
                case GGUF_Q5_0: /* test_wide_blocks() */
                case GGUF_Q5_1:
                case GGUF_MXFP4:
                case GGUF_IQ4_NL:
                case GGUF_Q4_K:
                case GGUF_Q5_K:
                case GGUF_Q6_K: break;
                case GGUF_Q8_0: want = d * (float)(int8_t)block[2 + j % 32]; break;
                }
                test_check(float_bits(got[j]) == float_bits(want) || (got[j] == 0 && want == 0),
                           "%s[%d] is %.9g, not %.9g", t->name, j, (double)got[j], (double)want);
            }
        }
        gguf_close(f);
    }
    free(copy);
}

/* Blocks that no file here has, each number by its definition, in double. */
static void test_wide_blocks(void) {
    static const struct {
        gguf_type type;
        uint8_t block[24];
    } all[] = {{GGUF_Q5_0, {0x00, 0xb5, 0x0f, 0xf0, 0x33, 0x81, 0x10, 0x32, 0x54, 0x76, 0x98, 0xba}},
               {GGUF_Q5_1, {0x01, 0x35, 0x03, 0xb9, 0x0f, 0xf0, 0x33, 0x81, 0x10, 0x32, 0x54, 0x76, 0x98, 0xba}},
               {GGUF_MXFP4, {130, 0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe}},
               {GGUF_MXFP4, {1, 0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe}}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        const uint8_t *b = all[i].block;
        float got[32];
        gguf_to_f32(ctx, all[i].type, b, 1, 32, got);
        for (int k = 0; k < 32; k++) {
            const bool five = all[i].type != GGUF_MXFP4, minimum = all[i].type == GGUF_Q5_1;
            const uint8_t *fifth = b + (minimum ? 4 : 2), *nibbles = five ? fifth + 4 : b + 1;
            const int low = nibbles[k % 16] >> 4 * (k / 16) & 15, high = fifth[k / 8] >> k % 8 & 1;
            double want;
            if (five) { /* scales 2^-2 (1 + f) and of the other sign */
                const double d = ldexp(1024 + ((b[1] & 3) << 8 | b[0]), (b[1] >> 2 & 31) - 25) * (b[1] & 0x80 ? -1 : 1);
                const double m = minimum ? -ldexp(1024 + ((b[3] & 3) << 8 | b[2]), (b[3] >> 2 & 31) - 25) : 0.0;
                want = (double)(float)(d * (low + 16 * high - (minimum ? 0 : 16))) + m;
            } else { /* sign, exponent of 2 bits, fraction of one: subnormal where the exponent is 0 */
                const int e = low >> 1 & 3, f = low & 1;
                want = ldexp(e > 0 ? 2 + f : f, (e > 0 ? e - 1 : 0) - 1 + b[0] - 127) * (low & 8 ? -1 : 1);
            }
            test_check(got[k] == (float)want, "%s %d: element %d is %.9g, not %.9g",
                       gguf_type_name((uint32_t)all[i].type), (int)i, k, (double)got[k], want);
        }
    }
    const uint8_t none[17] = {255};
    float got[32];
    gguf_to_f32(ctx, GGUF_MXFP4, none, 1, 32, got);
    test_check(isnan(got[0]) && isnan(got[31]), "an exponent of 255 is a number");
}

/* Each type that can be read becomes floats, and has the library's type. */
static void test_every_type(void) {
    int64_t stored = 0;
    for (int number = 0; number < GGUF_TYPES; number++) {
        const gguf_type type = (gguf_type)number;
        const uint8_t block[512] = {0};
        float got[512];
        const int elements = gguf_block_elements(type);
        stored += gguf_dtype(type) != 0;
        test_check((elements > 0) == (gguf_block_bytes(type) > 0), "%s has blocks of no bytes", gguf_type_name(type));
        memset(got, 0xff, sizeof got); /* NaN */
        if (elements > 0)
            test_check(gguf_to_f32(ctx, type, block, 1, elements, got) == FOVEA_OK, "%s", fovea_error_detail());
        for (int i = 0; i < elements; i++)
            test_check(got[i] == 0.0f, "%s: element %d is not written", gguf_type_name(type), i);
    }
    for (int dtype = 1; fovea_dtype_info((fovea_dtype)dtype); dtype++)
        stored -= fovea_dtype_info((fovea_dtype)dtype)->stored && !fovea_dtype_info((fovea_dtype)dtype)->scaled;
    test_check(stored == 0, "GGUF has no number for some of the library's types");
}

/* Cut off anywhere: refused, and says so. */
static void test_cut(void) {
    made_gguf g;
    made_good(&g);
    for (const size_t all = g.size; g.size > 0;) {
        uint8_t *copy;
        gguf *f;
        g.size--;
        const bool data_only = g.size >= all - 256 + 68; /* of the last array 68 bytes are used */
        test_check(open_copy(&g, &copy, &f) == (data_only ? 0 : -1), "%zu of %zu bytes: %s", g.size, all, sentence);
        test_check(data_only || strncmp(sentence, "made: ", 6) == 0, "%zu bytes: no sentence", g.size);
        gguf_close(f);
        free(copy);
    }
}

/* Each byte of the header made something else: read or refused, but nothing outside is touched, and what was read
 * can be used. */
static void test_flipped(void) {
    static const uint8_t others[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
    made_gguf good, g;
    made_good(&good);
    int refused = 0, read = 0;
    for (size_t i = 0; i < good.size - 256 * MADE_TENSORS; i++)
        for (size_t k = 0; k < sizeof others; k++) {
            uint8_t *copy;
            gguf *f;
            text_codec *t = NULL;
            float values[64];
            int32_t ids[16];
            g = good;
            g.bytes[i] = others[k];
            if (open_copy(&g, &copy, &f) == 0) {
                read++;
                for (int64_t n = 0; n < gguf_tensor_count(f); n++)
                    if (gguf_tensor_at(f, n)->elements <= 64)
                        test_check(gguf_read_f32(ctx, f, gguf_tensor_at(f, n), values, to) == 0 ||
                                       strstr(sentence, "a scale of") != NULL,
                                   "%s", sentence);
                if (text_from_gguf(f, &t, to) == 0)
                    test_check(text_tokens(t, "a b12", 5, ids, 16) >= 0, "byte %zu is %d: no tokens", i, others[k]);
                text_free(t);
            } else {
                refused++;
                test_check(strncmp(sentence, "made: ", 6) == 0, "byte %zu is %d: \"%s\"", i, others[k], sentence);
            }
            gguf_close(f);
            free(copy);
        }
    test_check(refused > 500 && read > 100, "%d refused, %d read", refused, read);
}

/* Finds text in the file, after skip bytes of which value replaces count. */
static void replace(made_gguf *g, const char *text, int64_t skip, uint64_t value, int count) {
    for (size_t i = 0; i + strlen(text) < g->size; i++)
        if (memcmp(g->bytes + i, text, strlen(text)) == 0) {
            made_gguf at = {.size = 0};
            made_bits(&at, value, count);
            memcpy(g->bytes + i + strlen(text) + skip, at.bytes, (size_t)count);
            return;
        }
    test_check(false, "there is no %s to be broken", text);
}

static void test_sentences(void) {
    static const struct {
        const char *text;
        int64_t skip;
        uint64_t value;
        int count;
        const char *words;
    } wrong[] = {
        {"GG", 0, 0x5555, 2, "is not a GGUF file"},
        {"GGUF", 0, 1, 4, "is of version 1"},
        {"GGUF", 0, 0x03000000, 4, "big-endian"},
        {"GGUF", 4, UINT64_MAX, 8, "the number of arrays is 18446744073709551615: more than"},
        {"GGUF", 12, 1 << 20, 8, "the number of settings is 1048576: more than"},
        {"general.alignment", 4, 63, 4, "general.alignment is 63, not a power of two"},
        {"general.alignment", 4, 4, 4, "general.alignment is not an integer from 8"},
        {"general.alignment", 4, 0, 4, "general.alignment is not an integer from 8"},
        {"general.alignment", 0, 77, 4, "general.alignment has the type 77"},
        {"tokenizer.ggml.tokens", 8, UINT64_MAX / 2, 8, "the length of an array is"},
        {"tokenizer.ggml.tokens", 4, GGUF_ARRAY, 4, "tokenizer.ggml.tokens has the type 9"},
        {"q4_1", 0, 5, 4, "q4_1 has 5 dimensions"},
        {"q4_1", 4, 0, 8, "q4_1 is empty or too large"},
        {"q4_1", 4, 33, 8, "no whole blocks of 32"},
        {"q4_1", 4, UINT64_C(1) << 40, 8, "ends beyond the file's end"},
        {"q4_1", 12, 10, 4, "q4_1 is of type Q2_K (10); only F32"},
        {"q4_1", 12, 77, 4, "q4_1 is of type unknown (77)"},
        {"q4_1", 16, 1023, 8, "q4_1 is not aligned"},
        {"q4_1", 16, 1024 - 256, 8, "overlap"},
        {"q4_1", 16, UINT64_C(1) << 59, 8, "ends beyond the file's end"},
        {"q4_", 0, '0', 1, "q4_1 comes twice"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        made_gguf g;
        uint8_t *copy;
        gguf *f;
        made_good(&g);
        if (i + 1 == sizeof wrong / sizeof wrong[0])
            replace(&g, "q4_", 0, '1', 1); /* the first of them is q4_0 */
        else
            replace(&g, wrong[i].text, wrong[i].skip, wrong[i].value, wrong[i].count);
        test_check(open_copy(&g, &copy, &f) != 0 && f == NULL && strstr(sentence, wrong[i].words) != NULL,
                   "\"%s\" does not say: %s", sentence, wrong[i].words);
        free(copy);
    }
}

static void test_text(void) {
    static const int32_t want[] = {5, 4, 2, 3, 6, 0}; /* ab, " ", 1, 2, " a", a */
    made_gguf g;
    uint8_t *copy;
    gguf *f;
    text_codec *t = NULL;
    int32_t ids[16];
    made_good(&g);
    if (test_check(open_copy(&g, &copy, &f) == 0 && text_from_gguf(f, &t, to) == 0, "%s", sentence)) {
        const int64_t count = text_tokens(t, "ab 12 aa", 8, ids, 16);
        test_check(count == 6 && memcmp(ids, want, sizeof want) == 0, "%d tokens, the first %d", (int)count,
                   (int)ids[0]);
        test_check(text_tokens(t, "ab 12 aa", 8, ids, 5) == -1, "a text that is too long has tokens");
        char bytes[64];
        tk_decoder d = tk_decoder_begin(text_tokenizer(t), false);
        int64_t length = tk_decode(&d, 6, bytes);
        test_check(length == 2 && memcmp(bytes, " a", 2) == 0, "the text of a token has %d bytes", (int)length);
        length = tk_decode(&d, 7, bytes);
        test_check(length == 0, "a special token has %d bytes", (int)length);
        test_check(text_chats(t)->kind == CHAT_NONE && text_chat(t, NULL, "a", ids, 16) == -1,
                   "chats without its tokens");
    }
    text_free(t);
    gguf_close(f);
    free(copy);
}

/* By GPT-2's rule, which does not cut digits, the same merges apply to them. */
static void test_digits(void) {
    made_gguf g;
    uint8_t *copy;
    gguf *f;
    text_codec *t = NULL;
    int32_t ids[16];
    made_good(&g);
    replace(&g, "tokenizer.ggml.pre", 4, 5, 8);
    for (size_t i = 0; i + 6 < g.size; i++)
        if (memcmp(g.bytes + i, "smollm", 6) == 0) {
            memcpy(g.bytes + i, "gpt-2", 5);
            memmove(g.bytes + i + 5, g.bytes + i + 6, g.size - i - 6);
        }
    if (test_check(open_copy(&g, &copy, &f) == 0 && text_from_gguf(f, &t, to) == 0, "%s", sentence))
        test_check(text_tokens(t, "12", 2, ids, 16) == 1 && ids[0] == 8, "12 is not one token by GPT-2's rule");
    text_free(t);
    gguf_close(f);
    free(copy);
}

/* Files that are kept (make_corpus.py), from memory, each with the sentence that it is refused with. */
static void test_corpus(void) {
    static made_gguf g;
    char line[512], path[1024];
    int files = 0;
    FILE *list = fopen(FOVEA_MODELS_CORPUS "/sentences.txt", "r");
    while (test_check(list != NULL, "there is no corpus") && fgets(line, sizeof line, list) != NULL) {
        uint8_t *copy;
        gguf *f;
        line[strcspn(line, "\n")] = '\0';
        char *words = strchr(line, '\t');
        if (!test_check(words != NULL, "\"%s\" has no sentence", line))
            break;
        *words++ = '\0';
        snprintf(path, sizeof path, FOVEA_MODELS_CORPUS "/%s", line);
        FILE *file = fopen(path, "rb");
        g.size = file != NULL ? fread(g.bytes, 1, sizeof g.bytes, file) : 0;
        test_check(file != NULL && fclose(file) == 0 && g.size < sizeof g.bytes, "%s cannot be read", path);
        const bool read = open_copy(&g, &copy, &f) == 0;
        test_check(strcmp(words, "good") == 0 ? read : !read && strstr(sentence, words) != NULL,
                   "%s: \"%s\" does not say: %s", line, sentence, words);
        gguf_close(f);
        free(copy);
        files++;
    }
    if (list != NULL)
        fclose(list);
    test_check(files > 40, "the corpus has %d files", files);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "gguf", NULL);
    ctx = test_context_untuned();
    test_values();
    test_wide_blocks();
    test_every_type();
    test_cut();
    test_flipped();
    test_sentences();
    test_corpus();
    test_text();
    test_digits();
    fovea_context_destroy(ctx);
    return test_end();
}
