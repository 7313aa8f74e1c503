/* The options and commands of fovea-tune: tables, of which cli/ makes the parser, --help, the man page (--man) and the
 * shell completion (--completion). */
#include "options.h"

#include "kernels.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { RUN = 1, SHOW = 2, CHECK = 4, MERGE = 8, REPORT = 16 };

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
#define COUNT(table) ((int)(sizeof(table) / sizeof(table)[0]))

static const cli_option options_table[] = {
    {"--budget", "TIME", "20s 60s 5m", read_seconds, 0, 0, AT(budget), RUN | CHECK,
     "time limit, such as 20s, 5m or 90 (default: 3m; check: 10s)"},
    {"--effort", "WORD", "quick normal thorough", cli_read_choice, EFFORT_quick, 0, AT(effort), RUN | CHECK,
     "how thoroughly to measure: quick, normal (default) or thorough"},
    {"--shape", "WORDS", "@text q_heads=12 q_len=512 head_dim=64", read_shape, 0, 0, AT(shapes), RUN,
     "a shape, such as \"q_heads=32 kv_heads=8 q_len=512 head_dim=128 causal=top_left\" or \"linear rows=8 in=768 "
     "out=768\"; may be repeated"},
    {"--preset", "NAMES", "bert-base minilm llama-8b llama-8b-quantized smollm2 whisper vit-l gpt2", cli_read_text, 0,
     0, AT(presets), RUN,
     "shapes of these models, separated by commas: bert-base, minilm, llama-8b, llama-8b-quantized, smollm2, whisper, "
     "vit-l, gpt2 (default: all but smollm2 and gpt2)"},
    {"--log", "FILE", "@file shapes.log", cli_read_text, 0, 0, AT(log), RUN,
     "shapes that a program logged with FOVEA_LOG_SHAPES=FILE"},
    {"--model", "FILE", "@file model.gguf", cli_read_text, 0, 0, AT(model), RUN,
     "shapes of this GGUF model: prompts, decoding, and its weights with 1, 4, 32 and 512 rows"},
    {"--output", "FILE", "@file tuning", cli_read_text, 0, 0, AT(output), RUN | MERGE | REPORT,
     "file to write, in a folder that exists; - is standard output (default: the tuning file that this user's programs "
     "load; report: tune.html)"},
    {"--ship", NULL, NULL, NULL, 0, 0, AT(ship), MERGE,
     "rows for any machine of the CPU's model, and any build, as in the file of known CPUs that ships with the "
     "library"},
    {"--isa", "TIER", tiers, cli_read_choice, FV_ISA_scalar, 0, AT(isa), RUN | SHOW | CHECK | REPORT,
     "tier (default: the best of this CPU)"},
    {"--threads", "N", "1 2 4 8", cli_read_int, 1, 4096, AT(threads), RUN | SHOW | CHECK | REPORT,
     "number of threads (default: as many as programs use)"},
    {"--dry-run", NULL, NULL, NULL, 0, 0, AT(dry_run), RUN, "only print what would be tuned"},
    {"--json", NULL, NULL, NULL, 0, 0, AT(json), RUN | SHOW | CHECK, "print JSON instead of text"},
    {"--each-host", NULL, NULL, NULL, 0, 0, AT(each_host), RUN,
     "under mpirun: tune one host of each kind and write one file (-o), by fovea-tune-each-host of libfovea_mpi"},
    {"--kind", NULL, NULL, NULL, 0, 0, AT(kind), RUN,
     "only print which machines would use the rows: a CPU, a build and a number of threads"},
    {"--quiet", NULL, NULL, NULL, 0, 0, AT(quiet), RUN | CHECK, "print nothing but errors"},
};
static const cli_command commands[] = {
    {"run", RUN, 0, 0, "", "--budget 3m", "tune this machine and write the tuning file (the default command)"},
    {"show", SHOW, 0, 1, "[FILE]", "tuning",
     "print the rows of a tuning file, and whether each is used on this machine"},
    {"check", CHECK, 0, 1, "[FILE]", "--budget 10s",
     "check that a tuning file is for this CPU and build, and that its choices are still faster"},
    {"merge", MERGE, 1, TUNE_WORDS, "FILE... -o FILE", "tuning.a tuning.b -o tuning",
     "join files of several machines; if two files have a row for the same shapes, the later file's is kept; empty "
     "files are skipped"},
    {"report", REPORT, 0, 1, "[FILE]", "-o tune.html",
     "write an HTML page: the gain of each choice that is used on this machine, and what it decides"},
};
static const cli_kind kinds[] = {{"TIME", "a time from 1s to 24h"}, {"WORDS", "a shape"}, {"NAMES", "names of models"}};

