/* Reading a command line (cli.h). */
#include "cli.h"

#include "pages.h"

#include <errno.h>
#ifndef _WIN32
#include <fcntl.h>
#endif
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------------- readers -- */

bool cli_read_number(void *at, const char *text, const cli_option *option) {
    char *end;
    errno = 0;
    const long long number = strtoll(text, &end, 10);
    *(int64_t *)at = number;
    return end != text && *end == '\0' && errno == 0 && number >= option->least && number <= option->most;
}

bool cli_read_int(void *at, const char *text, const cli_option *option) {
    int64_t number;
    const bool good = cli_read_number(&number, text, option);
    *(int *)at = (int)number;
    return good;
}

bool cli_read_real(void *at, const char *text, const cli_option *option) {
    char *end;
    const double number = strtod(text, &end);
    *(double *)at = number;
    return end != text && *end == '\0' && number >= (double)option->least && number <= (double)option->most;
}

bool cli_read_text(void *at, const char *text, const cli_option *option) {
    (void)option;
    *(const char **)at = text;
    return *text != '\0';
}

bool cli_read_choice(void *at, const char *text, const cli_option *option) {
    const size_t length = strlen(text);
    int number = (int)option->least;
    for (const char *word = option->values; *word; number++) {
        const size_t size = strcspn(word, " ");
        if (size == length && memcmp(word, text, size) == 0) {
            *(int *)at = number;
            return true;
        }
        word += size + (word[size] == ' ');
    }
    return false;
}

/* ---------------------------------------------------------------------------------------------------- complaints -- */

/* "PROGRAM COMMAND". */
static void print_name(FILE *to, const cli *c, const cli_command *command) {
    const bool named = command && *command->name;
    fprintf(to, "%s%s%s", c->program, named ? " " : "", named ? command->name : "");
}

int cli_wrong(const cli *c, const cli_command *command, const char *format, ...) {
    va_list values;
    va_start(values, format);
    print_name(stderr, c, command);
    fputs(": ", stderr);
    vfprintf(stderr, format, values);
    fputc('\n', stderr);
    va_end(values);
    return CLI_USAGE;
}

int cli_missing(const cli *c, const cli_command *command, const char *what) {
    print_name(stderr, c, command);
    fprintf(stderr, ": %s is missing, as in: ", what);
    print_name(stderr, c, command);
    fprintf(stderr, " %s\n", command->example);
    return CLI_USAGE;
}

static const char *needs(const cli *c, const cli_option *o) {
    static const cli_kind known[] = {{"FILE", "a file"}, {"FOLDER", "a folder"}, {"SECONDS", "a number of seconds"}};
    for (int i = 0; i < c->kind_count; i++)
        if (strcmp(c->kinds[i].argument, o->argument) == 0)
            return c->kinds[i].needs;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(known[i].argument, o->argument) == 0)
            return known[i].needs;
    return "a value";
}

/* "PROGRAM COMMAND: --rows needs a number", with its range where the value (NULL: there is none) is out of it. */
static int refuse(const cli *c, const cli_command *command, const cli_option *o, const char *value) {
    const bool number = o->read == cli_read_number || o->read == cli_read_int || o->read == cli_read_real;
    const bool file = o->values && o->values[0] == '@';
    const char *example = file ? strchr(o->values, ' ') : o->values;
    print_name(stderr, c, command);
    fprintf(stderr, ": %s needs ", o->name);
    if (o->read == cli_read_choice) {
        fputs("one of ", stderr);
        for (const char *at = o->values; *at; at++) /* a trailing space ends a list */
            if (*at != ' ')
                fputc(*at, stderr);
            else if (at[1])
                fputs(", ", stderr);
    } else if (number) {
        fputs("a number", stderr);
        if (value)
            fprintf(stderr, " from %lld to %lld", (long long)o->least, (long long)o->most);
    } else
        fputs(needs(c, o), stderr);
    if (value)
        fprintf(stderr, ", not \"%s\"", value);
    if (example && o->read != cli_read_choice && (!value || !number)) {
        example += file;
        const bool quote = file && strchr(example, ' ');
        fprintf(stderr, ", as in: %s %s%.*s%s", o->name, quote ? "\"" : "",
                (int)(file ? strlen(example) : strcspn(example, " ")), example, quote ? "\"" : "");
    }
    fputc('\n', stderr);
    return CLI_USAGE;
}

/* -------------------------------------------------------------------------------------------------- lost output -- */

/* The program that check_output() ends. */
static const char *ending_program;
static int ending_status;

/* Output that stdio still holds may not fit on the disk either, and only the end of main finds that out. */
static void check_output(void) {
    static const char sentence[] = "standard output was not written completely";
    const bool lost = ferror(stdout) != 0;
    if (fflush(stdout) != 0)
        fprintf(stderr, "%s: %s: %s\n", ending_program, sentence, strerror(errno));
    else if (lost)
        fprintf(stderr, "%s: %s\n", ending_program, sentence);
    else
        return;
    _Exit(ending_status);
}

void cli_result_is_written(void) { ending_status = CLI_GOOD; }

/* No file that is opened later may get the number of a closed standard stream: what is printed would go into it.
 * Writing to it, and reading from it, fails as before. */
static void fill_standard_streams(void) {
#ifndef _WIN32 /* where handles are not such numbers */
    for (int number = 0; number <= 2; number++)
        if (fcntl(number, F_GETFD) < 0 && open("/dev/null", number == 0 ? O_WRONLY : O_RDONLY) != number)
            _Exit(1);
#endif
}

