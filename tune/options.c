/* The options and commands of fovea-tune: one table, of which the parser, --help, the man page (fovea-tune man) and the
 * shell completion (fovea-tune completion) are made. */
#include "tune.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum kind { KIND_flag, KIND_text, KIND_texts, KIND_seconds, KIND_threads, KIND_effort, KIND_isa } kind;

enum { RUN = 1, SHOW = 2, CHECK = 4, MERGE = 8, EXPLAIN = 16, REPORT = 32 };

typedef struct option {
    const char *name, *argument, *words; /* words: what completes it */
    kind kind;
    size_t offset;
    int commands;
    const char *help;
} option;

#define AT(field) offsetof(tune_options, field)

static const option options_table[] = {
    {"--budget", "TIME", "20s 60s 5m", KIND_seconds, AT(budget), RUN | CHECK | REPORT,
     "how long it may take: 20s, 5m or seconds (default 60s; check: 10s)"},
    {"--effort", "WORD", "quick normal thorough", KIND_effort, AT(effort), RUN | CHECK,
     "how many measurements: quick, normal (default) or thorough"},
    {"--shape", "WORDS", "", KIND_texts, AT(shapes), RUN | EXPLAIN | REPORT,
     "a shape, as \"q_heads=32 kv_heads=8 q_len=512 head_dim=128 causal=top_left\" or \"linear rows=8 in=768 "
     "out=768\"; "
     "may be repeated"},
    {"--preset", "NAMES", "bert-base minilm llama-8b whisper vit-l gpt2", KIND_text, AT(presets), RUN | EXPLAIN,
     "shapes of models, parted by commas (default bert-base,minilm,llama-8b,whisper,vit-l)"},
    {"--log", "FILE", "@file", KIND_text, AT(log), RUN | EXPLAIN,
     "shapes from a file that a program wrote under FOVEA_LOG_SHAPES=FILE"},
    {"--output", "FILE", "@file", KIND_text, AT(output), RUN | MERGE | REPORT,
     "the file to write, or - for the standard output (default: the tuning file that programs of this user load; "
     "report: "
     "tune.html)"},
    {"--isa", "TIER", "scalar avx2 avx512", KIND_isa, AT(isa), RUN | CHECK | EXPLAIN | REPORT,
     "tune this tier (default: the best)"},
    {"--threads", "N", "1 2 4 8", KIND_threads, AT(threads), RUN | CHECK | EXPLAIN | REPORT,
     "tune this number of threads (default: all that are allowed, as programs use by default)"},
    {"--dry-run", NULL, "", KIND_flag, AT(dry_run), RUN, "say what would be tuned, measure and write nothing"},
    {"--json", NULL, "", KIND_flag, AT(json), RUN | SHOW | CHECK | EXPLAIN, "print JSON instead of text"},
    {"--quiet", NULL, "", KIND_flag, AT(quiet), RUN | CHECK, "print nothing but errors"},
};
enum { OPTIONS = sizeof options_table / sizeof options_table[0] };

