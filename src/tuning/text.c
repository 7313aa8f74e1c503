/* The text form of tunings.
 *
 *     fovea-tuning 1
 *     cpu vendor=GenuineIntel family=6 model=207 stepping=2 isa=avx512 l1d=49152 l2=2097152 l3=67108864 cores=2
 *         kernels=<hash>                                                              (one line, here folded)
 *     attention_f32 isa=avx512 threads=2 rows=257..1023 keys=any head_dim=64 value_dim=64 units=any limited=0 group=1
 *         score=gemm_f32_6x64_avx512 value=default block_rows=default tile_rows=32 split_segments=default
 *         caches=default gain=1.043 low=1.031 high=1.055 blocks=45 shapes=b1_h12_q300_kv300   (one line, here folded)
 *     end sum=<hash of all bytes before this line>
 *
 * Words are parted by one space and come in this order (a row's keys are sizes, its first choice is a kernel, by which
 * merge knows them in rows of other builds), so there is one text for one content; lines end with a newline;
 * lines that begin with # and empty lines mean nothing. Rows follow the cpu line of the CPU and build that they are
 * for; a cpu line without rows says that the defaults are best there. What is for another build is carried along
 * unread: its kernels and operations may not be known here.
 *
 * Not one byte may be missing: the last line tells. All or nothing: the first thing wrong refuses the whole file. */
#include "tuning/tuning.h"

#include "core/core.h"
#include "dispatch/dispatch.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char header[] = "fovea-tuning 1";

/* ------------------------------------------------------------------------------------------------------ reading -- */

/* The place in a line up to which it was understood; the first thing wrong stays in *error. */
typedef struct reader {
    const char *at;
    int line;
    bool failed;
    char *error;
} reader;

#if defined(__GNUC__) || defined(__clang__)
__attribute__((format(printf, 2, 3)))
#endif
static bool
wrong(reader *r, const char *format, ...) {
    if (!r->failed) {
        const int n = snprintf(r->error, FV_FILE_ERROR, "line %d: ", r->line);
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(r->error + n, (size_t)(FV_FILE_ERROR - n), format, arguments);
        va_end(arguments);
    }
    r->failed = true;
    return false;
}

/* Takes "text" at the reader's place. */
static bool take(reader *r, const char *text) {
    const size_t length = strlen(text);
    if (r->failed || strncmp(r->at, text, length) != 0)
        return false;
    r->at += length;
    return true;
}

/* Takes " name=". */
static bool take_name(reader *r, const char *name) {
    char text[40];
    snprintf(text, sizeof text, " %s=", name);
    return take(r, text) || wrong(r, "%s= is expected at \"%.40s\"", name, r->at);
}

