/* Loads the backend, whose line on stderr says what the environment asks for: options.sh reads it. */
#include "problem.h"

int main(void) {
    load_fovea();
    return 0;
}