static void check_output_at_exit(const cli *c) {
    if (ending_program == NULL && atexit(check_output) != 0)
        fprintf(stderr, "%s: lost output will not be noticed: atexit() failed\n", c->program);
    ending_program = c->program;
    ending_status = c->failure != 0 ? c->failure : 1;
}

/* ------------------------------------------------------------------------------------------------------- parsing -- */

static int unknown(const cli *c, const cli_command *command, const char *what, const char *word) {
    cli_wrong(c, command, "%s %s (see %s%s%s --help)", what, word, c->program, *command->name ? " " : "",
              command->name);
    return CLI_USAGE;
}

static const cli_option *option_named(const cli *c, const char *word, size_t length) {
    for (int i = 0; i < c->option_count; i++) {
        const cli_option *o = &c->options[i];
        if ((strlen(o->name) == length && memcmp(o->name, word, length) == 0) ||
            (cli_is_output(o) && length == 2 && memcmp(word, "-o", 2) == 0))
            return o;
    }
    return NULL;
}

/* Reads an option, and the word after it if that is its value: *took_next. */
static int read_option(const cli *c, const char *word, const char *next, const cli_command *command, void *options,
                       bool *took_next) {
    const size_t length = strcspn(word, "=");
    const bool has_value = word[length] == '=';
    const cli_option *o = option_named(c, word, length);
    if (!o)
        return unknown(c, command, "there is no option", word);
    if (!(o->commands & command->bit))
        return unknown(c, command, "does not take", o->name);
    void *at = (char *)options + o->offset;
    if (!o->argument && has_value)
        return cli_wrong(c, command, "%s takes no value", o->name);
    if (!o->read) {
        *(bool *)at = true;
        return -1;
    }
    const char *value = !o->argument ? "" : has_value ? word + length + 1 : next;
    if (!value || !o->read(at, value, o))
        return refuse(c, command, o, value);
    *took_next = value == next;
    return -1;
}

static const cli_command *command_named(const cli *c, const char *name) {
    for (int i = 0; i < c->command_count; i++)
        if (strcmp(c->commands[i].name, name) == 0)
            return &c->commands[i];
    return NULL;
}

/* Words that end the program wherever they stand. */
static bool ends_here(const cli *c, const char *word, const cli_command *only) {
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
        cli_print_help(c, only);
    else if (strcmp(word, "--version") == 0)
        printf("%s %s\n", c->program, c->version);
    else if (strcmp(word, "--man") == 0)
        cli_print_man(c);
    else if (strcmp(word, "--completion") == 0)
        cli_print_completion(c);
    else
        return false;
    return true;
}

/* Finds the command, of which *first is the index in argv behind it; -1, or what the program ends with. */
static int find_command(const cli *c, int argc, char **argv, const cli_command **command, int *first) {
    const char *word = argc > 1 ? argv[1] : "";
    *first = 1;
    *command = &c->commands[0];
    if (!cli_has_commands(c))
        return -1;
    if (ends_here(c, word, NULL))
        return CLI_GOOD;
    if (c->first_is_default && (argc < 2 || word[0] == '-'))
        return -1;
    *first = 2;
    *command = command_named(c, word);
    if (*command)
        return -1;
    fprintf(stderr, "%s: ", c->program);
    if (argc > 1)
        fprintf(stderr, "there is no command %s;", word);
    else
        fputs("a command is missing;", stderr);
    for (int i = 0; i < c->command_count; i++)
        fprintf(stderr, "%s %s", i == 0 ? " there are" : i + 1 < c->command_count ? "," : " and", c->commands[i].name);
    fprintf(stderr, " (see %s --help)\n", c->program);
    return CLI_USAGE;
}

int cli_read(const cli *c, int argc, char **argv, void *options, const cli_command **command, const char **words,
             int *word_count) {
    int first;
    fill_standard_streams();
    check_output_at_exit(c);
    const int status = find_command(c, argc, argv, command, &first);
    *word_count = 0;
    if (status >= 0)
        return status;
    bool more_options = true;
    for (int i = first; i < argc; i++) {
        const bool passed = c->passes && strncmp(argv[i], c->passes, strlen(c->passes)) == 0;
        const bool option_like = more_options && argv[i][0] == '-' && argv[i][1] != '\0' && !passed;
        if (option_like && strcmp(argv[i], "--") == 0) {
            more_options = false;
        } else if (option_like && ends_here(c, argv[i], cli_has_commands(c) ? *command : NULL)) {
            return CLI_GOOD;
        } else if (option_like) {
            bool took_next = false;
            const int wrong = read_option(c, argv[i], i + 1 < argc ? argv[i + 1] : NULL, *command, options, &took_next);
            if (wrong >= 0)
                return wrong;
            i += took_next;
        } else if (*word_count == (*command)->most_words || (c->passes && !passed)) {
            return unknown(c, *command, "takes no argument", argv[i]);
        } else {
            words[(*word_count)++] = argv[i];
        }
    }
    if (*word_count >= (*command)->least_words)
        return -1;
    char what[64]; /* "FILE" of "FILE... -o FILE" */
    snprintf(what, sizeof what, "%.*s", (int)strcspn((*command)->arguments, ". "), (*command)->arguments);
    return cli_missing(c, *command, what);
}

char *cli_join(const char *const *words, int count, const char *otherwise) {
    size_t size = strlen(otherwise) + 1;
    for (int i = 0; i < count; i++)
        size += strlen(words[i]) + 1;
    char *all = calloc(size, 1);
    for (int i = 0; i < count && all; i++) {
        strcat(all, words[i]);
        if (i + 1 < count)
            strcat(all, " ");
    }
    if (all && count == 0)
        strcpy(all, otherwise);
    return all;
}
