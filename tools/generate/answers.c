/* answers.h. A step runs one token of each answer that is under way, and of new prompts as many as fit with them.
 * Where an answer ends, the next prompt takes its place. Bits do not depend on what runs together. */
#include "answers.h"

#include "sample.h"
#include "stop.h"

#include "stopwatch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A prompt and its answer. */
typedef struct job {
    const char *prompt;
    bool ended;
    int32_t *ids;                /* [room + 1] of prompt and answer */
    int64_t prompt_count, count; /* ids of the prompt, and of both */
    int64_t run;                 /* of these, in the session */
    uint64_t seed, hash;
    receipt_rows rows; /* with --receipt */
    tk_decoder decoder;
    bool header; /* of a message (chat.h) */
    stop_text text;
    size_t shown;
} job;

typedef struct answers {
    run *r;
    sampler draws;
    job *jobs;
    int64_t count, next, printed; /* jobs; the first that has not begun, and the first that is not printed */
    job *slot[PARALLEL_MOST];     /* jobs under way */
    char *piece;
} answers;

static bool alone(const answers *a) { return a->count == 1; }

/* ------------------------------------------------------------------------------------------------------- prompts -- */

static void begin(answers *a, job *j) {
    run *r = a->r;
    j->ids = allocate((size_t)r->room + 1, sizeof *j->ids);
    j->prompt_count = run_prompt(r, j->prompt, j->ids);
    j->count = j->prompt_count;
    r->prompt += j->prompt_count;
}

/* Slots without a job get the next ones, whose sequences begin anew. */
static void fill_slots(answers *a) {
    const int64_t most = a->r->same_prompt ? 1 : a->count; /* the others are forks */
    for (int64_t i = 0; i < a->r->sequences; i++)
        if (a->slot[i] == NULL && a->next < most) {
            a->slot[i] = &a->jobs[a->next++];
            begin(a, a->slot[i]);
            session_clear(a->r->s, i);
        }
}

/* The other answers to one prompt go on where that prompt ends, from the same logits. */
static void fork_job(answers *a, const job *from) {
    for (int64_t i = 1; i < a->count && a->r->same_prompt; i++) {
        job *j = &a->jobs[i];
        j->ids = allocate((size_t)a->r->room + 1, sizeof *j->ids);
        memcpy(j->ids, from->ids, (size_t)from->count * sizeof *j->ids);
        j->prompt_count = j->count = j->run = from->count;
        a->slot[i] = j;
        if (session_fork(a->r->s, 0, i, to(a->r)) != 0)
            die(a->r->complaint);
    }
    a->next = a->r->same_prompt ? a->count : a->next;
}

/* ------------------------------------------------------------------------------------------------------- answers -- */

static void flush(void) {
    if (fflush(stdout) != 0)
        exit(1); /* with the sentence of cli.h */
}

/* The part of an answer that is final, where it is printed as it comes. */
static void show(const answers *a, job *j) {
    const size_t ready = j->ended ? j->text.count : stop_ready(&j->text);
    if (!a->r->opts->ids && ready > j->shown)
        fwrite(j->text.bytes + j->shown, 1, ready - j->shown, stdout);
    j->shown = ready > j->shown ? ready : j->shown;
    flush();
}

static void print_ids(const job *j, int64_t first) {
    for (int64_t i = first; i < j->count; i++)
        printf("%s%ld", i > j->prompt_count ? " " : "", (long)j->ids[i]);
}

/* Answers that are complete, as far as those before them are. */
static void print_ended(answers *a) {
    for (; a->printed < a->count && a->jobs[a->printed].ended; a->printed++) {
        job *j = &a->jobs[a->printed];
        printf("%s[%" PRId64 "] ", a->printed > 0 ? "\n\n" : "", a->printed + 1);
        if (a->r->opts->ids)
            print_ids(j, j->prompt_count);
        show(a, j);
        stop_free(&j->text);
        if (a->r->opts->receipt == NULL) {
            free(j->ids);
            j->ids = NULL;
        }
    }
}

static void add_text(answers *a, job *j, int64_t bytes, bool *stopped) {
    const int status = stop_add(&j->text, a->piece, (size_t)bytes);
    if (status < 0)
        die("out of memory");
    *stopped = status > 0;
}

