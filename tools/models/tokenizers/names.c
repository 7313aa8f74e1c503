/* Tokens that are control tokens by their names, whatever type a file gives them (private.h): those that end an answer,
 * and those of filling in the middle that the file does not name. The names are those that llama.cpp knows. */
#include "private.h"

#include <string.h>

static const char *const ends[] = {"<|eot_id|>",
                                   "<|im_end|>",
                                   "<|end|>",
                                   "<|return|>",
                                   "<|call|>",
                                   "<|flush|>",
                                   "<|calls|>",
                                   "<end_of_turn>",
                                   "<|endoftext|>",
                                   "</s>",
                                   "<|eom_id|>",
                                   "<EOT>",
                                   "_<EOT>",
                                   "[EOT]",
                                   "[EOS]",
                                   "<|end_of_text|>",
                                   "<end_of_utterance>",
                                   "<eos>",
                                   "<turn|>",
                                   "<|tool_response>",
                                   ("<\xef\xbd\x9c"
                                    "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>"),
                                   "[e~["};

static const struct {
    tk_fim fim;
    bool end; /* of an answer, too */
    const char *names[8];
} fims[] = {
    {TK_FIM_PREFIX,
     false,
     {"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>",
      "<\xef\xbd\x9c"
      "fim\xe2\x96\x81"
      "begin\xef\xbd\x9c>",
      "<PRE>", "\xe2\x96\x81<PRE>", "<|code_prefix|>", "<|prefix|>"}},
    {TK_FIM_SUFFIX,
     false,
     {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>",
      "<\xef\xbd\x9c"
      "fim\xe2\x96\x81hole\xef\xbd\x9c>",
      "<SUF>", "\xe2\x96\x81<SUF>", "<|code_suffix|>", "<|suffix|>"}},
    {TK_FIM_MIDDLE,
     false,
     {"<|fim_middle|>", "<fim-middle>", "<fim_middle>",
      "<\xef\xbd\x9c"
      "fim\xe2\x96\x81"
      "end\xef\xbd\x9c>",
      "<MID>", "\xe2\x96\x81<MID>", "<|code_middle|>", "<|middle|>"}},
    {TK_FIM_PAD, true, {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"}},
    {TK_FIM_REPO, true, {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"}},
    {TK_FIM_FILE, true, {"<|file_sep|>"}},
};

static int32_t find(const tk_tokenizer *t, const char *name) {
    return tk_texts_find(&t->texts, name, (int64_t)strlen(name));
}

/* gpt-oss and others end an answer by <|return|> or <|flush|>, if not by a call; <|end|> is the end of one of its
 * messages alone. */
static void mark_messages(tk_tokenizer *t) {
    const int32_t end = find(t, "<|end|>");
    const bool calls = find(t, "<|call|>") != TK_NONE || find(t, "<|calls|>") != TK_NONE;
    if (end != TK_NONE && calls && (find(t, "<|return|>") != TK_NONE || find(t, "<|flush|>") != TK_NONE))
        t->ends[end] = false;
}

void tk_names_mark(tk_tokenizer *t, unsigned fim_named) {
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        const int32_t id = find(t, ends[i]);
        if (id != TK_NONE) {
            t->types[id] = TK_CONTROL;
            t->ends[id] = true;
        }
    }
    for (size_t i = 0; i < sizeof fims / sizeof fims[0]; i++) {
        int32_t id = TK_NONE;
        for (int j = 0; j < 8 && fims[i].names[j] != NULL && id == TK_NONE; j++)
            id = find(t, fims[i].names[j]);
        if (id == TK_NONE || (fim_named >> fims[i].fim & 1))
            continue;
        t->types[id] = TK_CONTROL;
        t->ends[id] = t->ends[id] || fims[i].end;
    }
    mark_messages(t);
}
