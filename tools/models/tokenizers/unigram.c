/* Unigram (private.h), as XLM-R has it: the pieces of a word whose scores have the largest sum, found from left to
 * right (Viterbi). Ids are those of PyPI's tokenizers. */
#include "private.h"

#include <stdlib.h>
#include <string.h>

enum { SPACE_BYTES = 3 };
static const char space_mark[] = "\xe2\x96\x81"; /* U+2581 */
static const double unknown_penalty = 10.0;      /* below the least score */

int tk_unigram_read(tk_tokenizer *t, const tk_description *d, complaint to) {
    tk_unigram *u = &t->unigram;
    const int64_t count = t->texts.count;
    u->rules = *d->unigram;
    if (u->rules.unknown < 0 || u->rules.unknown >= count)
        return complain(to, d->name, "its unknown token %ld is none of its %lld tokens", (long)u->rules.unknown,
                        (long long)count);
    if (tk_unigram_read_charsmap(u, d->name, to) != 0)
        return -1;
    u->scores = malloc((size_t)count * sizeof *u->scores);
    if (u->scores == NULL)
        return complain(to, d->name, "out of memory");
    double least = u->rules.scores[0];
    for (int64_t i = 0; i < count; i++) {
        const double score = u->scores[i] = u->rules.scores[i];
        if (!(score > -1e30 && score < 1e30))
            return complain(to, d->name, "the score of token %lld is %g", (long long)i, score);
        least = score < least ? score : least;
    }
    u->unknown_score = least - unknown_penalty;
    return 0;
}

void tk_unigram_free(tk_unigram *u) {
    free(u->scores);
    free(u->units);
    free(u->replaced);
}

/* The best way to a place: its score, its last piece, and where that begins; begin -1: there is none yet. next: where
 * the piece ends that begins there on the best way to the end. */
typedef struct node {
    double score;
    int32_t id;
    int64_t begin, next;
} node;

static void reach(node *to, double score, int32_t id, int64_t begin) {
    if (to->begin < 0 || score > to->score)
        *to = (node){score, id, begin, 0};
}

/* Unknown characters in a row are one token. */
static bool encode_word(const tk_tokenizer *t, const char *word, int64_t bytes, tk_sink *sink) {
    const tk_unigram *u = &t->unigram;
    const tk_texts *texts = &t->texts;
    node *nodes = malloc((size_t)(bytes + 1) * sizeof *nodes);
    if (nodes == NULL)
        return false;
    for (int64_t i = 0; i <= bytes; i++)
        nodes[i] = (node){0.0, TK_NONE, -1, 0};
    for (int64_t at = 0; at < bytes;) {
        uint32_t code;
        int length;
        bool single = false;
        if (!tk_character(word + at, bytes - at, &code, &length)) /* what a table of characters made */
            length = 1;
        const double score = nodes[at].score;
        const int64_t longest = bytes - at < texts->longest ? bytes - at : texts->longest;
        for (int64_t n = 1; n <= longest; n++) {
            const int32_t id = tk_texts_find(texts, word + at, n);
            if (id == TK_NONE)
                continue;
            reach(&nodes[at + n], u->scores[id] + score, id, at);
            single = single || n == length;
        }
        if (!single)
            reach(&nodes[at + length], u->unknown_score + score, u->rules.unknown, at);
        at += length;
    }
    for (int64_t at = bytes; at > 0; at = nodes[at].begin)
        nodes[nodes[at].begin].next = at;
    int32_t last = TK_NONE;
    for (int64_t at = 0; at < bytes; at = nodes[at].next) {
        const int32_t id = nodes[nodes[at].next].id;
        if (id != u->rules.unknown || last != id)
            tk_sink_put(sink, id);
        last = id;
    }
    free(nodes);
    return true;
}

/* Where U+2581 begins next, or the end. */
static int64_t next_mark(const char *text, int64_t at, int64_t end) {
    while (at + SPACE_BYTES <= end && memcmp(text + at, space_mark, SPACE_BYTES) != 0)
        at++;
    return at + SPACE_BYTES <= end ? at : end;
}

/* Plain text with a mark before each word, in room for 4 bytes a byte and a mark; returns its bytes. */
static int64_t mark_words(const tk_unigram *u, const char *plain, int64_t count, char *marked) {
    int64_t n = 0;
    bool begins = true; /* a word, or the text */
    for (int64_t at = 0, length; at < count; at += length) {
        const int64_t white = u->rules.white ? tk_white_at(plain + at, count - at) : 0;
        const bool is_mark = count - at >= SPACE_BYTES && memcmp(plain + at, space_mark, SPACE_BYTES) == 0;
        length = white > 0 ? white : is_mark ? SPACE_BYTES : 1;
        const bool space = !u->rules.white && plain[at] == ' ';
        if (white == 0 && (space || (begins && !is_mark))) {
            memcpy(marked + n, space_mark, SPACE_BYTES);
            n += SPACE_BYTES;
        }
        if (white == 0 && !space) {
            memcpy(marked + n, plain + at, (size_t)length);
            n += length;
        }
        begins = white > 0;
    }
    return n;
}

bool tk_unigram_encode(const tk_tokenizer *t, tk_text text, tk_sink *sink) {
    int64_t count = 0;
    char *plain = tk_unigram_normalize(&t->unigram, text.bytes, text.count, &count);
    char *marked = plain != NULL ? malloc((size_t)count * (SPACE_BYTES + 1) + SPACE_BYTES + 1) : NULL;
    const int64_t bytes = marked != NULL ? mark_words(&t->unigram, plain, count, marked) : 0;
    bool memory = marked != NULL;
    for (int64_t at = 0, end; memory && at < bytes && !tk_sink_full(sink); at = end) {
        end = next_mark(marked, at + 1, bytes);
        memory = encode_word(t, marked + at, end - at, sink);
    }
    free(marked);
    free(plain);
    return memory;
}
