/* The command line of demonstrations, which take no words. Their sources are what a user would write, and what pages
 * show whole: CMakeLists.txt compiles their main() as demo_main(), and says here what they are called and show. */
#include "cli.h"

#include <fovea/fovea.h>

int demo_main(void);

int main(int argc, char **argv) {
    static const cli_command show = {"", 1, 0, 0, "", "", FOVEA_DEMO_SHOWS};
    const cli program = {.program = FOVEA_DEMO,
                         .version = fovea_version(),
                         .exit_statuses = "0 success; 1 failure; 2 wrong usage",
                         .commands = &show,
                         .command_count = 1};
    const cli_command *only;
    int words;
    const int status = cli_read(&program, argc, argv, NULL, &only, NULL, &words);
    return status >= 0 ? status : demo_main();
}
