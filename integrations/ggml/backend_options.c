/* The environment.
 *   FOVEA_GGML=all          every operation that is served, faster or not: results do not depend on threads or CPU
 *   FOVEA_GGML=none         the backend is loaded and takes nothing
 *   FOVEA_GGML=NAME[,NAME]  these operations, faster or not
 *   unset or empty          each operation where it was measured to be faster (rules.c): none on the scalar tier
 *   FOVEA_GGML_ARITHMETIC=exact|q16|q8  what products with quantized weights compute with; unset or empty: q16
 * Words of any case, with blanks around them; FOVEA_GGML may have empty ones. An unknown one is said, and left out.
 *   FOVEA_DEBUG=1           says what was taken when a backend ends; the library says what it chose */
#define _DEFAULT_SOURCE
#include "backend_options.h"
#include "rules.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool always[FG_OPERATIONS], listed, debug;
static const char *none; /* why nothing is taken */
static fovea_arithmetic arithmetic = FOVEA_ARITHMETIC_DEFAULT;

typedef struct word {
    const char *at;
    size_t length;
} word;

static const char blanks[] = " \t\r\n";

/* From here to the next comma, without the blanks around it. */
static word read_word(const char *at) {
    at += strspn(at, blanks);
    size_t length = strcspn(at, ",");
    while (length > 0 && strchr(blanks, at[length - 1]))
        length--;
    return (word){at, length};
}

static bool is(word w, const char *name) { return strlen(name) == w.length && !strncasecmp(w.at, name, w.length); }

static bool take(word w) {
    bool known = is(w, "all");
    for (int i = 0; i < FG_OPERATIONS; i++)
        if (is(w, "all") || is(w, fg_op_names[i]))
            always[i] = listed = known = true;
    return known;
}

static void read_list(const char *words) {
    for (const char *at = words;; at++) {
        const word w = read_word(at);
        if (is(w, "none"))
            none = "FOVEA_GGML says none";
        else if (w.length > 0 && !take(w))
            fg_say("FOVEA_GGML: \"%.*s\" is not all, none or an operation that is served; it is left out",
                   (int)w.length, w.at);
        at += strcspn(at, ",");
        if (!*at)
            return;
    }
}

static void read_arithmetic(const char *text) {
    static const fovea_arithmetic known[] = {FOVEA_ARITHMETIC_EXACT, FOVEA_ARITHMETIC_Q16, FOVEA_ARITHMETIC_Q8};
    const word w = read_word(text);
    const bool one = !strchr(text, ',');
    bool found = one && w.length == 0;
    for (size_t i = 0; one && i < sizeof known / sizeof known[0]; i++)
        if (is(w, fovea_arithmetic_name(known[i]))) {
            arithmetic = known[i];
            found = true;
        }
    if (!found)
        fg_say("FOVEA_GGML_ARITHMETIC: \"%s\" is not exact, q16 or q8; it is left out", text);
}

static fovea_context_facts info;

static void read_info(void) {
    fovea_context *context;
    fovea_context_facts_init(&info);
    if (fg_status(fovea_context_create(NULL, &context), "threads") != GGML_STATUS_SUCCESS)
        return;
    fg_status(fovea_context_info(context, &info), "threads");
    fg_rules_load(context, arithmetic, debug);
    fovea_context_destroy(context);
}

const fovea_context_facts *fg_options_info(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_info);
    return &info;
}

void fg_options_load(void) {
    const char *words = getenv("FOVEA_GGML"), *debugging = getenv("FOVEA_DEBUG"),
               *how = getenv("FOVEA_GGML_ARITHMETIC");
    debug = debugging && !strcmp(debugging, "1");
    read_arithmetic(how ? how : "");
    read_list(words ? words : "");
    if (!listed && !none && !fg_rules_take(fg_options_info()->isa))
        none = "portable code is not faster than ggml; FOVEA_GGML=all takes it all the same";
}

const char *fg_options_none(void) { return none; }

bool fg_options_listed(void) { return listed; }

bool fg_options_debug(void) { return debug; }

bool fg_options_take(fg_op op, bool *whatever) {
    *whatever = always[op];
    return !none && (*whatever || !listed);
}

fovea_arithmetic fg_options_arithmetic(void) { return arithmetic; }
