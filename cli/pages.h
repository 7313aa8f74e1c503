/* Pages printed from the tables of a command line (cli.h). */
#ifndef CLI_PAGES_H
#define CLI_PAGES_H

#include "cli.h"

void cli_print_help(const cli *c, const cli_command *only); /* of one command, or of all: NULL */
void cli_print_man(const cli *c);
void cli_print_completion(const cli *c);

/* --output has a letter. */
bool cli_is_output(const cli_option *option);

/* Does the program have commands? */
bool cli_has_commands(const cli *c);

#endif
