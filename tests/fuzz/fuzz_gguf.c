/* The reader of GGUF files (tools/models/gguf.h) by libFuzzer: what it takes can be used whole, what it refuses
 * has a sentence; alone, and as the second file of a model that is split.
 *
 *     fuzz-gguf --make-seeds FOLDER    writes sound files and those of tools/models/corpus, to begin with */
#include "make_gguf.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

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
    static fovea_context *ctx;
    require(ctx != NULL || fovea_context_create(NULL, &ctx) == FOVEA_OK, "there is no context");
    int64_t number = 0;
    double real = 0.0;
    for (int64_t i = 0; i < gguf_tensor_count(f); i++) {
        const gguf_tensor *t = gguf_tensor_at(f, i);
        require(gguf_find_tensor(f, t->name) == t, "an array is not found by its name");
        if (t->elements <= ELEMENTS_MOST)
            require(gguf_read_f32(ctx, f, t, values, to) == 0 || strstr(to.text, "a scale of"),
                    "an array that was checked cannot be read");
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

/* A sound part of two. */
static void make_part(made_gguf *g, uint32_t no) {
    made_begin(g, 1, 3);
    made_u32(g, "split.no", no);
    made_u32(g, "split.count", 2);
    made_u32(g, "split.tensors.count", 2);
    made_tensor(g, no == 0 ? "a" : "b", 64, 0, GGUF_F32S, 0);
    while (g->size % 32 != 0)
        made_bits(g, 0, 1);
    for (int i = 0; i < 64; i++)
        made_bits(g, 0x3f800000, 4);
}

static void write_file(const char *path, const void *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    require(file != NULL && fwrite(bytes, 1, size, file) == size && fclose(file) == 0, "a file cannot be written");
}

enum { PATH_MOST = 64 };
static char first[PATH_MOST], second[PATH_MOST];

static void remove_parts(void) {
    char *slash = strrchr(first, '/');
    unlink(first);
    unlink(second);
    *slash = '\0';
    rmdir(first);
}

/* A folder with the first part, made once. */
static void make_folder(void) {
    static made_gguf part;
    char folder[] = "/tmp/fuzz-gguf-XXXXXX";
    require(mkdtemp(folder) != NULL, "there is no folder");
    snprintf(first, sizeof first, "%s/m-00001-of-00002.gguf", folder);
    snprintf(second, sizeof second, "%s/m-00002-of-00002.gguf", folder);
    make_part(&part, 0);
    write_file(first, part.bytes, part.size);
    atexit(remove_parts);
}

static void test_split(const uint8_t *data, size_t size, complaint to) {
    gguf *f;
    if (*first == '\0')
        make_folder();
    write_file(second, data, size);
    to.text[0] = '\0';
    if (gguf_open(first, &f, to) == 0)
        use(f, to);
    else
        require(f == NULL && strstr(to.text, ".gguf: ") != NULL, "an error of a part without a sentence");
    gguf_close(f);
}

static bool has(const uint8_t *data, size_t size, const char *text) {
    const size_t length = strlen(text);
    for (size_t i = 0; i + length <= size; i++)
        if (memcmp(data + i, text, length) == 0)
            return true;
    return false;
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
    if (has(data, size, "split.no"))
        test_split(data, size, to);
    return 0;
}

static void write_seed(const char *folder, const char *name, const made_gguf *seed) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    write_file(path, seed->bytes, seed->size);
}

/* Files that are kept. */
static void copy_corpus(const char *folder) {
    static made_gguf seed;
    char path[4096];
    DIR *d = opendir(FOVEA_MODELS_CORPUS);
    require(d != NULL, "there is no corpus");
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        snprintf(path, sizeof path, FOVEA_MODELS_CORPUS "/%s", e->d_name);
        FILE *file = strstr(e->d_name, ".gguf") != NULL ? fopen(path, "rb") : NULL;
        if (file == NULL)
            continue;
        seed.size = fread(seed.bytes, 1, sizeof seed.bytes, file);
        fclose(file);
        write_seed(folder, e->d_name, &seed);
    }
    closedir(d);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    if (*argc == 3 && strcmp((*argv)[1], "--make-seeds") == 0) {
        static made_gguf seed;
        made_good(&seed);
        write_seed((*argv)[2], "sound.gguf", &seed);
        make_part(&seed, 1);
        write_seed((*argv)[2], "second.gguf", &seed);
        copy_corpus((*argv)[2]);
        exit(0);
    }
    return 0;
}
