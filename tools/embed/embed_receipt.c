/* Receipts of vectors (embed.h): settings, the model's digests, writing. */
#include "embed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const types[] = {[EMBED_F32] = "f32", [EMBED_BF16] = "bf16", [EMBED_F16] = "f16"},
                         *const weights_words[] = {"stored", "q8_0"},
                         *const poolings[] = {[FOVEA_POOLING_FIRST] = "first",
                                              [FOVEA_POOLING_LAST] = "last",
                                              [FOVEA_POOLING_MEAN] = "mean",
                                              [FOVEA_POOLING_MEAN_SQRT_LEN] = "mean_sqrt_len",
                                              [FOVEA_POOLING_WEIGHTED_MEAN] = "weighted_mean",
                                              [FOVEA_POOLING_MAX] = "max"},
                         *const divided[] = {"0", "1"};

static int place_of(const char *word, const char *const *words, int count) {
    int i = 0;
    while (i < count && strcmp(words[i], word) != 0)
        i++;
    return i < count ? i : -1;
}

#define PLACE(setting, words) place_of(r->settings[setting], words, (int)(sizeof(words) / sizeof(words)[0]))

bool embed_settings_read(const vectors_receipt *r, embed_model *m) {
    const int type = PLACE(VECTORS_TYPE, types), stored = PLACE(VECTORS_WEIGHTS, weights_words),
              pooling = PLACE(VECTORS_POOLING, poolings), normalized = PLACE(VECTORS_NORMALIZED, divided);
    char again[RECEIPT_WORD];
    const long long tokens = strtoll(r->settings[VECTORS_TOKENS], NULL, 10);
    snprintf(again, sizeof again, "%lld", tokens);
    if (type < 0 || stored < 0 || pooling < 0 || normalized < 0 || tokens < 1 ||
        strcmp(again, r->settings[VECTORS_TOKENS]) != 0)
        return false;
    m->type = (embed_type)type;
    m->weights = stored == 1 ? EMBED_Q8_0 : EMBED_F32;
    m->config.pooling = (fovea_pooling)pooling;
    m->config.any_length = normalized == 0;
    m->config.most_tokens = tokens;
    return true;
}

void embed_settings(const embed_model *m, vectors_receipt *r) {
    strcpy(r->settings[VECTORS_TYPE], types[m->type]);
    strcpy(r->settings[VECTORS_WEIGHTS], weights_words[m->weights == EMBED_Q8_0]);
    strcpy(r->settings[VECTORS_POOLING], poolings[m->config.pooling]);
    strcpy(r->settings[VECTORS_NORMALIZED], divided[!m->config.any_length]);
    snprintf(r->settings[VECTORS_TOKENS], RECEIPT_WORD, "%lld", (long long)encoder_sizes(m->e).most_tokens);
}

void embed_digest(const embed_model *m, model_digest *digest) {
    char text[EMBED_COMPLAINT];
    const complaint to = {text, sizeof text};
    weights *w;
    if (weights_open(m->place.file, &w, to) != 0 || model_digest_of(m->context, w, digest, to) != 0)
        embed_die(text);
    weights_close(w);
}

/* ----------------------------------------------------------------------------------------------------- writing -- */

void embed_receipt_begin(embed_receipt *p, const embed_model *m, const char *path, int64_t chunk, bool is_private) {
    char text[EMBED_COMPLAINT];
    *p = (embed_receipt){.is_private = is_private, .r.head.bits = FOVEA_BITS_VERSION};
    if (path != NULL && receipt_writable(path, (complaint){text, sizeof text}) != 0)
        embed_die(text);
    if (path != NULL)
        embed_digest(m, &p->r.head.model);
    embed_settings(m, &p->r);
    p->entries = embed_allocate((size_t)chunk, sizeof *p->entries);
}

static void add_tokens(void *arg, int64_t text, const int32_t *ids, int64_t count) {
    embed_receipt *p = arg;
    p->failed |= receipt_prompt_digest(ids, count, &p->entries[text].tokens) != 0;
}

void embed_receipt_digests(embed_receipt *p, sentences_report *report) {
    report->each = add_tokens;
    report->arg = p;
}

int embed_receipt_entries(embed_receipt *p, const char *const *texts, int64_t count, const float *vectors,
                          int64_t width, complaint to) {
    for (int64_t i = 0; i < count; i++)
        p->failed |= sha256_of(texts[i], strlen(texts[i]), &p->entries[i].text) != 0 ||
                     receipt_row_digest(vectors + i * width, width, &p->entries[i].vector) != 0;
    return p->failed ? complain(to, "receipt", "out of memory") : 0;
}

int embed_receipt_add(embed_receipt *p, const char *const *texts, int64_t count, complaint to) {
    for (int64_t i = 0; i < count; i++)
        if (vectors_receipt_add(&p->r, &p->entries[i], p->is_private ? NULL : texts[i], to) != 0)
            return -1;
    return 0;
}

int embed_receipt_write(embed_receipt *p, const char *path, double seconds, complaint to) {
    p->r.head.seconds = seconds;
    return p->r.count > 0 ? vectors_receipt_write(&p->r, path, to) : complain(to, path, "there are no texts");
}

void embed_receipt_end(embed_receipt *p) {
    vectors_receipt_free(&p->r);
    free(p->entries);
}
