/* A run of fovea-generate: what its command line asks for, and what its parts share. */
#ifndef GENERATE_RUN_H
#define GENERATE_RUN_H

#include "model.h"
#include "text.h"

enum { COMPLAINT_MOST = 1024, WORDS_MOST = 256, TEXT_MOST = 1 << 24, LOGIT_ROWS = 64 };

typedef struct options {
    const char *model, *system, *perplexity;
    int threads, dtype, weights, arithmetic, cache, values;
    int64_t tokens, context, seed;
    double temperature, top_p;
    bool plain, ids, formats;
    const char *words[WORDS_MOST]; /* of the prompt */
    int word_count;
} options;

/* What a run needs. */
typedef struct run {
    const options *opts;
    fovea_context *ctx;
    fovea_info info;
    model *m;
    text_codec *t;
    session *s;
    char *text;         /* the prompt, or NULL */
    float *logits;      /* [LOGIT_ROWS][words] */
    int32_t *ids;       /* [room] */
    tk_decoder decoder; /* of the answer */
    char *piece;        /* of it */
    uint64_t hash;
    double prefill, decode; /* seconds */
    int64_t room;           /* for tokens, of prompt and answer */
    int64_t prompt, answer; /* tokens */
    bool cut_off;           /* the answer, by --tokens or room */
    double decode_bytes;    /* that decoding had to read */
    char complaint[COMPLAINT_MOST];
} run;

/* options.c. Returns -1, or what the program ends with. */
int options_read(int argc, char **argv, options *opts);
fovea_dtype options_dtype(int type);
const char *options_dtype_name(int type);
model_options options_types(const options *opts);
const char *options_weights_name(const options *opts, bool quantised); /* "stored, q16", or of floats their type */

/* run.c. These end the program, with a sentence: for a failure, or with a status. */
void die(const char *what);
void run_end(int status, const char *what);

void *allocate(size_t count, size_t bytes); /* zeros, and room for one more; or ends the program */
complaint to(run *r);
void hash_logits(run *r, const float *logits, int64_t count);

/* UTF-8 of bytes that the user gave, to be freed; tells the user what was replaced in it. */
char *sound_text(const char *bytes, size_t count, const char *what);

/* The model of opts, and a session of it; or ends the program. */
void run_load(run *r, const char *path);
void run_unload(run *r);

/* perplexity.c. Prints how well the model predicts a text; with --formats, with each format of weights and of cache. */
void perplexity(run *r, const char *path);

#endif
