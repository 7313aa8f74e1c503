/* tokenizers.h. */
#include "private.h"

#include <stdlib.h>
#include <string.h>

/* ----------------------------------------------------------------------------------------------------- creating -- */

static bool is_token(const tk_tokenizer *t, int32_t id) {
    return id >= 0 && id < t->texts.count && tk_texts_at(&t->texts, id).count > 0;
}

static bool is(tk_text text, const char *word) {
    return text.count == (int64_t)strlen(word) && memcmp(text.bytes, word, (size_t)text.count) == 0;
}

/* A word in a sentence: what is not printable would break it. */
static const char *shown(tk_text text, char to[41]) {
    int64_t i = 0;
    for (; i < text.count && i < 40; i++)
        to[i] = text.bytes[i] > ' ' && text.bytes[i] < 0x7f ? text.bytes[i] : '?';
    to[i] = '\0';
    return to;
}

static int choose_model(tk_tokenizer *t, const tk_description *d, complaint to) {
    static const struct {
        const char *model, *what;
    } others[] = {{"bert", " (word pieces)"}, {"t5", " (unigram)"}, {"rwkv", " (a trie)"}, {"", ""}};
    char word[41];
    static const char *const names[] = {"gpt2", "llama", "WordPiece", "Unigram"}; /* by tk_model */
    t->model = d->wordpiece != NULL   ? TK_WORDPIECE
               : d->unigram != NULL   ? TK_UNIGRAM
               : is(d->model, "gpt2") ? TK_BPE
                                      : TK_SPM;
    if (!is(d->model, names[t->model])) {
        size_t i = 0;
        while (*others[i].model != '\0' && !is(d->model, others[i].model))
            i++;
        return complain(to, d->name,
                        "the tokenizer %s%s is not served; served are gpt2 (byte-level BPE) and llama (SentencePiece)",
                        shown(d->model, word), others[i].what);
    }
    t->bpe.rule = t->model == TK_BPE ? tk_rule_find(d->pre) : NULL;
    if (t->model == TK_BPE && t->bpe.rule == NULL)
        return complain(to, d->name,
                        "the pre-tokenizer %s is not served; served are llama-bpe, qwen2, qwen35, gpt-4o, gpt-2 and "
                        "smollm",
                        d->pre.count > 0 ? shown(d->pre, word) : "(none)");
    return 0;
}

static int read_types(tk_tokenizer *t, const tk_description *d, complaint to) {
    const int64_t count = t->texts.count;
    t->types = malloc((size_t)count);
    t->ends = calloc((size_t)count, sizeof *t->ends);
    if (t->types == NULL || t->ends == NULL)
        return complain(to, d->name, "out of memory");
    for (int64_t i = 0; i < count; i++) {
        const int32_t type = d->types != NULL ? d->types[i] : TK_NORMAL;
        t->types[i] = (uint8_t)(type >= TK_NORMAL && type <= TK_BYTE ? type : TK_UNUSED);
    }
    tk_names_mark(t, d->fim_named);
    return 0;
}

/* BOS or EOS, if it is to be added: by its spelling, named, or the one of the model. */
static int frame(const tk_tokenizer *t, const tk_description *d, bool adds, const char *spelling, int32_t named,
                 int32_t usual, const char *what, int32_t *id, complaint to) {
    *id = spelling != NULL ? tk_find(t, spelling, (int64_t)strlen(spelling)) : TK_NONE;
    if (spelling != NULL)
        return *id != TK_NONE ? 0 : complain(to, d->name, "its vocabulary has no %s", spelling);
    if (!adds)
        return 0;
    *id = named != TK_NONE || t->model != TK_SPM ? named : usual;
    if (is_token(t, *id))
        return 0;
    return *id == TK_NONE ? complain(to, d->name, "asks for %s, but does not say which token it is", what)
                          : complain(to, d->name, "%s is token %d, which does not exist", what, (int)*id);
}

