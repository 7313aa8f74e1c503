/* Rules: measured ones from the tuning file, before defaults. A row of the file, an adapter's (fovea/tuning.h), is
 *     ggml.mul_mat isa=avx2 threads=8 type=q4_K : take=1 : gain=...
 *     ggml.flash_attn_ext isa=avx2 threads=8 type=q8_0 : take=1 least=500000 spread=4 : gain=...
 * with the words of fg_rule; what is not said is the default's. fovea-tune-ggml writes them. Rows that ship may leave
 * threads= out.
 *
 * The defaults were measured with ggml-fovea-bench (docs/lab/ggml.md). The first that fits counts.
 *   MUL_MAT         On AVX2 ggml's repacked q4_K is faster with 4 to 16 rows. Files with q4_K have q5_K and q6_K, too:
 *                   changing backends within layers would cost what these gain.
 *   FLASH_ATTN_EXT  So little work takes a few microseconds, no more than ggml's scheduler does to change backends.
 *                   Quantized: a thread widens a key head. ggml's threads take a head of q each. */
#include "rules.h"

#include <stdlib.h>
#include <string.h>

enum { ANY_TIER = -1, LEAST = 300000 };

static const struct {
    int isa;
    fg_op op;
    const char *type; /* "": any */
    fg_rule rule;
} defaults[] = {
    {FOVEA_ISA_SCALAR, FG_MUL_MAT, "", {.take = 0}}, /* portable code is slower than ggml's */
    {FOVEA_ISA_SCALAR, FG_FLASH_ATTN_EXT, "", {.take = 0}},
    {FOVEA_ISA_AVX2, FG_MUL_MAT, "q4_K", {.take = 0}},
    {FOVEA_ISA_AVX2, FG_MUL_MAT, "q5_K", {.take = 0}},
    {FOVEA_ISA_AVX2, FG_MUL_MAT, "q6_K", {.take = 0}},
    {ANY_TIER, FG_MUL_MAT, "", {.take = 1}},
    {ANY_TIER, FG_FLASH_ATTN_EXT, "q8_0", {1, LEAST, 2}},
    {ANY_TIER, FG_FLASH_ATTN_EXT, "q4_0", {1, LEAST, 2}},
    {ANY_TIER, FG_FLASH_ATTN_EXT, "", {1, LEAST, 0}},
};
enum { DEFAULTS = sizeof defaults / sizeof defaults[0] };

static const struct {
    fg_op op;
    const char *name; /* a row's first word */
} tuned[] = {{FG_FLASH_ATTN_EXT, "ggml.flash_attn_ext"}, {FG_MUL_MAT, "ggml.mul_mat"}};
enum { TUNED = sizeof tuned / sizeof tuned[0], MOST_MEASURED = 32 };

static const struct {
    const char *name;
    size_t offset; /* in fg_rule */
    int64_t most;
} words[] = {{"take", offsetof(fg_rule, take), 1},
             {"least", offsetof(fg_rule, least), INT64_MAX},
             {"spread", offsetof(fg_rule, spread), 1 << 20}};

static struct {
    fg_op op;
    const fg_type *type;
    fg_rule rule;
} measured[MOST_MEASURED];
static int measured_count;

static bool is_for(int row, fovea_isa isa, fg_op op, const fg_type *type) {
    return defaults[row].op == op && (defaults[row].isa == ANY_TIER || defaults[row].isa == (int)isa) &&
           (!*defaults[row].type || !strcmp(defaults[row].type, type->name));
}

static const fg_rule *measured_for(fg_op op, const fg_type *type) {
    for (int i = 0; i < measured_count; i++)
        if (measured[i].op == op && measured[i].type == type)
            return &measured[i].rule;
    return NULL;
}

fg_rule fg_rule_for(fovea_isa isa, fg_op op, const fg_type *type) {
    const fg_rule *own = measured_for(op, type);
    if (own)
        return *own;
    int row = 0;
    while (row < DEFAULTS && !is_for(row, isa, op, type))
        row++;
    return row < DEFAULTS ? defaults[row].rule : (fg_rule){0};
}

bool fg_rules_take(fovea_isa isa) {
    const fg_type *type;
    for (int i = 0; (type = fg_type_at(i)); i++)
        for (int op = 0; op < TUNED; op++)
            if (fg_rule_for(isa, tuned[op].op, type).take)
                return true;
    return false;
}

/* ------------------------------------------------------------------------------------------------------- reading -- */

static const fg_type *type_named(const char *name, size_t length) {
    const fg_type *type;
    for (int i = 0; (type = fg_type_at(i)); i++)
        if (strlen(type->name) == length && !strncmp(type->name, name, length))
            break;
    return type;
}

/* A choice, "least=500000", into the rule. */
static bool read_word(const char *word, size_t length, fg_rule *rule) {
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const size_t name = strlen(words[i].name), digits = length > name ? length - name - 1 : 0;
        const char *value = word + name + 1;
        if (digits == 0 || digits > 18 || strncmp(word, words[i].name, name) || word[name] != '=' ||
            strspn(value, "0123456789") < digits)
            continue;
        const int64_t number = strtoll(value, NULL, 10);
        memcpy((char *)rule + words[i].offset, &number, sizeof number);
        return number <= words[i].most;
    }
    return false;
}

/* "type=q8_0 : take=1 least=500000 : " and anything: the default's rule, changed. */
static bool read_row(const char *at, fovea_isa isa, fg_op op, const fg_type **type, fg_rule *rule) {
    const size_t key = strcspn(at, " ");
    if (strncmp(at, "type=", 5) || !(*type = type_named(at + 5, key - 5)) || strncmp(at + key, " : ", 3))
        return false;
    *rule = fg_rule_for(isa, op, *type);
    for (at += key + 3; *at && *at != ':';) {
        const size_t length = strcspn(at, " ");
        if (!read_word(at, length, rule))
            return false;
        at += length + (at[length] == ' ');
    }
    return true;
}

static void take_row(const fovea_tuning_match *match, fovea_isa isa, fg_op op, bool debug) {
    const fg_type *type;
    fg_rule rule;
    const char *at = match->row + strcspn(match->row, " ");
    while (!strncmp(at, " isa=", 5) || !strncmp(at, " threads=", 9)) /* the library has read these */
        at += 1 + strcspn(at + 1, " ");
    const bool good = *at == ' ' && read_row(at + 1, isa, op, &type, &rule);
    if (good && measured_for(op, type))
        return; /* an earlier row is nearer to this CPU */
    if (good && measured_count < MOST_MEASURED) {
        measured[measured_count].op = op;
        measured[measured_count].type = type;
        measured[measured_count++].rule = rule;
    }
    if (debug)
        fg_say("%s line %d of a tuning file: %.200s", good ? "by" : "not understood, and left out:", match->line,
               match->row);
}

void fg_rules_load(const fovea_context *context, bool debug) {
    fovea_context_facts info;
    fovea_tuning_match match;
    fovea_context_facts_init(&info);
    fovea_tuning_match_init(&match);
    measured_count = 0;
    if (fovea_context_info(context, &info) != FOVEA_OK)
        return;
    for (int op = 0; op < TUNED; op++)
        for (int i = 0;
             fovea_tuning_get_adapter_row(NULL, context, tuned[op].name, i, &match) == FOVEA_OK && match.found; i++)
            take_row(&match, info.isa, tuned[op].op, debug);
}
