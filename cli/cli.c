/* The command line of a program with commands (cli.h). */
#include "cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool cli_read_number(void *at, const char *text, const cli_option *option) {
    char *end;
    errno = 0;
    const long long number = strtoll(text, &end, 10);
    *(int64_t *)at = number;
    return end != text && *end == '\0' && errno == 0 && number >= option->least && number <= option->most;
}

bool cli_read_text(void *at, const char *text, const cli_option *option) {
    (void)option;
    *(const char **)at = text;
    return *text != '\0';
}

static bool is_output(const cli_option *o) { return strcmp(o->name, "--output") == 0; }

/* ---------------------------------------------------------------------------------------------------------- help -- */

/* The commands that take an option, parted by commas. */
static void print_takers(const cli *c, const cli_option *o, const char *before, const char *after) {
    for (int i = 0; i < c->command_count; i++)
        if (o->commands & c->commands[i].bit) {
            printf("%s%s", before, c->commands[i].name);
            before = ", ";
        }
    puts(after);
}

/* Of one command, or of all: NULL. */
static void print_help(const cli *c, const cli_command *only) {
    bool output = false;
    printf("usage: %s %s [OPTION]...\n%s\n\n", c->program,
           only                  ? only->name
           : c->first_is_default ? "[COMMAND]"
                                 : "COMMAND",
           c->summary);
    for (int i = 0; i < c->command_count; i++)
        if (!only || only == &c->commands[i])
            printf("%s %s%s%s\n    %s\n", c->program, c->commands[i].name, *c->commands[i].arguments ? " " : "",
                   c->commands[i].arguments, c->commands[i].help);
    puts("\noptions");
    for (int i = 0; i < c->option_count; i++) {
        const cli_option *o = &c->options[i];
        if (only && !(o->commands & only->bit))
            continue;
        output = output || is_output(o);
        printf("  %-10s %-6s %s", o->name, o->argument ? o->argument : "", o->help);
        if (only)
            putchar('\n');
        else
            print_takers(c, o, " [", "]");
    }
    if (output)
        puts("  -o FILE           the same as --output");
    printf("  --help, --version\n\nexit status: %s\n", c->exit_statuses);
}

static void print_roff(const char *text) {
    for (; *text; text++)
        if (*text == '-')
            fputs("\\-", stdout);
        else
            putchar(*text);
}

static void print_man(const cli *c) {
    fputs(".TH ", stdout);
    for (const char *at = c->program; *at; at++)
        printf(*at == '-' ? "\\-" : "%c", *at >= 'a' && *at <= 'z' ? *at - 'a' + 'A' : *at);
    printf(" 1 \"\" \"Fovea %s\" \"User Commands\"\n.SH NAME\n", c->version);
    print_roff(c->program);
    fputs(" \\- ", stdout);
    print_roff(c->summary);
    fputs("\n.SH SYNOPSIS\n.B ", stdout);
    print_roff(c->program);
    printf("\n%s [\\fIOPTION\\fR]...\n", c->first_is_default ? "[\\fICOMMAND\\fR]" : "\\fICOMMAND\\fR");
    if (*c->description) {
        puts(".SH DESCRIPTION");
        print_roff(c->description);
        putchar('\n');
    }
    puts(".SH COMMANDS");
    for (int i = 0; i < c->command_count; i++) {
        printf(".TP\n\\fB%s\\fR ", c->commands[i].name);
        print_roff(c->commands[i].arguments);
        putchar('\n');
        print_roff(c->commands[i].help);
        putchar('\n');
    }
    puts(".SH OPTIONS");
    for (int i = 0; i < c->option_count; i++) {
        const cli_option *o = &c->options[i];
        fputs(".TP\n\\fB", stdout);
        print_roff(o->name);
        printf("\\fR%s \\fI%s\\fR\n", is_output(o) ? ", \\fB\\-o\\fR" : "", o->argument ? o->argument : "");
        print_roff(o->help);
        print_takers(c, o, " (", ")");
    }
    puts(".SH EXIT STATUS");
    print_roff(c->exit_statuses);
    putchar('\n');
    if (*c->files) {
        puts(".SH FILES\n.nf");
        print_roff(c->files);
        puts("\n.fi");
    }
}

