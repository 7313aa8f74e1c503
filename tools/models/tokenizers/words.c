/* Pre-tokenizers: how a text is split into words, whose bytes are merged (private.h). The rules are regular
 * expressions of models' tokenizer.json:
 *
 *   gpt-2       's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 *   smollm      the same, after each \p{N} was cut out
 *   llama-bpe   (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|
 *               \s*[\r\n]+|\s+(?!\S)|\s+
 *   qwen2       the same, with \p{N} in the place of \p{N}{1,3}
 *   qwen35      qwen2 with [\p{L}\p{M}] in the place of \p{L}, but for the first
 *   gpt-4o      as llama.cpp has it: only letters of ASCII have a case. U is [A-Z] or any letter without case, L is
 *               [a-z] or such a letter, C is a contraction:
 *               [^\r\n\p{L}\p{N}]?U*L+C?|[^\r\n\p{L}\p{N}]?U+L*C?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|
 *               \s*[\r\n]+|\s+(?!\S)|\s+
 */
#include "private.h"

#include <string.h>

static const tk_rule rules[] = {
    {{"llama-bpe", "llama3", "llama-v3"}, .digits_most = 3, .whole_words = true, .bos = true},
    {{"qwen2", "deepseek-r1-qwen"}, .digits_most = 1},
    {{"qwen35"}, .digits_most = 1, .marks = true},
    {{"gpt-4o", "llama4"}, .digits_most = 3, .cased = true},
    {{"gpt-2"}, .gpt2 = true},
    {{"smollm"}, .gpt2 = true, .cut_digits = true},
};

const tk_rule *tk_rule_find(tk_text name) {
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        for (int j = 0; j < 4 && rules[i].names[j] != NULL; j++)
            if (strlen(rules[i].names[j]) == (size_t)name.count &&
                memcmp(rules[i].names[j], name.bytes, (size_t)name.count) == 0)
                return &rules[i];
    return NULL;
}

/* The class of the character at a place, and its bytes. */
static tk_class class_at(const tk_words *w, int64_t at, int *length) {
    uint32_t code = 0;
    *length = 0;
    if (at >= w->limit)
        return TK_END;
    tk_character(w->text + at, w->bytes - at, &code, length);
    const tk_class class = tk_class_of(w->classes, code);
    return class != TK_MARK ? class : w->rule->marks ? TK_LETTER : TK_OTHER;
}

/* Where the characters of a class end, of which the first may be at a place; *last is where the last begins. */
static int64_t run_end(const tk_words *w, tk_class wanted, int64_t at, int64_t *last) {
    int length;
    for (*last = at; class_at(w, at, &length) == wanted; at += length)
        *last = at;
    return at;
}

/* The bytes of 's, 't, 're ... at a place. */
static int contraction(const tk_words *w, int64_t at, bool any_case) {
    static const char *const ends[] = {"s", "t", "re", "ve", "m", "ll", "d"};
    if (w->text[at] != '\'')
        return 0;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        const int length = (int)strlen(ends[i]);
        int same = 0;
        while (same < length && at + 1 + same < w->limit &&
               (w->text[at + 1 + same] == ends[i][same] ||
                (any_case && w->text[at + 1 + same] == ends[i][same] - 'a' + 'A')))
            same++;
        if (same == length)
            return 1 + length;
    }
    return 0;
}

/* \s+(?!\S)|\s+: white space leaves its last character to the word behind it. */
static int64_t white_end(const tk_words *w, int64_t at) {
    int64_t last;
    const int64_t end = run_end(w, TK_WHITE, at, &last);
    return end < w->limit && last > at ? last : end;
}

static int64_t gpt2_end(const tk_words *w, int64_t at) {
    int length = contraction(w, at, false);
    int64_t last;
    if (length > 0)
        return at + length;
    const int64_t begin = at + (w->text[at] == ' ');
    const tk_class class = class_at(w, begin, &length);
    return class == TK_WHITE || class == TK_END ? white_end(w, at) : run_end(w, class, begin, &last);
}

static bool is_between(const tk_words *w, int64_t at, char first, char last) {
    return w->text[at] >= first && w->text[at] <= last;
}

static bool is_line_end(const tk_words *w, int64_t at) {
    return at < w->limit && (w->text[at] == '\r' || w->text[at] == '\n');
}

/* Letters of one word by the rule gpt-4o: U*L+, or capitals alone; then a contraction. */
static int64_t cased_end(const tk_words *w, int64_t at) {
    int64_t behind = TK_NONE; /* the last letter that has no case */
    int length;
    for (; class_at(w, at, &length) == TK_LETTER && !is_between(w, at, 'a', 'z'); at += length)
        behind = is_between(w, at, 'A', 'Z') ? behind : at + length;
    if (class_at(w, at, &length) == TK_LETTER)
        for (; class_at(w, at, &length) == TK_LETTER && !is_between(w, at, 'A', 'Z'); at += length)
            ;
    else if (behind != TK_NONE)
        at = behind;
    return at < w->limit ? at + contraction(w, at, true) : at;
}

static int64_t llama3_end(const tk_words *w, int64_t at) {
    int length = w->rule->cased ? 0 : contraction(w, at, true), next;
    int64_t last, end;
    if (length > 0)
        return at + length;
    tk_class class = class_at(w, at, &length);
    if (class == TK_NUMBER) {
        for (int i = 0; i < w->rule->digits_most && class_at(w, at, &length) == TK_NUMBER; i++)
            at += length;
        return at;
    }
    if (class == TK_LETTER || (!is_line_end(w, at) && class_at(w, at + length, &next) == TK_LETTER))
        return w->rule->cased ? cased_end(w, class == TK_LETTER ? at : at + length)
                              : run_end(w, TK_LETTER, at + length, &last);
    const int64_t begin = at + (w->text[at] == ' ');
    if (class_at(w, begin, &length) == TK_OTHER) {
        end = run_end(w, TK_OTHER, begin, &last);
        while (is_line_end(w, end) || (w->rule->cased && end < w->limit && w->text[end] == '/'))
            end++;
        return end;
    }
    /* \s*[\r\n]+: up to the last line end of the white space, if it has one */
    for (end = run_end(w, TK_WHITE, at, &last); end > at; end--)
        if (is_line_end(w, end - 1))
            return end;
    return white_end(w, at);
}

/* A digit, or all before the next one. */
static int64_t part_end(tk_words *w) {
    int64_t at = w->at;
    int length;
    w->limit = w->bytes;
    tk_class class = class_at(w, at, &length);
    if (class == TK_NUMBER)
        return at + length;
    for (; class != TK_NUMBER && class != TK_END; class = class_at(w, at, &length))
        at += length;
    return at;
}

bool tk_words_next(tk_words *w, int64_t *begin, int64_t *end) {
    if (w->at == w->bytes)
        return false;
    if (w->at == w->limit)
        w->limit = w->rule->cut_digits ? part_end(w) : w->bytes;
    *begin = w->at;
    *end = w->at = w->rule->gpt2 ? gpt2_end(w, w->at) : llama3_end(w, w->at);
    return true;
}
