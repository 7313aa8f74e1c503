/* Lines of tuning files (line.h). */
#include "tuning/line.h"

#include "core/core.h"
#include "dispatch/dispatch.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Words of a part of a line, in their order; the first of them must be there. */
typedef struct part {
    const char *what; /* one of them */
    int count, needed;
    const char *name[2 + FV_TUNING_KEYS];
} part;

static const part cpu_words = {
    "word of a cpu line",
    11,
    11,
    {"vendor", "family", "model", "stepping", "isa", "features", "l1d", "l2", "l3", "cores", "kernels"}};
static const part model_words = {"word of a cpu line", 5, 5, {"vendor", "family", "model", "isa", "features"}};
static const part evidence_words = {"evidence", 5, 5, {"gain", "low", "high", "blocks", "shapes"}};
static const fv_interval any_threads = {1, 1 << 20};

bool fv_tuning_refuse(fv_tuning_reader *r, fovea_status status, const char *format, ...) {
    if (r->status == FOVEA_OK) {
        const int n = snprintf(r->error, FV_FILE_ERROR, "line %d: ", r->line);
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(r->error + n, (size_t)(FV_FILE_ERROR - n), format, arguments);
        va_end(arguments);
        r->status = status;
    }
    return false;
}

/* Notes a word that this build does not know: a newer version's, or a wrong one. */
static bool unknown(fv_tuning_reader *r, const char *name, const char *what) {
    r->unknown = true;
    if (r->version > FV_TUNING_VERSION)
        return fv_tuning_refuse(r, FOVEA_ERROR_VERSION,
                                "\"%s\" is unknown here: the file is of version %d, this library knows version %d",
                                name, r->version, FV_TUNING_VERSION);
    return fv_tuning_wrong(r, "\"%s\" is not a known %s", name, what);
}

/* A part ends with the line or at " : ". */
static bool part_ends(const fv_tuning_reader *r) { return r->at[0] == '\0' || strncmp(r->at, " : ", 3) == 0; }

static bool take_colon(fv_tuning_reader *r, const char *what) {
    if (strncmp(r->at, " : ", 3) != 0)
        return fv_tuning_wrong(r, "%s is missing", what);
    r->at += 2;
    return true;
}

/* Takes the next word of a part that has come up to word number next. Its number; p->count: the part is over; -1: it is
 * wrong. */
