/* fovea-generate: answers a prompt with a decoder model, SmolLM2-135M-Instruct unless another is named.
 *
 * Reads the model (weights.h), its tokenizer (text.h) and the prompt, prints the answer as it comes, and then how fast that was, beside the
 * speed at which this machine reads memory, and a hash of all logits, which is the same on every tier and with every number of threads.
 * --perplexity reads a text instead, and prints how well the model foretells it. */
#include "model.h"
#include "sample.h"
#include "text.h"

#include "../stopwatch.h"
#include "cli.h"
#include "plural.h"
#include "read_speed.h"
#include "text_file.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COMPLAINT_MOST = 1024, WORDS_MOST = 256, NO_MODEL = 77, TEXT_MOST = 1 << 24, LOGIT_ROWS = 64 };

static const char default_prompt[] = "Tell me the story of a lighthouse keeper who learns to sail.";
static const fovea_dtype dtypes[] = {FOVEA_DTYPE_F32, FOVEA_DTYPE_BF16, FOVEA_DTYPE_F16, FOVEA_DTYPE_I8};
static const char dtype_words[] = "f32 bf16 f16", cache_words[] = "f32 bf16 f16 int8";
static const char *const dtype_names[] = {"f32", "bf16", "f16", "int8"};

typedef struct options {
    const char *model, *system, *perplexity;
    int threads, dtype, cache, values;
    int64_t tokens, context, seed;
    double temperature, top_p;
    bool plain, ids;
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
    float *logits; /* [LOGIT_ROWS][words] */
    int32_t *ids;  /* [room] */
    uint64_t hash;
    double prefill, decode; /* seconds */
    int64_t room;           /* for tokens: --context, or what the model reads at most */
    int64_t prompt, answer; /* tokens */
    double decode_bytes;    /* that decoding had to read */
    char complaint[COMPLAINT_MOST];
} run;

static void die(const char *what) {
    fflush(stdout);
    fprintf(stderr, "fovea-generate: %s\n", what);
    exit(1);
}

static void *allocate(size_t count, size_t bytes) {
    void *memory = calloc(count + 1, bytes);
    if (memory == NULL)
        die("out of memory");
    return memory;
}

static complaint to(run *r) { return (complaint){r->complaint, sizeof r->complaint}; }

static int read_options(int argc, char **argv, options *opts) {
#define OPTION(name) offsetof(options, name), 1
    static const cli_option table[] = {
        {"--model", "PATH", "@directory build/models/SmolLM2-135M-Instruct", cli_read_text, 0, 0, OPTION(model),
         "GGUF file, safetensors file or index, or a folder with one (default: FOVEA_GENERATE_MODEL; else "
         "SmolLM2-135M-Instruct in "
         "build/models)"},
        {"--type", "TYPE", dtype_words, cli_read_choice, 0, 0, OPTION(dtype),
         "element type of weights and products: f32, bf16 or f16 (default: bf16)"},
        {"--cache", "TYPE", cache_words, cli_read_choice, 0, 0, OPTION(cache),
         "element type of keys and values: f32, bf16, f16 or int8 (default: that of --type)"},
        {"--values", "TYPE", cache_words, cli_read_choice, 0, 0, OPTION(values),
         "element type of values (default: that of --cache)"},
        {"--threads", "N", "2", cli_read_int, 1, 4096, OPTION(threads),
         "number of threads (default: all CPUs this process may use)"},
        {"--tokens", "N", "200", cli_read_number, 1, 1 << 24, OPTION(tokens),
         "most tokens of the answer (default: 200)"},
        {"--context", "N", "2048", cli_read_number, 1, 1 << 24, OPTION(context),
         "room for tokens, prompt and answer (default: 2048)"},
        {"--temperature", "X", "0.7", cli_read_real, 0, 100, OPTION(temperature),
         "divides logits before a token is drawn; 0 takes the most likely one (default: 0)"},
        {"--top-p", "X", "0.9", cli_read_real, 0, 1, OPTION(top_p),
         "draw from the most likely tokens that have so much of the probability together (default: 0.9)"},
        {"--seed", "N", "1", cli_read_number, 0, INT64_MAX, OPTION(seed), "seed of what is drawn (default: 1)"},
        {"--system", "TEXT", "@text \"You are a pirate.\"", cli_read_text, 0, 0, OPTION(system),
         "system message of the chat (default: the model's)"},
        {"--plain", NULL, NULL, NULL, 0, 0, OPTION(plain), "go on from the prompt, without the model's chat"},
        {"--ids", NULL, NULL, NULL, 0, 0, OPTION(ids), "print the numbers of tokens, not their text"},
        {"--perplexity", "FILE", "@file " FOVEA_GENERATE_TEXT, cli_read_text, 0, 0, OPTION(perplexity),
         "print the perplexity of a text, and nothing else"},
    };
#undef OPTION
    static const cli_command command = {
        "", 1, 0, WORDS_MOST, "[PROMPT...]", "", "answer a prompt with a decoder model"};
    const cli program = {.program = "fovea-generate",
                         .version = fovea_version(),
                         .exit_statuses = "0 success; 1 failure; 2 wrong usage; 77 there is no model",
                         .environment = "FOVEA_GENERATE_MODEL=PATH names the model if --model is not given",
                         .examples = "fovea-generate --temperature 0.7 --seed 3 \"Who keeps a lighthouse?\"",
                         .commands = &command,
                         .command_count = 1,
                         .options = table,
                         .option_count = sizeof table / sizeof table[0]};
    const cli_command *only;
    *opts = (options){.tokens = 200, .context = 2048, .seed = 1, .top_p = 0.9, .dtype = 1, .cache = -1, .values = -1};
    const int status = cli_read(&program, argc, argv, opts, &only, opts->words, &opts->word_count);
    opts->cache = opts->cache < 0 ? opts->dtype : opts->cache;
    opts->values = opts->values < 0 ? opts->cache : opts->values;
    return status;
}

