/* Help, man page and completion of a command line (pages.h). */
#include "pages.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

bool cli_is_output(const cli_option *option) { return strcmp(option->name, "--output") == 0; }

bool cli_has_commands(const cli *c) { return *c->commands[0].name != '\0'; }

/* "run, check": the commands that take an option. */
static void takers(const cli *c, const cli_option *o, char *text, size_t size) {
    size_t n = 0;
    text[0] = '\0';
    for (int i = 0; i < c->command_count && n < size; i++)
        if (o->commands & c->commands[i].bit)
            n += (size_t)snprintf(text + n, size - n, "%s%s", n ? ", " : "", c->commands[i].name);
}

/* Prints the items of "0 good; 1 something failed" by print, one after another. */
static void each_status(const char *statuses, void (*print)(const char *item, int length)) {
    for (const char *at = statuses; *at;) {
        const char *end = strstr(at, "; ");
        const int length = end ? (int)(end - at) : (int)strlen(at);
        print(at, length);
        at += length + (end ? 2 : 0);
    }
}

/* ---------------------------------------------------------------------------------------------------------- help -- */

enum { WIDTH = 80, MOST_INDENT = 24 };

/* Prints words from a column on, broken where the line is full. */
static void print_wrapped(const char *text, int column, int indent) {
    for (; *text; text += *text == ' ') {
        const int length = (int)strcspn(text, " ");
        if (column > indent && column + 1 + length > WIDTH) {
            printf("\n%*s", indent, "");
            column = indent;
        } else if (column > indent)
            column += printf(" ");
        column += printf("%.*s", length, text);
        text += length;
    }
    putchar('\n');
}

/* A name and its meaning, from the column indent on; on the next line if the name is too long. */
static void print_item(const char *name, const char *argument, const char *text, int indent) {
    int column = printf("  %s%s%s", name, *argument ? " " : "", argument);
    if (column + 2 > indent)
        column = printf("\n") - 1;
    printf("%*s", indent - column, "");
    print_wrapped(text, indent, indent);
}

/* A phrase as a paragraph: "Prints the file.". */
static void print_paragraph(const char *phrase) {
    char text[1024];
    snprintf(text, sizeof text, "%c%s.", toupper((unsigned char)*phrase), phrase + 1);
    print_wrapped(text, 0, 0);
}

static void print_status(const char *item, int length) {
    char text[512];
    const int number = (int)strcspn(item, " ");
    snprintf(text, sizeof text, "%.*s", length - number - 1, item + number + 1);
    const int column = printf("  %-3.*s  ", number, item);
    print_wrapped(text, column, column);
}

static void print_lines(const char *title, const char *lines) {
    if (!lines)
        return;
    printf("\n%s\n", title);
    for (const char *at = lines; *at; at += *at == '\n') {
        const int length = (int)strcspn(at, "\n");
        printf("  %.*s\n", length, at);
        at += length;
    }
}

static int indent_of(const cli *c, const cli_command *only) {
    int most = (int)strlen("--help, --version") + 4;
    for (int i = 0; i < c->option_count; i++) {
        const cli_option *o = &c->options[i];
        const int length = (int)(strlen(o->name) + (o->argument ? strlen(o->argument) + 1 : 0)) + 4;
        if ((!only || o->commands & only->bit) && length > most)
            most = length;
    }
    return most < MOST_INDENT ? most : MOST_INDENT;
}

static void print_usage(const cli *c, const cli_command *only) {
    printf("usage: %s", c->program);
    if (!only)
        fputs(c->first_is_default ? " [COMMAND]" : " COMMAND", stdout);
    else if (*only->name)
        printf(" %s", only->name);
    printf(" [OPTION]...%s%s\n", only && *only->arguments ? " " : "", only ? only->arguments : "");
    print_paragraph(only ? only->help : c->summary);
}

void cli_print_help(const cli *c, const cli_command *only) {
    if (!cli_has_commands(c))
        only = &c->commands[0];
    const int indent = indent_of(c, only);
    print_usage(c, only);
    if (!only)
        puts("\ncommands");
    for (int i = 0; i < c->command_count && !only; i++)
        print_item(c->commands[i].name, c->commands[i].arguments, c->commands[i].help, indent);
    puts("\noptions");
    bool output = false;
    for (int i = 0; i < c->option_count; i++) {
        const cli_option *o = &c->options[i];
        char names[128], text[1024];
        if (only && !(o->commands & only->bit))
            continue;
        output = output || cli_is_output(o);
        takers(c, o, names, sizeof names);
        snprintf(text, sizeof text, only ? "%s" : "%s [%s]", o->help, names);
        print_item(o->name, o->argument ? o->argument : "", text, indent);
    }
    if (output)
        print_item("-o", "FILE", "same as --output", indent);
    print_item("--help, --version", "", "print this help, or the version", indent);
    if (c->more)
        c->more();
    print_lines("files", c->files);
    print_lines("environment", c->environment);
    puts("\nexit status");
    each_status(c->exit_statuses, print_status);
    if (only && *only->name && *only->example)
        printf("\nexample\n  %s %s %s\n", c->program, only->name, only->example);
    else
        print_lines("examples", c->examples);
}

/* ----------------------------------------------------------------------------------------------------------- man -- */