static void end(answers *a, int64_t slot, bool stopped) {
    job *j = a->slot[slot];
    if (!stopped)
        add_text(a, j, tk_decode_end(&j->decoder, a->piece), &stopped);
    j->ended = true;
    a->slot[slot] = NULL;
    if (alone(a))
        show(a, j);
    else
        print_ended(a);
}

/* Adds the text of a token. Messages of an answer are apart by an empty line, without their headers. */
static void add_id_text(answers *a, job *j, int32_t id, bool *stopped) {
    run *r = a->r;
    const chat_part part =
        r->opts->plain ? CHAT_TEXT : chat_part_of(text_tokenizer(r->t), text_chats(r->t), id, &j->header);
    int64_t bytes = tk_decode(&j->decoder, id, a->piece);
    if (part == CHAT_HEADER)
        return;
    if (part == CHAT_MESSAGE && j->text.count > 0)
        bytes = snprintf(a->piece, 3, "\n\n");
    add_text(a, j, bytes, stopped);
}

/* The token that follows, by logits of the last one. */
static void add_token(answers *a, int64_t slot, const float *logits) {
    run *r = a->r;
    job *j = a->slot[slot];
    bool stopped = false;
    j->hash = hash_logits(j->hash, logits, a->draws.words);
    const int32_t id = sample(&a->draws, logits, j->ids, j->count, &j->seed);
    sha256_digest digest;
    if (r->opts->receipt != NULL &&
        (receipt_row_digest(logits, a->draws.words, &digest) != 0 || receipt_rows_add(&j->rows, &digest, id) != 0))
        die("out of memory");
    if (text_ends(r->t, id)) {
        end(a, slot, false);
        return;
    }
    j->ids[j->count++] = id;
    if (alone(a) && r->opts->ids)
        print_ids(j, j->count - 1);
    add_id_text(a, j, id, &stopped);
    if (alone(a))
        show(a, j);
    const bool long_enough = j->count - j->prompt_count == r->opts->tokens, full = j->count > r->room;
    r->cut_by_tokens += !stopped && long_enough;
    r->cut_by_room += !stopped && full && !long_enough;
    if (stopped || long_enough || full)
        end(a, slot, stopped);
}

/* --------------------------------------------------------------------------------------------------------- steps -- */

/* Pieces of this step: first one token of each answer, then parts of prompts. */
typedef struct step {
    session_piece piece[PARALLEL_MOST];
    int64_t pieces, answers, tokens;
} step;

static void add_piece(answers *a, step *s, int64_t slot, int64_t count) {
    const job *j = a->slot[slot];
    s->piece[s->pieces++] = (session_piece){slot, j->ids + j->run, count};
    s->tokens += count;
}

static step make_step(answers *a) {
    step s = {0};
    for (int64_t i = 0; i < a->r->sequences; i++)
        if (a->slot[i] != NULL && a->slot[i]->count > a->slot[i]->prompt_count)
            add_piece(a, &s, i, 1);
    s.answers = s.pieces;
    for (int64_t i = 0; i < a->r->sequences; i++)
        if (a->slot[i] != NULL && a->slot[i]->count == a->slot[i]->prompt_count && s.tokens < SESSION_CHUNK) {
            const int64_t left = a->slot[i]->count - a->slot[i]->run, room = SESSION_CHUNK - s.tokens;
            add_piece(a, &s, i, left < room ? left : room);
        }
    return s;
}

static void account(run *r, const step *s, double seconds) {
    if (s->tokens > s->answers) {
        r->prefill += seconds;
        return;
    }
    r->decode += seconds;
    r->decoded += s->answers;
    r->decode_bytes += (double)(model_token_bytes(r->m) + session_cache_bytes(r->s));
}

/* Logits of rows that go through the head together. */
static void logits_of(run *r, int64_t first, int64_t rows) {
    if (session_logits(r->s, first, rows, r->logits, to(r)) != 0)
        die(r->complaint);
}

