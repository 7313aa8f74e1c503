/* A run of fovea-generate: what its command line asks for, and what its parts share. */
#ifndef GENERATE_RUN_H
#define GENERATE_RUN_H

#include "model.h"
#include "receipt.h"
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
    const char *model, *system, *perplexity, *file, *receipt, *verify;
    stop_list stops;
    int threads, dtype, weights, arithmetic, cache, values;
    int64_t tokens, context, seed, top_k, parallel; /* parallel 0: one answer */
    double temperature, top_p, min_p, penalty;
    bool plain, ids, formats, mpi, private_prompt;
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
    char *system; /* message of chats, or NULL */
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
    model_digest digest;                /* with --receipt or --verify */
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
/* The value of a setting, as the command line has it; and the other way, false where it is none. */
void options_word(const options *opts, const char *option, char *word, size_t room);
bool options_set(options *opts, const char *option, const char *word);
const char *options_weights_name(const options *opts, const model *m); /* "stored, q16", or of floats their type */

/* run.c. Where run_end() writes; NULL: standard error. */
extern FILE *run_complaints;

/* The status of die(), which is another while a receipt is verified; and that of a run which ends early. */
extern int run_failure, run_status;

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

/* run.c. The ids of a prompt as the model reads it, in a chat unless --plain; or ends the program. */
int64_t run_prompt(run *r, const char *prompt, int32_t *ids); /* ids [r->room + 1] */

/* receipts.c, for --receipt. Ends the program before anything is computed where it could not be written. */
void receipts_begin(run *r, const weights *w);
void receipts_write(run *r, receipt_answer *answers, double seconds); /* of all prompts */

/* Options in the words of a receipt, and back: NULL, or the first word that is unknown. */
void settings_words(const options *opts, bool quantized, char words[RECEIPT_SETTINGS][RECEIPT_WORD]);
const char *settings_read(options *opts, const char words[RECEIPT_SETTINGS][RECEIPT_WORD]);

/* verify.c, for --verify. Reads the receipt, whose options become those of the run; checks it. Both may end the
 * program. */
receipt *verify_begin(options *opts);
void verify(run *r, const char *path, const receipt *stated);

/* report.c. Prints how fast answers came, and what is worth knowing of them. */
void report(const run *r);

/* perplexity.c. Prints how well the model predicts a text; with --formats, with each format of weights and of cache. */
void perplexity(run *r, const char *path);

#endif
