/* Tuning files: reading, writing, and what a context takes from the one that it finds. */
#ifndef FV_TUNING_FILE_H
#define FV_TUNING_FILE_H

#include "tuning/rows.h"

fovea_status fv_tuning_read(const char *path, fovea_tuning **tuning, bool *absent, char error[FV_FILE_ERROR]);

/* Between fv_file_lock() and fv_file_unlock(). */
fovea_status fv_tuning_write(const fovea_tuning *tuning, const char *path, char error[FV_FILE_ERROR]);

/* Place number index at which a tuning file is looked for without being named: false after the last; path is "" where
 * the environment does not say. */
bool fv_tuning_place(int index, char *path, size_t size);

/* What a context takes from the tuning file. */
typedef struct fv_tuning_use {
    fv_isa isa; /* the context's */
    int threads;
    fovea_tuning *tuning; /* NULL: none */
    int section;          /* of this CPU and build; -1: none */
    int rows;             /* of it, for this tier and number of threads */
    int64_t cache_scale;  /* what the system says of caches counts as so many per cent: of the file, or 100 */
    fovea_status status;  /* what was wrong with the file */
    char path[FV_TUNING_PATH];
    char text[512]; /* a sentence: which file, how many rows, or why not */
} fv_tuning_use;

/* Looks for the tuning file (named: the option, or NULL) and loads it. Fails only for want of memory. */
fovea_status fv_tuning_use_file(const char *named, const fv_cpu *cpu, fv_isa isa, int threads, fv_tuning_use *use);

/* The row for these sizes; NULL and a sentence without its end: why there is none. */
const fv_tuning_row *fv_tuning_use_find(const fv_tuning_use *use, fv_tuning_op operation,
                                        const int64_t key[FV_TUNING_KEYS], char *why, size_t size);

#endif
