/* The text form of tunings.
 *
 *     fovea-tuning 4
 *     # Fovea 0.4.0
 *     cpu vendor=GenuineIntel family=6 model=207 stepping=2 isa=avx512 features=f16c,avx512_bf16 l1d=49152 l2=2097152
 *         l3=67108864 cores=2 kernels=<hash>                                          (one line, here folded)
 *     attention_f32 isa=avx512 threads=2 head_dim=64 value_dim=64 limited=0 group=1 rows=257..1023
 *         : score=multiply_f32_f32_6x64_avx512 tile_rows=32
 *         : gain=1.043 low=1.031 high=1.055 blocks=45 shapes=b1_h12_q300_kv300       (one line, here folded)
 *     end sum=<hash of all bytes before this line>
 *
 * A row has three parts: the shapes that it is for, what it decides for them, and the evidence. Words are parted by
 * one space and come in the order of their tables. A key that is missing stands for any size, a knob that is missing
 * for the default: so rows stay good when an operation gets more of them. Lines end with a newline; those that begin
 * with # and empty ones mean nothing. Rows follow the cpu line of the CPU and build that they are for; a cpu line
 * without rows says that the defaults are best there. The comment above a cpu line names the release of the build;
 * builds that do not know it drop it when they write.
 * Rows for another build are carried along unread: its kernels, operations, keys and knobs may not be known here. So
 * are rows of adapters, whose first word has a dot.
 *
 * A cpu line of a model is for any build, and for any stepping, caches and cores, and its rows may leave threads= out:
 *
 *     cpu vendor=GenuineIntel family=6 model=207 isa=avx512 features=f16c,avx512_bf16
 *
 * So builds go by the names in its rows. A row with a name that is unknown here (of an operation, key, knob, tier or
 * kernel, or one that a knob has a list of) is dropped alone: carried along unread.
 *
 * Versions. What is added to tables later makes a version. A file of a newer version is read as long as all that is for
 * this build is known here; else the whole file is refused with FOVEA_ERROR_VERSION. Version 1, which had other rows,
 * was only written by older builds: FOVEA_ERROR_INCOMPATIBLE. Versions 2 and 3 are read. They have no rows for formats
 * of blocks: their linear_u4 and the like, which were for all formats of as many bits, serve those types alone.
 *
 * Not one byte may be missing: the last line tells. All or nothing: the first thing wrong refuses the whole file. */
#include "tuning/text.h"

#include "core/core.h"
#include "dispatch/dispatch.h"
#include "tuning/line.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char title[] = "fovea-tuning ", release_word[] = "# Fovea ";

static bool check_alone(fv_tuning_reader *r, const fovea_tuning *tuning, const fv_tuning_row *row, int section) {
    for (int i = 0; i < tuning->rows; i++) {
        const fv_tuning_row *other = &tuning->row[i];
        if (other->section != section || !fv_tuning_overlap(other, row))
            continue;
        bool same = true;
        for (int k = 0; k < FV_TUNING_KNOBS; k++)
            same &= other->knob[k].kernel == row->knob[k].kernel && other->knob[k].number == row->knob[k].number;
        return same ? fv_tuning_wrong(r, "the same as line %d, for some shapes", other->line)
                    : fv_tuning_wrong(r, "contradicts line %d, for some shapes", other->line);
    }
    return true;
}

/* The file in the making. */
typedef struct file {
    fovea_tuning *tuning;
    fv_tuning_section section; /* of the rows that come */
    char release[16];          /* of the section that comes; "": not told */
    fv_target machine;         /* its tier and features */
    int index;                 /* of section; -1: before the first */
    bool ended;
} file;

static bool take_title(fv_tuning_reader *r, file *f) {
    int64_t version = 0;
    if (strncmp(r->at, title, sizeof title - 1) != 0 || !fv_word_number(r->at + sizeof title - 1, &version) ||
        version < 1 || version > 9999)
        return fv_tuning_wrong(r, "\"%.20s\" does not begin a tuning file (\"%s%d\")", r->at, title, FV_TUNING_VERSION);
    r->version = (int)version;
    f->tuning->version = r->version > FV_TUNING_VERSION ? r->version : FV_TUNING_VERSION;
    return true;
}

static bool take_end(fv_tuning_reader *r, uint64_t sum, file *f) {
    char want[40];
    snprintf(want, sizeof want, "end sum=%016" PRIx64, sum);
    if (strcmp(r->at, want) != 0)
        return fv_tuning_wrong(r, "the file was changed or damaged (\"%.30s\", the sum is %s)", r->at, want + 8);
    f->ended = true;
    if (r->version >= 2)
        return true;
    r->line = 1;
    return fv_tuning_refuse(r, FOVEA_ERROR_INCOMPATIBLE,
                            "the file is of version %d, which only older builds wrote; this library reads version %d",
                            r->version, FV_TUNING_VERSION);
}

