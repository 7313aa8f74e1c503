/* fovea-generate: answers a prompt with a decoder model, SmolLM2-135M-Instruct unless another is named.
 *
 * Reads the prompt (prompt.h), the model (weights.h) and its tokenizer (text.h), and prints the answer as it comes.
 * A report follows: tokens per second, beside the speed at which this machine reads memory, and a hash of all
 * logits, which is the same on every tier and with every number of threads. --perplexity reads a text instead, and
 * prints how well the model predicts it. */
#include "run.h"

#include "prompt.h"
#include "sample.h"

#include "../stopwatch.h"
#include "cli.h"
#include "plural.h"
#include "read_speed.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { NO_MODEL = 77 };

static const char default_prompt[] = "Tell me the story of a lighthouse keeper who learns to sail.";

/* ---------------------------------------------------------------------------------------------------- setting up -- */

/* The prompt: words, "-" alone for standard input, or the default. */
static void read_prompt(run *r) {
    const options *opts = r->opts;
    const bool standard_input = opts->word_count == 1 && strcmp(opts->words[0], "-") == 0;
    size_t count = 0;
    char *bytes = standard_input ? prompt_read(stdin, TEXT_MOST, &count, to(r))
                                 : cli_join(opts->words, opts->word_count, default_prompt);
    if (bytes == NULL)
        die(standard_input ? r->complaint : "out of memory");
    r->text = sound_text(bytes, standard_input ? count : strlen(bytes), "the prompt");
    free(bytes);
    if (*r->text == '\0')
        run_end(CLI_USAGE, "the prompt is empty");
}

static const char *model_path(const options *opts) {
    const char *named = getenv("FOVEA_GENERATE_MODEL");
    const char *path = opts->model != NULL ? opts->model : named != NULL && *named ? named : FOVEA_GENERATE_MODEL;
    if (access(path, F_OK) == 0)
        return path;
    fprintf(
        stderr,
        "fovea-generate: %s: does not exist; python3 examples/generate/fetch.py FOLDER fetches SmolLM2-135M-Instruct\n",
        path);
    exit(NO_MODEL);
}

/* What a file recommends is not what the user asked for, but worth a word. */
static void tell_sampling(const gguf *f) {
    static const char prefix[] = "general.sampling.";
    for (int64_t i = 0; i < gguf_value_count(f); i++) {
        const gguf_text key = gguf_value_at(f, i)->key;
        if (key.count > (int64_t)strlen(prefix) && memcmp(key.bytes, prefix, strlen(prefix)) == 0)
            fprintf(stderr,
                    "fovea-generate: %s: recommends %.*s, which is not used: options say how tokens are drawn\n",
                    gguf_path(f), (int)key.count, key.bytes);
    }
}

static void load_text(run *r, const char *path) {
    weights *w;
    if (weights_open(path, &w, to(r)) != 0)
        die(r->complaint);
    const gguf *f = weights_gguf(w);
    const int status = f != NULL ? text_from_gguf(f, &r->t, to(r)) : text_from_folder(weights_folder(w), &r->t, to(r));
    const char *prefix = f != NULL ? "tokenizer." : "";
    if (f != NULL && r->opts->perplexity == NULL)
        tell_sampling(f);
    weights_close(w);
    if (status != 0)
        die(r->complaint);
    if (r->opts->perplexity != NULL || r->opts->plain)
        return;
    if (text_chats(r->t) == TEXT_OTHER_CHAT) {
        complain(to(r), path,
                 "%schat_template is not ChatML, the only chat known here; --plain continues the prompt without a chat",
                 prefix);
        die(r->complaint);
    }
    if (text_chats(r->t) == TEXT_NO_CHAT && r->opts->system != NULL)
        die("--system needs a chat, but the model has no chat template");
}

static void load(run *r, const char *path) {
    fovea_context_options context;
    fovea_context_options_init(&context);
    context.threads = r->opts->threads;
    context.threads_backend = FOVEA_THREADS_POOL;
    fovea_info_init(&r->info);
    if (fovea_context_create(&context, &r->ctx) != FOVEA_OK || fovea_context_info(r->ctx, &r->info) != FOVEA_OK)
        die(fovea_error_detail());
    load_text(r, path);
    run_load(r, path);
}

static void unload(run *r) {
    run_unload(r);
    text_free(r->t);
    fovea_context_destroy(r->ctx);
    free(r->ids);
    free(r->piece);
    free(r->text);
}

/* ----------------------------------------------------------------------------------------------------- answering -- */

static void run_prompt(run *r) {
    for (int64_t done = 0, count; done < r->prompt; done += count) {
        count = r->prompt - done < SESSION_CHUNK ? r->prompt - done : SESSION_CHUNK;
        if (session_run(r->s, r->ids + done, count, to(r)) != 0 ||
            (done + count == r->prompt && session_logits(r->s, count - 1, 1, r->logits, to(r)) != 0))
            die(r->complaint);
    }
}

/* The next token of the answer; id TK_NONE: there are no more. */
static void print_token(run *r, int32_t id) {
    if (r->opts->ids && id != TK_NONE)
        printf("%s%ld", r->answer > 0 ? " " : "", (long)id);
    else if (!r->opts->ids)
        fwrite(r->piece, 1,
               (size_t)(id == TK_NONE ? tk_decode_end(&r->decoder, r->piece) : tk_decode(&r->decoder, id, r->piece)),
               stdout);
    if (fflush(stdout) != 0)
        exit(1); /* with the sentence of cli.h */
}

