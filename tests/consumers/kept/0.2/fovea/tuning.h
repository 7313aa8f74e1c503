/* Fovea: tuning files. Part of fovea.h. */
#ifndef FOVEA_TUNING_H
#define FOVEA_TUNING_H

#include "attention.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The content of a tuning file: rows that say, for shapes of some sizes on one CPU and one build, which kernels and
 * blocks a plan or a linear map takes. Text of at most 64 KiB, with rows for any number of CPUs; written by fovea-tune.
 */
typedef struct fovea_tuning fovea_tuning;

/* Reads a file, all or nothing: *tuning is NULL after an error. FOVEA_ERROR_FILE: it is not there, not readable, not a
 * regular file, too large, or not to be trusted (writable by anybody; or in a folder that is, and then a symbolic link
 * or another user's). FOVEA_ERROR_TUNING: its content; FOVEA_ERROR_VERSION: it is of a newer version and has something
 * for this build that this library does not know; FOVEA_ERROR_FOREIGN: it is of a version that only older builds read.
 * The sentence names the line. Rows for other CPUs and builds are no error here. The caller destroys it. Thread-safe.
 */
FOVEA_API fovea_status fovea_tuning_load(const char *path, fovea_tuning **tuning);

/* Writes it in place of what is there, if anything: a reader at any time, and whoever comes after a crash, finds the
 * old file whole or the new one whole. Makes missing folders. Writers lock the folder (flock); where another process
 * holds that lock for longer than a second, FOVEA_ERROR_BUSY. After an error the old file is as it was. Thread-safe as
 * long as nobody changes the tuning. */
FOVEA_API fovea_status fovea_tuning_save(const fovea_tuning *tuning, const char *path);

/* Adds the rows of from to into. Where both have a row for the same shape on the same CPU and build, that of from
 * stays. After an error into is as it was. Not thread-safe for one into. */
FOVEA_API fovea_status fovea_tuning_merge(fovea_tuning *into, const fovea_tuning *from);

typedef struct fovea_tuning_match {
    size_t struct_size;
    int found;       /* 1: there is a row; 0: there is none, and reason says why */
    int line;        /* of the file it was loaded from; 0: none */
    double gain;     /* time of the default / time of the choice, as measured when the row was made */
    double gain_low; /* the 95 % interval of it */
    double gain_high;
    char row[1024]; /* the row's text */
    char reason[256];
} fovea_tuning_match;

/* Sets struct_size, and the rest to 0. NULL is ignored. Thread-safe on different structs. */
#define fovea_tuning_match_init(match) fovea_tuning_match_init_size((match), sizeof(fovea_tuning_match))
FOVEA_API void fovea_tuning_match_init_size(fovea_tuning_match *match, size_t size);

/* What a plan of that context and shape would take from it, were it the context's own. Thread-safe as long as nobody
 * changes the tuning. */
FOVEA_API fovea_status fovea_tuning_lookup(const fovea_tuning *tuning, const fovea_context *ctx,
                                           const fovea_attention_desc *desc, fovea_tuning_match *match);

/* Frees it; NULL is allowed. */
FOVEA_API void fovea_tuning_destroy(fovea_tuning *tuning);

#ifdef __cplusplus
}
#endif
#endif