/* --------------------------------------------------------------------------------------------------------- setting up -- */

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

static void load(run *r) {
    fovea_context_options context;
    weights *w;
    const char *path = model_path(r->opts);
    fovea_context_options_init(&context);
    context.threads = r->opts->threads;
    fovea_info_init(&r->info);
    if (fovea_context_create(&context, &r->ctx) != FOVEA_OK || fovea_context_info(r->ctx, &r->info) != FOVEA_OK)
        die(fovea_error_detail());
    if (weights_open(path, &w, to(r)) != 0)
        die(r->complaint);
    const int status = weights_gguf(w) != NULL ? text_from_gguf(weights_gguf(w), &r->t, to(r))
                                               : text_from_folder(weights_folder(w), &r->t, to(r));
    weights_close(w);
    if (status != 0 || model_load(r->ctx, path, dtypes[r->opts->dtype], &r->m, to(r)) != 0)
        die(r->complaint);
    const config *c = model_config(r->m);
    r->room = r->opts->context < c->most_tokens ? r->opts->context : c->most_tokens;
    const cache_types types = {dtypes[r->opts->cache], dtypes[r->opts->values]};
    if (session_create(r->m, r->room, types, &r->s, to(r)) != 0)
        die(r->complaint);
    r->logits = allocate((size_t)(LOGIT_ROWS * c->words), sizeof *r->logits);
    r->hash = 0xcbf29ce484222325u;
}

static void unload(run *r) {
    session_free(r->s);
    model_free(r->m);
    text_free(r->t);
    fovea_context_destroy(r->ctx);
    free(r->logits);
    free(r->ids);
}

/* FNV-1a over words of 32 bits. */
static void hash_logits(run *r, const float *logits, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &logits[i], sizeof bits);
        r->hash = (r->hash ^ bits) * 0x100000001b3u;
    }
}

/* -------------------------------------------------------------------------------------------------------- answering -- */

static void run_prompt(run *r) {
    for (int64_t done = 0, count; done < r->prompt; done += count) {
        count = r->prompt - done < SESSION_CHUNK ? r->prompt - done : SESSION_CHUNK;
        if (session_run(r->s, r->ids + done, count, to(r)) != 0 ||
            (done + count == r->prompt && session_logits(r->s, count - 1, 1, r->logits, to(r)) != 0))
            die(r->complaint);
    }
}

static void print_token(const run *r, int32_t id) {
    int64_t length;
    const char *bytes = text_of(r->t, id, &length);
    if (r->opts->ids)
        printf("%s%ld", r->answer > 0 ? " " : "", (long)id);
    else
        fwrite(bytes, 1, (size_t)length, stdout);
    fflush(stdout);
}

static void answer(run *r, sampler *draws, int64_t most) {
    const int64_t words = model_config(r->m)->words;
    for (;; r->answer++) {
        hash_logits(r, r->logits, words);
        int32_t id = sample(draws, r->logits, words);
        if (text_ends(r->t, id))
            break;
        print_token(r, id);
        if (r->answer + 1 == most || session_length(r->s) + 1 > r->room)
            break;
        const double begin = stopwatch(CLOCK_MONOTONIC);
        if (session_run(r->s, &id, 1, to(r)) != 0 || session_logits(r->s, 0, 1, r->logits, to(r)) != 0)
            die(r->complaint);
        r->decode += stopwatch(CLOCK_MONOTONIC) - begin;
        r->decode_bytes += (double)(model_token_bytes(r->m) + session_cache_bytes(r->s));
    }
}

static void on_threads(const void *ctx, int64_t count, void (*task)(void *arg, int64_t index), void *arg) {
    (void)fovea_parallel(ctx, count, task, arg);
}