static int create(tk_tokenizer *t, const tk_description *d, complaint to) {
    if (choose_model(t, d, to) != 0 || tk_texts_read(&t->texts, &d->tokens, d->name, to) != 0 ||
        read_types(t, d, to) != 0 || tk_specials_make(t, d->name, to) != 0)
        return -1;
    const bool bos = d->add_bos == TK_DEFAULT ? t->model == TK_SPM || (t->model == TK_BPE && t->bpe.rule->bos)
                                              : d->add_bos == TK_YES;
    t->space_prefix = t->model != TK_BPE && d->space_prefix != TK_NO;
    t->space_first = d->space_first;
    static int (*const read[])(tk_tokenizer *, const tk_description *,
                               complaint) = {/* by tk_model */
                                             tk_bpe_read, tk_spm_read, tk_wordpiece_read, tk_unigram_read};
    return read[t->model](t, d, to) == 0 && frame(t, d, bos, d->before, d->bos, 1, "BOS", &t->before, to) == 0 &&
                   frame(t, d, d->add_eos == TK_YES, d->behind, d->eos, 2, "EOS", &t->behind, to) == 0
               ? 0
               : -1;
}

int tk_create(const tk_description *description, tk_tokenizer **t_out, complaint to) {
    *t_out = NULL;
    tk_tokenizer *t = calloc(1, sizeof *t);
    if (t == NULL)
        return complain(to, description->name, "out of memory");
    if (create(t, description, to) == 0)
        return *t_out = t, 0;
    tk_free(t);
    return -1;
}

void tk_free(tk_tokenizer *t) {
    if (t == NULL)
        return;
    tk_texts_free(&t->texts);
    tk_bpe_free(&t->bpe);
    tk_spm_free(&t->spm);
    tk_unigram_free(&t->unigram);
    free(t->specials.list);
    free(t->types);
    free(t->ends);
    free(t);
}

int64_t tk_count(const tk_tokenizer *t) { return t->texts.count; }
int32_t tk_before(const tk_tokenizer *t) { return t->before; }
int32_t tk_behind(const tk_tokenizer *t) { return t->behind; }

bool tk_byte_level(const tk_tokenizer *t) { return t->model == TK_BPE; }

bool tk_ends(const tk_tokenizer *t, int32_t id) { return is_token(t, id) && t->ends[id]; }

int32_t tk_find(const tk_tokenizer *t, const char *bytes, int64_t count) {
    return tk_texts_find(&t->texts, bytes, count);
}

const char *tk_spelling(const tk_tokenizer *t, int32_t id) {
    return is_token(t, id) ? tk_texts_at(&t->texts, id).bytes : NULL;
}

/* ----------------------------------------------------------------------------------------------------- encoding -- */

/* Encodes a text between special tokens. */
static bool encode_fragment(const tk_tokenizer *t, tk_work *work, tk_text text, tk_sink *sink) {
    if (text.count == 0 || tk_sink_full(sink))
        return true;
    switch (t->model) {
    case TK_BPE: return tk_bpe_encode(t, work, text, sink);
    case TK_SPM: return tk_spm_encode(t, work, text, t->space_prefix, sink);
    case TK_UNIGRAM: return tk_unigram_encode(t, text, sink);
    default: return tk_wordpiece_encode(t, text, sink), true;
    }
}

static int64_t encode(const tk_tokenizer *t, const char *text, int64_t bytes, unsigned flags, int32_t *ids,
                      int64_t most) {
    tk_sink sink = {ids, most, 0};
    tk_work work = {0};
    tk_cut *cuts;
    int64_t at = 0;
    if (bytes > TK_TEXT_MOST)
        return TK_TOO_LONG;
    const int64_t count = tk_specials_cut(t, text, bytes, flags & TK_SPECIAL, &cuts);
    bool memory = count >= 0;
    if (flags & TK_FRAME && t->before != TK_NONE)
        tk_sink_put(&sink, t->before);
    for (int64_t i = 0; i < count && memory; i++) {
        memory = encode_fragment(t, &work, (tk_text){text + at, cuts[i].begin - at}, &sink);
        tk_sink_put(&sink, cuts[i].id);
        at = cuts[i].begin + tk_texts_at(&t->texts, cuts[i].id).count;
    }
    memory = memory && encode_fragment(t, &work, (tk_text){text + at, bytes - at}, &sink);
    if (flags & TK_FRAME && t->behind != TK_NONE)
        tk_sink_put(&sink, t->behind);
    free(cuts);
    tk_work_free(&work);
    return memory ? sink.count : TK_NO_MEMORY;
}