static int take_word(fv_tuning_reader *r, const part *p, int next, fv_word *word) {
    if (part_ends(r)) {
        if (next < p->needed)
            fv_tuning_wrong(r, "%s= is missing", p->name[next]);
        return next < p->needed ? -1 : p->count;
    }
    const char *begin = r->at;
    if (begin[0] != ' ' || begin[1] == ' ' || fv_word_next(&r->at, " ", word) != FV_WORD_FOUND)
        return fv_tuning_wrong(r, "\"%.40s\" is not a word after one space", begin), -1;
    const size_t good = strspn(word->value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.,+-");
    if (word->value[good])
        return fv_tuning_wrong(r, "%s=%.40s has other characters than letters, digits and _.,+-", word->name,
                               word->value),
               -1;
    int i = 0;
    while (i < p->count && strcmp(word->name, p->name[i]) != 0)
        i++;
    if (i == p->count)
        return unknown(r, word->name, p->what), -1;
    if (i < next)
        return fv_tuning_wrong(r, "%s= is there twice or out of order", word->name), -1;
    if (i > next && next < p->needed)
        return fv_tuning_wrong(r, "%s= is missing", p->name[next]), -1;
    return i;
}

static bool check_range(fv_tuning_reader *r, const char *name, int64_t number, fv_interval range) {
    if (number >= range.least && number <= range.most)
        return true;
    if (range.most == INT64_MAX)
        return fv_tuning_wrong(r, "%s=%" PRId64 " must be at least %" PRId64, name, number, range.least);
    return fv_tuning_wrong(r, "%s=%" PRId64 " must be from %" PRId64 " to %" PRId64, name, number, range.least,
                           range.most);
}

static bool read_size(fv_tuning_reader *r, const fv_word *word, fv_interval range, int64_t *number) {
    if (!fv_word_number(word->value, number))
        return fv_tuning_wrong(r, "%s=%.40s is not a number", word->name, word->value);
    return check_range(r, word->name, *number, range);
}

/* "7", "7..9" or "7..any", which is up to most. */
static bool interval_of(const char *value, int64_t most, fv_interval *interval) {
    char least[24];
    const size_t length = strcspn(value, ".");
    const char *rest = value + length;
    if (length >= sizeof least)
        return false;
    memcpy(least, value, length);
    least[length] = '\0';
    if (!fv_word_number(least, &interval->least))
        return false;
    interval->most = interval->least;
    if (*rest == '\0')
        return true;
    if (strcmp(rest, "..any") == 0) {
        interval->most = most;
        return true;
    }
    return strncmp(rest, "..", 2) == 0 && fv_word_number(rest + 2, &interval->most);
}

static bool read_interval(fv_tuning_reader *r, const fv_word *word, fv_interval range, fv_interval *interval) {
    if (!interval_of(word->value, range.most, interval))
        return fv_tuning_wrong(r, "%s=%.40s is not a size, such as 7, 7..9 or 7..any", word->name, word->value);
    if (interval->least > interval->most)
        return fv_tuning_wrong(r, "%s=%.40s is empty", word->name, word->value);
    return check_range(r, word->name, interval->least, range) && check_range(r, word->name, interval->most, range);
}

static bool read_isa(fv_tuning_reader *r, const fv_word *word, fv_isa *isa) {
    *isa = fv_isa_named(word->value);
    r->unknown = *isa == FV_ISA_none;
    return !r->unknown || fv_tuning_wrong(r, "isa=%.40s is not a tier of this build", word->value);
}

/* "1.043" as 1043. */
static bool read_thousandths(fv_tuning_reader *r, const fv_word *word, int64_t *value) {
    int64_t fraction, whole;
    char digits[8] = "";
    const size_t point = strcspn(word->value, ".");
    if (point < 4 && strlen(word->value) == point + 4 && strspn(word->value + point + 1, "0123456789") == 3) {
        memcpy(digits, word->value, point);
        if (fv_word_number(digits, &whole) && whole >= 0) {
            memcpy(digits, word->value + point + 1, 4);
            fraction = (digits[0] - '0') * 100 + (digits[1] - '0') * 10 + (digits[2] - '0');
            *value = whole * 1000 + fraction;
            return true;
        }
    }
    return fv_tuning_wrong(r, "%s=%.40s must be as 1.043", word->name, word->value);
}

static bool read_knob(fv_tuning_reader *r, const fv_word *word, const fv_tuning_knob *knob, fv_target target,
                      fv_tuning_value *value) {
    char lacks[FV_FEATURES_TEXT];
    if (knob->kind == FV_TUNING_NAME) {
        const char *name;
        for (int64_t i = 1; (name = knob->name_of(i)) != NULL; i++)
            if (strcmp(name, word->value) == 0)
                value->number = i;
        r->unknown = !value->number;
        return value->number || fv_tuning_wrong(r, "%s=%.60s is not known in this build", knob->name, word->value);
    }
    if (knob->kind == FV_TUNING_NUMBER) {
        if (!read_size(r, word, knob->range, &value->number))
            return false;
        return value->number != 0 || fv_tuning_wrong(r, "%s=0: what is left to the default is left out", word->name);
    }
    value->kernel = fv_kernel_named(word->value);
    r->unknown = !value->kernel;
    if (!value->kernel || !fv_multiply_is(value->kernel, FV_KIND_f32, FV_FORMAT_f32, false))
        return fv_tuning_wrong(r, "%s=%.60s is %s", knob->name, word->value,
                               value->kernel ? "a kernel of another operation or element type"
                                             : "no kernel of this build");
    return fv_kernel_runs(value->kernel, target) ||
           fv_tuning_wrong(r, "%s=%.60s needs %s, which this row's tier and CPU do not have", knob->name, word->value,
                           fv_target_lacks(target, value->kernel->isa, value->kernel->features, lacks));
}

/* A tier that the CPU of the row's section lacks: the row cannot come from there. */
static bool check_tier(fv_tuning_reader *r, fv_isa isa, fv_isa most) {
    return fv_isa_capped(isa, most) == isa ||
           fv_tuning_wrong(r, "isa=%s, but the CPU of these rows has no more than %s", fv_isa_word(isa),
                           fv_isa_word(most));
}

static bool take_shapes(fv_tuning_reader *r, const fv_tuning_operation *operation, fv_target machine, bool model,
                        fv_tuning_row *row) {
    part p = {"key of such a row", 2 + operation->keys, model ? 1 : 2, {"isa", "threads"}};
    for (int i = 0; i < operation->keys; i++) {
        p.name[2 + i] = operation->key[i].name;
        row->key[i] = operation->key[i].range;
    }
    fv_word word;
    for (int i, next = 0; (i = take_word(r, &p, next, &word)) < p.count; next = i + 1)
        if (i < 0 || !(i == 0   ? read_isa(r, &word, &row->isa) && check_tier(r, row->isa, machine.isa)
                       : i == 1 ? read_size(r, &word, any_threads, &row->threads)
                                : read_interval(r, &word, operation->key[i - 2].range, &row->key[i - 2])))
            return false;
    return true;
}

static bool take_choice(fv_tuning_reader *r, const fv_tuning_operation *operation, fv_target target,
                        fv_tuning_row *row) {
    part p = {.what = "choice of such a row", .count = operation->knobs};
    for (int i = 0; i < operation->knobs; i++)
        p.name[i] = operation->knob[i].name;
    fv_word word;
    for (int i, next = 0; (i = take_word(r, &p, next, &word)) < p.count; next = i + 1)
        if (i < 0 || !read_knob(r, &word, &operation->knob[i], target, &row->knob[i]))
            return false;
    return true;
}

static bool take_evidence(fv_tuning_reader *r, fv_tuning_evidence *e) {
    int64_t *const ratios[] = {&e->gain, &e->low, &e->high};
    fv_word word;
    for (int i, next = 0; (i = take_word(r, &evidence_words, next, &word)) < evidence_words.count; next = i + 1) {
        if (i < 0 || (i < 3 && !read_thousandths(r, &word, ratios[i])) ||
            (i == 3 && !read_size(r, &word, (fv_interval){0, 1 << 30}, &e->blocks)))
            return false;
        if (i == 4 && strlen(word.value) >= sizeof e->shapes)
            return fv_tuning_wrong(r, "shapes= is longer than %zu bytes", sizeof e->shapes - 1);
        if (i == 4)
            memcpy(e->shapes, word.value, strlen(word.value) + 1);
    }
    return r->at[0] == '\0' || fv_tuning_wrong(r, "nothing more is expected at \"%.40s\"", r->at);
}

bool fv_tuning_take_row(fv_tuning_reader *r, fv_target machine, bool model, fv_tuning_row *row) {
    char name[32];
    const size_t length = strcspn(r->at, " ");
    snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name - 1), r->at);
    int op = 0;
    while (op < FV_TUNING_OPERATIONS && strcmp(fv_tuning_names[op], name) != 0)
        op++;
    if (op == FV_TUNING_OPERATIONS)
        return unknown(r, name, "operation");
    const fv_tuning_operation *operation = fv_tuning_operations[op];
    r->at += length;
    row->operation = (fv_tuning_op)op;
    return take_shapes(r, operation, machine, model, row) && take_colon(r, "what the row decides (\" : \")") &&
           take_choice(r, operation, fv_target_capped(machine, row->isa), row) &&
           take_colon(r, "the evidence (\" : \")") && take_evidence(r, &row->evidence);
}