static void answer(run *r, sampler *draws, int64_t most) {
    const int64_t words = model_config(r->m)->words;
    r->decoder = tk_decoder_begin(text_tokenizer(r->t), false);
    r->piece = allocate((size_t)tk_decode_most(r->decoder.t), 1);
    for (;; r->answer++) {
        hash_logits(r, r->logits, words);
        int32_t id = sample(draws, r->logits, words);
        if (text_ends(r->t, id))
            break;
        print_token(r, id);
        if ((r->cut_off = r->answer + 1 == most || session_length(r->s, 0) + 1 > r->room))
            break;
        const double begin = stopwatch(CLOCK_MONOTONIC);
        if (session_run(r->s, &id, 1, to(r)) != 0 || session_logits(r->s, 0, 1, r->logits, to(r)) != 0)
            die(r->complaint);
        r->decode += stopwatch(CLOCK_MONOTONIC) - begin;
        r->decode_bytes += (double)(model_token_bytes(r->m) + session_cache_bytes(r->s));
    }
    print_token(r, TK_NONE);
}

static void on_threads(const void *ctx, int64_t count, void (*task)(void *arg, int64_t index), void *arg) {
    (void)fovea_parallel(ctx, count, task, arg);
}

/* The largest number of bytes that this process had in memory; 0: unknown. */
static double peak_memory(void) {
    struct rusage use;
    if (getrusage(RUSAGE_SELF, &use) != 0)
        return 0;
#ifdef __APPLE__
    return (double)use.ru_maxrss;
#else
    return (double)use.ru_maxrss * 1024;
#endif
}

static void report(const run *r) {
    const double peak = peak_memory(); /* before memory is timed, which takes its own */
    const double decoded = (double)r->answer, speed = peak_read_speed(r->info.threads, on_threads, r->ctx);
    printf("\n\n");
    if (r->cut_off && r->answer + 1 == r->opts->tokens)
        printf("cut off  after %" PRId64 " tokens; --tokens allows more\n", r->opts->tokens);
    else if (r->cut_off)
        printf("cut off  because the context of %" PRId64 " tokens is full; --context makes room for more\n", r->room);
    printf("%s, %d thread%s, %s, weights %s, keys %s, values %s\n", fovea_isa_name(r->info.isa), r->info.threads,
           plural(r->info.threads), options_dtype_name(r->opts->dtype),
           options_weights_name(r->opts, model_quantised(r->m)), options_dtype_name(r->opts->cache),
           options_dtype_name(r->opts->values));
    printf("prefill  %" PRId64 " tokens, %.1f per second\n", r->prompt, (double)r->prompt / r->prefill);
    if (r->decode > 0)
        printf("decode   %" PRId64
               " tokens, %.1f per second; %.1f GB/s, %.0f%% of the %.1f GB/s that memory is read at\n",
               r->answer, decoded / r->decode, r->decode_bytes / r->decode * 1e-9,
               100.0 * r->decode_bytes / r->decode / speed, speed * 1e-9);
    printf("cache    %" PRId64 " bytes for %" PRId64 " tokens\n", session_cache_bytes(r->s), session_length(r->s, 0));
    if (peak > 0)
        printf("memory   %.1f MB at its peak\n", peak * 1e-6);
    printf("logits   hash %016" PRIx64 "\n", r->hash);
}

static int64_t plain_tokens(const run *r) {
    const int64_t first = text_first(r->t) >= 0;
    r->ids[0] = text_first(r->t);
    const int64_t count = text_tokens(r->t, r->text, strlen(r->text), r->ids + first, r->room - first);
    return count < 0 ? count : count + first;
}

static void make_tokens(run *r) {
    char *system =
        r->opts->system != NULL ? sound_text(r->opts->system, strlen(r->opts->system), "the system message") : NULL;
    const bool chat = !r->opts->plain && text_chats(r->t) == TEXT_CHATML;
    r->ids = allocate((size_t)r->room + 1, sizeof *r->ids);
    r->prompt = chat ? text_chat(r->t, system, r->text, r->ids, r->room) : plain_tokens(r);
    free(system);
    if (r->prompt < 0) {
        snprintf(r->complaint, sizeof r->complaint,
                 "the prompt does not fit into the context of %" PRId64 " tokens; --context makes room for more, up to "
                 "%" PRId64,
                 r->room, model_config(r->m)->most_tokens);
        die(r->complaint);
    }
    if (r->prompt == 0)
        die("the prompt has no tokens");
}

static void generate(run *r) {
    sampler draws = {.temperature = r->opts->temperature, .top_p = r->opts->top_p, .state = (uint64_t)r->opts->seed};
    if (sampler_begin(&draws, model_config(r->m)->words) != 0)
        die("out of memory");
    make_tokens(r);
    const double begin = stopwatch(CLOCK_MONOTONIC);
    run_prompt(r);
    r->prefill = stopwatch(CLOCK_MONOTONIC) - begin;
    answer(r, &draws, r->opts->tokens);
    sampler_end(&draws);
    report(r);
}

int main(int argc, char **argv) {
    options opts;
    const int wrong = options_read(argc, argv, &opts);
    if (wrong >= 0)
        return wrong;
    run r = {.opts = &opts};
    if (opts.perplexity == NULL)
        read_prompt(&r);
    else if (opts.word_count > 0 || opts.system != NULL)
        run_end(CLI_USAGE, "--perplexity takes neither a prompt nor --system");
    if (opts.formats && (opts.perplexity == NULL || opts.weights > 0 || opts.arithmetic >= 0))
        run_end(CLI_USAGE, "--formats needs --perplexity, and takes neither --weights nor --arithmetic");
    if (opts.plain && opts.system != NULL)
        run_end(CLI_USAGE, "--plain has no chat, so it cannot be combined with --system");
    const char *path = model_path(&opts);
    load(&r, path);
    if (opts.perplexity != NULL)
        perplexity(&r, path);
    else
        generate(&r);
    unload(&r);
    return 0;
}
