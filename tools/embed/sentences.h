/* Vectors of many sentences: tokens, batches of sentences of about one length, encoder. */
#ifndef EMBED_SENTENCES_H
#define EMBED_SENTENCES_H

#include "encoder.h"
#include "folder_tokenizer.h"

typedef struct sentences_report {
    int64_t tokens;
    double reading;                                                           /* seconds of making tokens */
    double parts[ENCODER_PARTS];                                              /* seconds of the encoder */
    void (*each)(void *arg, int64_t text, const int32_t *ids, int64_t count); /* or NULL: called with its tokens */
    void *arg;
} sentences_report;

/* out[count][width] of texts[count], strings of UTF-8, cut off behind the tokens that the model takes; the report, if
 * not NULL, is added to. Returns 0, or -1 and a complaint. */
int sentences_encode(const encoder *e, const tk_tokenizer *t, const char *const *texts, int64_t count, float *out,
                     sentences_report *report, complaint to);

#endif
