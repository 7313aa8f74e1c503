/* Attention over keys and values in a file that is larger than the memory one wants to use.
 *
 *     fovea-keys-on-disk make FILE --tokens N      writes a file: [token][keys, values][head][channel]
 *     fovea-keys-on-disk attend FILE               attends to them, and tells how much memory that took
 *     fovea-keys-on-disk check FILE                compares with one call over the whole file, too
 *
 * The file is read piece by piece. A state carries the softmax of each query from one piece to the next. The bits are
 * those of one call, and memory is that of one piece, however long the file is. */
#include "cli.h"
#include "pieces.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { PIECE = 1024 }; /* tokens, a multiple of 256 */

static int make_file(const char *name, int64_t keys) {
    static float row[ROW];
    FILE *file = fopen(name, "wb");
    int good = file != NULL;
    for (int64_t i = 0; i < keys && good; i++) {
        make_numbers(row, ROW, (uint32_t)i);
        good = fwrite(row, sizeof row, 1, file) == 1;
    }
    if (file == NULL || fclose(file) != 0 || !good) {
        perror(name);
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}

/* Megabytes, the most so far. */
static double peak_memory(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss / 1024;
}

/* The whole file in memory, in one call: are those the same bits? */
static int same_at_once(const fovea_context *context, FILE *file, int64_t keys, float *q, const float *out) {
    static float whole[QUERIES * HEADS * DIM];
    float *rows = malloc((size_t)keys * ROW * sizeof *rows);
    fovea_attention_plan *plan = plan_for(context, keys);
    rewind(file);
    int good = rows && plan && fread(rows, ROW * sizeof *rows, (size_t)keys, file) == (size_t)keys &&
               attend(plan, q, rows, keys, keys, NULL, 0, whole) && memcmp(whole, out, sizeof whole) == 0;
    printf("the same bits as in one call: %s\n", good ? "yes" : "no");
    fovea_attention_plan_destroy(plan);
    free(rows);
    return good;
}

enum { ATTEND = 1, CHECK = 2, MAKE = 4 };

/* Which of them, and the file's name; or -1, and *status is what to end with. */
static int read_words(int argc, char **argv, int64_t *tokens, const char **name, int *status) {
    static const cli_option option = {"--tokens", "N", "8500", cli_read_number,           1,
                                      INT32_MAX,  0,   MAKE,   "how many (default: 8500)"};
    static const cli_command commands[] = {
        {"attend", ATTEND, 1, 1, "FILE", "keys.f32", "attend to the keys of a file, and print the memory that took"},
        {"check", CHECK, 1, 1, "FILE", "keys.f32", "attend, and compare with one call over the whole file"},
        {"make", MAKE, 1, 1, "FILE", "keys.f32", "write a file of keys and values"}};
    const cli program = {.program = "fovea-keys-on-disk",
                         .version = fovea_version(),
                         .summary = "Attend to keys and values of a file, piece by piece.",
                         .exit_statuses = "0 success; 1 failure; 2 wrong usage",
                         .commands = commands,
                         .command_count = 3,
                         .options = &option,
                         .option_count = 1};
    const cli_command *command;
    int words;
    *tokens = 8500;
    *status = cli_read(&program, argc, argv, tokens, &command, name, &words);
    return *status >= 0 ? -1 : command->bit;
}

int main(int argc, char **argv) {
    static float q[QUERIES * HEADS * DIM], out[QUERIES * HEADS * DIM], rows[PIECE * ROW];
    const char *name;
    int64_t tokens;
    int status;
    const int what = read_words(argc, argv, &tokens, &name, &status);
    if (what < 0)
        return status;
    if (what == MAKE)
        return make_file(name, tokens);
    FILE *file = fopen(name, "rb");
    if (file == NULL) {
        perror(name);
        return EXIT_FAILURE;
    }
    fovea_context *context = NULL;
    fovea_attention_plan *plan = NULL;
    fovea_attention_state *state = NULL;
    void *memory = NULL;
    int good = fovea_context_create(NULL, &context) == FOVEA_OK && (plan = plan_for(context, PIECE)) != NULL;
    const size_t size = fovea_attention_plan_state_size(plan);
    good =
        good && (memory = malloc(size)) != NULL && fovea_attention_state_init(plan, memory, size, &state) == FOVEA_OK;
    make_numbers(q, QUERIES * HEADS * DIM, 1);

    const double before = peak_memory();
    int64_t keys = 0;
    for (size_t count = PIECE; good && count == PIECE; keys += (int64_t)count) {
        count = fread(rows, ROW * sizeof *rows, PIECE, file);
        good = attend(plan, q, rows, PIECE, (int64_t)count, state, keys, out);
    }
    if (good)
        printf("%lld keys of %lld MB, with %.0f MB of memory more: the last number is %.9g\n", (long long)keys,
               (long long)(keys * ROW * 4 >> 20), peak_memory() - before, out[QUERIES * HEADS * DIM - 1]);
    if (good && what == CHECK)
        good = same_at_once(context, file, keys, q, out);
    fclose(file);
    free(memory);
    fovea_attention_plan_destroy(plan);
    fovea_context_destroy(context);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