/* Takes the characters up to the next space into word[size]. */
static bool take_word(reader *r, const char *name, char *word, size_t size) {
    if (!take_name(r, name))
        return false;
    const size_t length = strspn(r->at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.,+-");
    if (length == 0 || length >= size || (r->at[length] != ' ' && r->at[length] != '\0'))
        return wrong(r, "%s=%.40s is no word of up to %zu letters, digits and _.,+-", name, r->at, size - 1);
    memcpy(word, r->at, length);
    word[length] = '\0';
    r->at += length;
    return true;
}

/* Takes a whole number without needless characters. */
static bool take_number(reader *r, int64_t *number) {
    const bool minus = r->at[0] == '-';
    const char *digits = r->at + minus;
    const size_t length = strspn(digits, "0123456789");
    if (length == 0 || length > 18 || (digits[0] == '0' && (length > 1 || minus)))
        return wrong(r, "\"%.40s\" is no number", r->at);
    *number = 0;
    for (size_t i = 0; i < length; i++)
        *number = *number * 10 + (digits[i] - '0');
    *number = minus ? -*number : *number;
    r->at = digits + length;
    return true;
}

static bool check_range(reader *r, const char *name, int64_t number, fv_interval range) {
    if (number >= range.least && number <= range.most)
        return true;
    if (range.most == INT64_MAX)
        return wrong(r, "%s=%" PRId64 " must be at least %" PRId64, name, number, range.least);
    return wrong(r, "%s=%" PRId64 " must be from %" PRId64 " to %" PRId64, name, number, range.least, range.most);
}

static bool take_size(reader *r, const char *name, fv_interval range, int64_t *number) {
    return take_name(r, name) && take_number(r, number) && check_range(r, name, *number, range);
}

/* "any", "7", "7..9" or "7..any". */
static bool take_interval(reader *r, const fv_tuning_key *key, fv_interval *interval) {
    if (!take_name(r, key->name))
        return false;
    *interval = key->range;
    if (take(r, "any"))
        return true;
    if (!take_number(r, &interval->least))
        return false;
    const int64_t most = interval->most;
    interval->most = interval->least;
    if (take(r, "..any"))
        interval->most = most;
    else if (take(r, "..") && !take_number(r, &interval->most))
        return false;
    if (interval->least > interval->most)
        return wrong(r, "%s: %" PRId64 "..%" PRId64 " is empty", key->name, interval->least, interval->most);
    return check_range(r, key->name, interval->least, key->range) &&
           check_range(r, key->name, interval->most, key->range);
}

/* "1.043" as 1043. */
static bool take_thousandths(reader *r, const char *name, int64_t *value) {
    int64_t whole;
    if (!take_name(r, name) || !take_number(r, &whole))
        return false;
    if (whole < 0 || whole > 999 || r->at[0] != '.' || strspn(r->at + 1, "0123456789") != 3)
        return wrong(r, "%s must be as 1.043", name);
    *value = whole * 1000 + (r->at[1] - '0') * 100 + (r->at[2] - '0') * 10 + (r->at[3] - '0');
    r->at += 4;
    return true;
}

static bool take_knob(reader *r, const fv_tuning_knob *knob, fv_type type, fv_isa isa, fv_tuning_value *value) {
    char word[64];
    if (!take_word(r, knob->name, word, sizeof word))
        return false;
    *value = (fv_tuning_value){NULL, 0};
    if (strcmp(word, "default") == 0)
        return true;
    if (knob->kernel) {
        value->kernel = fv_kernel_named(word);
        if (!value->kernel || value->kernel->op != knob->op || value->kernel->type != type)
            return wrong(r, "%s=%s is %s", knob->name, word,
                         value->kernel ? "a kernel of another operation or element type" : "no kernel of this build");
        return value->kernel->isa == isa || wrong(r, "%s=%s is not of tier %s", knob->name, word, fv_isa_word(isa));
    }
    reader number = {word, r->line, false, r->error};
    if (!take_number(&number, &value->number) || number.at[0] != '\0' || value->number == 0)
        return wrong(r, "%s=%s is no number (0 is written as default)", knob->name, word);
    return check_range(r, knob->name, value->number, knob->range);
}

static bool take_isa(reader *r, fv_isa *isa) {
    char word[16];
    if (!take_word(r, "isa", word, sizeof word))
        return false;
    for (int i = FV_ISA_scalar; i < FV_ISA_COUNT; i++)
        if (strcmp(word, fv_isa_word((fv_isa)i)) == 0) {
            *isa = (fv_isa)i;
            return true;
        }
    return wrong(r, "isa=%s is no tier of this build", word);
}

static bool take_end_of_line(reader *r) {
    return r->at[0] == '\0' || wrong(r, "nothing more is expected at \"%.40s\"", r->at);
}

static bool take_row(reader *r, fv_tuning_row *row) {
    char name[32];
    const size_t length = strcspn(r->at, " ");
    int op = 0;
    while (op < FV_TUNING_OPERATIONS && (strlen(fv_tuning_operations[op].name) != length ||
                                         memcmp(fv_tuning_operations[op].name, r->at, length) != 0))
        op++;
    snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name - 1), r->at);
    if (op == FV_TUNING_OPERATIONS)
        return wrong(r, "\"%s\" is no operation that is tuned", name);
    r->at += length;
    const fv_tuning_operation *operation = &fv_tuning_operations[op];
    row->operation = (fv_tuning_op)op;
    if (!take_isa(r, &row->isa) || !take_size(r, "threads", (fv_interval){1, 1 << 20}, &row->threads))
        return false;
    for (int i = 0; i < FV_TUNING_KEYS && operation->key[i].name; i++)
        if (!take_interval(r, &operation->key[i], &row->key[i]))
            return false;
    for (int i = 0; i < FV_TUNING_KNOBS; i++)
        if (!take_knob(r, &operation->knob[i], operation->type, row->isa, &row->knob[i]))
            return false;
    fv_tuning_evidence *e = &row->evidence;
    return take_thousandths(r, "gain", &e->gain) && take_thousandths(r, "low", &e->low) &&
           take_thousandths(r, "high", &e->high) && take_size(r, "blocks", (fv_interval){0, 1 << 30}, &e->blocks) &&
           take_word(r, "shapes", e->shapes, sizeof e->shapes) && take_end_of_line(r);
}

