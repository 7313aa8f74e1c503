/* Tunings: rows that decide for the plans of some shapes what the planner's defaults would decide else. Speed only: no
 * row changes a bit of any result.
 *
 * The operations, the sizes by which their rows are found (keys) and what a row decides (knobs) are the table
 * fv_tuning_operations (tuning.c); text form, look-up, tests and tuner follow it. The text form is in text.c,
 * what a plan or a linear map makes of a row in choice.c.
 */
#ifndef FV_TUNING_H
#define FV_TUNING_H

#include "attention/attention.h"
#include "core/core.h"
#include "cpu/cpu.h"
#include "fovea/fovea.h"
#include "linear/choice.h"

#include <stdbool.h>

enum {
    FV_TUNING_KEYS = 7,
    FV_TUNING_KNOBS = 6,
    FV_TUNING_BYTES = 64 << 10, /* of a file */
    FV_TUNING_ROWS = 1024,
    FV_TUNING_SECTIONS = 64, /* CPUs and builds */
    FV_TUNING_LINE = 1024,   /* bytes of a line, its end included */
    FV_TUNING_SHAPES = 200,  /* bytes of the shapes in a row */
    FV_TUNING_PATH = 4096    /* bytes of a file's name, its end included */
};

/* A size from least to most, both included. */
typedef struct fv_interval {
    int64_t least, most;
} fv_interval;

/* What a row decides in one respect. Neither: the default. */
typedef struct fv_tuning_value {
    const fv_kernel *kernel;
    int64_t number; /* 0: the default */
} fv_tuning_value;

typedef struct fv_tuning_key {
    const char *name;
    fv_interval range;
} fv_tuning_key;

typedef struct fv_tuning_knob {
    const char *name;
    bool kernel; /* a row of the kernel list of operation op; else a number of range */
    fv_op op;
    fv_interval range;
} fv_tuning_knob;

/* Keys and knobs end at the first without a name. */
typedef struct fv_tuning_operation {
    const char *name;
    fv_type type; /* of the kernels that its knobs name */
    fv_tuning_key key[FV_TUNING_KEYS];
    fv_tuning_knob knob[FV_TUNING_KNOBS];
} fv_tuning_operation;

/* The operations. Those of so few rows that reading keys or weights bounds them are apart: they are measured with keys,
 * values and weights that are in no cache. */
typedef enum fv_tuning_op {
    FV_TUNING_attention,
    FV_TUNING_attention_few,
    FV_TUNING_linear,
    FV_TUNING_linear_few,
    FV_TUNING_OPERATIONS
} fv_tuning_op;
extern const fv_tuning_operation fv_tuning_operations[FV_TUNING_OPERATIONS];

/* rows of an attention: queries that share a key head. */
enum { FV_TUNING_FEW_ROWS = 16, FV_TUNING_LINEAR_FEW_ROWS = 8 };
enum { FV_KEY_rows, FV_KEY_keys, FV_KEY_head_dim, FV_KEY_value_dim, FV_KEY_units, FV_KEY_limited, FV_KEY_group };
enum { FV_KEY_in = FV_KEY_rows + 1, FV_KEY_out };
enum { FV_LIMITED_no, FV_LIMITED_causal, FV_LIMITED_window }; /* values of FV_KEY_limited */
enum { FV_KNOB_score, FV_KNOB_value, FV_KNOB_block_rows, FV_KNOB_tile_rows, FV_KNOB_split, FV_KNOB_caches };
enum { FV_KNOB_gemm, FV_KNOB_k_block, FV_KNOB_row_block, FV_KNOB_chunk, FV_KNOB_items }; /* and FV_KNOB_caches: */
_Static_assert(FV_KNOB_items + 1 == FV_KNOB_caches && FV_KNOB_caches + 1 == FV_TUNING_KNOBS, "the last of both");

/* The evidence: time of the default / time of the choice, in thousandths: the median, and its 95 % interval. */
typedef struct fv_tuning_evidence {
    int64_t gain, low, high;
    int64_t blocks;                /* of measurements */
    char shapes[FV_TUNING_SHAPES]; /* on which it was proved: none of them led to the choice */
} fv_tuning_evidence;

typedef struct fv_tuning_row {
    int section; /* of the tuning: for which CPU and build */
    int line;    /* of the file it was read from, 0: none */
    bool known;  /* false: for another build, carried along as it is; only text and section hold something */
    char text[FV_TUNING_LINE];
    fv_tuning_op operation;
    fv_isa isa;
    int64_t threads;
    fv_interval key[FV_TUNING_KEYS];
    fv_tuning_value knob[FV_TUNING_KNOBS];
    fv_tuning_evidence evidence;
} fv_tuning_row;

/* A CPU and a build, as a line of text: equal text, equal machine. The build is known by a hash of the kernel list and
 * of the sources of kernels and of what chooses and calls them. */
typedef struct fv_tuning_section {
    char text[256];
} fv_tuning_section;

