/* fovea-embed: vectors of texts, by a sentence encoder: to a .npy file or JSON lines, or to find the lines of a text
 * that come nearest to a question (embed_search.c).
 *
 * Texts are read, encoded and written CHUNK at a time, so that memory stays flat, and whatever stops the program keeps
 * what was written. A text's vector depends on nothing but the text and the model. */
#include "embed.h"
#include "cli.h"
#include "plural.h"
#include "progress.h"
#include "sentences.h"
#include "texts_file.h"
#include "vectors_file.h"

#include "stopwatch.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    MINILM_HEADS = 12,
    CHUNK = 1024, /* texts: enough for batches of about one length */
    WORDS_MOST = 256,
    NO_MODEL = 77,
    STOPPED = 130
};

static const char default_question[] = "How tall is the insect?";

typedef struct options {
    const char *model, *text, *field, *output, *receipt, *verify;
    int threads, top;
    int type, weights, beside; /* choices, or 0 */
    int64_t sample, seed;
    bool verbose, private_texts;
    const char *words[WORDS_MOST]; /* of the question */
    int word_count;
} options;

static volatile sig_atomic_t stopped;

static void stop(int number) {
    (void)number;
    stopped = 1;
}

int embed_failure = 1;

void embed_die(const char *what) {
    fprintf(stderr, embed_failure == 1 ? "fovea-embed: %s\n" : "fovea-embed: cannot tell: %s\n", what);
    exit(embed_failure);
}

void *embed_allocate(size_t count, size_t bytes) {
    void *memory = calloc(count + 1, bytes);
    if (memory == NULL)
        embed_die("out of memory");
    return memory;
}

static int read_options(int argc, char **argv, options *opts) {
    static const cli_option table[] = {
        {"--model", "FOLDER", "@directory build/models/all-MiniLM-L6-v2", cli_read_text, 0, 0, offsetof(options, model),
         1, "folder with model.safetensors, config.json and the tokenizer (" MODEL_PLACE_HELP ")"},
        {"--text", "FILE", "@file texts.txt", cli_read_text, 0, 0, offsetof(options, text), 1,
         "texts: UTF-8, one a line; - for standard input (default: two chapters of Alice in Wonderland)"},
        {"--field", "NAME", "@text text", cli_read_text, 0, 0, offsetof(options, field), 1,
         "the lines of FILE are JSON objects, whose texts have this name"},
        {"--output", "FILE", "@file vectors.npy", cli_read_text, 0, 0, offsetof(options, output), 1,
         "write a vector for each line in place of searching: NAME.npy for numpy, else JSON lines; - for standard "
         "output"},
        {"--receipt", "FILE", "@file vectors.receipt", cli_read_text, 0, 0, offsetof(options, receipt), 1,
         "with --output: also write the hashes by which others check texts, tokens and vectors (docs/receipts.md)"},
        {"--private-texts", NULL, NULL, NULL, 0, 0, offsetof(options, private_texts), 1,
         "keep the texts out of the receipt: who verifies has them"},
        {"--verify", "FILE", "@file vectors.receipt", cli_read_text, 0, 0, offsetof(options, verify), 1,
         "check a receipt: 0 it is right, 1 something differs, 2 this cannot be told; of private texts with --text"},
        {"--sample", "K", "20", cli_read_number, 1, INT64_MAX, offsetof(options, sample), 1,
         "with --verify: check K of the texts, chosen by --seed"},
        {"--seed", "N", "1", cli_read_number, 0, INT64_MAX, offsetof(options, seed), 1,
         "of --sample (default: another each time)"},
        {"--threads", "N", "2", cli_read_int, 1, 4096, offsetof(options, threads), 1,
         "number of threads (default: all CPUs this process may use)"},
        {"--type", "TYPE", "bf16 f16", cli_read_choice, EMBED_BF16, 0, offsetof(options, type), 1,
         "weights, and what layers hand on, in this element type (default: float32)"},
        {"--weights", "TYPE", "q8_0", cli_read_choice, EMBED_Q8_0, 0, offsetof(options, weights), 1,
         "words and matrices in 8 bits with a scale for each 32, and products with inputs of 16 bits (q16) (default: "
         "as --type)"},
        {"--top", "N", "5", cli_read_int, 1, 4096, offsetof(options, top), 1, "number of lines to print (default: 5)"},
        {"--beside", "TYPE", "bf16 f16 q8_0", cli_read_choice, EMBED_BF16, 0, offsetof(options, beside), 1,
         "also encode the text in this element type, or with such weights, and print its time, its memory and how near "
         "its vectors are to float32's"},
        {"--verbose", NULL, NULL, NULL, 0, 0, offsetof(options, verbose), 1, "also print where the time went"},
    };
    static const cli_command command = {"",
                                        1,
                                        0,
                                        WORDS_MOST,
                                        "[QUESTION...]",
                                        "",
                                        "write the vectors of texts, or print the lines of a text that are closest to "
                                        "a question, by a sentence encoder"};
    const cli program = {.program = "fovea-embed",
                         .version = fovea_version(),
                         .exit_statuses = "0 success; 1 failure; 2 wrong usage; 77 there is no model; 130 interrupted; "
                                          "--verify: 0 right, 1 differs, 2 cannot tell",
                         .environment = "FOVEA_MODEL=FOLDER names the model if --model is not given",
                         .examples = "fovea-embed --text texts.txt --output vectors.npy\n"
                                     "fovea-embed --text passages.jsonl --field passage --output vectors.jsonl\n"
                                     "fovea-embed --text texts.txt --output vectors.npy --receipt vectors.receipt\n"
                                     "fovea-embed --verify vectors.receipt\n"
                                     "fovea-embed --top 3 \"How tall is the insect?\"",
                         .commands = &command,
                         .command_count = 1,
                         .options = table,
                         .option_count = sizeof table / sizeof table[0]};
    const cli_command *only;
    *opts = (options){.top = 5, .seed = -1};
    const int status = cli_read(&program, argc, argv, opts, &only, opts->words, &opts->word_count);
    if (status >= 0)
        return status;
    if (opts->output != NULL && (opts->word_count > 0 || opts->beside != 0))
        return cli_wrong(&program, only, "--output writes vectors; it takes no question, and no --beside");
    if (opts->output == NULL && opts->verify == NULL && opts->field != NULL)
        return cli_wrong(&program, only, "--field needs --output: a search reads plain lines");
    if (opts->verify != NULL && (opts->output != NULL || opts->type != 0 || opts->weights != 0 || opts->beside != 0))
        return cli_wrong(&program, only,
                         "--verify takes settings from the receipt: none may be given, and no --output");
    if (opts->verify == NULL && (opts->sample > 0 || opts->seed >= 0))
        return cli_wrong(&program, only, "--sample and --seed need --verify");
    if (opts->output == NULL && (opts->receipt != NULL || opts->private_texts))
        return cli_wrong(&program, only, "--receipt needs --output");
    if (opts->verify != NULL && opts->model == NULL && opts->word_count == 1) /* --verify FILE MODEL */
        opts->model = opts->words[--opts->word_count];
    if (opts->verify != NULL && opts->word_count > 0)
        return cli_wrong(&program, only, "--verify takes a model, and no question");
    if (opts->text == NULL && opts->verify == NULL)
        opts->text = FOVEA_MINILM_TEXT;
    return -1;
}

