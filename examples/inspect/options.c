/* The options and commands of fovea-inspect: one table, of which the parser, --help, the man page (fovea-inspect man)
 * and the shell completion (fovea-inspect completion) are made. */
#include "inspect.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef enum kind { KIND_flag, KIND_file, KIND_folder, KIND_number } kind;

enum { COST = 1, SIMILARITY = 2, ATTENTION = 4 };

typedef struct option {
    const char *name, *argument;
    kind kind;
    int64_t least, most; /* of a number */
    size_t offset;
    int commands;
    const char *help;
} option;

#define AT(field) offsetof(inspect_options, field)
#define SIZE 1, 1 << 24

static const option options_table[] = {
    {"--d-model", "N", KIND_number, SIZE, AT(d_model), COST, "channels of the layer's input (must be given)"},
    {"--heads", "N", KIND_number, 1, 1 << 16, AT(heads), COST | SIMILARITY,
     "heads (cost: must be given; similarity: default from config.json beside the file)"},
    {"--kv-heads", "N", KIND_number, 1, 1 << 16, AT(kv_heads), COST | SIMILARITY,
     "heads of keys and values, which groups of heads share (default: as many as heads; similarity: from config.json, "
     "or what the file's sizes say)"},
    {"--d-k", "N", KIND_number, SIZE, AT(d_k), COST,
     "channels of a head's queries and keys (default: d-model / heads)"},
    {"--d-v", "N", KIND_number, SIZE, AT(d_v), COST, "channels of a head's values (default: d-k)"},
    {"--d-out", "N", KIND_number, 0, 1 << 24, AT(d_out), COST,
     "channels of the layer's output (default: d-model; 0: no W^O)"},
    {"--q-len", "N", KIND_number, SIZE, AT(q_len), COST, "queries of a sequence (default: 512)"},
    {"--kv-len", "N", KIND_number, SIZE, AT(kv_len), COST,
     "keys of a sequence (default: q-len; another number: cross-attention)"},
    {"--batch", "N", KIND_number, SIZE, AT(batch), COST, "sequences (default: 1)"},
    {"--biases", NULL, KIND_flag, 0, 0, AT(biases), COST, "projections have biases"},
    {"--causal", NULL, KIND_flag, 0, 0, AT(causal), COST, "no query sees later keys (the last one sees all)"},
    {"--measure", NULL, KIND_flag, 0, 0, AT(measure), COST,
     "run each form, taking turns, and show the median time and its ratio to form 1's"},
    {"--seconds", "N", KIND_number, 1, 3600, AT(seconds), COST, "how long to measure (default: 5)"},
    {"--csv", "FILE", KIND_file, 0, 0, AT(csv), COST | SIMILARITY,
     "write all figures to FILE (-: to standard output, in place of the table)"},
    {"--svg", "FILE", KIND_file, 0, 0, AT(svg), SIMILARITY, "draw heat maps of layers x heads into FILE"},
    {"--samples", "N", KIND_number, 2, 1 << 16, AT(samples), SIMILARITY,
     "how many random heads to compare with (default: 32)"},
    {"--model", "FOLDER", KIND_folder, 0, 0, AT(model), ATTENTION,
     "all-MiniLM-L6-v2: model.safetensors and vocab.txt (default: build/models/all-MiniLM-L6-v2, where "
     "examples/minilm/fetch.py puts it)"},
    {"--layer", "N", KIND_number, 0, 1 << 16, AT(layer), ATTENTION, "draw this layer only, counted from 0"},
    {"--output", "FILE", KIND_file, 0, 0, AT(output), ATTENTION,
     "the SVG file to write (-: standard output; default: attention.svg)"},
    {"--threads", "N", KIND_number, 1, 4096, AT(threads), COST | SIMILARITY | ATTENTION,
     "threads (default: all CPUs this process may use)"},
};
enum { OPTIONS = sizeof options_table / sizeof options_table[0] };