struct fovea_tuning {
    int sections, rows, capacity;
    fv_tuning_section section[FV_TUNING_SECTIONS];
    fv_tuning_row *row;
};

/* The section of this build on a CPU. */
void fv_tuning_section_of(const fv_cpu *cpu, fv_tuning_section *section);

/* Is it for this build? */
bool fv_tuning_section_known(const fv_tuning_section *section);

/* A sentence: where the sections of a tuning differ from one that it does not have. */
void fv_tuning_why_foreign(const fovea_tuning *tuning, const fv_tuning_section *section, char *text, size_t size);

fovea_status fv_tuning_create(fovea_tuning **tuning, char error[FV_FILE_ERROR]);

/* The number of a section in the tuning, made if it is not there and make; -1 if it is not there, or there is no
 * room. */
int fv_tuning_section_index(fovea_tuning *tuning, const fv_tuning_section *section, bool make);

/* Puts a row in, in place of those that it overlaps; row->text is written. */
fovea_status fv_tuning_put(fovea_tuning *tuning, const fv_tuning_section *section, const fv_tuning_row *row,
                           char error[FV_FILE_ERROR]);

/* Takes out the rows of a section that a row (of this build; what it decides does not matter) overlaps. */
void fv_tuning_remove(fovea_tuning *tuning, int section, const fv_tuning_row *row);

/* May both be asked for the same shape? Of the same section, that is. */
bool fv_tuning_overlap(const fv_tuning_row *a, const fv_tuning_row *b);

/* The row for these sizes, or NULL. */
const fv_tuning_row *fv_tuning_find(const fovea_tuning *tuning, int section, fv_tuning_op operation, fv_isa isa,
                                    int threads, const int64_t key[FV_TUNING_KEYS]);

/* A sentence: why fv_tuning_find() gives NULL. */
void fv_tuning_why_not(const fovea_tuning *tuning, int section, fv_tuning_op operation, fv_isa isa, int threads,
                       const int64_t key[FV_TUNING_KEYS], char *text, size_t size);

/* ----------------------------------------------------------------------------------- text form (text.c) -- */

/* Reads all, or nothing: *tuning is NULL after an error, which names the line. */
fovea_status fv_tuning_parse(const char *text, size_t size, fovea_tuning **tuning, char error[FV_FILE_ERROR]);

/* Writes all into text[FV_TUNING_BYTES]; fails if there is too much. */
fovea_status fv_tuning_print(const fovea_tuning *tuning, char *text, size_t *length, char error[FV_FILE_ERROR]);

/* Writes row->text. */
void fv_tuning_print_row(fv_tuning_row *row);

/* ------------------------------------------------------------------------------------- files (file.c) -- */

fovea_status fv_tuning_read(const char *path, fovea_tuning **tuning, bool *absent, char error[FV_FILE_ERROR]);

/* Between fv_file_lock() and fv_file_unlock(). */
fovea_status fv_tuning_write(const fovea_tuning *tuning, const char *path, char error[FV_FILE_ERROR]);

/* Place number index at which a tuning file is looked for without being named: false after the last; path is "" where
 * the environment does not say. */
bool fv_tuning_place(int index, char *path, size_t size);

/* What a context takes from the tuning file. */
typedef struct fv_tuning_use {
    fovea_tuning *tuning; /* NULL: none */
    int section;          /* of this CPU and build; -1: none */
    int rows;             /* of it, for this tier and number of threads */
    fovea_status status;  /* what was wrong with the file */
    char path[FV_TUNING_PATH];
    char text[512]; /* a sentence: which file, how many rows, or why not */
} fv_tuning_use;

/* Looks for the tuning file (named: the option, or NULL) and loads it. Fails only for want of memory. */
fovea_status fv_tuning_use_file(const char *named, const fv_cpu *cpu, fv_isa isa, int threads, fv_tuning_use *use);

/* --------------------------------------------------------------------------------- choices (choice.c) -- */

/* The operation of a shape, and its keys. */
fv_tuning_op fv_tuning_of_attention(const fovea_attention_desc *desc, int64_t key[FV_TUNING_KEYS]);
fv_tuning_op fv_tuning_of_linear(int64_t rows, int64_t in, int64_t out, int64_t key[FV_TUNING_KEYS]);

/* A row's knobs and a choice are the same thing in two forms. */
fv_attention_choice fv_tuning_choice(const fv_tuning_value knob[FV_TUNING_KNOBS]);
void fv_tuning_knobs(const fv_attention_choice *choice, fv_tuning_value knob[FV_TUNING_KNOBS]);
fv_linear_choice fv_tuning_linear_choice(const fv_tuning_value knob[FV_TUNING_KNOBS]);
void fv_tuning_linear_knobs(const fv_linear_choice *choice, fv_tuning_value knob[FV_TUNING_KNOBS]);

/* "yes: ...": where a row is from and what it gains; a sentence without its end. */
void fv_tuning_describe_row(const fv_tuning_row *row, const char *path, char *text, size_t size);

#endif
