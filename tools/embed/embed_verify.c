/* Checking receipts of vectors (embed.h): each text, its tokens and its vector, computed again. Exit status 0: all are
 * as the receipt has them; 1: the first that is not; 2: this program or this model cannot tell. */
#include "embed.h"

#include "cli.h"
#include "splitmix.h"
#include "stopwatch.h"
#include "texts_file.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { DIFFERS = 1, CANNOT_TELL = CLI_USAGE, CHUNK = 1024 };

#if defined(__GNUC__) || defined(__clang__)
__attribute__((format(printf, 3, 4)))
#endif
static void
end(const embed_verifying *v, int status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "fovea-embed: %s: %s: ", v->path, status == DIFFERS ? "differs" : "cannot tell");
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(status);
}

void embed_verify_begin(const embed_verifying *v, vectors_receipt *r) {
    char text[EMBED_COMPLAINT];
    embed_failure = CANNOT_TELL;
    if (vectors_receipt_read(v->path, r, (complaint){text, sizeof text}) != 0) {
        fprintf(stderr, "fovea-embed: cannot tell: %s\n", text);
        exit(CANNOT_TELL);
    }
    if (r->head.bits != FOVEA_BITS_VERSION)
        end(v, CANNOT_TELL, "it was made with version %lld of the bits, this program computes version %d",
            (long long)r->head.bits, FOVEA_BITS_VERSION);
    if (r->texts == NULL && v->text == NULL)
        end(v, CANNOT_TELL, "its texts are private: give them by --text");
}

void embed_verify_set(const embed_verifying *v, const vectors_receipt *r, embed_model *m) {
    if (!embed_settings_read(r, m))
        end(v, CANNOT_TELL, "a setting is unknown, or none of this program: \"%s\", \"%s\", \"%s\", \"%s\" or \"%s\"",
            r->settings[0], r->settings[1], r->settings[2], r->settings[3], r->settings[4]);
}

static void check_model(const embed_verifying *v, const vectors_receipt *r, const embed_model *m) {
    const model_digest *stated = &r->head.model;
    model_digest own;
    vectors_receipt set;
    embed_digest(m, &own);
    if (!sha256_equal(&own.arrays, &stated->arrays) || !sha256_equal(&own.settings, &stated->settings))
        end(v, CANNOT_TELL, "it is of another model: arrays or settings of this one have another SHA-256");
    if (!sha256_equal(&own.weights, &stated->weights))
        end(v, DIFFERS, "weights: arrays have the names and shapes that it states, but other bytes");
    if (!sha256_equal(&own.tokenizer, &stated->tokenizer) || !sha256_equal(&own.template, &stated->template))
        end(v, DIFFERS, "the tokenizer has another SHA-256");
    embed_settings(m, &set);
    if (strcmp(set.settings[VECTORS_TOKENS], r->settings[VECTORS_TOKENS]) != 0)
        end(v, CANNOT_TELL, "this model takes %s tokens of a text, not %s", set.settings[VECTORS_TOKENS],
            r->settings[VECTORS_TOKENS]);
}

/* Which texts are checked: all, or a sample, the first places of a shuffle. */
static bool *choose(const embed_verifying *v, int64_t count) {
    bool *chosen = embed_allocate((size_t)count, sizeof *chosen);
    int64_t *order = embed_allocate((size_t)count, sizeof *order), most = count;
    uint64_t state = v->seed;
    if (v->sample > 0 && v->sample < count)
        most = v->sample;
    for (int64_t i = 0; i < count; i++)
        order[i] = i;
    for (int64_t i = 0; i < most; i++) {
        const int64_t other = i + (int64_t)(splitmix64(&state) % (uint64_t)(count - i)), place = order[other];
        order[other] = order[i];
        chosen[place] = true;
    }
    free(order);
    return chosen;
}

/* Texts whose numbers are places[count]. */
static void check_texts(const embed_verifying *v, const vectors_receipt *r, const embed_model *m, embed_receipt *found,
                        const char *const *texts, const int64_t *places, int64_t count, float *vectors) {
    char text[EMBED_COMPLAINT];
    const complaint to = {text, sizeof text};
    sentences_report report = {0};
    embed_receipt_digests(found, &report);
    if (sentences_encode(m->e, m->t, texts, count, vectors, &report, to) != 0 ||
        embed_receipt_entries(found, texts, count, vectors, encoder_sizes(m->e).width, to) != 0)
        embed_die(text);
    for (int64_t i = 0; i < count; i++) {
        const vectors_entry *own = &found->entries[i], *stated = &r->entries[places[i]];
        const long long number = (long long)places[i] + 1;
        if (!sha256_equal(&own->text, &stated->text))
            end(v, v->text == NULL ? DIFFERS : CANNOT_TELL, "text %lld has another SHA-256", number);
        if (!sha256_equal(&own->tokens, &stated->tokens) && !r->head.changed)
            end(v, CANNOT_TELL, "text %lld: tokens of this program are others than the receipt's", number);
        if (!sha256_equal(&own->tokens, &stated->tokens))
            end(v, DIFFERS, "text %lld: its tokens are others", number);
        if (!sha256_equal(&own->vector, &stated->vector))
            end(v, DIFFERS, "text %lld: its vector is another", number);
    }
}

void embed_verify(const embed_verifying *v, vectors_receipt *r, const embed_model *m) {
    char text[EMBED_COMPLAINT];
    const complaint to = {text, sizeof text};
    texts_file file = {0};
    embed_receipt found;
    check_model(v, r, m);
    embed_receipt_begin(&found, m, NULL, CHUNK, true);
    bool *chosen = choose(v, r->count);
    float *vectors = embed_allocate((size_t)(CHUNK * encoder_sizes(m->e).width), sizeof *vectors);
    const double begin = stopwatch(CLOCK_MONOTONIC);
    int64_t at = 0, checked = 0;
    if (v->text != NULL && texts_file_open(v->text, v->field, CHUNK, &file, to) != 0)
        embed_die(text);
    for (bool more = true; more;) {
        const char *texts[CHUNK];
        int64_t places[CHUNK], count = 0, here = r->count - at < CHUNK ? r->count - at : CHUNK;
        if (v->text != NULL && texts_file_next(&file, to) != 0)
            embed_die(text);
        if (v->text != NULL)
            here = file.count;
        if (here > r->count - at || (here == 0 && at < r->count))
            end(v, CANNOT_TELL, "it has %lld texts, the file %s", (long long)r->count, here == 0 ? "fewer" : "more");
        for (int64_t i = 0; i < here; i++)
            if (chosen[at + i]) {
                places[count] = at + i;
                texts[count++] = v->text != NULL ? file.text[i] : r->texts[at + i];
            }
        if (count > 0)
            check_texts(v, r, m, &found, texts, places, count, vectors);
        checked += count;
        at += here;
        more = here > 0;
    }
    if (r->head.changed)
        end(v, DIFFERS, "its own SHA-256 is another: a field was changed after it was written");
    if (checked < r->count)
        printf("verified %lld of %lld texts, chosen by the seed %llu, in %.2f s (all made in %.2f s)\n",
               (long long)checked, (long long)r->count, (unsigned long long)v->seed, stopwatch(CLOCK_MONOTONIC) - begin,
               r->head.seconds);
    else
        printf("verified %lld texts in %.2f s (made in %.2f s)\n", (long long)checked,
               stopwatch(CLOCK_MONOTONIC) - begin, r->head.seconds);
    texts_file_close(&file);
    embed_receipt_end(&found);
    free(chosen);
    free(vectors);
}
