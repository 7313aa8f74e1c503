/* Tokenizers of language models: text to tokens and back, equal to llama.cpp's. C11, no dependencies.
 *
 *     tk_description d = {.name = path, .model = "gpt2", .pre = "qwen2", .tokens = ..., .merges = ..., ...};
 *     tk_tokenizer *t;
 *     if (tk_create(&d, &t, complaint) != 0) ...
 *     int64_t count = tk_encode(t, text, bytes, TK_FRAME, ids, most);
 *     tk_decoder d = tk_decoder_begin(t, false);
 *     for each id: fwrite(to, 1, tk_decode(&d, id, to), stdout);      to has room for tk_decode_most(t) bytes
 *     fwrite(to, 1, tk_decode_end(&d, to), stdout);
 *     tk_free(t);
 *
 * What is served:
 *   model "gpt2"   byte-level BPE, with the pre-tokenizers llama-bpe (llama3, llama-v3), qwen2 (deepseek-r1-qwen),
 *                  qwen35, gpt-4o (llama4), gpt-2 and smollm. Bytes that are not UTF-8 become U+FFFD, as in llama.cpp;
 *                  any other text comes back, if each byte is a token.
 *   model "llama"  SentencePiece's BPE, with byte fallback. Any bytes come back, but U+2581 as a space.
 *   model "WordPiece"  BERT's word pieces, equal to PyPI's tokenizers but for special tokens. Bytes that are not UTF-8
 *                  are left out; words come back with a space between.
 *   model "Unigram"  as XLM-R has it, with SentencePiece's table of characters, equal to PyPI's tokenizers but for
 * special
 *                  tokens.
 * Other models and pre-tokenizers are refused by name.
 *
 * Vocabularies are untrusted: tk_create() checks what it reads, and refuses in a sentence. Any bytes are a text. Time
 * grows as n log n with a word or a number of special tokens, and linearly with the text; memory with the longest word,
 * and for SentencePiece and special tokens with the text. */
#ifndef TOKENIZERS_H
#define TOKENIZERS_H

#include "complain.h"

#include <stdbool.h>
#include <stdint.h>

enum { TK_NONE = -1 };

/* Bytes, with no zero behind them. */
typedef struct tk_text {
    const char *bytes;
    int64_t count;
} tk_text;

/* Texts in order: next(at) is called at most count times, and what it returns need only live until the next call. */
typedef struct tk_list {
    int64_t count;
    tk_text (*next)(void *at);
    void *at;
} tk_list;

/* The kind of a token, as numbered in GGUF; any other number is TK_UNUSED. */
typedef enum tk_type {
    TK_NORMAL = 1,
    TK_UNKNOWN = 2,
    TK_CONTROL = 3, /* special: cut out of a text by TK_SPECIAL */
    TK_USER = 4,    /* cut out of each text before it is split */
    TK_UNUSED = 5,
    TK_BYTE = 6 /* <0x0A> */
} tk_type;

/* Tokens of filling in the middle, whose names vary. */
typedef enum tk_fim {
    TK_FIM_PREFIX,
    TK_FIM_SUFFIX,
    TK_FIM_MIDDLE,
    TK_FIM_PAD,
    TK_FIM_REPO,
    TK_FIM_FILE,
    TK_FIMS
} tk_fim;

/* A flag that a file may leave open. */
typedef enum tk_choice { TK_DEFAULT = 0, TK_YES, TK_NO } tk_choice;

/* Unicode's properties of characters, which this library does not know: characters.h has them. */
enum { TK_PARTS_MOST = 32 };
typedef enum tk_kind { TK_KIND_LETTER, TK_KIND_SPACE, TK_KIND_CONTROL, TK_KIND_PUNCTUATION, TK_KIND_MARK } tk_kind;
typedef struct tk_characters {
    tk_kind (*kind)(uint32_t code);
    int (*decompose)(uint32_t code, uint32_t parts[TK_PARTS_MOST]); /* how many */
    uint32_t (*lower)(uint32_t code);
    bool (*breaks)(uint32_t before, uint32_t behind,
                   int32_t *state); /* ends a grapheme there? *state: 0 before a text */
} tk_characters;

/* How a model of word pieces differs from uncased BERT. */
typedef struct tk_wordpiece_rules {
    const tk_characters *characters; /* these must stay */
    bool keep_case, keep_accents;
    bool join_chinese; /* a Chinese character is a letter like others */
} tk_wordpiece_rules;

/* A normalizer: white space at the ends goes, or two or more spaces become something else. */
enum { TK_STEPS_MOST = 8 };
typedef struct tk_step {
    bool strips, left, right;
    char content[8];
} tk_step;

