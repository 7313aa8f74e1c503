/* The environment.
 *   FOVEA_GGML=all          every operation that is served, faster or not: results do not depend on threads or CPU
 *   FOVEA_GGML=none         the backend is loaded and takes nothing
 *   FOVEA_GGML=NAME[,NAME]  these operations, faster or not
 *   unset or empty          each operation where it was measured to be faster: none on the scalar tier
 *   FOVEA_GGML_ARITHMETIC=exact|q16|q8  what products with quantised weights compute with; unset or empty: q16
 *   FOVEA_DEBUG=1           says what was taken when a backend ends; the library says what it chose */
#include "backend.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static bool none, always[FG_OPERATIONS], listed, debug;
static fovea_arithmetic arithmetic = FOVEA_ARITHMETIC_DEFAULT;

static int find(const char *word, size_t length) {
    for (int i = 0; i < FG_OPERATIONS; i++)
        if (strlen(fg_operations[i].name) == length && !memcmp(fg_operations[i].name, word, length))
            return i;
    return -1;
}

static void read_list(const char *words) {
    listed = true;
    for (const char *word = words;; word++) {
        const size_t length = strcspn(word, ",");
        const int i = find(word, length);
        if (i < 0) {
            fg_say("FOVEA_GGML: \"%.*s\" is not all, none or an operation that is served; nothing is taken",
                   (int)length, word);
            none = true;
            return;
        }
        always[i] = true;
        word += length;
        if (!*word)
            return;
    }
}

static void read_arithmetic(const char *word) {
    static const fovea_arithmetic known[] = {FOVEA_ARITHMETIC_EXACT, FOVEA_ARITHMETIC_Q16, FOVEA_ARITHMETIC_Q8};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (!strcmp(word, fovea_arithmetic_name(known[i]))) {
            arithmetic = known[i];
            return;
        }
    fg_say("FOVEA_GGML_ARITHMETIC: \"%s\" is not exact, q16 or q8; nothing is taken", word);
    none = true;
}

static fovea_info info;

static void read_info(void) {
    fovea_context *context;
    fovea_info_init(&info);
    if (fg_status(fovea_context_create(NULL, &context), "threads") != GGML_STATUS_SUCCESS)
        return;
    fg_status(fovea_context_info(context, &info), "threads");
    fovea_context_destroy(context);
}

const fovea_info *fg_options_info(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_info);
    return &info;
}

void fg_options_load(void) {
    const char *words = getenv("FOVEA_GGML"), *debugging = getenv("FOVEA_DEBUG");
    debug = debugging && !strcmp(debugging, "1");
    const char *word = getenv("FOVEA_GGML_ARITHMETIC");
    if (word && *word)
        read_arithmetic(word);
    if (!words || !*words) {
        none |= fg_options_info()->isa == FOVEA_ISA_SCALAR;
        return;
    }
    if (!strcmp(words, "none")) {
        none = true;
    } else if (!strcmp(words, "all")) {
        listed = true;
        for (int i = 0; i < FG_OPERATIONS; i++)
            always[i] = true;
    } else {
        read_list(words);
    }
}

bool fg_options_none(void) { return none; }

bool fg_options_listed(void) { return listed; }

bool fg_options_debug(void) { return debug; }

bool fg_options_take(const fg_operation *operation, bool *whatever) {
    *whatever = always[operation - fg_operations];
    return !none && (*whatever || !listed);
}

fovea_arithmetic fg_options_arithmetic(void) { return arithmetic; }
