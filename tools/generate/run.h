/* A run of fovea-generate: what its command line asks for, and what its parts share. */
#ifndef GENERATE_RUN_H
#define GENERATE_RUN_H

#include "model.h"
#include "text.h"

#include <stdio.h>

enum { COMPLAINT_MOST = 1024, WORDS_MOST = 256, TEXT_MOST = 1 << 24, LOGIT_ROWS = 64, STOPS_MOST = 16 };
enum { PARALLEL_MOST = LOGIT_ROWS }; /* sequences at once */

#define HASH_BEGIN UINT64_C(0xcbf29ce484222325)

/* --stop, which may come several times. */
typedef struct stop_list {
    const char *text[STOPS_MOST];
    int count;
} stop_list;

typedef struct options {
    const char *model, *system, *perplexity, *file;
    stop_list stops;
    int threads, dtype, weights, arithmetic, cache, values;
    int64_t tokens, context, seed, top_k, parallel; /* parallel 0: one answer */
    double temperature, top_p, min_p, penalty;
    bool plain, ids, formats, mpi;
    const char *words[WORDS_MOST]; /* of the prompt */
    int word_count;
} options;

/* A run. */
typedef struct run {
    const options *opts;
    fovea_context *ctx;
    const model_ranks *ranks; /* or NULL */
    fovea_context_facts info;
    model *m;
    text_codec *t;
    session *s;
    char *text;         /* of all prompts, or NULL */
    const char **texts; /* each prompt; one, if same_prompt */
    int64_t prompts;    /* to be answered */
    bool same_prompt;   /* all are one */
    int64_t sequences;  /* of the session */
    float *logits;      /* [LOGIT_ROWS][words] */
    int32_t *ids;       /* of the text whose perplexity is measured */
    uint64_t hash;
    double loading, prefill, decode;    /* seconds */
    int64_t room;                       /* for tokens, of prompt and answer */
    int64_t prompt, decoded;            /* tokens */
    int64_t cut_by_tokens, cut_by_room; /* answers that --tokens, or room, ended */
    double decode_bytes;                /* that decoding had to read */
    char complaint[COMPLAINT_MOST];
} run;

/* options.c. Returns -1, or what the program ends with. */
int options_read(int argc, char **argv, options *opts);
fovea_dtype options_dtype(int type);
const char *options_dtype_name(int type);
model_options options_types(const options *opts);
const char *options_weights_name(const options *opts, const model *m); /* "stored, q16", or of floats their type */

/* run.c. Where run_end() writes; NULL: standard error. */
extern FILE *run_complaints;

/* These end the program, with a sentence: for a failure, or with a status. */
void die(const char *what);
void run_end(int status, const char *what);

void *allocate(size_t count, size_t bytes); /* zeros, and room for one more; or ends the program */
complaint to(run *r);
uint64_t hash_logits(uint64_t hash, const float *logits, int64_t count); /* from HASH_BEGIN on */

/* UTF-8 of bytes that the user gave, to be freed; tells the user what was replaced in it. */
char *sound_text(const char *bytes, size_t count, const char *what);

/* The model of opts, and a session of it; or ends the program. */
void run_load(run *r, const char *path);
void run_unload(run *r);

/* report.c. Prints how fast answers came, and what is worth knowing of them. */
void report(const run *r);

/* perplexity.c. Prints how well the model predicts a text; with --formats, with each format of weights and of cache. */
void perplexity(run *r, const char *path);

#endif