static const struct command {
    const char *name;
    int bit, most_files;
    const char *arguments, *help;
} commands[] = {
    {"run", RUN, 0, "", "tune this machine and write the file (what happens without a command, too)"},
    {"show", SHOW, 1, "[FILE]", "the file as a table, and for each row whether it is used here or why not"},
    {"check", CHECK, 1, "[FILE]",
     "is the file for this CPU and build, and are its choices still faster? Measures a few again"},
    {"merge", MERGE, TUNE_WORDS, "FILE... -o FILE",
     "one file with the rows of all: for several CPU models; of two rows for the same the later file's stays"},
    {"explain", EXPLAIN, 0, "--shape WORDS", "which plan a shape gets here, and why"},
    {"report", REPORT, 1, "[FILE]", "a page with what was gained, a map of tile sizes, and how far the bound is"},
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

static const char exit_statuses[] =
    "0 good; 1 something failed, or check: a choice is no longer faster; 2 check: the file is not for this CPU or "
    "build; "
    "3 too noisy or too little time to tell, nothing was stored; 64 wrong usage; 130 interrupted, what was proved "
    "until then was stored";

/* ---------------------------------------------------------------------------------------------------------- help -- */

static void print_help(FILE *to) {
    fputs("usage: fovea-tune [COMMAND] [OPTION]...\n\nFinds and proves the fastest kernels and blocks of libfovea on "
          "this machine. "
          "Results never change.\n\ncommands\n",
          to);
    for (int i = 0; i < COMMANDS; i++)
        fprintf(to, "  %-8s %-16s %s\n", commands[i].name, commands[i].arguments, commands[i].help);
    fputs("\noptions\n", to);
    for (int i = 0; i < OPTIONS; i++)
        fprintf(to, "  %-9s %-6s %s\n", options_table[i].name,
                options_table[i].argument ? options_table[i].argument : "", options_table[i].help);
    fprintf(to, "  -o FILE          the same as --output\n  --help, --version\n\nexit status: %s\n", exit_statuses);
}

static void print_roff(const char *text) {
    for (; *text; text++)
        if (*text == '-')
            fputs("\\-", stdout);
        else
            putchar(*text);
}

static void print_man(void) {
    printf(".TH FOVEA\\-TUNE 1 \"\" \"Fovea %s\" \"User Commands\"\n.SH NAME\nfovea\\-tune \\- find and prove the "
           "fastest kernels of "
           "libfovea on this machine\n.SH SYNOPSIS\n.B fovea\\-tune\n[\\fICOMMAND\\fR] [\\fIOPTION\\fR]...\n.SH "
           "DESCRIPTION\n",
           FOVEA_VERSION_STRING);
    print_roff(
        "Measures kernels, block and tile sizes of libfovea's attention and linear maps for the shapes of some models, "
        "and writes "
        "those "
        "that are faster than the library's defaults into a tuning file, which programs load when they create a "
        "context. A choice is stored only if it is faster on shapes that took no part in the search, by more than "
        "the measured noise. Results of programs never change.");
    puts("\n.SH COMMANDS");
    for (int i = 0; i < COMMANDS; i++) {
        printf(".TP\n\\fB%s\\fR ", commands[i].name);
        print_roff(commands[i].arguments);
        putchar('\n');
        print_roff(commands[i].help);
        putchar('\n');
    }
    puts(".SH OPTIONS");
    for (int i = 0; i < OPTIONS; i++) {
        fputs(".TP\n\\fB", stdout);
        print_roff(options_table[i].name);
        printf("\\fR \\fI%s\\fR\n", options_table[i].argument ? options_table[i].argument : "");
        print_roff(options_table[i].help);
        fputs(" (", stdout);
        const char *comma = "";
        for (int c = 0; c < COMMANDS; c++)
            if (options_table[i].commands & commands[c].bit) {
                printf("%s%s", comma, commands[c].name);
                comma = ", ";
            }
        puts(")");
    }
    puts(".SH EXIT STATUS");
    print_roff(exit_statuses);
    puts("\n.SH FILES\nThe first of these that is there is loaded, unless FOVEA_TUNING_FILE names another:\n.br\n"
         "$XDG_CACHE_HOME/fovea/tuning ($HOME/.cache where that is unset)\n.br\n/etc/fovea/tuning");
}

static void print_completion(void) {
    puts("# bash completion of fovea-tune, made by: fovea-tune completion\n_fovea_tune() {\n"
         "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words\n    case $before in");
    for (int i = 0; i < OPTIONS; i++) {
        const option *o = &options_table[i];
        if (!o->argument)
            continue;
        if (strcmp(o->words, "@file") == 0)
            printf("    %s%s) COMPREPLY=($(compgen -f -- \"$word\")); return;;\n", o->name,
                   o->offset == AT(output) ? "|-o" : "");
        else
            printf("    %s) COMPREPLY=($(compgen -W \"%s\" -- \"$word\")); return;;\n", o->name, o->words);
    }
    fputs("    esac\n    words=\"", stdout);
    for (int i = 0; i < COMMANDS; i++)
        printf("%s ", commands[i].name);
    for (int i = 0; i < OPTIONS; i++)
        printf("%s ", options_table[i].name);
    puts("--help --version\"\n    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
         "    [[ $word == -* ]] || COMPREPLY+=($(compgen -f -- \"$word\"))\n}\n"
         "complete -F _fovea_tune fovea-tune");
}

/* ------------------------------------------------------------------------------------------------------- parsing -- */

static int wrong(const char *what, const char *word) {
    fprintf(stderr, "fovea-tune: %s%s%s; fovea-tune --help says more\n", what, word ? " " : "", word ? word : "");
    return TUNE_USAGE;
}

/* 90, 90s, 5m. */
static bool read_seconds(const char *text, double *seconds) {
    char *end;
    *seconds = strtod(text, &end);
    const double unit = *end == 'm' ? 60 : 1;
    *seconds *= unit;
    end += *end == 'm' || *end == 's';
    return end != text && *end == '\0' && *seconds >= 1 && *seconds <= 86400;
}

static bool read_value(const option *o, const char *text, tune_options *options) {
    void *at = (char *)options + o->offset;
    char *end;
    long number;
    switch (o->kind) {
    case KIND_flag: *(bool *)at = true; return true;
    case KIND_text: *(const char **)at = text; return true;
    case KIND_texts:
        if (options->shape_count == TUNE_WORDS)
            return false;
        options->shapes[options->shape_count++] = text;
        return true;
    case KIND_seconds: return read_seconds(text, at);
    case KIND_threads:
        number = strtol(text, &end, 10);
        *(int *)at = (int)number;
        return end != text && *end == '\0' && number >= 1 && number <= 4096;
    case KIND_effort:
        for (int i = EFFORT_quick; i <= EFFORT_thorough; i++)
            if (strcmp(text, (const char *[]){"quick", "normal", "thorough"}[i]) == 0) {
                *(tune_effort *)at = (tune_effort)i;
                return true;
            }
        return false;
    case KIND_isa:
        for (int i = FV_ISA_scalar; i < FV_ISA_COUNT; i++)
            if (strcmp(text, fovea_isa_name((fovea_isa)i)) == 0) {
                *(fovea_isa *)at = (fovea_isa)i;
                return true;
            }
        return false;
    }
    return false;
}

static const struct command *command_named(const char *name) {
    for (int i = 0; i < COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static int read_option(const char *word, const char *next, const struct command *command, tune_options *options,
                       bool *took_next) {
    const size_t length = strcspn(word, "=");
    const char *value = word[length] == '=' ? word + length + 1 : next;
    *took_next = false;
    for (int i = 0; i < OPTIONS; i++) {
        const option *o = &options_table[i];
        const bool same = strlen(o->name) == length && memcmp(o->name, word, length) == 0;
        if (!same && !(o->offset == AT(output) && strcmp(word, "-o") == 0))
            continue;
        if (!(o->commands & command->bit)) {
            fprintf(stderr, "fovea-tune: %s is no option of %s\n", o->name, command->name);
            return TUNE_USAGE;
        }
        if (!o->argument && word[length] == '=')
            return wrong(word, "takes nothing");
        if (o->argument && !value)
            return wrong(o->name, "takes something");
        if (!read_value(o, value, options)) {
            fprintf(stderr, "fovea-tune: %s %s: %s\n", o->name, value, o->help);
            return TUNE_USAGE;
        }
        *took_next = o->argument && value == next;
        return -1;
    }
    return wrong("there is no option", word);
}

int tune_options_read(int argc, char **argv, tune_options *options) {
    *options = (tune_options){.effort = EFFORT_normal};
    const struct command *command = &commands[0];
    int first = 1;
    if (argc > 1 && argv[1][0] != '-') {
        if (strcmp(argv[1], "man") == 0)
            return print_man(), 0;
        if (strcmp(argv[1], "completion") == 0)
            return print_completion(), 0;
        command = command_named(argv[1]);
        first = 2;
        if (!command)
            return wrong("there is no command", argv[1]);
    }
    options->command = command->name;
    for (int i = first; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return print_help(stdout), 0;
        if (strcmp(argv[i], "--version") == 0)
            return printf("fovea-tune %s\n", fovea_version()), 0;
        if (argv[i][0] == '-' && argv[i][1] != '\0') {
            bool took_next;
            const int status = read_option(argv[i], i + 1 < argc ? argv[i + 1] : NULL, command, options, &took_next);
            if (status >= 0)
                return status;
            i += took_next;
        } else if (options->file_count == command->most_files)
            return wrong("too many words at", argv[i]);
        else
            options->files[options->file_count++] = argv[i];
    }
    if (options->budget <= 0)
        options->budget = strcmp(command->name, "run") == 0 ? 60 : 10;
    return -1;
}
