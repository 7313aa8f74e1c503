/* Tunings in memory: the operations, adding rows, finding them, and saying why none was found (tuning.h). */
#include "tuning/tuning.h"

#include "core/core.h"
#include "dispatch/dispatch.h"
#include "sources_hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Largest blocks and tiles: a row may cost memory, but not much. The planner's own end at 1024 rows. Caches are in per
 * cent of what the system reports. */
enum {
    MOST_ROWS = 4096,
    MOST_SEGMENTS = 65536,
    MOST_CHANNELS = 1 << 20,
    MOST_ITEMS = 64,
    LEAST_CACHES = 10,
    MOST_CACHES = 6400
};

#define ATTENTION_KNOBS                                                                                                \
    .knob = {                                                                                                          \
        [FV_KNOB_score] = {"score", true, FV_OP_gemm, {0, 0}},                                                         \
        [FV_KNOB_value] = {"value", true, FV_OP_gemm, {0, 0}},                                                         \
        [FV_KNOB_block_rows] = {"block_rows", false, FV_OP_COUNT, {1, MOST_ROWS}},                                     \
        [FV_KNOB_tile_rows] = {"tile_rows", false, FV_OP_COUNT, {1, MOST_ROWS}},                                       \
        [FV_KNOB_split] = {"split_segments", false, FV_OP_COUNT, {-1, MOST_SEGMENTS}},                                 \
        [FV_KNOB_caches] = {"caches", false, FV_OP_COUNT, {LEAST_CACHES, MOST_CACHES}},                                \
    }
#define ATTENTION_KEYS                                                                                                 \
    [FV_KEY_keys] = {"keys", {0, INT64_MAX}}, [FV_KEY_head_dim] = {"head_dim", {1, INT64_MAX}},                        \
    [FV_KEY_value_dim] = {"value_dim", {1, INT64_MAX}}, [FV_KEY_units] = {"units", {1, INT64_MAX}},                    \
    [FV_KEY_limited] = {"limited", {FV_LIMITED_no, FV_LIMITED_window}}, [FV_KEY_group] = {"group", {1, INT64_MAX}}

#define LINEAR_KNOBS                                                                                                   \
    .knob = {                                                                                                          \
        [FV_KNOB_gemm] = {"gemm", true, FV_OP_gemm, {0, 0}},                                                           \
        [FV_KNOB_k_block] = {"k_block", false, FV_OP_COUNT, {1, MOST_CHANNELS}},                                       \
        [FV_KNOB_row_block] = {"row_block", false, FV_OP_COUNT, {1, MOST_ROWS}},                                       \
        [FV_KNOB_chunk] = {"chunk", false, FV_OP_COUNT, {1, MOST_ROWS}},                                               \
        [FV_KNOB_items] = {"items", false, FV_OP_COUNT, {1, MOST_ITEMS}},                                              \
        [FV_KNOB_caches] = {"caches", false, FV_OP_COUNT, {LEAST_CACHES, MOST_CACHES}},                                \
    }
#define LINEAR_KEYS [FV_KEY_in] = {"in", {1, INT64_MAX}}, [FV_KEY_out] = {"out", {1, INT64_MAX}}

/* rows: queries that share a key head; units: key heads of the batch; limited: 1 causal, 2 with a window; group: query
 * heads of a key head. */
const fv_tuning_operation fv_tuning_operations[FV_TUNING_OPERATIONS] = {
    [FV_TUNING_attention] = {"attention_f32", FV_TYPE_f32,
                             .key = {[FV_KEY_rows] = {"rows", {FV_TUNING_FEW_ROWS + 1, INT64_MAX}}, ATTENTION_KEYS},
                             ATTENTION_KNOBS},
    [FV_TUNING_attention_few] = {"attention_few_f32", FV_TYPE_f32,
                                 .key = {[FV_KEY_rows] = {"rows", {1, FV_TUNING_FEW_ROWS}}, ATTENTION_KEYS},
                                 ATTENTION_KNOBS},
    [FV_TUNING_linear] = {"linear_f32", FV_TYPE_f32,
                          .key = {[FV_KEY_rows] = {"rows", {FV_TUNING_LINEAR_FEW_ROWS + 1, INT64_MAX}}, LINEAR_KEYS},
                          LINEAR_KNOBS},
    [FV_TUNING_linear_few] = {"linear_few_f32", FV_TYPE_f32,
                              .key = {[FV_KEY_rows] = {"rows", {1, FV_TUNING_LINEAR_FEW_ROWS}}, LINEAR_KEYS},
                              LINEAR_KNOBS},
};

/* ----------------------------------------------------------------------------------------------------- sections -- */