encoder *embed_load(const embed_model *m, embed_type type, embed_type stored) {
    static const fovea_dtype types[] = {[EMBED_BF16] = FOVEA_DTYPE_BF16, [EMBED_F16] = FOVEA_DTYPE_F16};
    char text[EMBED_COMPLAINT];
    encoder *e;
    encoder_config config = m->config;
    if (type != EMBED_F32)
        config.dtype = types[type];
    if (stored != EMBED_F32)
        config.weights = FOVEA_DTYPE_Q8_0;
    if (encoder_load_as(m->context, m->place.file, &config, &e, (complaint){text, sizeof text}) != 0)
        embed_die(text);
    return e;
}

bool embed_context(fovea_isa isa, int threads, embed_model *m) {
    fovea_context_options context;
    fovea_context_options_init(&context);
    context.isa = isa;
    context.threads = threads;
    context.threads_backend = FOVEA_THREADS_POOL;
    fovea_context_facts_init(&m->info);
    if (fovea_context_create(&context, &m->context) != FOVEA_OK || fovea_context_info(m->context, &m->info) != FOVEA_OK)
        embed_die(fovea_error_detail());
    if (isa == FOVEA_ISA_BEST || m->info.isa == isa)
        return true;
    fovea_context_destroy(m->context);
    return false;
}

static void open_model(const options *opts, embed_model *m) {
    char text[EMBED_COMPLAINT];
    const complaint to = {text, sizeof text};
    if (model_place_find(opts->model, &m->place, to) != 0) {
        fprintf(stderr, "fovea-embed: %s\n", text);
        exit(NO_MODEL);
    }
    if (encoder_config_read_sentences(m->place.folder, &m->config, to) != 0 ||
        folder_tokenizer(m->place.folder, m->config.frame, &m->t, to) != 0)
        embed_die(text);
    if (m->config.heads == 0) /* a folder without config.json is MiniLM's */
        m->config.heads = MINILM_HEADS;
    m->type = (embed_type)opts->type;
    m->weights = (embed_type)opts->weights;
    embed_context(FOVEA_ISA_BEST, opts->threads, m);
}