/* Words of a cpu line: all are there, in this order, so that equal machines have equal text. */
static bool take_section(reader *r, fv_tuning_section *section, char isa[16]) {
    static const char *const numbers[] = {"l1d", "l2", "l3", "cores"};
    const fv_interval any = {0, INT64_MAX};
    const char *begin = r->at;
    char word[32];
    int64_t number;
    if (!take(r, "cpu") || !take_word(r, "vendor", word, 16) || !take_size(r, "family", any, &number) ||
        !take_size(r, "model", any, &number) || !take_size(r, "stepping", any, &number) ||
        !take_word(r, "isa", isa, 16))
        return false;
    for (int i = 0; i < 4; i++)
        if (!take_size(r, numbers[i], any, &number))
            return false;
    if (!take_word(r, "kernels", word, sizeof word))
        return false;
    if (strlen(word) != 16 || strspn(word, "0123456789abcdef") != 16)
        return wrong(r, "kernels=%s is no hash of 16 digits", word);
    if (!take_end_of_line(r) || strlen(begin) >= sizeof section->text)
        return wrong(r, "the line is too long");
    memset(section, 0, sizeof *section);
    memcpy(section->text, begin, strlen(begin));
    return true;
}

/* A tier that the CPU of the row's section lacks: the row cannot come from there. */
static bool check_tier(reader *r, const fv_tuning_row *row, const char *section_isa) {
    for (int i = FV_ISA_scalar; i < (int)row->isa; i++)
        if (strcmp(section_isa, fv_isa_word((fv_isa)i)) == 0)
            return wrong(r, "isa=%s, but the CPU of these rows has no more than %s", fv_isa_word(row->isa),
                         section_isa);
    return true;
}

static bool check_alone(reader *r, const fovea_tuning *tuning, const fv_tuning_row *row, int section) {
    for (int i = 0; i < tuning->rows; i++) {
        const fv_tuning_row *other = &tuning->row[i];
        if (other->section != section || !fv_tuning_overlap(other, row))
            continue;
        bool same = true;
        for (int k = 0; k < FV_TUNING_KNOBS; k++)
            same &= other->knob[k].kernel == row->knob[k].kernel && other->knob[k].number == row->knob[k].number;
        return same ? wrong(r, "the same as line %d, for some shapes", other->line)
                    : wrong(r, "contradicts line %d, for some shapes", other->line);
    }
    return true;
}

/* The file in the making. */
typedef struct file {
    fovea_tuning *tuning;
    fv_tuning_section section; /* of the rows that come */
    char isa[16];
    int index; /* of section; -1: before the first */
    bool ended;
} file;

static fovea_status take_line(reader *r, const char *line, uint64_t sum, file *f) {
    if (f->ended)
        return wrong(r, "something follows the end"), FOVEA_ERROR_TUNING;
    if (r->line == 1) {
        if (strcmp(line, header) != 0)
            wrong(r,
                  strncmp(line, header, sizeof header - 2) == 0 ? "version \"%.20s\" of tuning files, this library "
                                                                  "knows \"%s\""
                                                                : "\"%.20s\" does not begin a tuning file (\"%s\")",
                  line, header);
    } else if (line[0] == '\0' || line[0] == '#') {
        return FOVEA_OK;
    } else if (strncmp(line, "end ", 4) == 0) {
        char want[40];
        snprintf(want, sizeof want, "end sum=%016" PRIx64, sum);
        f->ended = strcmp(line, want) == 0;
        if (!f->ended)
            wrong(r, "the file was changed or damaged (\"%.30s\", the sum is %s)", line, want + 8);
    } else if (strncmp(line, "cpu ", 4) == 0) {
        if (take_section(r, &f->section, f->isa) &&
            (f->index = fv_tuning_section_index(f->tuning, &f->section, true)) < 0)
            wrong(r, "more than %d CPUs and builds", FV_TUNING_SECTIONS);
    } else {
        fv_tuning_row row = {.line = r->line};
        if (f->index < 0)
            return wrong(r, "a row before the first cpu line"), FOVEA_ERROR_TUNING;
        row.known = fv_tuning_section_known(&f->section);
        snprintf(row.text, sizeof row.text, "%s", line);
        if ((row.known && (!take_row(r, &row) || !check_tier(r, &row, f->isa))) ||
            !check_alone(r, f->tuning, &row, f->index))
            return FOVEA_ERROR_TUNING;
        return fv_tuning_put(f->tuning, &f->section, &row, r->error);
    }
    return r->failed ? FOVEA_ERROR_TUNING : FOVEA_OK;
}

/* The next line, of printable ASCII only, into line. */
static bool next_line(reader *r, const char *text, size_t size, size_t *at, char line[FV_TUNING_LINE]) {
    size_t length = 0;
    r->line++;
    for (; *at < size && text[*at] != '\n'; (*at)++) {
        const unsigned char c = (unsigned char)text[*at];
        if (c < ' ' || c > '~')
            return wrong(r, "byte %zu is 0x%02x, no printable ASCII", *at, c);
        if (length == FV_TUNING_LINE - 1)
            return wrong(r, "longer than %d bytes", FV_TUNING_LINE - 1);
        line[length++] = (char)c;
    }
    if (*at == size)
        return wrong(r, "has no end: the file was cut");
    ++*at;
    line[length] = '\0';
    return true;
}

