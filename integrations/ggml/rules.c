/* Rules: measured ones from tuning files, before defaults. A row of a file, an adapter's (fovea/tuning.h), is
 *     ggml.mul_mat isa=avx2 threads=8 type=q4_K rows=9..64 : take=1 : gain=...
 *     ggml.flash_attn_ext isa=avx2 threads=8 type=q8_0 : take=1 least=500000 spread=4 : gain=...
 *     ggml.mul_mat isa=avx512 type=q6_K/words : take=1 : ...
 * with the words of fg_rule; what is not said is the default's, and without rows= it is for any number of them. A class
 * of shapes behind the type comes before rows without one, unless those are nearer to this CPU or arithmetic.
 * ggml.mul_mat_q8 comes before ggml.mul_mat where FOVEA_GGML_ARITHMETIC=q8 makes products faster.
 * fovea-tune-ggml writes them. Rows that ship may leave threads= out.
 *
 * The defaults are for CPUs that have no rows. MUL_MAT: types with which whole models were faster, by 6% at least, on
 * each CPU that was measured (docs/lab/ggml.md); others may be slower, and stay with ggml. FLASH_ATTN_EXT: so little
 * work takes a few microseconds, no more than ggml's scheduler does to change backends. Quantized: a thread
 * widens a key head. ggml's threads take a head of q each. Portable code is slower than ggml's. */
#include "rules.h"

#include <stdlib.h>
#include <string.h>

enum { LEAST = 300000 };

static const struct {
    fg_op op;
    const char *type; /* "": any */
    fg_rule rule;
} defaults[] = {
    {FG_MUL_MAT, "f32", {.take = 1}},           {FG_MUL_MAT, "f16", {.take = 1}},
    {FG_MUL_MAT, "q8_0", {.take = 1}},          {FG_MUL_MAT, "q4_1", {.take = 1}},
    {FG_FLASH_ATTN_EXT, "q8_0", {1, LEAST, 2}}, {FG_FLASH_ATTN_EXT, "q4_0", {1, LEAST, 2}},
    {FG_FLASH_ATTN_EXT, "", {1, LEAST, 0}},
};
enum { DEFAULTS = sizeof defaults / sizeof defaults[0] };

static const struct {
    fg_op op;
    const char *name;            /* a row's first word */
    fovea_arithmetic arithmetic; /* DEFAULT: any */
} tuned[] = {{FG_FLASH_ATTN_EXT, "ggml.flash_attn_ext", FOVEA_ARITHMETIC_DEFAULT},
             {FG_MUL_MAT, "ggml.mul_mat_q8", FOVEA_ARITHMETIC_Q8},
             {FG_MUL_MAT, "ggml.mul_mat", FOVEA_ARITHMETIC_DEFAULT},
             {FG_MUL_MAT_ID, "ggml.mul_mat_id", FOVEA_ARITHMETIC_DEFAULT}};
enum { TUNED = sizeof tuned / sizeof tuned[0], MOST_MEASURED = 128 };

static const struct {
    const char *name;
    size_t offset; /* in fg_rule */
    int64_t most;
} words[] = {{"take", offsetof(fg_rule, take), 1},
             {"least", offsetof(fg_rule, least), INT64_MAX},
             {"spread", offsetof(fg_rule, spread), 1 << 20}};

static const char *const shapes[FG_SHAPES] = {"", "words", "down"};

fg_shape fg_shape_of(int64_t in, int64_t out) {
    enum { LEAST_WORDS = 24000, WORDS_OF_CHANNEL = 6, INPUTS_OF_OUTPUT = 2 };
    if (out >= LEAST_WORDS && out >= WORDS_OF_CHANNEL * in)
        return FG_SHAPE_WORDS;
    return in >= INPUTS_OF_OUTPUT * out ? FG_SHAPE_DOWN : FG_SHAPE_ANY;
}

typedef struct measured_rule {
    fg_op op;
    const fg_type *type;
    fg_shape shape;
    int source; /* another number in another file, or for any arithmetic */
    int64_t least_rows, most_rows;
    fg_rule rule;
} measured_rule;
static measured_rule measured[MOST_MEASURED];
static int measured_count;

static fg_rule default_for(fovea_isa isa, fg_op op, const fg_type *type) {
    int row = isa == FOVEA_ISA_SCALAR ? DEFAULTS : 0;
    while (row < DEFAULTS &&
           (defaults[row].op != op || (*defaults[row].type && strcmp(defaults[row].type, type->name))))
        row++;
    return row < DEFAULTS ? defaults[row].rule : (fg_rule){0};
}

/* The first that is for this shape and one of these numbers of rows, from number `from` on; measured_count: none is. */
static int find(int from, fg_op op, const fg_type *type, fg_shape shape, int64_t least_rows, int64_t most_rows) {
    while (from < measured_count &&
           (measured[from].op != op || measured[from].type != type || measured[from].shape != shape ||
            measured[from].least_rows > most_rows || measured[from].most_rows < least_rows))
        from++;
    return from;
}

