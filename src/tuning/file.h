/* Tuning files: reading, writing, and what a context takes from the one that it finds. */
#ifndef FV_TUNING_FILE_H
#define FV_TUNING_FILE_H

#include "tuning/rows.h"

#include <stdatomic.h>

fovea_status fv_tuning_read(const char *path, fovea_tuning **tuning, bool *absent, char error[FV_FILE_ERROR]);

/* Between fv_file_lock() and fv_file_unlock(). */
fovea_status fv_tuning_write(const fovea_tuning *tuning, const char *path, char error[FV_FILE_ERROR]);

/* A section of a tuning; -1: it has none. */
typedef struct fv_tuning_part {
    const fovea_tuning *tuning;
    int section;
} fv_tuning_part;

/* The parts of a tuning (or of NULL, which has none) that are for a CPU, by precedence: for it and this build, and for
 * its model. */
void fv_tuning_parts(const fovea_tuning *tuning, const fv_cpu *cpu, fv_tuning_part part[2]);

/* The rows that a context takes from the tuning file, and from the one that ships with the library. The linear maps
 * that it packs share them, and may outlive it. */
typedef struct fv_tuning_use {
    atomic_int owners;
    fv_isa isa; /* the context's */
    int threads;
    fovea_tuning *tuning, *shipped; /* NULL: none */
    fv_tuning_part part[4];         /* of both, by precedence */
    int rows;                       /* that the context may use */
    fovea_status status;            /* what was wrong with the file */
    char path[FV_TUNING_PATH], shipped_path[FV_TUNING_PATH];
    char text[512]; /* a sentence: which files, how many rows, or why not */
} fv_tuning_use;

/* Looks for the tuning file (named: the option, or NULL) and the shipped one, and loads them. Fails only for want of
 * memory. */
fovea_status fv_tuning_use_file(const char *named, const fv_cpu *cpu, fv_isa isa, int threads, fv_tuning_use *use);

/* For one from malloc(), whose maker is its first owner: one owner more; one less, the last of which frees it. use may
 * be NULL. */
fv_tuning_use *fv_tuning_use_share(fv_tuning_use *use);
void fv_tuning_use_drop(fv_tuning_use *use);

/* The row for these sizes; NULL and a sentence without its end: why there is none. */
const fv_tuning_row *fv_tuning_use_find(const fv_tuning_use *use, fv_tuning_op operation,
                                        const int64_t key[FV_TUNING_KEYS], char *why, size_t size);

/* The rows for the context's tier and any number of threads, one after another, those that come first first: *at is 0
 * before the first; NULL after the last. */
const fv_tuning_row *fv_tuning_use_next(const fv_tuning_use *use, int *at);

/* "yes: ...": where a row of these is from and what it gains; a sentence without its end. */
void fv_tuning_use_describe(const fv_tuning_use *use, const fv_tuning_row *row, char *text, size_t size);

/* Was a row of a model's section dropped, for a name that is unknown here? Why. target: of that section. */
bool fv_tuning_dropped(const fovea_tuning *tuning, const fv_tuning_row *row, fv_target target, char why[FV_FILE_ERROR]);

/* The row of a tuning that a CPU, tier and number of threads has for these sizes: of its section, else of its model's;
 * NULL and why there is none. */
const fv_tuning_row *fv_tuning_look_up(const fovea_tuning *tuning, const fv_cpu *cpu, fv_isa isa, int threads,
                                       fv_tuning_op operation, const int64_t key[FV_TUNING_KEYS], char *why,
                                       size_t size);

#endif
