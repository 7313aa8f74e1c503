/* fovea-generate: answers a prompt with a decoder model, SmolLM2-135M-Instruct unless another is named.
 *
 * Reads prompts (prompt.h), the model (weights.h) and its tokenizer (text.h), and prints answers (answers.h). A report
 * follows: tokens per second, the speed at which this machine reads memory, and a hash of all logits, which is
 * the same on every tier, with every number of threads, and whatever is answered at the same time. --perplexity reads a
 * text instead, and prints how well the model predicts it. */
#include "answers.h"
#include "prompt.h"
#include "ranks.h"

#include "cli.h"
#include "text_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NO_MODEL = 77 };

static const char default_prompt[] = "Tell me the story of a lighthouse keeper who learns to sail.";

/* ---------------------------------------------------------------------------------------------------- setting up -- */

/* The bytes of the prompt: words, a file, "-" alone for standard input, or the default. */
static char *prompt_bytes(run *r, size_t *count) {
    const options *opts = r->opts;
    char *bytes;
    if (opts->file != NULL) {
        int64_t read = 0;
        bytes = text_file_read(opts->file, TEXT_MOST, &read, to(r));
        *count = (size_t)read;
        if (bytes != NULL)
            *count -= *count > 0 && bytes[*count - 1] == '\n';
    } else if (opts->word_count == 1 && strcmp(opts->words[0], "-") == 0)
        bytes = prompt_read(stdin, TEXT_MOST, count, to(r));
    else {
        bytes = cli_join(opts->words, opts->word_count, default_prompt);
        *count = bytes != NULL ? strlen(bytes) : 0;
        if (bytes == NULL)
            die("out of memory");
    }
    if (bytes == NULL)
        die(r->complaint);
    return bytes;
}

/* Each line that is not empty is a prompt. */
static void cut_lines(run *r) {
    int64_t lines = 1;
    for (const char *at = r->text; *at != '\0'; at++)
        lines += *at == '\n';
    r->texts = allocate((size_t)lines, sizeof *r->texts);
    for (char *at = r->text, *end; at != NULL; at = end) {
        end = strchr(at, '\n');
        if (end != NULL)
            *end++ = '\0';
        at[strcspn(at, "\r")] = '\0';
        if (*at != '\0')
            r->texts[r->prompts++] = at;
    }
}

static void read_prompts(run *r) {
    const options *opts = r->opts;
    const bool standard_input = opts->word_count == 1 && strcmp(opts->words[0], "-") == 0;
    size_t count = 0;
    char *bytes = prompt_bytes(r, &count);
    r->text = sound_text(bytes, count, "the prompt");
    free(bytes);
    if (opts->parallel > 0 && (opts->file != NULL || standard_input))
        cut_lines(r);
    else if (*r->text != '\0') {
        r->texts = allocate(1, sizeof *r->texts);
        r->texts[0] = r->text;
        r->same_prompt = opts->parallel > 1;
        r->prompts = r->same_prompt ? opts->parallel : 1;
    }
    if (r->prompts == 0)
        run_end(CLI_USAGE, "the prompt is empty");
    r->sequences = opts->parallel < r->prompts ? opts->parallel : r->prompts;
    r->sequences = r->sequences > 0 ? r->sequences : 1;
}

static const char *model_path(const options *opts) {
    const char *named = getenv("FOVEA_GENERATE_MODEL");
    const char *path = opts->model != NULL ? opts->model : named != NULL && *named ? named : FOVEA_GENERATE_MODEL;
    if (access(path, F_OK) == 0)
        return path;
    fprintf(
        stderr,
        "fovea-generate: %s: does not exist; python3 tools/generate/fetch.py FOLDER fetches SmolLM2-135M-Instruct\n",
        path);
    exit(NO_MODEL);
}

/* A file's recommendations are not used, but worth a word. */
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
    if (f != NULL && r->opts->perplexity == NULL && r->opts->verify == NULL)
        tell_sampling(f);
    if (status != 0)
        die(r->complaint);
    receipts_begin(r, w);
    weights_close(w);
    if (r->opts->perplexity != NULL || r->opts->plain || (r->opts->verify != NULL && r->prompts == 0))
        return;
    if (text_chats(r->t)->kind == CHAT_OTHER) {
        complain(
            to(r), path,
            "%schat_template is not ChatML, and none of those that Llama 3, Gemma, Qwen and gpt-oss were published "
            "with; --plain continues the prompt without a chat",
            prefix);
        die(r->complaint);
    }
    if (text_chats(r->t)->kind == CHAT_NONE && r->opts->system != NULL)
        die("--system needs a chat, but the model has no chat template");
    if (text_chats(r->t)->no_system && r->opts->system != NULL)
        die("--system: the model's chat template refuses system messages");
}