/* A model of Unigram: its scores, and how it normalizes a text. */
typedef struct tk_unigram_rules {
    const tk_characters *characters; /* these must stay */
    const double *scores;            /* [tokens.count], finite */
    int32_t unknown;                 /* the id of what no piece is found for */
    const uint8_t *charsmap;         /* SentencePiece's table; NULL: characters stay as they are */
    size_t charsmap_bytes;
    tk_step steps[TK_STEPS_MOST];
    int step_count;
    bool white; /* white space of all kinds parts words, and is none of their characters; else U+0020 is U+2581 */
} tk_unigram_rules;

/* A vocabulary, read by tk_create() alone: nothing of it need stay. */
typedef struct tk_description {
    const char *name; /* of the file, for complaints */
    tk_text model, pre;
    tk_list tokens;         /* their ids are 0, 1, ...; an empty one is an id without a token */
    tk_list merges;         /* "gpt2": "left right", the first has the highest rank */
    const int32_t *types;   /* tk_type, [tokens.count]; NULL: each is TK_NORMAL */
    const float *scores;    /* "llama": [tokens.count] */
    int32_t bos, eos;       /* TK_NONE: for "llama" 1 and 2, for "gpt2" there are none */
    tk_choice add_bos;      /* default: "llama" and the pre-tokenizer llama-bpe do */
    tk_choice add_eos;      /* default: no */
    unsigned fim_named;     /* bits 1 << tk_fim: the file says which it is; else one of a known name is TK_CONTROL */
    tk_choice space_prefix; /* of "llama": a space before the text and behind special tokens; default: yes */
    const tk_wordpiece_rules *wordpiece; /* of "WordPiece" */
    const tk_unigram_rules *unigram;     /* of "Unigram" */
    bool space_first;                    /* "gpt2": a text that begins with another character gets a space before it */
    const char *before, *behind;         /* the tokens of TK_FRAME by their spelling; NULL: as above */
} tk_description;

/* Immutable: any number of threads may use one. */
typedef struct tk_tokenizer tk_tokenizer;

/* 0, or -1 after a complaint, and *t is NULL. */
int tk_create(const tk_description *description, tk_tokenizer **t, complaint to);
void tk_free(tk_tokenizer *t); /* NULL is allowed */

enum {
    TK_SPECIAL = 1, /* control tokens in the text are tokens; else they are text */
    TK_FRAME = 2    /* with BOS before and EOS behind, if the vocabulary says so */
};

/* The same with TK_FRAME, cut off so that the frame is whole: at most most >= 2 ids, or an error. */
int64_t tk_encode_cut(const tk_tokenizer *t, const char *text, int64_t bytes, int32_t *ids, int64_t most);

enum { TK_NO_MEMORY = -1, TK_TOO_LONG = -2 }; /* TK_TOO_LONG: the text has more than TK_TEXT_MOST bytes */
#define TK_TEXT_MOST ((int64_t)1 << 29)

/* Ids of a text to ids, at most most. Returns how many; most + 1 if there are more; or one of the errors above. */
int64_t tk_encode(const tk_tokenizer *t, const char *text, int64_t bytes, unsigned flags, int32_t *ids, int64_t most);

/* Puts tokens together to text. Characters are given out whole: bytes of one that is not complete wait. One thread at a
 * time; nothing to free; the tokenizer must stay. */
typedef struct tk_decoder {
    const tk_tokenizer *t;
    bool special;     /* write control tokens as they are spelt; else they are nothing */
    bool strip_space; /* the next space is one that encoding put there */
    int waiting;
    char wait[4];
} tk_decoder;

tk_decoder tk_decoder_begin(const tk_tokenizer *t, bool special);

/* Bytes of a token, and what waited, to to; how many. An id that is no token has none. */
int64_t tk_decode(tk_decoder *d, int32_t id, char *to);
int64_t tk_decode_end(tk_decoder *d, char *to); /* what still waits: at most 3 bytes */
int64_t tk_decode_most(const tk_tokenizer *t);  /* bytes that a call of these may write */

/* The vocabulary. Pointers are owned by the tokenizer. */
int64_t tk_count(const tk_tokenizer *t);                                  /* ids */
int32_t tk_find(const tk_tokenizer *t, const char *bytes, int64_t count); /* the token spelt so, or TK_NONE */
const char *tk_spelling(const tk_tokenizer *t, int32_t id);               /* with a zero behind it; NULL: no token */
int32_t tk_before(const tk_tokenizer *t);        /* the token that TK_FRAME puts first, or TK_NONE */
int32_t tk_behind(const tk_tokenizer *t);        /* and last */
bool tk_byte_level(const tk_tokenizer *t);       /* is it of the model "gpt2"? */
bool tk_ends(const tk_tokenizer *t, int32_t id); /* does its name say that it ends an answer, as <|im_end|>? */

#endif
