/* fovea-minilm: attention on the queries, keys and values of a real model reading a real text; what `make run` runs.
 *
 * Runs the same attention with plain C, with every tier of the library that this CPU has (one thread), and with the
 * best tier on all threads. Prints for each whether its bits are those of the scalar tier, its error against float64,
 * and how fast it is. --verbose: also what the columns mean, other measures of the error, and what dispatch chose and
 * why. While it measures, it shows on a terminal (standard error) how far it is.
 */
#include "bout.h"
#include "cli.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef struct options {
    const char *data;
    int threads;
    double seconds;
    bool verbose;
} options;

static int read_options(int argc, char **argv, options *opts) {
    static const cli_option table[] = {
        {"--data", "FILE", "@file " FOVEA_MINILM_DATA, cli_read_text, 0, 0, offsetof(options, data), 1,
         "safetensors file of queries, keys, values and the output in float64, as examples/minilm/make_data.py makes "
         "it "
         "(default: layer 0 of all-MiniLM-L6-v2, on the Gettysburg Address)"},
        {"--threads", "N", "2", cli_read_int, 1, 4096, offsetof(options, threads), 1,
         "number of threads in the last line of the table (default: all CPUs this process may use)"},
        {"--seconds", "S", "5", cli_read_real, 0, 3600, offsetof(options, seconds), 1,
         "about how long to measure in total (default: 5)"},
        {"--verbose", NULL, NULL, NULL, 0, 0, offsetof(options, verbose), 1,
         "also explain the columns, and print more measures of the error and the plan"},
    };
    static const cli_command command = {
        "",
        1,
        0,
        0,
        "",
        "",
        "run the attention of a real model on a real text with every kernel tier that this CPU has"};
    const cli program = {.program = "fovea-minilm",
                         .version = fovea_version(),
                         .exit_statuses = "0 all bits are the same, and all errors are within their limits; 1 they are "
                                          "not, or the data cannot be read; 2 wrong usage",
                         .commands = &command,
                         .command_count = 1,
                         .options = table,
                         .option_count = sizeof table / sizeof table[0]};
    const cli_command *only;
    int words;
    *opts = (options){.data = FOVEA_MINILM_DATA, .seconds = 5.0};
    return cli_read(&program, argc, argv, opts, &only, NULL, &words);
}

int main(int argc, char **argv) {
    static bout b;
    options opts;
    const int status = read_options(argc, argv, &opts);
    if (status >= 0)
        return status;
    char message[512];
    if (minilm_data_load(opts.data, &b.data, (complaint){message, sizeof message}) != 0)
        bout_die(message);
    b.title = strcmp(opts.data, FOVEA_MINILM_DATA) == 0 ? "layer 0 of\nall-MiniLM-L6-v2 reading the Gettysburg Address"
                                                        : opts.data;
    if (reference_create(&b.data, &b.ref) != 0)
        bout_die("out of memory");
    b.scores = bout_allocate((size_t)(b.data.tokens * b.data.tokens), sizeof *b.scores);

    bout_add_contestants(&b, opts.threads);
    bout_measure(&b, opts.seconds);
    const int wrong = bout_report(&b, opts.verbose);
    bout_free(&b);
    free(b.scores);
    reference_free(&b.ref);
    minilm_data_free(&b.data);
    return wrong;
}
