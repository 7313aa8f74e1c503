/* The command line of a program: tables of options and commands, from which the parser, --help and the complaints
 * are made, and the man page (PROGRAM --man) and the bash completion (PROGRAM --completion).
 *
 *     static const cli_option options[] = {
 *         {"--rows", "N", "512", cli_read_number, 1, 4096, offsetof(settings, rows), RUN, "rows of x (default: 64)"},
 *     };
 *     static const cli_command commands[] = {{"", RUN, 0, 0, "", "--rows 512", "multiply"}};
 *     const cli program = {.program = "multiply", .commands = commands, .command_count = 1, .options = options, ...};
 *     const int status = cli_read(&program, argc, argv, &settings, &command, words, &count);
 *     if (status >= 0)
 *         return status;
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CLI_GOOD = 0, CLI_USAGE = 2 };

typedef struct cli_option cli_option;

/* Reads the text of an option's value; false if it is none. Of a flag: text is "". */
typedef bool cli_reader(void *at, const char *text, const cli_option *option);

struct cli_option {
    const char *name, *argument; /* "--name"; argument NULL: a flag */
    const char *values;          /* words, parted by spaces, that are values, or some of them; or "@file EXAMPLE",
                                    "@directory EXAMPLE", "@text EXAMPLE". The first of them is shown in complaints */
    cli_reader *read;            /* NULL: a flag, which makes a bool true */
    int64_t least, most;         /* of a number */
    size_t offset;               /* in the struct that is filled */
    int commands;                /* that take it, as bits */
    const char *help;
};

cli_reader cli_read_number; /* an int64_t from least to most */
cli_reader cli_read_int;    /* the same as an int */
cli_reader cli_read_real;   /* a double from least to most */
cli_reader cli_read_text;   /* a const char *, not empty */
cli_reader cli_read_choice; /* one of values, as an int: least for the first */

/* Words are what is no option. */
typedef struct cli_command {
    const char *name; /* "": the program has no commands, and this is what it does */
    int bit, least_words, most_words;
    const char *arguments; /* as --help shows them */
    const char *example;   /* the same with values */
    const char *help;      /* a phrase, as "print the file" */
} cli_command;

/* The kind of an argument's value: {"TIME", "a time from 1s to 24h"}. Numbers and choices need none. */
typedef struct cli_kind {
    const char *argument, *needs;
} cli_kind;

/* Texts are plain; what is not given is absent. -o stands for --output. */
typedef struct cli {
    const char *program, *version, *summary;
    const char *description;   /* a paragraph of the man page */
    const char *exit_statuses; /* "0 good; 1 something failed" */
    int failure;               /* the one of these for output that was lost; 0: 1 */
    const char *environment;   /* lines, as files and examples */
    const char *files;
    const char *examples;
    void (*more)(void); /* prints what --help tells beyond the tables */
    const char *passes; /* options that begin so are words, and nothing else is: "--benchmark_" */
    const cli_command *commands;
    int command_count;
    bool first_is_default; /* the command may be missing */
    const cli_option *options;
    int option_count;
    const cli_kind *kinds;
    int kind_count;
} cli;

/* Fills options (a struct) and words[] (of the most_words of the command); -1, or what the program ends with at
 * once: CLI_GOOD after --help, --version, --man or --completion, CLI_USAGE after a sentence to stderr. From this call
 * on, a program whose standard output could not be written (a full disk) ends with a sentence and the status of
 * failure, whatever main returns. */
int cli_read(const cli *c, int argc, char **argv, void *options, const cli_command **command, const char **words,
             int *word_count);

/* The result is whole in a file, and standard output only tells of it: lost output ends with its sentence still, but
 * with CLI_GOOD. */
void cli_result_is_written(void);

/* Words with spaces between, or a text if there are none: one empty word is an empty text. To be freed; NULL: no
 * memory. */
char *cli_join(const char *const *words, int count, const char *otherwise);

/* Both write a sentence to stderr and return CLI_USAGE. what: an option or argument that the command cannot do
 * without; the sentence shows the command's example. */
#if defined(__GNUC__) || defined(__clang__)
__attribute__((format(printf, 3, 4)))
#endif
int cli_wrong(const cli *c, const cli_command *command, const char *format, ...);
int cli_missing(const cli *c, const cli_command *command, const char *what);

#endif