static void print_roff_part(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (text[i] == '-')
            fputs("\\-", stdout);
        else
            putchar(text[i]);
}

static void print_roff(const char *text) { print_roff_part(text, strlen(text)); }

static void print_roff_status(const char *item, int length) {
    const int number = (int)strcspn(item, " ");
    printf(".TP\n\\fB%.*s\\fR\n", number, item);
    print_roff_part(item + number + 1, (size_t)(length - number - 1));
    putchar('\n');
}

static void print_roff_lines(const char *title, const char *lines) {
    if (!lines)
        return;
    printf(".SH %s\n.nf\n", title);
    print_roff(lines);
    puts("\n.fi");
}

void cli_print_man(const cli *c) {
    const bool several = cli_has_commands(c);
    fputs(".TH ", stdout);
    for (const char *at = c->program; *at; at++)
        printf(*at == '-' ? "\\-" : "%c", *at >= 'a' && *at <= 'z' ? *at - 'a' + 'A' : *at);
    printf(" 1 \"\" \"Fovea %s\" \"User Commands\"\n.SH NAME\n", c->version);
    print_roff(c->program);
    fputs(" \\- ", stdout);
    print_roff(c->summary ? c->summary : c->commands[0].help);
    fputs("\n.SH SYNOPSIS\n.B ", stdout);
    print_roff(c->program);
    printf("\n%s[\\fIOPTION\\fR]...%s",
           several ? (c->first_is_default ? "[\\fICOMMAND\\fR] " : "\\fICOMMAND\\fR ") : "", several ? "" : " ");
    print_roff(several ? "" : c->commands[0].arguments);
    putchar('\n');
    if (c->description) {
        puts(".SH DESCRIPTION");
        print_roff(c->description);
        putchar('\n');
    }
    if (several)
        puts(".SH COMMANDS");
    for (int i = 0; several && i < c->command_count; i++) {
        printf(".TP\n\\fB%s\\fR ", c->commands[i].name);
        print_roff(c->commands[i].arguments);
        putchar('\n');
        print_roff(c->commands[i].help);
        putchar('\n');
    }
    puts(".SH OPTIONS");
    for (int i = 0; i < c->option_count; i++) {
        const cli_option *o = &c->options[i];
        char names[128];
        fputs(".TP\n\\fB", stdout);
        print_roff(o->name);
        printf("\\fR%s \\fI%s\\fR\n", cli_is_output(o) ? ", \\fB\\-o\\fR" : "", o->argument ? o->argument : "");
        print_roff(o->help);
        takers(c, o, names, sizeof names);
        if (several)
            printf(" (%s)", names);
        putchar('\n');
    }
    if (c->more) {
        puts(".SH NOTES\n.nf");
        c->more();
        puts(".fi");
    }
    puts(".SH EXIT STATUS");
    each_status(c->exit_statuses, print_roff_status);
    print_roff_lines("FILES", c->files);
    print_roff_lines("ENVIRONMENT", c->environment);
    print_roff_lines("EXAMPLES", c->examples);
}

/* ---------------------------------------------------------------------------------------------------- completion -- */

void cli_print_completion(const cli *c) {
    char function[64];
    snprintf(function, sizeof function, "_%s", c->program);
    for (char *at = function; *at; at++)
        *at = *at == '-' ? '_' : *at;
    printf("# bash completion of %s, made by: %s --completion\n%s() {\n"
           "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words\n    case $before in\n",
           c->program, c->program, function);
    for (int i = 0; i < c->option_count; i++) {
        const cli_option *o = &c->options[i];
        if (!o->argument)
            continue;
        printf("    %s%s) ", o->name, cli_is_output(o) ? "|-o" : "");
        if (!o->values || strncmp(o->values, "@text", 5) == 0)
            fputs("COMPREPLY=()", stdout);
        else if (o->values[0] == '@')
            printf("COMPREPLY=($(compgen -%c -- \"$word\"))", o->values[1]); /* f, or d of "@directory" */
        else
            printf("COMPREPLY=($(compgen -W \"%s\" -- \"$word\"))", o->values);
        puts("; return;;");
    }
    puts("    esac\n    case ${COMP_WORDS[1]} in");
    for (int i = 0; cli_has_commands(c) && i < c->command_count; i++) {
        printf("    %s) words=\"", c->commands[i].name);
        for (int n = 0; n < c->option_count; n++)
            if (c->options[n].commands & c->commands[i].bit)
                printf("%s ", c->options[n].name);
        puts("--help\";;");
    }
    fputs("    *) words=\"", stdout);
    for (int i = 0; cli_has_commands(c) && i < c->command_count; i++)
        printf("%s ", c->commands[i].name);
    for (int n = 0; n < c->option_count && (c->first_is_default || !cli_has_commands(c)); n++)
        if (c->options[n].commands & c->commands[0].bit)
            printf("%s ", c->options[n].name);
    const bool file_first = !cli_has_commands(c) && c->commands[0].most_words > 0;
    printf("--help --version\";;\n    esac\n    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
           "    [[ $word == -*%s ]] || COMPREPLY+=($(compgen -f -- \"$word\"))\n}\n"
           "complete -F %s %s\n",
           file_first ? "" : " || $COMP_CWORD == 1", function, c->program);
}