static void report(const run *r) {
    const double decoded = (double)r->answer, speed = peak_read_speed(r->info.threads, on_threads, r->ctx);
    printf("\n\n%s, %d thread%s, %s, keys %s, values %s\n", fovea_isa_name(r->info.isa), r->info.threads,
           plural(r->info.threads), dtype_names[r->opts->dtype], dtype_names[r->opts->cache],
           dtype_names[r->opts->values]);
    printf("prefill  %" PRId64 " tokens, %.1f per second\n", r->prompt, (double)r->prompt / r->prefill);
    if (r->decode > 0)
        printf("decode   %" PRId64
               " tokens, %.1f per second; %.1f GB/s, %.0f%% of the %.1f GB/s that memory is read at\n",
               r->answer, decoded / r->decode, r->decode_bytes / r->decode * 1e-9,
               100.0 * r->decode_bytes / r->decode / speed, speed * 1e-9);
    printf("cache    %" PRId64 " bytes for %" PRId64 " tokens\n", session_cache_bytes(r->s), session_length(r->s));
    printf("logits   hash %016" PRIx64 "\n", r->hash);
}

static void read_prompt(run *r) {
    char *prompt = cli_join(r->opts->words, r->opts->word_count, default_prompt);
    if (prompt == NULL)
        die("out of memory");
    r->ids = allocate((size_t)r->room, sizeof *r->ids);
    r->prompt = !r->opts->plain && text_chats(r->t) ? text_chat(r->t, r->opts->system, prompt, r->ids, r->room)
                                                    : text_tokens(r->t, prompt, strlen(prompt), r->ids, r->room);
    free(prompt);
    if (r->prompt < 1)
        die(r->prompt < 0 ? "the prompt is longer than --context, or than the model reads"
                          : "the prompt has no tokens");
}

static void generate(run *r) {
    sampler draws = {.temperature = r->opts->temperature, .top_p = r->opts->top_p, .state = (uint64_t)r->opts->seed};
    if (sampler_begin(&draws, model_config(r->m)->words) != 0)
        die("out of memory");
    read_prompt(r);
    const double begin = stopwatch(CLOCK_MONOTONIC);
    run_prompt(r);
    r->prefill = stopwatch(CLOCK_MONOTONIC) - begin;
    answer(r, &draws, r->opts->tokens);
    sampler_end(&draws);
    report(r);
}

/* ------------------------------------------------------------------------------------------------------- perplexity -- */

/* -log of the probability of a token. */
static double surprise(const float *logits, int64_t words, int32_t id) {
    const double most = (double)logits[sample_greedy(logits, words)];
    double sum = 0.0;
    for (int64_t i = 0; i < words; i++)
        sum += exp((double)logits[i] - most);
    return log(sum) + most - (double)logits[id];
}

/* The text in windows of --context tokens, each from its beginning; every token but the first of a window is foretold. */
static void perplexity(run *r) {
    const int64_t words = model_config(r->m)->words;
    int64_t bytes, counted = 0;
    char *file = text_file_read(r->opts->perplexity, TEXT_MOST, &bytes, to(r));
    if (file == NULL)
        die(r->complaint);
    r->ids = allocate((size_t)bytes + 2, sizeof *r->ids);
    r->prompt = text_tokens(r->t, file, (size_t)bytes, r->ids, bytes + 1);
    free(file);
    double sum = 0.0;
    for (int64_t done = 0, count; done < r->prompt; done += count) {
        const int64_t in_window = done % r->room, left = r->prompt - done;
        count = r->room - in_window < left ? r->room - in_window : left;
        count = count < SESSION_CHUNK ? count : SESSION_CHUNK;
        if (in_window == 0)
            session_clear(r->s);
        if (session_run(r->s, r->ids + done, count, to(r)) != 0)
            die(r->complaint);
        for (int64_t i = 0, rows; i < count; i += rows) {
            rows = count - i < LOGIT_ROWS ? count - i : LOGIT_ROWS;
            if (session_logits(r->s, i, rows, r->logits, to(r)) != 0)
                die(r->complaint);
            hash_logits(r, r->logits, rows * words);
            for (int64_t j = 0; j < rows; j++) {
                const int64_t next = done + i + j + 1;
                if (next < r->prompt && next % r->room != 0) {
                    sum += surprise(r->logits + j * words, words, r->ids[next]);
                    counted++;
                }
            }
        }
    }
    if (counted == 0)
        die("the text has fewer than two tokens");
    printf("perplexity %.6f of %" PRId64 " tokens, %s, keys %s, values %s, logits hash %016" PRIx64 "\n",
           exp(sum / (double)counted), counted, dtype_names[r->opts->dtype], dtype_names[r->opts->cache],
           dtype_names[r->opts->values], r->hash);
}

int main(int argc, char **argv) {
    options opts;
    const int wrong = read_options(argc, argv, &opts);
    if (wrong >= 0)
        return wrong;
    run r = {.opts = &opts};
    load(&r);
    if (opts.perplexity != NULL)
        perplexity(&r);
    else
        generate(&r);
    unload(&r);
    return 0;
}