static const struct command {
    const char *name;
    int bit, least_words, most_words;
    const char *arguments, *help;
} commands[] = {
    {"cost", COST, 0, 0, "--d-model N --heads N",
     "parameters, flops, bytes moved and scratch of a multi-head layer in every form of fovea_mha, as fovea_mha_cost "
     "computes them; with --measure also the time"},
    {"similarity", SIMILARITY, 1, 1, "FILE.safetensors",
     "how alike W^Q, W^K and W^V of each head of a model are (BERT, GPT-2, LLaMA and other names, fused or not): "
     "cosine; "
     "distance |A-B| / sqrt(|A|^2+|B|^2); principal angles between column spaces; of W = W^Q W^K^T the symmetric share "
     "|W+W^T|^2 / (4|W|^2) and the effective rank exp(entropy of its singular values); all beside the same figures of "
     "random matrices"},
    {"attention", ATTENTION, 1, INSPECT_WORDS, "SENTENCE",
     "the attention weights of a sentence in the encoder all-MiniLM-L6-v2, head by head, as a picture"},
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

static const char exit_statuses[] = "0 good; 1 something failed, no file was changed; 64 wrong usage";
static const char summary[] = "what attention costs, how alike its matrices are, and what it looks at";

/* ---------------------------------------------------------------------------------------------------------- help -- */

/* Of one command, or of all: 0. */
static void print_help(const struct command *only) {
    printf("usage: fovea-inspect %s [OPTION]...\n\n", only ? only->name : "COMMAND");
    for (int i = 0; i < COMMANDS; i++)
        if (!only || only == &commands[i])
            printf("fovea-inspect %s %s\n    %s\n", commands[i].name, commands[i].arguments, commands[i].help);
    puts("\noptions");
    for (int i = 0; i < OPTIONS; i++) {
        const option *o = &options_table[i];
        if (only && !(o->commands & only->bit))
            continue;
        printf("  %-10s %-6s %s", o->name, o->argument ? o->argument : "", o->help);
        const char *before = " [";
        for (int c = 0; !only && c < COMMANDS; c++)
            if (o->commands & commands[c].bit) {
                printf("%s%s", before, commands[c].name);
                before = ", ";
            }
        puts(only ? "" : "]");
    }
    if (!only || only->bit & ATTENTION)
        puts("  -o FILE           the same as --output");
    printf("  --help, --version\n\nexit status: %s\n", exit_statuses);
}

static void print_roff(const char *text) {
    for (; *text; text++)
        if (*text == '-')
            fputs("\\-", stdout);
        else
            putchar(*text);
}

static void print_man(void) {
    printf(".TH FOVEA\\-INSPECT 1 \"\" \"Fovea %s\" \"User Commands\"\n.SH NAME\nfovea\\-inspect \\- ",
           FOVEA_VERSION_STRING);
    print_roff(summary);
    puts("\n.SH SYNOPSIS\n.B fovea\\-inspect\n\\fICOMMAND\\fR [\\fIOPTION\\fR]...\n.SH COMMANDS");
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
        putchar('\n');
    }
    puts(".SH EXIT STATUS");
    print_roff(exit_statuses);
    putchar('\n');
}

static void print_completion(void) {
    puts("# bash completion of fovea-inspect, made by: fovea-inspect completion\n_fovea_inspect() {\n"
         "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words\n    case $before in");
    for (int i = 0; i < OPTIONS; i++) {
        const option *o = &options_table[i];
        if (o->kind == KIND_file || o->kind == KIND_folder)
            printf("    %s%s) COMPREPLY=($(compgen -%c -- \"$word\")); return;;\n", o->name,
                   o->offset == AT(output) ? "|-o" : "", o->kind == KIND_file ? 'f' : 'd');
        else if (o->argument)
            printf("    %s) COMPREPLY=(); return;;\n", o->name);
    }
    puts("    esac\n    case ${COMP_WORDS[1]} in");
    for (int c = 0; c < COMMANDS; c++) {
        printf("    %s) words=\"", commands[c].name);
        for (int i = 0; i < OPTIONS; i++)
            if (options_table[i].commands & commands[c].bit)
                printf("%s ", options_table[i].name);
        puts("--help\";;");
    }
    fputs("    *) words=\"", stdout);
    for (int i = 0; i < COMMANDS; i++)
        printf("%s ", commands[i].name);
    puts("--help --version\";;\n    esac\n    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
         "    [[ $word == -* || $COMP_CWORD == 1 ]] || COMPREPLY+=($(compgen -f -- \"$word\"))\n}\n"
         "complete -F _fovea_inspect fovea-inspect");
}