fg_rule fg_rule_for(fovea_isa isa, fg_op op, const fg_type *type, fg_shape shape, int64_t rows) {
    const int64_t least = rows ? rows : 1, most = rows ? rows : INT64_MAX;
    int i = find(0, op, type, shape, least, most);
    if (i == measured_count && shape != FG_SHAPE_ANY)
        return fg_rule_for(isa, op, type, FG_SHAPE_ANY, rows);
    if (i == measured_count) /* experts are multiplied as other weights are, unless rows say otherwise */
        return op == FG_MUL_MAT_ID ? fg_rule_for(isa, FG_MUL_MAT, type, FG_SHAPE_ANY, rows)
                                   : default_for(isa, op, type);
    fg_rule rule = measured[i].rule;
    while ((i = find(i + 1, op, type, shape, least, most)) < measured_count)
        rule.take &= measured[i].rule.take;
    return rule;
}

bool fg_rules_take(fovea_isa isa) {
    const fg_type *type;
    for (int i = 0; (type = fg_type_at(i)); i++)
        for (int op = 0; op < TUNED; op++)
            for (int shape = 0; shape < FG_SHAPES; shape++)
                if (fg_rule_for(isa, tuned[op].op, type, (fg_shape)shape, 0).take)
                    return true;
    return false;
}

/* ------------------------------------------------------------------------------------------------------- reading -- */

static bool is_word(const char *word, const char *at, size_t length) {
    return strlen(word) == length && !strncmp(word, at, length);
}

/* "q8_0" or "q8_0/words" into the rule; where it ends, or NULL. */
static const char *read_type(const char *at, measured_rule *row) {
    const size_t name = strcspn(at, " /"), more = at[name] == '/' ? 1 + strcspn(at + name + 1, " ") : 0;
    int type = 0, shape = FG_SHAPES - 1;
    while ((row->type = fg_type_at(type)) && !is_word(row->type->name, at, name))
        type++;
    while (shape > FG_SHAPE_ANY && !(more && is_word(shapes[shape], at + name + 1, more - 1)))
        shape--;
    row->shape = (fg_shape)shape;
    return row->type && !more == !shape ? at + name + more : NULL;
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

/* " rows=9..64", or nothing, into the rule; where it ends, or NULL. */
static const char *read_rows(const char *at, measured_rule *row) {
    char *end;
    row->least_rows = 1;
    row->most_rows = INT64_MAX;
    if (strncmp(at, " rows=", 6) != 0)
        return at;
    row->least_rows = row->most_rows = strtoll(at + 6, &end, 10);
    if (!strncmp(end, "..any", 5)) {
        row->most_rows = INT64_MAX;
        end += 5;
    } else if (!strncmp(end, "..", 2))
        row->most_rows = strtoll(end + 2, &end, 10);
    return row->least_rows > 0 && row->least_rows <= row->most_rows ? end : NULL;
}

/* "type=q8_0 rows=1 : take=1 least=500000 : " and anything: the default's rule, changed. */
static bool read_row(const char *at, fovea_isa isa, measured_rule *row) {
    if (strncmp(at, "type=", 5) || !(at = read_type(at + 5, row)) || !(at = read_rows(at, row)) ||
        strncmp(at, " : ", 3))
        return false;
    row->rule = default_for(isa, row->op, row->type);
    for (at += 3; *at && *at != ':';) {
        const size_t length = strcspn(at, " ");
        if (!read_word(at, length, &row->rule))
            return false;
        at += length + (at[length] == ' ');
    }
    return true;
}

/* Is there an earlier row that comes before this one? */
static bool is_told(const measured_rule *row) {
    const int same = find(0, row->op, row->type, row->shape, row->least_rows, row->most_rows);
    const int any = find(0, row->op, row->type, FG_SHAPE_ANY, 1, INT64_MAX);
    return same < measured_count || (any < measured_count && measured[any].source != row->source);
}

static void take_row(const fovea_tuning_match *match, fovea_isa isa, int operation, bool debug) {
    measured_rule row = {.op = tuned[operation].op, .source = 2 * operation + (match->reason[0] != '\0')};
    const char *at = match->row + strcspn(match->row, " ");
    while (!strncmp(at, " isa=", 5) || !strncmp(at, " threads=", 9)) /* the library has read these */
        at += 1 + strcspn(at + 1, " ");
    const bool good = *at == ' ' && read_row(at + 1, isa, &row);
    if (good && is_told(&row))
        return; /* nearer to this CPU or arithmetic */
    if (good && measured_count < MOST_MEASURED)
        measured[measured_count++] = row;
    if (debug)
        fg_say("%s line %d of a tuning file: %.200s", good ? "by" : "not understood, and left out:", match->line,
               match->row);
}

void fg_rules_load(const fovea_context *context, fovea_arithmetic arithmetic, bool debug) {
    fovea_context_facts info;
    fovea_tuning_match match;
    fovea_context_facts_init(&info);
    fovea_tuning_match_init(&match);
    measured_count = 0;
    if (fovea_context_info(context, &info) != FOVEA_OK)
        return;
    for (int op = 0; op < TUNED; op++)
        if (tuned[op].arithmetic == FOVEA_ARITHMETIC_DEFAULT || tuned[op].arithmetic == arithmetic)
            for (int i = 0;
                 fovea_tuning_get_adapter_row(NULL, context, tuned[op].name, i, &match) == FOVEA_OK && match.found; i++)
                take_row(&match, info.isa, op, debug);
}