static void print_completion(const cli *c) {
    char function[64];
    snprintf(function, sizeof function, "_%s", c->program);
    for (char *at = function; *at; at++)
        *at = *at == '-' ? '_' : *at;
    printf("# bash completion of %s, made by: %s completion\n%s() {\n"
           "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words\n    case $before in\n",
           c->program, c->program, function);
    for (int i = 0; i < c->option_count; i++) {
        const cli_option *o = &c->options[i];
        if (!o->argument)
            continue;
        printf("    %s%s) ", o->name, is_output(o) ? "|-o" : "");
        if (!o->completes)
            fputs("COMPREPLY=()", stdout);
        else if (o->completes[0] == '@')
            printf("COMPREPLY=($(compgen -%c -- \"$word\"))", o->completes[1]); /* f, or d of "@directory" */
        else
            printf("COMPREPLY=($(compgen -W \"%s\" -- \"$word\"))", o->completes);
        puts("; return;;");
    }
    puts("    esac\n    case ${COMP_WORDS[1]} in");
    for (int i = 0; i < c->command_count; i++) {
        printf("    %s) words=\"", c->commands[i].name);
        for (int n = 0; n < c->option_count; n++)
            if (c->options[n].commands & c->commands[i].bit)
                printf("%s ", c->options[n].name);
        puts("--help\";;");
    }
    fputs("    *) words=\"", stdout);
    for (int i = 0; i < c->command_count; i++)
        printf("%s ", c->commands[i].name);
    for (int n = 0; n < c->option_count && c->first_is_default; n++)
        if (c->options[n].commands & c->commands[0].bit)
            printf("%s ", c->options[n].name);
    printf("--help --version\";;\n    esac\n    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
           "    [[ $word == -* || $COMP_CWORD == 1 ]] || COMPREPLY+=($(compgen -f -- \"$word\"))\n}\n"
           "complete -F %s %s\n",
           function, c->program);
}

/* ------------------------------------------------------------------------------------------------------- parsing -- */

int cli_wrong(const cli *c, const char *what, const char *word) {
    fprintf(stderr, "%s: %s%s%s; %s --help says more\n", c->program, what, word ? " " : "", word ? word : "",
            c->program);
    return CLI_USAGE;
}

static int refuse(const cli *c, const cli_option *o, const char *value) {
    fprintf(stderr, "%s: %s", c->program, o->name);
    if (o->least < o->most)
        fprintf(stderr, " takes a number from %lld to %lld, not", (long long)o->least, (long long)o->most);
    fprintf(stderr, " \"%s\": %s\n", value, o->help);
    return CLI_USAGE;
}

/* Reads an option, and the word after it if that is its value: *took_next. */
static int read_option(const cli *c, const char *word, const char *next, const cli_command *command, void *options,
                       bool *took_next) {
    const size_t length = strcspn(word, "=");
    const char *value = word[length] == '=' ? word + length + 1 : next;
    for (int i = 0; i < c->option_count; i++) {
        const cli_option *o = &c->options[i];
        const bool same = strlen(o->name) == length && memcmp(o->name, word, length) == 0;
        if (!same && !(is_output(o) && strcmp(word, "-o") == 0))
            continue;
        if (!(o->commands & command->bit)) {
            fprintf(stderr, "%s: %s is no option of %s\n", c->program, o->name, command->name);
            return CLI_USAGE;
        }
        void *at = (char *)options + o->offset;
        if (!o->read && word[length] == '=')
            return cli_wrong(c, word, "takes nothing");
        if (!o->read) {
            *(bool *)at = true;
            return -1;
        }
        if (!value)
            return cli_wrong(c, o->name, "takes something");
        if (!o->read(at, value, o))
            return refuse(c, o, value);
        *took_next = value == next;
        return -1;
    }
    return cli_wrong(c, "there is no option", word);
}

static const cli_command *command_named(const cli *c, const char *name) {
    for (int i = 0; i < c->command_count; i++)
        if (strcmp(c->commands[i].name, name) == 0)
            return &c->commands[i];
    return NULL;
}

int cli_read(const cli *c, int argc, char **argv, void *options, const cli_command **command, const char **words,
             int *word_count) {
    const char *first = argc > 1 ? argv[1] : "";
    if (strcmp(first, "man") == 0)
        return print_man(c), 0;
    if (strcmp(first, "completion") == 0)
        return print_completion(c), 0;
    if (strcmp(first, "--version") == 0)
        return printf("%s %s\n", c->program, c->version), 0;
    if (strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0)
        return print_help(c, NULL), 0;
    const bool defaults = c->first_is_default && (argc < 2 || first[0] == '-');
    *command = defaults ? &c->commands[0] : command_named(c, first);
    *word_count = 0;
    if (!*command)
        return argc > 1 ? cli_wrong(c, "there is no command", first) : cli_wrong(c, "a command is missing", NULL);
    bool more_options = true;
    for (int i = defaults ? 1 : 2; i < argc; i++) {
        const bool option_like = more_options && argv[i][0] == '-' && argv[i][1] != '\0';
        if (option_like && strcmp(argv[i], "--") == 0) {
            more_options = false;
        } else if (option_like && (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)) {
            return print_help(c, defaults ? NULL : *command), 0;
        } else if (option_like) {
            bool took_next = false;
            const int status =
                read_option(c, argv[i], i + 1 < argc ? argv[i + 1] : NULL, *command, options, &took_next);
            if (status >= 0)
                return status;
            i += took_next;
        } else if (*word_count == (*command)->most_words) {
            return cli_wrong(c, "too many words at", argv[i]);
        } else {
            words[(*word_count)++] = argv[i];
        }
    }
    return *word_count < (*command)->least_words ? cli_wrong(c, (*command)->arguments, "is missing") : -1;
}