/* A sample that the receipt's writer could foresee would prove nothing. */
static uint64_t seed_of(const options *opts) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return opts->seed >= 0 ? (uint64_t)opts->seed : (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void verify(const options *opts, embed_model *m) {
    const embed_verifying v = {opts->verify, opts->text, opts->field, opts->sample, seed_of(opts)};
    vectors_receipt r;
    embed_verify_begin(&v, &r);
    open_model(opts, m);
    embed_verify_set(&v, &r, m);
    m->e = embed_load(m, m->type, m->weights);
    embed_verify(&v, &r, m);
    vectors_receipt_free(&r);
}

static int write_vectors(const options *opts, const embed_model *m) {
    char text[EMBED_COMPLAINT];
    const complaint to = {text, sizeof text};
    const int64_t width = encoder_sizes(m->e).width, all = texts_file_count(opts->text);
    float *vectors = embed_allocate((size_t)(CHUNK * width), sizeof *vectors);
    texts_file texts = {0};
    vectors_file out = {0};
    sentences_report report = {0};
    embed_receipt made = {0};
    if (opts->receipt != NULL) {
        embed_receipt_begin(&made, m, opts->receipt, CHUNK, opts->private_texts);
        embed_receipt_digests(&made, &report);
    }
    const double begin = stopwatch(CLOCK_MONOTONIC);
    progress bar;
    progress_begin(&bar, "texts", all);
    sigaction(SIGINT, &(struct sigaction){.sa_handler = stop, .sa_flags = (int)SA_RESETHAND}, NULL);
    int status = texts_file_open(opts->text, opts->field, CHUNK, &texts, to) == 0
                     ? vectors_file_open(opts->output, width, &out, to)
                     : -1;
    for (bool more = status == 0; more && !stopped;) {
        status = texts_file_next(&texts, to);
        if (stopped) /* the signal may have ended the read */
            status = 0;
        if (texts.count > 0 && !stopped) { /* of a chunk that ends with a wrong line, what comes before it */
            char other[EMBED_COMPLAINT];
            const complaint late = {other, sizeof other};
            const char *const *text_of = (const char *const *)texts.text;
            if (sentences_encode(m->e, m->t, text_of, texts.count, vectors, &report, late) != 0 ||
                vectors_file_add(&out, vectors, texts.count, late) != 0 ||
                (opts->receipt != NULL &&
                 (embed_receipt_entries(&made, text_of, texts.count, vectors, width, late) != 0 ||
                  embed_receipt_add(&made, text_of, texts.count, late) != 0))) {
                strcpy(text, other);
                status = -1;
            }
            progress_show(&bar, out.count);
        }
        more = status == 0 && texts.count > 0;
    }
    if (out.file != NULL && vectors_file_close(&out, status == 0 ? to : (complaint){NULL, 0}) != 0)
        status = -1;
    texts_file_close(&texts);
    free(vectors);
    progress_end(&bar);
    const double seconds = stopwatch(CLOCK_MONOTONIC) - begin;
    if (opts->receipt != NULL && status == 0 && !stopped)
        status = embed_receipt_write(&made, opts->receipt, seconds, to);
    embed_receipt_end(&made);
    if (status != 0)
        fprintf(stderr, "fovea-embed: %s\n", text);
    if (status != 0 || stopped)
        fprintf(stderr, "fovea-embed: stopped: %lld vector%s written\n", (long long)out.count,
                out.count == 1 ? " is" : "s are");
    else
        fprintf(stderr, "%lld text%s, %lld tokens in %.1f s: %.0f texts per second; weights take %.1f MB\n",
                (long long)out.count, plural(out.count), (long long)report.tokens, seconds, (double)out.count / seconds,
                (double)encoder_bytes(m->e) / 1e6);
    return status != 0 ? 1 : stopped ? STOPPED : 0;
}

int main(int argc, char **argv) {
    options opts;
    const int wrong = read_options(argc, argv, &opts);
    if (wrong >= 0)
        return wrong;
    char *const asked = cli_join(opts.words, opts.word_count, default_question);
    if (asked == NULL)
        embed_die("out of memory");
    if (*asked == '\0')
        embed_die("the question is empty");
    embed_model m = {0};
    int status = 0;
    if (opts.verify != NULL)
        verify(&opts, &m);
    else {
        open_model(&opts, &m);
        m.e = embed_load(&m, m.type, m.weights);
        if (opts.output != NULL)
            status = write_vectors(&opts, &m);
        else
            embed_search(&m, opts.text, asked, opts.top, opts.verbose, (embed_type)opts.beside);
    }
    free(asked);
    tk_free(m.t);
    encoder_free(m.e);
    fovea_context_destroy(m.context);
    return status;
}