/* ------------------------------------------------------------------------------------------------------- parsing -- */

static int wrong(const char *what, const char *word) {
    fprintf(stderr, "fovea-inspect: %s%s%s; fovea-inspect --help says more\n", what, word ? " " : "", word ? word : "");
    return INSPECT_USAGE;
}

static bool read_value(const option *o, const char *text, inspect_options *options) {
    void *at = (char *)options + o->offset;
    char *end;
    switch (o->kind) {
    case KIND_flag: *(bool *)at = true; return true;
    case KIND_file:
    case KIND_folder: *(const char **)at = text; return *text != '\0';
    case KIND_number: {
        const long long number = strtoll(text, &end, 10);
        *(int64_t *)at = number;
        return end != text && *end == '\0' && number >= o->least && number <= o->most;
    }
    }
    return false;
}

static int read_option(const char *word, const char *next, const struct command *command, inspect_options *options,
                       bool *took_next) {
    const size_t length = strcspn(word, "=");
    const char *value = word[length] == '=' ? word + length + 1 : next;
    for (int i = 0; i < OPTIONS; i++) {
        const option *o = &options_table[i];
        const bool same = strlen(o->name) == length && memcmp(o->name, word, length) == 0;
        if (!same && !(o->offset == AT(output) && strcmp(word, "-o") == 0))
            continue;
        if (!(o->commands & command->bit)) {
            fprintf(stderr, "fovea-inspect: %s is no option of %s\n", o->name, command->name);
            return INSPECT_USAGE;
        }
        if (!o->argument && word[length] == '=')
            return wrong(word, "takes nothing");
        if (o->argument && !value)
            return wrong(o->name, "takes something");
        if (!read_value(o, value, options)) {
            fprintf(stderr, "fovea-inspect: %s takes %s", o->name, o->kind == KIND_number ? "a number" : "a name");
            if (o->kind == KIND_number)
                fprintf(stderr, " from %lld to %lld", (long long)o->least, (long long)o->most);
            fprintf(stderr, ", not \"%s\": %s\n", value, o->help);
            return INSPECT_USAGE;
        }
        *took_next = o->argument && value == next;
        return -1;
    }
    return wrong("there is no option", word);
}

static const struct command *command_named(const char *name) {
    for (int i = 0; i < COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

int inspect_options_read(int argc, char **argv, inspect_options *options) {
    *options = (inspect_options){.d_out = -1, .layer = -1};
    const char *first = argc > 1 ? argv[1] : "";
    if (strcmp(first, "man") == 0)
        return print_man(), 0;
    if (strcmp(first, "completion") == 0)
        return print_completion(), 0;
    if (strcmp(first, "--version") == 0)
        return printf("fovea-inspect %s\n", fovea_version()), 0;
    if (strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0)
        return print_help(NULL), 0;
    const struct command *command = command_named(first);
    if (!command)
        return argc > 1 ? wrong("there is no command", first) : wrong("a command is missing", NULL);
    options->command = command->name;
    bool more_options = true;
    for (int i = 2; i < argc; i++) {
        const bool option_like = more_options && argv[i][0] == '-' && argv[i][1] != '\0';
        if (option_like && strcmp(argv[i], "--") == 0) {
            more_options = false;
        } else if (option_like && (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)) {
            return print_help(command), 0;
        } else if (option_like) {
            bool took_next = false;
            const int status = read_option(argv[i], i + 1 < argc ? argv[i + 1] : NULL, command, options, &took_next);
            if (status >= 0)
                return status;
            i += took_next;
        } else if (options->word_count == command->most_words) {
            return wrong("too many words at", argv[i]);
        } else {
            options->words[options->word_count++] = argv[i];
        }
    }
    if (options->word_count < command->least_words)
        return wrong(command->arguments, "is missing");
    if (command->bit & COST && (options->d_model == 0 || options->heads == 0))
        return wrong("cost takes", commands[0].arguments);
    return -1;
}
