/* Shared by the files of the program fovea-embed. */
#ifndef EMBED_H
#define EMBED_H

#include "encoder.h"
#include "model_place.h"
#include "sentences.h"
#include "vectors.h"

enum { EMBED_COMPLAINT = 1024 };

/* As which a model may be loaded: what layers hand on, in the first three; weights. */
typedef enum embed_type { EMBED_F32, EMBED_BF16, EMBED_F16, EMBED_Q8_0 } embed_type;

typedef struct embed_model {
    model_place place;
    encoder_config config;
    tk_tokenizer *t;
    encoder *e;
    embed_type type, weights;
    fovea_context *context;
    fovea_context_facts info;
} embed_model;

/* Makes m->context and m->info, with at most as many threads, 0: all; false: there is no such tier here. */
bool embed_context(fovea_isa isa, int threads, embed_model *m);

/* These end the program where they fail. stored: weights, EMBED_F32, as type; or EMBED_Q8_0. */
encoder *embed_load(const embed_model *m, embed_type type, embed_type stored);
void *embed_allocate(size_t count, size_t bytes);
void embed_die(const char *what);
extern int embed_failure; /* the status of embed_die(), which is another while a receipt is verified */

/* The lines of a text that are nearest to a question. other: another element type to compare with; EMBED_F32: none. */
void embed_search(const embed_model *m, const char *path, const char *asked, int top, bool verbose, embed_type other);

/* Receipts of vectors (embed_receipt.c, embed_verify.c; docs/receipts.md). Digests of a chunk's tokens come by the
 * report of sentences_encode(). */
typedef struct embed_receipt {
    vectors_receipt r;
    vectors_entry *entries; /* of a chunk */
    bool is_private, failed;
} embed_receipt;

/* Ends the program where the file is there, or the model cannot be read. */
void embed_receipt_begin(embed_receipt *p, const embed_model *m, const char *path, int64_t chunk, bool is_private);
void embed_receipt_digests(embed_receipt *p, sentences_report *report);
/* The entries of texts that were encoded with that report; adds them. */
int embed_receipt_entries(embed_receipt *p, const char *const *texts, int64_t count, const float *vectors,
                          int64_t width, complaint to);
int embed_receipt_add(embed_receipt *p, const char *const *texts, int64_t count, complaint to);
int embed_receipt_write(embed_receipt *p, const char *path, double seconds, complaint to);
void embed_receipt_end(embed_receipt *p);

/* A receipt's settings become the model's; the words of the model's; the model's digests, or the program ends. */
bool embed_settings_read(const vectors_receipt *r, embed_model *m);
void embed_settings(const embed_model *m, vectors_receipt *r);
void embed_digest(const embed_model *m, model_digest *digest);

typedef struct embed_verifying {
    const char *path, *text, *field; /* text NULL: the receipt's */
    int64_t sample;                  /* texts; 0: all */
    uint64_t seed;
} embed_verifying;

/* Reads a receipt and sets m as it says; checks it with that model. Both may end the program. */
void embed_verify_begin(const embed_verifying *v, vectors_receipt *r);
void embed_verify_set(const embed_verifying *v, const vectors_receipt *r, embed_model *m);
void embed_verify(const embed_verifying *v, vectors_receipt *r, const embed_model *m);

#endif
