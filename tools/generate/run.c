/* run.h. */
#include "run.h"

#include "prompt.h"

#include "progress.h"
#include "stopwatch.h"

#include "cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONTEXT = 2048 };

FILE *run_complaints;
int run_failure = 1, run_status = 1;

void run_end(int status, const char *what) {
    run_status = status;
    fflush(stdout);
    fprintf(run_complaints != NULL ? run_complaints : stderr, "fovea-generate: %s\n", what);
    exit(status);
}

void die(const char *what) {
    char all[COMPLAINT_MOST + 16];
    snprintf(all, sizeof all, "%s%s", run_failure == 1 ? "" : "cannot tell: ", what);
    run_end(run_failure, all);
}

void *allocate(size_t count, size_t bytes) {
    void *memory = calloc(count + 1, bytes);
    if (memory == NULL)
        die("out of memory");
    return memory;
}

complaint to(run *r) { return (complaint){r->complaint, sizeof r->complaint}; }

/* FNV-1a over words of 32 bits. */
uint64_t hash_logits(uint64_t hash, const float *logits, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &logits[i], sizeof bits);
        hash = (hash ^ bits) * 0x100000001b3u;
    }
    return hash;
}

char *sound_text(const char *bytes, size_t count, const char *what) {
    int64_t replaced;
    char *text = prompt_utf8(bytes, count, &replaced);
    if (text == NULL)
        die("out of memory");
    if (replaced > 0)
        fprintf(stderr, "fovea-generate: %s is not UTF-8: %" PRId64 " byte%s replaced by U+FFFD\n", what, replaced,
                replaced == 1 ? " was" : "s were");
    return text;
}

static int64_t plain_tokens(const run *r, const char *text, int32_t *ids) {
    const int64_t first = text_first(r->t) >= 0;
    ids[0] = text_first(r->t);
    const int64_t count = text_tokens(r->t, text, strlen(text), ids + first, r->room - first);
    return count < 0 ? count : count + first;
}

int64_t run_prompt(run *r, const char *prompt, int32_t *ids) {
    const bool chat = !r->opts->plain && text_chats(r->t)->kind != CHAT_NONE;
    const int64_t count = chat ? text_chat(r->t, r->system, prompt, ids, r->room) : plain_tokens(r, prompt, ids);
    if (count < 0) {
        snprintf(r->complaint, sizeof r->complaint,
                 "the prompt does not fit into the context of %" PRId64 " tokens; --context makes room for more, up to "
                 "%" PRId64,
                 r->room, model_config(r->m)->most_tokens);
        die(r->complaint);
    }
    if (count == 0)
        die("the prompt has no tokens");
    return count;
}

static void show_layers(void *bar, int64_t done, int64_t all) {
    progress *p = bar;
    if (p->all == 0)
        progress_begin(p, "parts of the model", all);
    progress_show(p, done);
}

void run_load(run *r, const char *path) {
    const double begin = stopwatch(CLOCK_MONOTONIC);
    progress bar = {0};
    model_options loaded_as = options_types(r->opts);
    loaded_as.progress = show_layers;
    loaded_as.progress_arg = &bar;
    loaded_as.ranks = r->ranks;
    const int status = model_load(r->ctx, path, &loaded_as, &r->m, to(r));
    progress_end(&bar);
    if (status != 0)
        die(r->complaint);
    if (r->opts->arithmetic >= 0 && !model_quantized(r->m) && r->opts->verify == NULL)
        run_end(CLI_USAGE, "--arithmetic needs quantized weights, as stored in a GGUF file");
    const config *c = model_config(r->m);
    if (r->opts->context > c->most_tokens) {
        snprintf(r->complaint, sizeof r->complaint, "--context %" PRId64 ": the model reads at most %" PRId64 " tokens",
                 r->opts->context, c->most_tokens);
        if (r->opts->verify != NULL)
            die(r->complaint);
        run_end(CLI_USAGE, r->complaint);
    }
    r->room = r->opts->context > 0 ? r->opts->context : CONTEXT < c->most_tokens ? CONTEXT : c->most_tokens;
    const cache_types types = {options_dtype(r->opts->cache), options_dtype(r->opts->values)};
    if (session_create(r->m, r->sequences, r->room, types, &r->s, to(r)) != 0)
        die(r->complaint);
    r->logits = allocate((size_t)(LOGIT_ROWS * c->words), sizeof *r->logits);
    r->hash = HASH_BEGIN;
    r->loading = stopwatch(CLOCK_MONOTONIC) - begin;
}

void run_unload(run *r) {
    session_free(r->s);
    model_free(r->m);
    free(r->logits);
    r->s = NULL;
    r->m = NULL;
    r->logits = NULL;
}
