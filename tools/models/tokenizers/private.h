/* Shared by the files of the tokenizers.
 *
 *   tokenizers.c  creates, and encodes: special tokens are cut out (special.c), what is between them is a fragment
 *   words.c       splits a fragment of byte-level BPE into words (unicode.c has the classes of characters)
 *   bpe.c, spm.c  bring a word, or a fragment, to symbols, and say which two may be joined
 *   wordpiece.c   cuts a fragment into word pieces
 *   unigram.c     cuts a fragment, which unigram_text.c normalizes, into the pieces of the largest sum of scores
 *   merge.c       joins symbols, the best pair first, by a heap
 *   texts.c       texts with ids, found by either */
#ifndef TOKENIZERS_PRIVATE_H
#define TOKENIZERS_PRIVATE_H

#include "tokenizers.h"

#include <stddef.h>

/* ------------------------------------------------------------------------------------------------------- texts.c -- */

typedef struct tk_texts {
    char *bytes;     /* of all texts, with a zero behind each */
    int32_t *begins; /* [count + 1] in bytes */
    uint32_t *slots; /* a hash table with open addresses (texts.c) */
    uint64_t mask;
    int64_t count, longest;
} tk_texts;

int tk_texts_read(tk_texts *texts, const tk_list *list, const char *name, complaint to);
void tk_texts_free(tk_texts *texts);
int32_t tk_texts_find(const tk_texts *texts, const char *bytes, int64_t count);

/* The same in two steps, between which what the second reads is fetched: lookups wait for memory. */
uint64_t tk_texts_hash(const char *bytes, int64_t count);
int32_t tk_texts_find_hashed(const tk_texts *texts, const char *bytes, int64_t count, uint64_t hash);

static inline void tk_fetch(const void *at) {
#if defined(__GNUC__) || defined(__clang__)
    __builtin_prefetch(at);
#else
    (void)at;
#endif
}

static inline tk_text tk_texts_at(const tk_texts *texts, int32_t id) {
    return (tk_text){texts->bytes + texts->begins[id], (int64_t)texts->begins[id + 1] - texts->begins[id] - 1};
}

/* ----------------------------------------------------------------------------------------------------- unicode.c -- */

typedef enum tk_class { TK_OTHER, TK_LETTER, TK_NUMBER, TK_WHITE, TK_MARK, TK_END } tk_class;

enum { TK_RUNS = 1921 };

typedef struct tk_classes {
    uint32_t runs[TK_RUNS]; /* first character * 8 + class, ascending */
    uint8_t ascii[128];
} tk_classes;

void tk_classes_make(tk_classes *classes);
tk_class tk_class_of(const tk_classes *classes, uint32_t code);

/* The character at text[0], of count > 0 bytes, and its bytes. Overlong forms and surrogates are characters, as in
 * llama.cpp; false: it is none. */
bool tk_character(const char *text, int64_t count, uint32_t *code, int *length);
bool tk_sound_character(const char *text, int64_t count, uint32_t *code, int *length); /* one that UTF-8 may have */
int tk_put_character(uint32_t code, char *to);                                         /* bytes */

/* ------------------------------------------------------------------------------------------------------- words.c -- */

typedef struct tk_rule {
    const char *names[4];
    bool gpt2;        /* how runs are cut; otherwise Llama 3's way */
    bool cut_digits;  /* before all else */
    int digits_most;  /* of a word */
    bool cased;       /* of Llama 3's way: a capital begins a word, a contraction ends it */
    bool marks;       /* are letters; otherwise as punctuation */
    bool whole_words; /* a word that is a token is not merged */
    bool bos;
} tk_rule;

const tk_rule *tk_rule_find(tk_text name); /* or NULL */

/* A text that is sound: each byte belongs to a character. */
typedef struct tk_words {
    const tk_rule *rule;
    const tk_classes *classes;
    const char *text;
    int64_t bytes, at, limit; /* limit: of the part between digits that are cut out */
} tk_words;

bool tk_words_next(tk_words *words, int64_t *begin, int64_t *end);

/* ------------------------------------------------------------------------------------------------------- merge.c -- */

typedef struct tk_symbol {
    int32_t id;            /* or TK_NONE */
    int32_t begin, length; /* in the text; 0: joined to the one before */
    int32_t prev, next;    /* TK_NONE: there is none */
} tk_symbol;

typedef struct tk_entry {
    uint64_t key; /* the least comes first */
    int32_t right, length, id;
} tk_entry;

typedef struct tk_heap {
    tk_entry *entries;
    int64_t count, room;
} tk_heap;

bool tk_heap_push(tk_heap *heap, tk_entry entry); /* false: no memory */
tk_entry tk_heap_pop(tk_heap *heap);

/* The symbols of a word, and memory for joining them. Zeros to begin with. */
typedef struct tk_work {
    tk_symbol *symbols;
    int64_t count, room;
    tk_heap heap;
    char *buffer;
    int64_t buffer_room;
} tk_work;

void tk_work_free(tk_work *work);
bool tk_work_add(tk_work *work, int32_t id, int32_t begin, int32_t length); /* false: no memory */
char *tk_work_buffer(tk_work *work, int64_t room);                          /* NULL: no memory */