/* Takes the release from a comment, if it names one. */
static void take_release(const char *line, file *f) {
    const char *word = line + sizeof release_word - 1;
    if (strncmp(line, release_word, sizeof release_word - 1) == 0 && strlen(word) < sizeof f->release &&
        strspn(word, "0123456789abcdefghijklmnopqrstuvwxyz.+-") == strlen(word))
        memcpy(f->release, word, strlen(word) + 1);
}

static bool take_line(fv_tuning_reader *r, uint64_t sum, file *f) {
    if (f->ended)
        return fv_tuning_wrong(r, "something follows the end");
    if (r->line == 1)
        return take_title(r, f);
    if (r->at[0] == '#')
        take_release(r->at, f);
    if (r->at[0] == '\0' || r->at[0] == '#')
        return true;
    if (strncmp(r->at, "end ", 4) == 0)
        return take_end(r, sum, f);
    if (r->version < 2)
        return true;
    if (strncmp(r->at, "cpu ", 4) == 0) {
        if (!fv_tuning_take_section(r, &f->section, &f->machine))
            return false;
        memcpy(f->section.release, f->release, sizeof f->release);
        f->release[0] = '\0';
        f->index = fv_tuning_section_make(f->tuning, &f->section);
        return f->index >= 0 || fv_tuning_wrong(r, "more than %d CPUs and builds", FV_TUNING_SECTIONS);
    }
    if (f->index < 0)
        return fv_tuning_wrong(r, "a row before the first cpu line");
    const char *line = r->at;
    const bool model = fv_tuning_is_model(&f->section);
    fv_tuning_row row = {.line = r->line, .known = fv_tuning_section_known(&f->section)};
    if (fv_tuning_is_adapter(line) || (model && f->machine.isa == FV_ISA_none)) /* of another architecture */
        row.known = false;
    if (row.known && !fv_tuning_take_row(r, f->machine, model, &row)) {
        if (!model || !r->unknown)
            return false;
        row = (fv_tuning_row){.line = r->line};
        r->status = FOVEA_OK;
        r->unknown = false;
    }
    if (!row.known)
        snprintf(row.text, sizeof row.text, "%s", line);
    if (check_alone(r, f->tuning, &row, f->index))
        r->status = fv_tuning_put(f->tuning, &f->section, &row, r->error);
    return r->status == FOVEA_OK;
}

/* The next line, of printable ASCII only, into line. */
static bool next_line(fv_tuning_reader *r, const char *text, size_t size, size_t *at, char line[FV_TUNING_LINE]) {
    size_t length = 0;
    r->line++;
    for (; *at < size && text[*at] != '\n'; (*at)++) {
        const unsigned char c = (unsigned char)text[*at];
        if (c < ' ' || c > '~')
            return fv_tuning_wrong(r, "byte %zu is 0x%02x, no printable ASCII", *at, c);
        if (length == FV_TUNING_LINE - 1)
            return fv_tuning_wrong(r, "longer than %d bytes", FV_TUNING_LINE - 1);
        line[length++] = (char)c;
    }
    if (*at == size)
        return fv_tuning_wrong(r, "has no end: the file was cut");
    ++*at;
    line[length] = '\0';
    return true;
}

static fovea_status parse_lines(const char *text, size_t size, file *f, char error[FV_FILE_ERROR]) {
    fv_tuning_reader r = {.version = FV_TUNING_VERSION, .error = error};
    uint64_t sum = FV_HASH_BEGIN;
    for (size_t at = 0, begin; at < size;) {
        char line[FV_TUNING_LINE];
        begin = at;
        if (!next_line(&r, text, size, &at, line))
            return r.status;
        r.at = line;
        if (!take_line(&r, sum, f))
            return r.status;
        sum = fv_hash(sum, text + begin, at - begin);
    }
    r.line++;
    if (!f->ended)
        fv_tuning_wrong(&r, "the end is missing: the file was cut");
    return r.status;
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

fovea_status fv_tuning_print(const fovea_tuning *tuning, char *text, size_t *length, char error[FV_FILE_ERROR]) {
    const size_t size = FV_TUNING_BYTES;
    char line[FV_TUNING_LINE];
    size_t n = 0;
    fv_text_add(text, size, &n, "%s%d\n", title, tuning->version);
    for (int s = 0; s < tuning->sections; s++) {
        if (tuning->section[s].release[0])
            fv_text_add(text, size, &n, "%s%s\n", release_word, tuning->section[s].release);
        fv_text_add(text, size, &n, "%s\n", tuning->section[s].text);
        for (int i = 0; i < tuning->rows; i++)
            if (tuning->row[i].section == s) {
                fv_tuning_print_row(&tuning->row[i], line);
                fv_text_add(text, size, &n, "%s\n", line);
            }
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