int64_t tk_encode(const tk_tokenizer *t, const char *text, int64_t bytes, unsigned flags, int32_t *ids, int64_t most) {
    if (!t->space_first || bytes < 1 || text[0] == ' ' || bytes > TK_TEXT_MOST)
        return encode(t, text, bytes, flags, ids, most);
    char *spaced = malloc((size_t)bytes + 1);
    if (spaced == NULL)
        return TK_NO_MEMORY;
    spaced[0] = ' ';
    memcpy(spaced + 1, text, (size_t)bytes);
    const int64_t count = encode(t, spaced, bytes + 1, flags, ids, most);
    free(spaced);
    return count;
}

int64_t tk_encode_cut(const tk_tokenizer *t, const char *text, int64_t bytes, int32_t *ids, int64_t most) {
    const int64_t count = tk_encode(t, text, bytes, TK_FRAME, ids, most);
    if (count > most && t->behind != TK_NONE)
        ids[most - 1] = t->behind;
    return count > most ? most : count;
}

/* ----------------------------------------------------------------------------------------------------- decoding -- */

tk_decoder tk_decoder_begin(const tk_tokenizer *t, bool special) {
    return (tk_decoder){.t = t, .special = special, .strip_space = t->space_prefix};
}

int64_t tk_decode_most(const tk_tokenizer *t) { return t->texts.longest + 4; }

static int64_t decode_spelling(const tk_tokenizer *t, tk_text spelling, char *to) {
    switch (t->model) {
    case TK_BPE: return tk_bpe_decode(&t->bpe, spelling, to);
    case TK_SPM:
    case TK_UNIGRAM: return tk_spm_decode(spelling, to);
    default: return tk_wordpiece_decode(spelling, to);
    }
}

static int64_t decode_token(tk_decoder *d, int32_t id, char *to) {
    const tk_tokenizer *t = d->t;
    if (!is_token(t, id))
        return 0;
    const tk_text spelling = tk_texts_at(&t->texts, id);
    const int type = t->types[id], byte = type == TK_BYTE ? tk_spm_byte(spelling) : -1;
    if ((type == TK_CONTROL || type == TK_UNKNOWN) && !d->special)
        return 0;
    if (type == TK_CONTROL || type == TK_UNKNOWN || type == TK_USER) {
        memcpy(to, spelling.bytes, (size_t)spelling.count);
        d->strip_space = t->space_prefix;
        return spelling.count;
    }
    if (byte >= 0)
        to[0] = (char)byte;
    int64_t count = byte >= 0 ? 1 : decode_spelling(t, spelling, to);
    if (d->strip_space && to[0] == ' ')
        memmove(to, to + 1, (size_t)--count);
    d->strip_space = false;
    return count;
}

/* The bytes of the last character, if it is not complete. */
static int incomplete(const char *bytes, int64_t count) {
    for (int i = 1; i <= 3 && i <= count; i++) {
        const unsigned char byte = (unsigned char)bytes[count - i];
        if (byte >= 0xc0)
            return i < (byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : byte < 0xf8 ? 4 : 1) ? i : 0;
        if (byte < 0x80)
            return 0;
    }
    return 0;
}

int64_t tk_decode(tk_decoder *d, int32_t id, char *to) {
    memcpy(to, d->wait, (size_t)d->waiting);
    const int64_t count = d->waiting + decode_token(d, id, to + d->waiting);
    d->waiting = incomplete(to, count);
    memcpy(d->wait, to + count - d->waiting, (size_t)d->waiting);
    return count - d->waiting;
}

int64_t tk_decode_end(tk_decoder *d, char *to) {
    const int count = d->waiting;
    memcpy(to, d->wait, (size_t)count);
    d->waiting = 0;
    return count;
}