bool fv_tuning_is_adapter(const char *text) { return text[strcspn(text, " .")] == '.'; }

/* All words are there, in their order, so that equal machines have equal text. Those of newer versions may have more,
 * and are for other builds. */
bool fv_tuning_take_section(fv_tuning_reader *r, fv_tuning_section *section, fv_target *machine) {
    const char *begin = r->at;
    fv_word word;
    int64_t number;
    if (strlen(begin) >= sizeof section->text)
        return fv_tuning_wrong(r, "the line is too long");
    memset(section, 0, sizeof *section);
    memcpy(section->text, begin, strlen(begin));
    *machine = (fv_target){FV_ISA_none, FV_HAS_nothing};
    if (r->version > FV_TUNING_VERSION && !fv_tuning_section_known(section))
        return true;
    r->at += 3;
    const part *words = fv_tuning_is_model(section) ? &model_words : &cpu_words;
    for (int i, next = 0; (i = take_word(r, words, next, &word)) < words->count; next = i + 1) {
        if (i < 0)
            return false;
        const bool isa = strcmp(word.name, "isa") == 0, features = strcmp(word.name, "features") == 0,
                   vendor = strcmp(word.name, "vendor") == 0, kernels = strcmp(word.name, "kernels") == 0;
        if ((vendor || isa) && strlen(word.value) > 15)
            return fv_tuning_wrong(r, "%s=%.40s is longer than 15 bytes", word.name, word.value);
        if (isa)
            machine->isa = fv_isa_named(word.value);
        if (features)
            machine->features = fv_features_named(word.value);
        if (kernels && (strlen(word.value) != 16 || strspn(word.value, "0123456789abcdef") != 16))
            return fv_tuning_wrong(r, "kernels=%.40s is not a hash of 16 digits", word.value);
        if (!vendor && !isa && !features && !kernels && !read_size(r, &word, (fv_interval){0, INT64_MAX}, &number))
            return false;
    }
    return r->at[0] == '\0' || fv_tuning_wrong(r, "nothing more is expected at \"%.40s\"", r->at);
}