static uint64_t build(void) {
    uint64_t hash = fv_hash(FV_HASH_BEGIN, FV_SOURCES_HASH, strlen(FV_SOURCES_HASH));
    for (int i = 0; i < fv_kernel_count; i++)
        hash = fv_hash(hash, fv_kernels[i].name, strlen(fv_kernels[i].name) + 1);
    return hash;
}

void fv_tuning_section_of(const fv_cpu *cpu, fv_tuning_section *section) {
    memset(section, 0, sizeof *section);
    snprintf(section->text, sizeof section->text,
             "cpu vendor=%s family=%" PRId64 " model=%" PRId64 " stepping=%" PRId64 " isa=%s l1d=%" PRId64
             " l2=%" PRId64 " l3=%" PRId64 " cores=%" PRId64 " kernels=%016" PRIx64,
             cpu->vendor, cpu->family, cpu->model, cpu->stepping, fv_isa_word(cpu->isa), cpu->l1d, cpu->l2, cpu->l3,
             cpu->cores, build());
}

bool fv_tuning_section_known(const fv_tuning_section *section) {
    char word[32];
    snprintf(word, sizeof word, " kernels=%016" PRIx64, build());
    const char *found = strstr(section->text, " kernels=");
    return found && strcmp(found, word) == 0;
}

/* The first word in which two section lines differ, of b; NULL if none. *length: of the word. */
static const char *first_difference(const char *a, const char *b, size_t *length) {
    while (*a && *b) {
        const size_t of_a = strcspn(a, " "), of_b = strcspn(b, " ");
        *length = of_b;
        if (of_a != of_b || memcmp(a, b, of_a) != 0)
            return b;
        a += of_a + (a[of_a] == ' ');
        b += of_b + (b[of_b] == ' ');
    }
    return NULL;
}

void fv_tuning_why_foreign(const fovea_tuning *tuning, const fv_tuning_section *section, char *text, size_t size) {
    const char *nearest = NULL, *own = NULL;
    size_t length = 0, of_own = 0;
    ptrdiff_t farthest = -1;
    for (int i = 0; i < tuning->sections; i++) {
        size_t n;
        const char *word = first_difference(section->text, tuning->section[i].text, &n);
        if (word && word - tuning->section[i].text > farthest) {
            farthest = word - tuning->section[i].text;
            nearest = word;
            length = n;
            own = first_difference(tuning->section[i].text, section->text, &of_own);
        }
    }
    if (!nearest || !own)
        snprintf(text, size, "it has no rows");
    else if (strncmp(nearest, "kernels=", 8) == 0)
        snprintf(text, size, "it is for this CPU and another build, with other kernels or defaults (%.*s, here %.*s)",
                 (int)length, nearest, (int)of_own, own);
    else
        snprintf(text, size, "it is for another CPU: nearest is one with %.*s, here it is %.*s", (int)length, nearest,
                 (int)of_own, own);
}

int fv_tuning_section_index(fovea_tuning *tuning, const fv_tuning_section *section, bool make) {
    for (int i = 0; i < tuning->sections; i++)
        if (strcmp(tuning->section[i].text, section->text) == 0)
            return i;
    if (!make || tuning->sections == FV_TUNING_SECTIONS)
        return -1;
    tuning->section[tuning->sections] = *section;
    return tuning->sections++;
}

/* --------------------------------------------------------------------------------------------------------- rows -- */

static fovea_status fail(fovea_status status, char error[FV_FILE_ERROR], const char *sentence) {
    snprintf(error, FV_FILE_ERROR, "%s", sentence);
    return status;
}

fovea_status fv_tuning_create(fovea_tuning **tuning, char error[FV_FILE_ERROR]) {
    *tuning = calloc(1, sizeof **tuning);
    return *tuning ? FOVEA_OK : fail(FOVEA_ERROR_OUT_OF_MEMORY, error, "no memory for a tuning");
}

void fovea_tuning_destroy(fovea_tuning *tuning) {
    if (tuning)
        free(tuning->row);
    free(tuning);
}

bool fv_tuning_overlap(const fv_tuning_row *a, const fv_tuning_row *b) {
    if (!a->known || !b->known)
        return !a->known && !b->known && strcmp(a->text, b->text) == 0;
    if (a->operation != b->operation || a->isa != b->isa || a->threads != b->threads)
        return false;
    for (int i = 0; i < FV_TUNING_KEYS; i++)
        if (a->key[i].most < b->key[i].least || b->key[i].most < a->key[i].least)
            return false;
    return true;
}

void fv_tuning_remove(fovea_tuning *tuning, int section, const fv_tuning_row *row) {
    int kept = 0;
    for (int i = 0; i < tuning->rows; i++)
        if (tuning->row[i].section != section || !fv_tuning_overlap(&tuning->row[i], row)) {
            if (kept != i)
                tuning->row[kept] = tuning->row[i];
            kept++;
        }
    tuning->rows = kept;
}