static const char exit_statuses[] = "0 success; 1 check: a choice is no longer faster; 2 wrong usage; 3 too noisy or "
                                    "too little time to tell: nothing was stored (with -o -, a file without rows was "
                                    "written); 4 failure; 5 check: there is no tuning file, or it is damaged, or for "
                                    "another CPU, build, tier or number of "
                                    "threads; 130 interrupted: what was proved so far was stored";

static const char description[] =
    "Looks for kernels, block sizes and tile sizes that are faster than the library's defaults, for attention and "
    "linear maps of the shapes that you name, and writes them into a tuning file. Programs load the file when they "
    "create a context. A choice is stored only if it is faster on shapes that the search did not see, by more than the "
    "measured noise. Results of programs never change. A run over the default shapes, for the default tier and number "
    "of "
    "threads, ends with fovea-tune-ggml, where that is in this program's folder or FOVEA_TUNE_GGML names it (empty: "
    "without "
    "it): in some two minutes more, beyond --budget, it measures which operations pay inside ggml (llama.cpp and "
    "others), and puts its rows into the same file.";

static const char files[] = "Programs load the first of these that exists, unless FOVEA_TUNING_FILE names another:\n"
                            "$XDG_CACHE_HOME/fovea/tuning ($HOME/.cache/fovea/tuning if XDG_CACHE_HOME is unset)\n"
                            "/etc/fovea/tuning\n"
                            "What it has no row for is served by rows for known CPUs, which ship:\n"
                            "share/fovea/1/known-cpus.tuning of the install tree, or FOVEA_KNOWN_CPUS";

static const char examples[] = "fovea-tune --budget 5m\n"
                               "fovea-tune --preset gpt2 --threads 4 -o tuning\n"
                               "mpirun --map-by ppr:1:node --bind-to none fovea-tune --each-host -o tuning\n"
                               "fovea-tune --shape \"linear rows=8 in=4096 out=14336\"";

int tune_options_read(int argc, char **argv, tune_options *options) {
    const cli program = {
        .program = "fovea-tune",
        .version = fovea_version(),
        .summary =
            "find the fastest kernels and block sizes of libfovea on this machine, and prove that they are faster",
        .description = description,
        .exit_statuses = exit_statuses,
        .failure = TUNE_FAILED,
        .files = files,
        .examples = examples,
        .commands = commands,
        .command_count = COUNT(commands),
        .first_is_default = true,
        .options = options_table,
        .option_count = COUNT(options_table),
        .kinds = kinds,
        .kind_count = COUNT(kinds)};
    const cli_command *command;
    *options = (tune_options){.program = argv[0], .effort = EFFORT_normal};
    const int status = cli_read(&program, argc, argv, options, &command, options->files, &options->file_count);
    if (status >= 0)
        return status;
    options->command = command->name;
    if (command->bit == MERGE && !options->output)
        return cli_missing(&program, command, "-o FILE");
    if (options->each_host && !options->output)
        return cli_missing(&program, command, "-o FILE");
    if (options->each_host && (options->json || options->dry_run || options->kind))
        return cli_wrong(&program, command, "--each-host goes with neither --json nor --dry-run nor --kind");
    if (options->budget <= 0)
        options->budget = command->bit == RUN ? 180 : 10;
    return -1;
}