static void load(run *r, const char *path) {
    fovea_context_options context;
    fovea_context_options_init(&context);
    context.threads = r->opts->threads;
    context.threads_backend = FOVEA_THREADS_POOL;
    fovea_context_facts_init(&r->info);
    if (fovea_context_create(&context, &r->ctx) != FOVEA_OK || fovea_context_info(r->ctx, &r->info) != FOVEA_OK)
        die(fovea_error_detail());
    if (r->opts->system != NULL)
        r->system = sound_text(r->opts->system, strlen(r->opts->system), "the system message");
    load_text(r, path);
    if (r->opts->verify == NULL)
        run_load(r, path);
}

static void unload(run *r) {
    run_unload(r);
    text_free(r->t);
    fovea_context_destroy(r->ctx);
    free(r->ids);
    free(r->texts);
    free(r->text);
    free(r->system);
}

/* Options that would be ignored are refused. */
static void check_options(const options *opts) {
    if (opts->perplexity != NULL && (opts->word_count > 0 || opts->file != NULL || opts->system != NULL))
        run_end(CLI_USAGE, "--perplexity takes neither a prompt nor --system");
    if (opts->perplexity != NULL && (opts->parallel > 0 || opts->stops.count > 0))
        run_end(CLI_USAGE, "--perplexity takes neither --parallel nor --stop");
    if (opts->receipt != NULL && (opts->perplexity != NULL || opts->verify != NULL))
        run_end(CLI_USAGE, "--receipt is of answers: it takes neither --perplexity nor --verify");
    if (opts->private_prompt && opts->receipt == NULL)
        run_end(CLI_USAGE, "--private-prompt needs --receipt");
    if (opts->verify != NULL && (opts->perplexity != NULL || opts->parallel > 0 || opts->stops.count > 0 || opts->ids))
        run_end(CLI_USAGE, "--verify takes no --perplexity, --parallel, --stop or --ids");
    const int words = opts->word_count - (opts->verify != NULL && opts->model == NULL && opts->word_count > 0);
    if (opts->file != NULL && words > 0)
        run_end(CLI_USAGE, "--file is the prompt, so it cannot be combined with another");
    if (opts->formats && (opts->perplexity == NULL || opts->weights > 0 || opts->arithmetic >= 0))
        run_end(CLI_USAGE, "--formats needs --perplexity, and takes neither --weights nor --arithmetic");
    if (opts->mpi && opts->word_count == 1 && strcmp(opts->words[0], "-") == 0)
        run_end(CLI_USAGE,
                "--mpi: only one rank has standard input, so the prompt cannot come from there: take --file");
    if (opts->plain && opts->system != NULL)
        run_end(CLI_USAGE, "--plain has no chat, so it cannot be combined with --system");
}

int main(int argc, char **argv) {
    options opts;
    const int wrong = options_read(argc, argv, &opts);
    if (wrong >= 0)
        return wrong;
    run r = {.opts = &opts, .sequences = 1};
    check_options(&opts);
    receipt *stated = opts.verify != NULL ? verify_begin(&opts) : NULL;
    const char *why = NULL;
    if (opts.mpi && (r.ranks = ranks_begin(&run_complaints, &why)) == NULL)
        die(why);
    if (opts.perplexity == NULL && (stated == NULL || opts.word_count > 0 || opts.file != NULL))
        read_prompts(&r);
    r.sequences = stated != NULL ? 1 : r.sequences;
    const char *path = model_path(&opts);
    load(&r, path);
    if (stated != NULL) {
        verify(&r, path, stated);
    } else if (opts.perplexity != NULL) {
        perplexity(&r, path);
    } else {
        answers_print(&r);
        if (r.ranks == NULL || r.ranks->rank == 0) /* others would read memory at the same time */
            report(&r);
    }
    receipt_free(stated);
    unload(&r);
    ranks_end();
    return 0;
}
