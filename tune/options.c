/* The options and commands of fovea-tune: tables, of which cli/ makes the parser, --help, the man page (fovea-tune man)
 * and the shell completion (fovea-tune completion). */
#include "cli.h"
#include "tune.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { RUN = 1, SHOW = 2, CHECK = 4, MERGE = 8, EXPLAIN = 16, REPORT = 32 };

/* 90, 90s, 5m. */
static bool read_seconds(void *at, const char *text, const cli_option *option) {
    (void)option;
    char *end;
    double seconds = strtod(text, &end);
    seconds *= *end == 'm' ? 60 : 1;
    end += *end == 'm' || *end == 's';
    *(double *)at = seconds;
    return end != text && *end == '\0' && seconds >= 1 && seconds <= 86400;
}

static bool read_threads(void *at, const char *text, const cli_option *option) {
    int64_t number;
    const bool good = cli_read_number(&number, text, option);
    *(int *)at = (int)number;
    return good;
}

static bool read_effort(void *at, const char *text, const cli_option *option) {
    static const char *const words[] = {"quick", "normal", "thorough"};
    (void)option;
    for (int i = EFFORT_quick; i <= EFFORT_thorough; i++)
        if (strcmp(text, words[i]) == 0) {
            *(tune_effort *)at = (tune_effort)i;
            return true;
        }
    return false;
}

static bool read_isa(void *at, const char *text, const cli_option *option) {
    (void)option;
    for (int i = FV_ISA_scalar; i < FV_ISA_COUNT; i++)
        if (strcmp(text, fovea_isa_name((fovea_isa)i)) == 0) {
            *(fovea_isa *)at = (fovea_isa)i;
            return true;
        }
    return false;
}

static bool read_shape(void *at, const char *text, const cli_option *option) {
    tune_shape_list *list = at;
    (void)option;
    if (list->count == TUNE_WORDS)
        return false;
    list->text[list->count++] = text;
    return true;
}

/* All tiers that there are, as words. */
#define FV_TIER(word, number, lanes, below) #word " "
static const char tiers[] =
#include "tiers.inc"
    ;
#undef FV_TIER

#define AT(field) offsetof(tune_options, field)

static const cli_option options_table[] = {
    {"--budget", "TIME", "20s 60s 5m", read_seconds, 0, 0, AT(budget), RUN | CHECK | REPORT,
     "how long it may take: 20s, 5m or seconds (default 60s; check: 10s)"},
    {"--effort", "WORD", "quick normal thorough", read_effort, 0, 0, AT(effort), RUN | CHECK,
     "how many measurements: quick, normal (default) or thorough"},
    {"--shape", "WORDS", NULL, read_shape, 0, 0, AT(shapes), RUN | EXPLAIN | REPORT,
     "a shape, as \"q_heads=32 kv_heads=8 q_len=512 head_dim=128 causal=top_left\" or \"linear rows=8 in=768 "
     "out=768\"; may be repeated"},
    {"--preset", "NAMES", "bert-base minilm llama-8b whisper vit-l gpt2", cli_read_text, 0, 0, AT(presets),
     RUN | EXPLAIN, "shapes of models, parted by commas (default bert-base,minilm,llama-8b,whisper,vit-l)"},
    {"--log", "FILE", "@file", cli_read_text, 0, 0, AT(log), RUN | EXPLAIN,
     "shapes from a file that a program wrote under FOVEA_LOG_SHAPES=FILE"},
    {"--output", "FILE", "@file", cli_read_text, 0, 0, AT(output), RUN | MERGE | REPORT,
     "the file to write, or - for the standard output (default: the tuning file that programs of this user load; "
     "report: tune.html)"},
    {"--isa", "TIER", tiers, read_isa, 0, 0, AT(isa), RUN | SHOW | CHECK | EXPLAIN | REPORT,
     "for this tier (default: the best)"},
    {"--threads", "N", "1 2 4 8", read_threads, 1, 4096, AT(threads), RUN | SHOW | CHECK | EXPLAIN | REPORT,
     "for this number of threads (default: all that are allowed, as programs use by default)"},
    {"--dry-run", NULL, NULL, NULL, 0, 0, AT(dry_run), RUN, "say what would be tuned, measure and write nothing"},
    {"--json", NULL, NULL, NULL, 0, 0, AT(json), RUN | SHOW | CHECK | EXPLAIN, "print JSON instead of text"},
    {"--quiet", NULL, NULL, NULL, 0, 0, AT(quiet), RUN | CHECK, "print nothing but errors"},
};
static const cli_command commands[] = {
    {"run", RUN, 0, 0, "", "tune this machine and write the file (what happens without a command, too)"},
    {"show", SHOW, 0, 1, "[FILE]", "the file as a table, and for each row whether it is used here or why not"},
    {"check", CHECK, 0, 1, "[FILE]",
     "is the file for this CPU and build, and are its choices still faster? Measures a few again"},
    {"merge", MERGE, 1, TUNE_WORDS, "FILE... -o FILE",
     "one file with the rows of all: for several CPU models; of two rows for the same the later file's stays"},
    {"explain", EXPLAIN, 0, 0, "--shape WORDS", "which plan a shape gets here, and why"},
    {"report", REPORT, 0, 1, "[FILE]", "a page with what was gained, a map of tile sizes, and how far the bound is"},
};
static const char exit_statuses[] =
    "0 good; 1 check: a choice is no longer faster; 2 check: the file is not for this CPU or build, or is none; 3 too "
    "noisy or too little time to tell, nothing was stored; 4 something failed; 64 wrong usage; 130 interrupted, what "
    "was proved until then was stored";

static const char description[] =
    "Measures kernels, block and tile sizes of libfovea's attention and linear maps for the shapes of some models, "
    "and writes "
    "those "
    "that are faster than the library's defaults into a tuning file, which programs load when they create a "
    "context. A choice is stored only if it is faster on shapes that took no part in the search, by more than "
    "the measured noise. Results of programs never change.";

int tune_options_read(int argc, char **argv, tune_options *options) {
    const cli program = {.program = "fovea-tune",
                         .version = fovea_version(),
                         .summary = "find and prove the fastest kernels and blocks of libfovea on this machine",
                         .description = description,
                         .exit_statuses = exit_statuses,
                         .files =
                             "The first of these that is there is loaded, unless FOVEA_TUNING_FILE names another:\n"
                             "$XDG_CACHE_HOME/fovea/tuning ($HOME/.cache where that is unset)\n"
                             "/etc/fovea/tuning",
                         .commands = commands,
                         .command_count = sizeof commands / sizeof commands[0],
                         .first_is_default = true,
                         .options = options_table,
                         .option_count = sizeof options_table / sizeof options_table[0]};
    const cli_command *command;
    *options = (tune_options){.effort = EFFORT_normal};
    const int status = cli_read(&program, argc, argv, options, &command, options->files, &options->file_count);
    if (status >= 0)
        return status;
    options->command = command->name;
    if (command->bit == MERGE && !options->output)
        return cli_wrong(&program, "merge takes", command->arguments);
    if (options->budget <= 0)
        options->budget = command->bit == RUN ? 60 : 10;
    return -1;
}