static void run_step(answers *a) {
    run *r = a->r;
    const step s = make_step(a);
    const int64_t words = a->draws.words;
    const double start = stopwatch(CLOCK_MONOTONIC);
    double drawing = 0.0;
    if (session_run_pieces(r->s, s.piece, s.pieces, to(r)) != 0)
        die(r->complaint);
    for (int64_t i = 0; i < s.pieces; i++)
        a->slot[s.piece[i].sequence]->run += s.piece[i].count;
    if (s.answers > 0)
        logits_of(r, 0, s.answers);
    const double drawn = stopwatch(CLOCK_MONOTONIC);
    for (int64_t i = 0; i < s.answers; i++)
        add_token(a, s.piece[i].sequence, r->logits + i * words);
    drawing += stopwatch(CLOCK_MONOTONIC) - drawn;
    for (int64_t i = s.answers, row = s.answers; i < s.pieces; i++) {
        const int64_t slot = s.piece[i].sequence;
        job *j = a->slot[slot];
        row += s.piece[i].count;
        if (j->run < j->count)
            continue;
        logits_of(r, row - 1, 1);
        const double again = stopwatch(CLOCK_MONOTONIC);
        fork_job(a, j);
        for (int64_t k = slot; k < (r->same_prompt ? a->count : slot + 1); k++)
            add_token(a, k, r->logits);
        drawing += stopwatch(CLOCK_MONOTONIC) - again;
    }
    account(r, &s, stopwatch(CLOCK_MONOTONIC) - start - drawing);
}

/* --------------------------------------------------------------------------------------------------- all answers -- */

static void make_jobs(answers *a) {
    run *r = a->r;
    a->count = r->prompts;
    a->jobs = allocate((size_t)a->count, sizeof *a->jobs);
    for (int64_t i = 0; i < a->count; i++)
        a->jobs[i] = (job){.prompt = r->texts[r->same_prompt ? 0 : i],
                           .seed = (uint64_t)r->opts->seed + (uint64_t)i,
                           .hash = HASH_BEGIN,
                           .decoder = tk_decoder_begin(text_tokenizer(r->t), false),
                           .header = true,
                           .text = {.stops = r->opts->stops.text, .stop_count = r->opts->stops.count}};
}

static void write_receipt(answers *a, double seconds) {
    receipt_answer *all = allocate((size_t)a->count, sizeof *all);
    for (int64_t i = 0; i < a->count; i++)
        all[i] = (receipt_answer){.seed = (uint64_t)a->r->opts->seed + (uint64_t)i,
                                  .prompt_count = a->jobs[i].prompt_count,
                                  .prompt = a->jobs[i].ids,
                                  .rows = a->jobs[i].rows};
    receipts_write(a->r, all, seconds);
    for (int64_t i = 0; i < a->count; i++)
        receipt_rows_free(&all[i].rows);
    free(all);
}

void answers_print(run *r) {
    const options *o = r->opts;
    const sample_rules rules = {o->penalty, o->temperature, o->top_k, o->top_p, o->min_p};
    answers a = {.r = r};
    if (sampler_begin(&a.draws, &rules, model_config(r->m)->words) != 0)
        die("out of memory");
    a.piece = allocate((size_t)tk_decode_most(text_tokenizer(r->t)), 1);
    make_jobs(&a);
    const double begin = stopwatch(CLOCK_MONOTONIC);
    bool busy = true;
    while (busy) {
        fill_slots(&a);
        run_step(&a);
        busy = a.next < a.count;
        for (int64_t i = 0; i < r->sequences; i++)
            busy = busy || a.slot[i] != NULL;
    }
    if (o->receipt != NULL)
        write_receipt(&a, stopwatch(CLOCK_MONOTONIC) - begin);
    for (int64_t i = 0; i < a.count; i++) { /* of one answer its own, of several one over theirs */
        float halves[2];
        memcpy(halves, &a.jobs[i].hash, sizeof halves);
        r->hash = i == 0 ? a.jobs[i].hash : hash_logits(r->hash, halves, 2);
        stop_free(&a.jobs[i].text);
        free(a.jobs[i].ids);
    }
    free(a.jobs);
    free(a.piece);
    sampler_end(&a.draws);
}
