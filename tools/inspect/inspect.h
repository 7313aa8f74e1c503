/* Shared by the files of fovea-inspect: the command line, and how results are written.
 *
 * A command (cost.c, similarity.c, attention.c) computes everything, then writes: to standard output, or to files that
 * are put in place whole (output.c). What fails says so in one sentence on standard error. */
#ifndef INSPECT_INSPECT_H
#define INSPECT_INSPECT_H

#include "complain.h"

#include <fovea/fovea.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { INSPECT_GOOD = 0, INSPECT_FAILED = 1, INSPECT_USAGE = 2 };

/* ---------------------------------------------------------------------------------------------------- options.c -- */

enum { INSPECT_WORDS = 256 };

typedef struct inspect_head {
    int64_t layer, head; /* both from 0; -1: not given */
} inspect_head;

typedef struct inspect_options {
    const char *command;
    int64_t d_model, heads, kv_heads, d_k, d_v, d_out, q_len, kv_len, batch; /* 0: not given */
    bool biases, causal, measure;
    int64_t seconds, samples, threads;
    int rank;          /* similarity: the order of its list, of similarity_orders; -1: none */
    int64_t top;       /* heads of a list; 0: not given */
    int64_t layer;     /* -1: all */
    inspect_head head; /* only that one */
    const char *csv, *json, *svg, *output, *model;
    const char *words[INSPECT_WORDS]; /* what is no option */
    int word_count;
} inspect_options;

/* Reads them; a sentence to stderr and INSPECT_USAGE if they are wrong, -1 if the program goes on. --help, --version,
 * --man and --completion end here, too. */
int inspect_options_read(int argc, char **argv, inspect_options *options);

/* ----------------------------------------------------------------------------------------------------- output.c -- */

/* A text that a command can write: into a file, or to standard output where the path is "-". */
typedef struct output {
    const char *path;                       /* NULL: not asked for */
    const char *begins;                     /* what a file must begin with, to be replaced; at most 16 bytes */
    int (*write)(const void *of, FILE *to); /* -1: out of memory; errors of the stream are found here */
} output;

/* Can all be written, at most one of them to standard output (*standard)? -1 and a complaint if not; nothing is
 * changed. To be asked before what takes long. */
int outputs_check(const output *outputs, int count, bool *standard, complaint to);

/* Puts each text in place of what is there, whole or not at all. */
int outputs_write(const output *outputs, int count, const void *of, complaint to);

/* ------------------------------------------------------------------------------------------------------- errors -- */

enum { INSPECT_COMPLAINT = 1024 };

/* Prints a complaint; returns INSPECT_FAILED. */
int inspect_failed(complaint said);

/* The context of a command: the threads asked for. NULL after a complaint. *threads: how many it has. */
fovea_context *inspect_context(const inspect_options *options, int *threads, complaint to);

/* ----------------------------------------------------------------------------------------------------- commands -- */

int inspect_cost(const inspect_options *options);
int inspect_similarity(const inspect_options *options);
int inspect_attention(const inspect_options *options);

#endif