fovea_status fv_tuning_put(fovea_tuning *tuning, const fv_tuning_section *section, const fv_tuning_row *row,
                           char error[FV_FILE_ERROR]) {
    const int index = fv_tuning_section_index(tuning, section, true);
    if (index < 0)
        return fail(FOVEA_ERROR_TUNING, error, "too many CPUs and builds for one tuning file");
    fv_tuning_remove(tuning, index, row);
    if (tuning->rows == FV_TUNING_ROWS)
        return fail(FOVEA_ERROR_TUNING, error, "too many rows for one tuning file");
    if (tuning->rows == tuning->capacity) {
        const int capacity = (int)fv_min(FV_TUNING_ROWS, fv_max(16, 2 * (int64_t)tuning->capacity));
        fv_tuning_row *grown = realloc(tuning->row, (size_t)capacity * sizeof *grown);
        if (!grown)
            return fail(FOVEA_ERROR_OUT_OF_MEMORY, error, "no memory for the rows of a tuning");
        tuning->row = grown;
        tuning->capacity = capacity;
    }
    fv_tuning_row *put = &tuning->row[tuning->rows++];
    *put = *row;
    put->section = index;
    if (put->known)
        fv_tuning_print_row(put);
    return FOVEA_OK;
}

/* Dimensions first: what is explained is the row that differs last, and lengths are the nearest miss. */
static const int order[FV_TUNING_KEYS] = {FV_KEY_head_dim, FV_KEY_value_dim, FV_KEY_limited, FV_KEY_group,
                                          FV_KEY_units,    FV_KEY_keys,      FV_KEY_rows};

/* How many of the things that a row is for are those asked for, in order; all: FV_TUNING_KEYS + 3. */
static int agreement(const fv_tuning_row *row, fv_tuning_op operation, fv_isa isa, int threads, const int64_t *key) {
    if (row->operation != operation)
        return 0;
    if (row->isa != isa)
        return 1;
    if (row->threads != threads)
        return 2;
    for (int i = 0; i < FV_TUNING_KEYS; i++) {
        const fv_interval *interval = &row->key[order[i]];
        if (key[order[i]] < interval->least || key[order[i]] > interval->most)
            return 3 + i;
    }
    return 3 + FV_TUNING_KEYS;
}

/* The row that agrees best; NULL if there is none of the section. */
static const fv_tuning_row *nearest(const fovea_tuning *tuning, int section, fv_tuning_op operation, fv_isa isa,
                                    int threads, const int64_t key[FV_TUNING_KEYS], int *agrees) {
    const fv_tuning_row *best = NULL;
    *agrees = -1;
    for (int i = 0; i < tuning->rows; i++) {
        const fv_tuning_row *row = &tuning->row[i];
        if (row->section != section || !row->known)
            continue;
        const int n = agreement(row, operation, isa, threads, key);
        if (n > *agrees) {
            *agrees = n;
            best = row;
        }
    }
    return best;
}

const fv_tuning_row *fv_tuning_find(const fovea_tuning *tuning, int section, fv_tuning_op operation, fv_isa isa,
                                    int threads, const int64_t key[FV_TUNING_KEYS]) {
    int agrees;
    const fv_tuning_row *row = nearest(tuning, section, operation, isa, threads, key, &agrees);
    return agrees == 3 + FV_TUNING_KEYS ? row : NULL;
}

void fv_tuning_why_not(const fovea_tuning *tuning, int section, fv_tuning_op operation, fv_isa isa, int threads,
                       const int64_t key[FV_TUNING_KEYS], char *text, size_t size) {
    int agrees;
    const fv_tuning_row *row = nearest(tuning, section, operation, isa, threads, key, &agrees);
    if (!row || agrees == 0) {
        snprintf(text, size, "no row for %s", fv_tuning_operations[operation].name);
        return;
    }
    if (agrees == 1) {
        snprintf(text, size, "no row for tier %s, line %d is for %s", fv_isa_word(isa), row->line,
                 fv_isa_word(row->isa));
        return;
    }
    if (agrees == 2) {
        snprintf(text, size, "no row for %d threads, line %d is for %" PRId64, threads, row->line, row->threads);
        return;
    }
    for (int n = 0; n < FV_TUNING_KEYS; n++) {
        const int i = order[n];
        if (key[i] < row->key[i].least || key[i] > row->key[i].most) {
            snprintf(text, size, "no row for %s %" PRId64 ", line %d is for %" PRId64 " to %" PRId64,
                     fv_tuning_operations[operation].key[i].name, key[i], row->line, row->key[i].least,
                     row->key[i].most);
            return;
        }
    }
    snprintf(text, size, "line %d is for it", row->line);
}
