/* Tunings in memory: adding rows, finding them, and saying why none was found (rows.h). */
#include "tuning/rows.h"

#include "core/core.h"
#include "dispatch/dispatch.h"
#include "sources_hash.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const fv_tuning_operation *const fv_tuning_operations[FV_TUNING_OPERATIONS] = {
#define FV_TUNING_OPERATION(name, of, type, arithmetic) &fv_tuning_##of,
#include "tuning/operations.inc"
#undef FV_TUNING_OPERATION
};

const char *const fv_tuning_names[FV_TUNING_OPERATIONS] = {
#define FV_TUNING_OPERATION(name, of, type, arithmetic) #name,
#define FV_TUNING_BLOCKS(name, word, of, type) word,
#include "tuning/operations.inc"
#undef FV_TUNING_OPERATION
};

static const struct {
    fv_tuning_op f32;
    fovea_dtype dtype;
    fovea_arithmetic arithmetic;
} kinds[FV_TUNING_OPERATIONS] = {
#define FV_TUNING_OPERATION(name, of, type, arithmetic)                                                                \
    {FV_TUNING_##of##_f32, FOVEA_DTYPE_##type, FOVEA_ARITHMETIC_##arithmetic},
#include "tuning/operations.inc"
#undef FV_TUNING_OPERATION
};

fovea_dtype fv_tuning_dtype(fv_tuning_op operation) { return kinds[operation].dtype; }

fovea_arithmetic fv_tuning_arithmetic(fv_tuning_op operation) { return kinds[operation].arithmetic; }

fv_tuning_op fv_tuning_of(fv_tuning_op many_f32, fovea_dtype dtype, fovea_arithmetic arithmetic, bool few) {
    const bool named = arithmetic == FOVEA_ARITHMETIC_BF16 || arithmetic == FOVEA_ARITHMETIC_BF16_TILE;
    const fv_tuning_op f32 = (fv_tuning_op)((int)many_f32 + (int)few);
    const fovea_dtype tuned_as = dtype == FOVEA_DTYPE_U8 ? FOVEA_DTYPE_I8 : dtype; /* they are packed alike */
    for (int i = 0; i < FV_TUNING_OPERATIONS; i++)
        if (kinds[i].f32 == f32 &&
            (named ? kinds[i].arithmetic == arithmetic
                   : kinds[i].arithmetic == FOVEA_ARITHMETIC_EXACT && kinds[i].dtype == tuned_as))
            return (fv_tuning_op)i;
    return f32;
}

void fv_tuning_value_text(const fv_tuning_knob *knob, const fv_tuning_value *value, char *text, size_t size) {
    text[0] = '\0';
    if (value->kernel)
        snprintf(text, size, "%s", value->kernel->name);
    else if (value->number && knob->kind == FV_TUNING_NAME)
        snprintf(text, size, "%s", knob->name_of(value->number));
    else if (value->number)
        snprintf(text, size, "%" PRId64, value->number);
}

void fv_tuning_to_choice(fv_tuning_op operation, const fv_tuning_value knob[FV_TUNING_KNOBS], void *choice) {
    const fv_tuning_operation *o = fv_tuning_operations[operation];
    for (int i = 0; i < o->knobs; i++) {
        char *field = (char *)choice + o->knob[i].offset;
        if (o->knob[i].kind == FV_TUNING_KERNEL)
            memcpy(field, &knob[i].kernel, sizeof knob[i].kernel);
        else
            memcpy(field, &knob[i].number, sizeof knob[i].number);
    }
}

void fv_tuning_of_choice(fv_tuning_op operation, const void *choice, fv_tuning_value knob[FV_TUNING_KNOBS]) {
    const fv_tuning_operation *o = fv_tuning_operations[operation];
    memset(knob, 0, FV_TUNING_KNOBS * sizeof *knob);
    for (int i = 0; i < o->knobs; i++) {
        const char *field = (const char *)choice + o->knob[i].offset;
        if (o->knob[i].kind == FV_TUNING_KERNEL)
            memcpy(&knob[i].kernel, field, sizeof knob[i].kernel);
        else
            memcpy(&knob[i].number, field, sizeof knob[i].number);
    }
}

/* ----------------------------------------------------------------------------------------------------- sections -- */

static uint64_t build(void) {
    static _Atomic uint64_t known; /* 0: not hashed yet */
    uint64_t hash = atomic_load_explicit(&known, memory_order_relaxed);
    if (hash)
        return hash;
    hash = fv_hash(FV_HASH_BEGIN, FV_SOURCES_HASH, strlen(FV_SOURCES_HASH));
    for (int i = 0; i < fv_kernel_count; i++)
        hash = fv_hash(hash, fv_kernels[i].name, strlen(fv_kernels[i].name) + 1);
    atomic_store_explicit(&known, hash, memory_order_relaxed);
    return hash;
}

void fv_tuning_section_of(const fv_cpu *cpu, fv_tuning_section *section) {
    char features[FV_FEATURES_TEXT];
    memset(section, 0, sizeof *section);
    snprintf(section->release, sizeof section->release, "%s", FOVEA_VERSION_STRING);
    snprintf(section->text, sizeof section->text,
             "cpu vendor=%s family=%" PRId64 " model=%" PRId64 " stepping=%" PRId64 " isa=%s features=%s l1d=%" PRId64
             " l2=%" PRId64 " l3=%" PRId64 " cores=%" PRId64 " kernels=%016" PRIx64,
             cpu->vendor, cpu->family, cpu->model, cpu->stepping, fv_isa_word(cpu->target.isa),
             cpu->target.features ? fv_features_text(cpu->target.features, ",", features) : "none", cpu->l1d, cpu->l2,
             cpu->l3, cpu->cores, build());
}

bool fv_tuning_section_known(const fv_tuning_section *section) {
    char word[32];
    const char *found = strstr(section->text, " kernels=");
    if (!found)
        return true;
    snprintf(word, sizeof word, " kernels=%016" PRIx64, build());
    return strcmp(found, word) == 0;
}

bool fv_tuning_is_model(const fv_tuning_section *section) { return !strstr(section->text, " kernels="); }

void fv_tuning_model_of(const fv_tuning_section *section, fv_tuning_section *model) {
    const char *text = section->text, *stepping = strstr(text, " stepping="), *isa = strstr(text, " isa="),
               *l1d = strstr(text, " l1d=");
    memset(model, 0, sizeof *model);
    if (stepping && isa && l1d)
        snprintf(model->text, sizeof model->text, "%.*s%.*s", (int)(stepping - text), text, (int)(l1d - isa), isa);
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
    const char *nearest = NULL, *own = NULL, *release = "";
    size_t length = 0, of_own = 0;
    ptrdiff_t farthest = -1;
    fv_tuning_section model;
    fv_tuning_model_of(section, &model);
    for (int i = 0; i < tuning->sections; i++) {
        size_t n;
        const char *mine = fv_tuning_is_model(&tuning->section[i]) ? model.text : section->text;
        const char *word = first_difference(mine, tuning->section[i].text, &n);
        if (word && word - tuning->section[i].text > farthest) {
            farthest = word - tuning->section[i].text;
            nearest = word;
            length = n;
            release = tuning->section[i].release;
            own = first_difference(tuning->section[i].text, mine, &of_own);
        }
    }
    if (!nearest || !own)
        snprintf(text, size, "it has no rows");
    else if (strncmp(nearest, "kernels=", 8) == 0)
        snprintf(text, size, "it is for this CPU and another build: %s%s (%.*s); this is Fovea %s (%.*s)",
                 release[0] ? "Fovea " : "an unknown release", release, (int)length, nearest, section->release,
                 (int)of_own, own);
    else
        snprintf(text, size, "it is for another CPU: nearest is one with %.*s, here it is %.*s", (int)length, nearest,
                 (int)of_own, own);
}

int fv_tuning_section_find(const fovea_tuning *tuning, const fv_tuning_section *section) {
    for (int i = 0; i < tuning->sections; i++)
        if (strcmp(tuning->section[i].text, section->text) == 0)
            return i;
    return -1;
}

int fv_tuning_section_make(fovea_tuning *tuning, const fv_tuning_section *section) {
    const int found = fv_tuning_section_find(tuning, section);
    if (found >= 0 && !tuning->section[found].release[0])
        tuning->section[found] = *section;
    if (found >= 0 || tuning->sections == FV_TUNING_SECTIONS)
        return found;
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
    if (!*tuning)
        return fail(FOVEA_ERROR_OUT_OF_MEMORY, error, "no memory for a tuning");
    (*tuning)->version = FV_TUNING_VERSION;
    return FOVEA_OK;
}

void fovea_tuning_destroy(fovea_tuning *tuning) {
    if (tuning)
        free(tuning->row);
    free(tuning);
}

bool fv_tuning_overlap(const fv_tuning_row *a, const fv_tuning_row *b) {
    if (!a->known || !b->known)
        return !a->known && !b->known && strcmp(a->text, b->text) == 0;
    if (a->operation != b->operation || a->isa != b->isa || (a->threads != b->threads && a->threads && b->threads))
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

/* Makes a section if need be. */
static fovea_status find_section(fovea_tuning *tuning, const fv_tuning_section *section, int *index,
                                 char error[FV_FILE_ERROR]) {
    *index = fv_tuning_section_make(tuning, section);
    return *index < 0 ? fail(FOVEA_ERROR_TUNING, error, "too many CPUs and builds for one tuning file") : FOVEA_OK;
}

fovea_status fv_tuning_put(fovea_tuning *tuning, const fv_tuning_section *section, const fv_tuning_row *row,
                           char error[FV_FILE_ERROR]) {
    int index;
    const fovea_status status = find_section(tuning, section, &index, error);
    if (status != FOVEA_OK)
        return status;
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
    return FOVEA_OK;
}

bool fv_tuning_serves(const fv_tuning_row *row, fv_isa isa, int threads) {
    return row->isa == isa && (row->threads == 0 || row->threads == threads);
}

/* How many of the things that a row is for are those asked for, in their order; all: FV_TUNING_KEYS + 3. What is
 * explained is the row that differs last. */
static int agreement(const fv_tuning_row *row, fv_tuning_op operation, fv_isa isa, int threads, const int64_t *key) {
    if (row->operation != operation)
        return 0;
    if (row->isa != isa)
        return 1;
    if (!fv_tuning_serves(row, isa, threads))
        return 2;
    for (int i = 0; i < FV_TUNING_KEYS; i++) {
        const fv_interval *interval = &row->key[i];
        if (key[i] < interval->least || key[i] > interval->most)
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
        snprintf(text, size, "no row for %s", fv_tuning_names[operation]);
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
    for (int i = 0; i < FV_TUNING_KEYS; i++)
        if (key[i] < row->key[i].least || key[i] > row->key[i].most) {
            snprintf(text, size, "no row for %s %" PRId64 ", line %d is for %" PRId64 " to %" PRId64,
                     fv_tuning_operations[operation]->key[i].name, key[i], row->line, row->key[i].least,
                     row->key[i].most);
            return;
        }
    snprintf(text, size, "line %d is for it", row->line);
}
