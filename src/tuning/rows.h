/* Tunings: rows that decide for the plans of some shapes what defaults would decide else. Speed only: no row changes a
 * bit of any result.
 *
 * Here rows, keys and knobs are numbers and kernels. The operations are listed in operations.inc; what keys and knobs
 * of one mean is told by the module that executes it (attention/plan/knobs.c, linear/knobs.c). The text form is in
 * text.h, files are in file.h.
 */
#ifndef FV_TUNING_ROWS_H
#define FV_TUNING_ROWS_H

#include "core/core.h"
#include "cpu/cpu.h"
#include "fovea/fovea.h"
#include "kernels.h"

#include <stdbool.h>

enum {
    FV_TUNING_VERSION = 4,      /* of the text form: what this library writes, and knows all of */
    FV_TUNING_KEYS = 12,        /* room in memory for the keys of an operation, */
    FV_TUNING_KNOBS = 14,       /* and for its knobs */
    FV_TUNING_TRIED = 8,        /* and for numbers that are tried of one */
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

/* One decision of a row. Neither: the default. */
typedef struct fv_tuning_value {
    const fv_kernel *kernel;
    int64_t number; /* or the value of a name; 0: the default */
} fv_tuning_value;

typedef struct fv_tuning_key {
    const char *name;
    fv_interval range;
} fv_tuning_key;

/* A row of the kernel list, a product of floats; a number of a range; or a name of a list. */
typedef enum fv_tuning_kind { FV_TUNING_KERNEL, FV_TUNING_NUMBER, FV_TUNING_NAME } fv_tuning_kind;

/* Numbers that a tuner tries are eighths of what a plan has so far, in whole tiles; sizes, two of which may be changed
 * at once; of no effect on one thread. */
typedef enum fv_tuning_how { FV_TUNING_EIGHTHS = 1, FV_TUNING_SIZE = 2, FV_TUNING_THREADED = 4 } fv_tuning_how;

/* A field of a choice: all that files, the tuner and what is printed know of it. */
typedef struct fv_tuning_knob {
    const char *name;
    size_t offset; /* in the struct of the operation's choice: of a const fv_kernel *, or an int64_t */
    fv_tuning_kind kind;
    const char *(*name_of)(int64_t value); /* of a list of names: of value 1, 2, ...; NULL after the last */
    fv_interval range;                     /* of a number */
    unsigned how;                          /* of fv_tuning_how: */
    int32_t tried[FV_TUNING_TRIED];        /* numbers to try, up to 0; of kernels and names all are */
} fv_tuning_knob;

#define FV_KNOB_KERNEL(choice, field)                                                                                  \
    { .name = #field, .offset = offsetof(choice, field), .kind = FV_TUNING_KERNEL }
#define FV_KNOB_NAME(choice, field, names)                                                                             \
    { .name = #field, .offset = offsetof(choice, field), .kind = FV_TUNING_NAME, .name_of = names }
#define FV_KNOB_NUMBER(choice, field, least, most, tries, ...)                                                         \
    {                                                                                                                  \
        .name = #field, .offset = offsetof(choice, field), .kind = FV_TUNING_NUMBER, .range = {least, most},           \
        .how = tries, .tried = {                                                                                       \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }

/* The size of caches in per cent of what the system says: some hypervisors report those of a whole socket, or none. */
#define FV_KNOB_CACHE_SCALE(choice) FV_KNOB_NUMBER(choice, cache_scale, 10, 6400, 0, 25, 50, 200, 400, 800)

/* Keys come in the order in which a row that does not fit is explained: those first whose nearest miss tells least. */
typedef struct fv_tuning_operation {
    int keys, knobs;
    const fv_tuning_key *key;
    const fv_tuning_knob *knob;
} fv_tuning_operation;

#define FV_TUNING_OPERATION(name, of, type, arithmetic) FV_TUNING_##name,
typedef enum fv_tuning_op {
#include "tuning/operations.inc"
    FV_TUNING_OPERATIONS
} fv_tuning_op;
#undef FV_TUNING_OPERATION

/* The operation of an element type and an arithmetic, from that of many rows of float32. */
fv_tuning_op fv_tuning_of(fv_tuning_op many_f32, fovea_dtype dtype, fovea_arithmetic arithmetic, bool few);

/* And back: the operation's element type and arithmetic. */
fovea_dtype fv_tuning_dtype(fv_tuning_op operation);
fovea_arithmetic fv_tuning_arithmetic(fv_tuning_op operation);

extern const fv_tuning_operation fv_tuning_attention, fv_tuning_attention_few, fv_tuning_linear, fv_tuning_linear_few;
extern const fv_tuning_operation *const fv_tuning_operations[FV_TUNING_OPERATIONS];
extern const char *const fv_tuning_names[FV_TUNING_OPERATIONS];

/* A value as a row tells it; "" if it is the default. */
void fv_tuning_value_text(const fv_tuning_knob *knob, const fv_tuning_value *value, char *text, size_t size);

/* A row's knobs and a choice are the same thing in two forms. */
void fv_tuning_to_choice(fv_tuning_op operation, const fv_tuning_value knob[FV_TUNING_KNOBS], void *choice);
void fv_tuning_of_choice(fv_tuning_op operation, const void *choice, fv_tuning_value knob[FV_TUNING_KNOBS]);

/* The evidence: time of the default / time of the choice, in thousandths: the median, and its 95 % interval. */
typedef struct fv_tuning_evidence {
    int64_t gain, low, high;
    int64_t blocks;                /* of measurements */
    char shapes[FV_TUNING_SHAPES]; /* on which it was proved: none of them led to the choice */
} fv_tuning_evidence;

typedef struct fv_tuning_row {
    int section; /* of the tuning: for which CPU and build */
    int line;    /* of the file it was read from, 0: none */
    bool known;  /* false: for another build, an adapter's, or with an unknown name; carried along as it is: */
    char text[FV_TUNING_LINE]; /* its line; "" of a known one */
    fv_tuning_op operation;
    fv_isa isa;
    int64_t threads; /* 0: any number, in the section of a model */
    fv_interval key[FV_TUNING_KEYS];
    fv_tuning_value knob[FV_TUNING_KNOBS];
    fv_tuning_evidence evidence;
} fv_tuning_row;

/* A CPU and a build, as a line of text: equal text, equal machine. The build is known by a hash of the kernel list and
 * of the sources of kernels and of what chooses and calls them. Its release is for readers alone. Or a model of CPU, by
 * its tier and features, whatever the build, the caches and the number of cores and threads. */
typedef struct fv_tuning_section {
    char text[384];
    char release[16]; /* "0.4.0"; "": written by a build that did not say */
} fv_tuning_section;

struct fovea_tuning {
    int version; /* FV_TUNING_VERSION, or the newer one of a file that rows for other builds are from */
    int sections, rows, capacity;
    fv_tuning_section section[FV_TUNING_SECTIONS];
    fv_tuning_row *row;
};

/* The section of this build on a CPU. */
void fv_tuning_section_of(const fv_cpu *cpu, fv_tuning_section *section);

/* The model of the CPU of a section. */
void fv_tuning_model_of(const fv_tuning_section *section, fv_tuning_section *model);

/* Is it of a model? */
bool fv_tuning_is_model(const fv_tuning_section *section);

/* Is it for this build? */
bool fv_tuning_section_known(const fv_tuning_section *section);

/* Does a row serve this tier and number of threads? */
bool fv_tuning_serves(const fv_tuning_row *row, fv_isa isa, int threads);

/* A sentence: where the sections of a tuning differ from one that it does not have. */
void fv_tuning_why_foreign(const fovea_tuning *tuning, const fv_tuning_section *section, char *text, size_t size);

fovea_status fv_tuning_create(fovea_tuning **tuning, char error[FV_FILE_ERROR]);

/* The number of a section in the tuning; -1 if it is not there. */
int fv_tuning_section_find(const fovea_tuning *tuning, const fv_tuning_section *section);

/* The same, made if it is not there; -1 if there is no room. */
int fv_tuning_section_make(fovea_tuning *tuning, const fv_tuning_section *section);

/* Puts a row in, in place of those that it overlaps. */
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

#endif