/* May two neighbours be joined? Then what they become, and in what order: the least rank first, then from the left. */
typedef bool tk_pair(const tk_tokenizer *t, const char *text, const tk_symbol *left, const tk_symbol *right,
                     uint32_t *rank, int32_t *id);
bool tk_merge(const tk_tokenizer *t, tk_work *work, const char *text, tk_pair *pair); /* false: no memory */

/* ----------------------------------------------------------------------------------------------------- special.c -- */

typedef struct tk_special {
    int32_t id;
    int32_t order;  /* of cutting: longer ones first */
    int32_t prefix; /* the longest other one that this one begins with, or TK_NONE */
} tk_special;

typedef struct tk_specials {
    tk_special *list; /* sorted by spelling */
    int64_t count;
    bool begins[256]; /* with this byte */
} tk_specials;

/* A special token in a text. */
typedef struct tk_cut {
    int64_t begin;
    int32_t id;
} tk_cut;

int tk_specials_make(tk_tokenizer *t, const char *name, complaint to);
int64_t tk_specials_cut(const tk_tokenizer *t, const char *text, int64_t bytes, bool control, tk_cut **cuts);

/* ------------------------------------------------------------------------------------------------------------------ */

/* Tokens of a text, which may be more than there is room for. */
typedef struct tk_sink {
    int32_t *ids;
    int64_t most, count;
} tk_sink;

static inline void tk_sink_put(tk_sink *sink, int32_t id) {
    if (sink->count < sink->most)
        sink->ids[sink->count] = id;
    sink->count += sink->count <= sink->most;
}

static inline bool tk_sink_full(const tk_sink *sink) { return sink->count > sink->most; }

/* bpe.c */
enum { TK_BYTE_CODES = 256 + 68 };

typedef struct tk_merge_row {
    int32_t left, right, id;
} tk_merge_row;

typedef struct tk_bpe {
    const tk_rule *rule;
    tk_merge_row *merges;
    uint32_t *slots; /* index + 1 of a merge; 0: free */
    uint64_t mask;
    int64_t count;
    int32_t byte_ids[256];
    uint16_t codes[256];          /* the character that stands for a byte */
    int16_t bytes[TK_BYTE_CODES]; /* and back; -1: it stands for none */
    tk_classes classes;
} tk_bpe;

int tk_bpe_read(tk_tokenizer *t, const tk_description *d, complaint to);
void tk_bpe_free(tk_bpe *bpe);
bool tk_bpe_encode(const tk_tokenizer *t, tk_work *work, tk_text text, tk_sink *sink); /* false: no memory */
int64_t tk_bpe_decode(const tk_bpe *bpe, tk_text spelling, char *to);

/* spm.c */
typedef struct tk_spm {
    uint32_t *ranks; /* by id: 0 is of the highest score */
    int32_t byte_ids[256];
    bool split; /* no token has a space behind another character, so texts are split there */
} tk_spm;

int tk_spm_read(tk_tokenizer *t, const tk_description *d, complaint to);
void tk_spm_free(tk_spm *spm);
bool tk_spm_encode(const tk_tokenizer *t, tk_work *work, tk_text text, bool space, tk_sink *sink);
int64_t tk_spm_decode(tk_text spelling, char *to);
int tk_spm_byte(tk_text spelling); /* of "<0x0A>"; -1: it is not spelt so */

/* wordpiece.c */
typedef struct tk_wordpiece {
    tk_wordpiece_rules rules;
    int32_t unknown;
} tk_wordpiece;

int tk_wordpiece_read(tk_tokenizer *t, const tk_description *d, complaint to);
void tk_wordpiece_encode(const tk_tokenizer *t, tk_text text, tk_sink *sink);
int64_t tk_wordpiece_decode(tk_text spelling, char *to);

/* unigram.c, unigram_text.c */
typedef struct tk_unigram {
    tk_unigram_rules rules; /* but scores and charsmap, which need not stay */
    double *scores;
    double unknown_score;
    uint32_t *units; /* of the table of characters; NULL: there is none */
    size_t unit_count;
    char *replaced; /* texts of the table, with a zero behind the last */
    size_t replaced_bytes;
} tk_unigram;

int tk_unigram_read(tk_tokenizer *t, const tk_description *d, complaint to);
int tk_unigram_read_charsmap(tk_unigram *u, const char *name, complaint to);
void tk_unigram_free(tk_unigram *u);
bool tk_unigram_encode(const tk_tokenizer *t, tk_text text, tk_sink *sink);                       /* false: no memory */
char *tk_unigram_normalize(const tk_unigram *u, const char *text, int64_t bytes, int64_t *count); /* NULL: no memory */
int64_t tk_white_at(const char *text, int64_t bytes); /* bytes of white space there, or 0 */

/* names.c: tokens that are control tokens by their names; t->ends. */
void tk_names_mark(tk_tokenizer *t, unsigned fim_named);

typedef enum tk_model { TK_BPE, TK_SPM, TK_WORDPIECE, TK_UNIGRAM } tk_model;

struct tk_tokenizer {
    tk_model model;
    tk_texts texts;
    uint8_t *types; /* tk_type, by id */
    bool *ends;     /* by id */
    tk_specials specials;
    tk_bpe bpe;
    tk_spm spm;
    tk_wordpiece wordpiece;
    tk_unigram unigram;
    int32_t before, behind;
    bool space_prefix, space_first;
};

#endif
