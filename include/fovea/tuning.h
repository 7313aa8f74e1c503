/* Fovea: tuning files. Part of fovea.h. */
#ifndef FOVEA_TUNING_H
#define FOVEA_TUNING_H

#include "attention.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The content of a tuning file. A row says which kernels and blocks plans and linear maps use, for a range of shapes on
 * one CPU with one build, or for a model of CPU with any build. The file is text of at most 64 KiB, with rows for any
 * number of CPUs, written by fovea-tune. */
typedef struct fovea_tuning fovea_tuning;

/* Reads a file, all or nothing. After an error, the error detail names the line:
 *   FOVEA_ERROR_FILE          it is missing, unreadable, not a regular file, too large, or unsafe. A file is unsafe if
 *                             everybody may write to it. In a folder to which everybody may write, a symbolic link
 *                             and another user's file are unsafe, too.
 *   FOVEA_ERROR_TUNING        its content is not valid
 *   FOVEA_ERROR_VERSION       it has a newer version, and something for this build that this library does not know
 *   FOVEA_ERROR_INCOMPATIBLE  it has a version that only older builds read
 * Rows for other CPUs and builds are not an error. Nor is a row for a model with a name that this build does not know.
 * The caller destroys *tuning. Thread-safe. */
FOVEA_API fovea_status fovea_tuning_load(const char *path, fovea_tuning **tuning);

/* Writes the file, or replaces it atomically: readers find the old file or the new one, whole, even after a crash.
 * Creates missing folders. Writers lock the folder (flock). FOVEA_ERROR_BUSY if another process holds the lock for more
 * than a second. After an error the old file is unchanged. Thread-safe while nobody changes the tuning. */
FOVEA_API fovea_status fovea_tuning_save(const fovea_tuning *tuning, const char *path);

/* Adds the rows of from to into. If both have a row for the same shapes on the same CPU and build, that of from is
 * kept. Not thread-safe on the same into. */
FOVEA_API fovea_status fovea_tuning_merge(fovea_tuning *into, const fovea_tuning *from);

typedef struct fovea_tuning_match {
    size_t struct_size;
    int found;       /* 1: there is a row; 0: there is none (reason says why) */
    int line;        /* line of that row in its file; 0: no file */
    double gain;     /* time of the default / time of the choice, as measured when the row was made */
    double gain_low; /* 95 % interval of gain */
    double gain_high;
    char row[1024];   /* the row's text */
    char reason[256]; /* found: "", or that the row ships with the library, and in which file */
} fovea_tuning_match;
FOVEA_DEFINE_INIT(fovea_tuning_match_init, fovea_tuning_match, FOVEA_STRUCT_TUNING_MATCH)

/* Finds the row that a plan of this context and shape would use if the context had loaded this tuning: one of the
 * tuning, else of those that ship with the library, if the context found them. Thread-safe while nobody changes the
 * tuning. */
FOVEA_API fovea_status fovea_tuning_lookup(const fovea_tuning *tuning, const fovea_context *ctx,
                                           const fovea_attention_desc *desc, fovea_tuning_match *match);

/* Rows of adapters. An adapter, such as the backend for ggml, may have choices of its own in tuning files: rows whose
 * first word has a dot behind the adapter's name, as in
 *     ggml.mul_mat isa=avx2 threads=8 type=q4_K : take=0 : gain=1.082 low=1.061 high=1.102 blocks=40 shapes=...
 * The library keeps, merges and finds them, and reads no more of them than for which contexts they are. */

/* Row number index, from 0 on, of this operation and for contexts as this one, in tuning, or if that is NULL in the
 * files that the context has loaded. match: found is 0 after the last; gain is not read. Thread-safe while nobody
 * changes the tuning. */
FOVEA_API fovea_status fovea_tuning_get_adapter_row(const fovea_tuning *tuning, const fovea_context *ctx,
                                                    const char *operation, int index, fovea_tuning_match *match);

/* Adds such a row for contexts as this one: operation is its first word; words, those behind threads=, are
 * name=value up to a " : ". It takes the place of those that may be for the same: names that both have up to there have
 * equal values, or ranges such as 7..9 that meet. *tuning NULL: makes a tuning, which the caller destroys. Not
 * thread-safe on the same tuning. */
FOVEA_API fovea_status fovea_tuning_put_adapter_row(fovea_tuning **tuning, const fovea_context *ctx,
                                                    const char *operation, const char *words);

/* Frees a tuning. */
FOVEA_API void fovea_tuning_destroy(fovea_tuning *tuning);

#ifdef __cplusplus
}
#endif
#endif