static fovea_status parse_lines(const char *text, size_t size, file *f, char error[FV_FILE_ERROR]) {
    reader r = {NULL, 0, false, error};
    uint64_t sum = FV_HASH_BEGIN;
    for (size_t at = 0, begin; at < size;) {
        char line[FV_TUNING_LINE];
        begin = at;
        if (!next_line(&r, text, size, &at, line))
            return FOVEA_ERROR_TUNING;
        r.at = line;
        const fovea_status status = take_line(&r, line, sum, f);
        if (status != FOVEA_OK)
            return status;
        sum = fv_hash(sum, text + begin, at - begin);
    }
    r.line++;
    return f->ended ? FOVEA_OK : (wrong(&r, "the end is missing: the file was cut"), FOVEA_ERROR_TUNING);
}

fovea_status fv_tuning_parse(const char *text, size_t size, fovea_tuning **tuning, char error[FV_FILE_ERROR]) {
    *tuning = NULL;
    if (size > FV_TUNING_BYTES) {
        snprintf(error, FV_FILE_ERROR, "%zu bytes: a tuning file has at most %d", size, FV_TUNING_BYTES);
        return FOVEA_ERROR_TUNING;
    }
    file f = {.index = -1};
    fovea_status status = fv_tuning_create(&f.tuning, error);
    if (status == FOVEA_OK)
        status = parse_lines(text, size, &f, error);
    if (status != FOVEA_OK) {
        fovea_tuning_destroy(f.tuning);
        return status;
    }
    *tuning = f.tuning;
    return FOVEA_OK;
}

/* ------------------------------------------------------------------------------------------------------ writing -- */

void fv_tuning_print_row(fv_tuning_row *row) {
    const fv_tuning_operation *operation = &fv_tuning_operations[row->operation];
    char *text = row->text;
    const size_t size = sizeof row->text;
    size_t n = 0;
    fv_text_add(text, size, &n, "%s isa=%s threads=%" PRId64, operation->name, fv_isa_word(row->isa), row->threads);
    for (int i = 0; i < FV_TUNING_KEYS && operation->key[i].name; i++) {
        const fv_interval *range = &operation->key[i].range, *interval = &row->key[i];
        fv_text_add(text, size, &n, " %s=", operation->key[i].name);
        if (interval->least == range->least && interval->most == range->most)
            fv_text_add(text, size, &n, "any");
        else if (interval->least == interval->most)
            fv_text_add(text, size, &n, "%" PRId64, interval->least);
        else if (interval->most == range->most)
            fv_text_add(text, size, &n, "%" PRId64 "..any", interval->least);
        else
            fv_text_add(text, size, &n, "%" PRId64 "..%" PRId64, interval->least, interval->most);
    }
    for (int i = 0; i < FV_TUNING_KNOBS; i++) {
        const fv_tuning_value *value = &row->knob[i];
        fv_text_add(text, size, &n, " %s=", operation->knob[i].name);
        if (value->kernel)
            fv_text_add(text, size, &n, "%s", value->kernel->name);
        else if (value->number)
            fv_text_add(text, size, &n, "%" PRId64, value->number);
        else
            fv_text_add(text, size, &n, "default");
    }
    const fv_tuning_evidence *e = &row->evidence;
    const int64_t ratios[] = {e->gain, e->low, e->high};
    static const char *const names[] = {"gain", "low", "high"};
    for (int i = 0; i < 3; i++)
        fv_text_add(text, size, &n, " %s=%" PRId64 ".%03" PRId64, names[i], ratios[i] / 1000, ratios[i] % 1000);
    fv_text_add(text, size, &n, " blocks=%" PRId64 " shapes=%s", e->blocks, e->shapes);
}

fovea_status fv_tuning_print(const fovea_tuning *tuning, char *text, size_t *length, char error[FV_FILE_ERROR]) {
    const size_t size = FV_TUNING_BYTES;
    size_t n = 0;
    fv_text_add(text, size, &n, "%s\n", header);
    for (int s = 0; s < tuning->sections; s++) {
        fv_text_add(text, size, &n, "%s\n", tuning->section[s].text);
        for (int i = 0; i < tuning->rows; i++)
            if (tuning->row[i].section == s)
                fv_text_add(text, size, &n, "%s\n", tuning->row[i].text);
    }
    if (n < size)
        fv_text_add(text, size, &n, "end sum=%016" PRIx64 "\n", fv_hash(FV_HASH_BEGIN, text, n));
    *length = n;
    if (n < size)
        return FOVEA_OK;
    snprintf(error, FV_FILE_ERROR, "%d rows are more than the %d bytes of a tuning file hold", tuning->rows,
             FV_TUNING_BYTES);
    return FOVEA_ERROR_TUNING;
}