bool fv_tuning_overlap_text(const char *a, const char *b) {
    const size_t operation = strcspn(a, " ");
    if (strncmp(a, b, operation) != 0 || b[operation] != a[operation])
        return false;
    fv_word x, y = {"", ""};
    for (const char *at = a + operation; fv_word_next(&at, " ", &x) == FV_WORD_FOUND;) {
        const char *other = b + operation;
        fv_interval of_x, of_y;
        while (fv_word_next(&other, " ", &y) == FV_WORD_FOUND && strcmp(x.name, y.name) != 0)
            ;
        if (strcmp(x.name, y.name) != 0)
            continue;
        const bool sizes = interval_of(x.value, INT64_MAX, &of_x) && interval_of(y.value, INT64_MAX, &of_y);
        if (sizes ? of_x.most < of_y.least || of_y.most < of_x.least : strcmp(x.value, y.value) != 0)
            return false;
    }
    return true;
}

/* ------------------------------------------------------------------------------------------------------ writing -- */

static void print_evidence(const fv_tuning_evidence *e, char text[FV_TUNING_LINE], size_t *n) {
    const int64_t ratios[] = {e->gain, e->low, e->high};
    for (int i = 0; i < 3; i++)
        fv_text_add(text, FV_TUNING_LINE, n, " %s=%" PRId64 ".%03" PRId64, evidence_words.name[i], ratios[i] / 1000,
                    ratios[i] % 1000);
    fv_text_add(text, FV_TUNING_LINE, n, " blocks=%" PRId64 " shapes=%s", e->blocks, e->shapes);
}

void fv_tuning_print_row(const fv_tuning_row *row, char text[FV_TUNING_LINE]) {
    const fv_tuning_operation *operation = fv_tuning_operations[row->operation];
    const size_t size = FV_TUNING_LINE;
    size_t n = 0;
    if (!row->known) {
        memcpy(text, row->text, size);
        return;
    }
    fv_text_add(text, size, &n, "%s isa=%s", fv_tuning_names[row->operation], fv_isa_word(row->isa));
    if (row->threads)
        fv_text_add(text, size, &n, " threads=%" PRId64, row->threads);
    for (int i = 0; i < operation->keys; i++) {
        const fv_interval *range = &operation->key[i].range, *interval = &row->key[i];
        if (interval->least == range->least && interval->most == range->most)
            continue;
        fv_text_add(text, size, &n, " %s=%" PRId64, operation->key[i].name, interval->least);
        if (interval->least < interval->most && interval->most == range->most)
            fv_text_add(text, size, &n, "..any");
        else if (interval->least < interval->most)
            fv_text_add(text, size, &n, "..%" PRId64, interval->most);
    }
    fv_text_add(text, size, &n, " :");
    for (int i = 0; i < operation->knobs; i++) {
        char value[FV_TUNING_SHAPES];
        fv_tuning_value_text(&operation->knob[i], &row->knob[i], value, sizeof value);
        if (value[0])
            fv_text_add(text, size, &n, " %s=%s", operation->knob[i].name, value);
    }
    fv_text_add(text, size, &n, " :");
    print_evidence(&row->evidence, text, &n);
}
