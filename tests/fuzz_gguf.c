/* The reader of GGUF files (examples/generate/gguf.h) by libFuzzer: what it takes can be used whole, what it refuses has a sentence.
 *
 *     fuzz-gguf --make-seeds FOLDER    writes a sound file to begin with */
#include "make_gguf.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static void require(int ok, const char *what) {
    if (!ok) {
        fprintf(stderr, "%s\n", what);
        abort();
    }
}

/* All of a file that is small. */
static void use(gguf *f, complaint to) {
    enum { ELEMENTS_MOST = 1 << 16 };
    static float values[ELEMENTS_MOST];
    int64_t number = 0;
    double real = 0.0;
    for (int64_t i = 0; i < gguf_tensor_count(f); i++) {
        const gguf_tensor *t = gguf_tensor_at(f, i);
        require(gguf_find_tensor(f, t->name) == t, "an array is not found by its name");
        if (t->elements <= ELEMENTS_MOST)
            require(gguf_read_f32(f, t, values, to) == 0, "an array that was checked cannot be read");
    }
    gguf_integer(f, "general.alignment", true, 0, INT64_MAX, &number, to);
    gguf_real(f, "llama.rope.freq_base", true, &real, to);
    static const char *const words[] = {"llama", "gpt2", NULL};
    int which = 0;
    gguf_word(f, "general.architecture", true, words, &which, to);
    gguf_keys_check(f, "llama", to);
    const gguf_value *tokens = gguf_find(f, "tokenizer.ggml.tokens");
    if (tokens != NULL && tokens->kind == GGUF_ARRAY && tokens->element == GGUF_TEXT) {
        const uint8_t *at = tokens->data;
        unsigned sum = 0;
        for (int64_t i = 0; i < tokens->count; i++) {
            const gguf_text text = gguf_next_text(&at);
            for (int64_t j = 0; j < text.count; j++)
                sum += (unsigned char)text.bytes[j];
        }
        require(sum < UINT32_MAX, "never");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char sentence[512] = "";
    const complaint to = {sentence, sizeof sentence};
    gguf *f;
    if (gguf_open_memory(data, size, "fuzz", &f, to) == 0)
        use(f, to);
    else
        require(f == NULL && strncmp(sentence, "fuzz: ", 6) == 0 && strlen(sentence) < sizeof sentence - 1,
                "an error without a sentence");
    gguf_close(f);
    return 0;
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    if (*argc == 3 && strcmp((*argv)[1], "--make-seeds") == 0) {
        static made_gguf good;
        char path[4096];
        made_good(&good);
        snprintf(path, sizeof path, "%s/good.gguf", (*argv)[2]);
        FILE *file = fopen(path, "w");
        require(file && fwrite(good.bytes, 1, good.size, file) == good.size && fclose(file) == 0,
                "a seed cannot be written");
        exit(0);
    }
    return 0;
}
