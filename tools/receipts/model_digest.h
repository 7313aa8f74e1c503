/* A model as digests: its arrays, its other settings, its tokenizer. docs/receipts.md has the formulas. */
#ifndef RECEIPTS_MODEL_DIGEST_H
#define RECEIPTS_MODEL_DIGEST_H

#include "sha256.h"
#include "weights.h"

typedef struct model_digest {
    sha256_digest arrays;    /* names, types and shapes */
    sha256_digest weights;   /* the same, and each array's bytes as stored */
    sha256_digest settings;  /* of the GGUF file, or config.json */
    sha256_digest tokenizer; /* settings or files of the tokenizer */
    sha256_digest template;  /* of chats; of nothing where there is none */
} model_digest;

/* Reads all of the model, an array a thread of ctx. 0, or -1 and a complaint. */
int model_digest_of(const fovea_context *ctx, const weights *w, model_digest *digest, complaint to);

#endif
