/* Attention over a stream: keys and values come from a pipe, and nobody knows how many there will be.
 *
 *     fovea-stream make | fovea-stream            [token][keys, values][head][channel], float32
 *     fovea-stream make | fovea-stream check      keeps the keys, too, and compares with calls over all of them
 *
 * Queries are there from the start. After each piece their rows are known over all keys so far, for finishing does not
 * change a state: a line tells one number of them. Memory is that of one piece. */
#include "cli.h"
#include "pieces.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 768 /* tokens, a multiple of 256 */, NUMBERS = QUERIES * HEADS * DIM };

static int make_stream(int64_t tokens) {
    float row[ROW];
    for (int64_t i = 0; i < tokens; i++) {
        make_numbers(row, ROW, (uint32_t)i);
        if (fwrite(row, sizeof row, 1, stdout) != 1)
            return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}

/* All keys so far in one call: are those the same bits? */
static int same_at_once(const fovea_context *context, float *kept, int64_t keys, float *q, const float *out) {
    float whole[NUMBERS];
    fovea_attention_plan *plan = plan_for(context, keys);
    const int same = plan && attend(plan, q, kept, keys, keys, NULL, 0, whole) && memcmp(whole, out, sizeof whole) == 0;
    fovea_attention_plan_destroy(plan);
    return same;
}

enum { ATTEND = 1, CHECK = 2, MAKE = 4 };

/* Which of them; or -1, and *status is what to end with. */
static int read_words(int argc, char **argv, int64_t *tokens, int *status) {
    static const cli_option option = {"--tokens", "N", "2000", cli_read_number,           1,
                                      INT32_MAX,  0,   MAKE,   "how many (default: 2000)"};
    static const cli_command commands[] = {
        {"attend", ATTEND, 0, 0, "", "", "attend to keys from standard input (the default command)"},
        {"check", CHECK, 0, 0, "", "", "attend, and compare with calls over all keys"},
        {"make", MAKE, 0, 0, "", "--tokens 2000", "write keys and values to standard output"}};
    const cli program = {.program = "fovea-stream",
                         .version = fovea_version(),
                         .summary = "Attend to keys and values that come from a pipe, piece by piece.",
                         .exit_statuses = "0 success; 1 failure; 2 wrong usage",
                         .examples = "fovea-stream make --tokens 2000 | fovea-stream check",
                         .commands = commands,
                         .command_count = 3,
                         .first_is_default = true,
                         .options = &option,
                         .option_count = 1};
    const cli_command *command;
    int words;
    *tokens = 2000;
    *status = cli_read(&program, argc, argv, tokens, &command, NULL, &words);
    return *status >= 0 ? -1 : command->bit;
}

int main(int argc, char **argv) {
    static float q[NUMBERS], out[NUMBERS], piece[PIECE * ROW];
    int64_t tokens;
    int status;
    const int what = read_words(argc, argv, &tokens, &status), check = what == CHECK;
    if (what < 0)
        return status;
    if (what == MAKE)
        return make_stream(tokens);
    fovea_context *context = NULL;
    fovea_attention_plan *plan = NULL;
    fovea_attention_state *state = NULL;
    void *memory = NULL;
    float *kept = NULL;
    int good = fovea_context_create(NULL, &context) == FOVEA_OK && (plan = plan_for(context, PIECE)) != NULL;
    const size_t size = fovea_attention_plan_state_size(plan);
    good =
        good && (memory = malloc(size)) != NULL && fovea_attention_state_init(plan, memory, size, &state) == FOVEA_OK;
    make_numbers(q, NUMBERS, 1);

    int64_t keys = 0;
    for (size_t count = PIECE; good && count == PIECE;) { /* fread waits for a whole piece, or the end */
        count = fread(piece, ROW * sizeof *piece, PIECE, stdin);
        good = attend(plan, q, piece, PIECE, (int64_t)count, state, keys, out);
        if (check && good) {
            float *more = realloc(kept, ((size_t)keys + count + 1) * ROW * sizeof *kept);
            kept = more ? more : kept;
            good = more != NULL;
            if (good)
                memcpy(kept + keys * ROW, piece, count * ROW * sizeof *kept);
        }
        keys += (int64_t)count;
        if (good)
            printf("%lld keys: %.9g\n", (long long)keys, out[NUMBERS - 1]);
        if (good && check) {
            good = same_at_once(context, kept, keys, q, out);
            printf("the same bits as in one call: %s\n", good ? "yes" : "no");
        }
    }
    free(kept);
    free(memory);
    fovea_attention_plan_destroy(plan);
    fovea_context_destroy(context);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
