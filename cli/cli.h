/* The command line of a program with commands: tables of commands and options, of which the parser, --help, the man
 * page (PROGRAM man) and the bash completion (PROGRAM completion) are made. For fovea-tune and fovea-inspect, which
 * compile cli.c in. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CLI_USAGE = 64 };

typedef struct cli_option cli_option;
struct cli_option {
    const char *name, *argument; /* "--name"; argument NULL: a flag, which makes a bool true */
    const char *completes;       /* words parted by spaces, "@file", "@directory"; NULL: nothing */
    bool (*read)(void *at, const char *text, const cli_option *option); /* NULL: a flag */
    int64_t least, most;                                                /* of a number; equal: anything */
    size_t offset;                                                      /* in the struct that is filled */
    int commands;                                                       /* that take it, as bits */
    const char *help;
};

bool cli_read_number(void *at, const char *text, const cli_option *option); /* an int64_t from least to most */
bool cli_read_text(void *at, const char *text, const cli_option *option);   /* a const char *, not empty */

typedef struct cli_command {
    const char *name;
    int bit, least_words, most_words; /* what is no option */
    const char *arguments, *help;
} cli_command;

/* Text is plain; -o stands for --output. */
typedef struct cli {
    const char *program, *version, *summary, *description; /* description: "" or a paragraph of the man page */
    const char *exit_statuses, *files;                     /* files: "" or lines of the man page */
    const cli_command *commands;
    int command_count;
    bool first_is_default; /* the command may be missing */
    const cli_option *options;
    int option_count;
} cli;

/* Fills options (a struct) and words[] (of the most_words of the command); -1, or what the program ends with at once:
 * 0 after --help, --version, man or completion, CLI_USAGE after a sentence to stderr. */
int cli_read(const cli *c, int argc, char **argv, void *options, const cli_command **command, const char **words,
             int *word_count);

/* The sentence, with a hint; returns CLI_USAGE. word: NULL, or what it is about. */
int cli_wrong(const cli *c, const char *what, const char *word);

#endif
