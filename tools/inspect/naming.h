/* Names of the weights of attention by family of models, and the order in which they are kept. */
#ifndef INSPECT_NAMING_H
#define INSPECT_NAMING_H

#include <stdbool.h>
#include <stdint.h>

enum { NAMING_Q, NAMING_K, NAMING_V, NAMING_PARTS };

/* Where W^Q, W^K and W^V are. */
typedef enum naming_order {
    NAMING_SEPARATE, /* three arrays */
    NAMING_QKV,      /* one: all heads of Q, then of K, then of V */
    NAMING_GROUPED,  /* one: for each key head its query heads, its key, its value */
    NAMING_Q_KV      /* two: Q; all heads of K, then of V */
} naming_order;

/* Names are STACK.NUMBER.MODULE.ARRAY; the number is that of the layer, and may be missing. */
typedef struct naming {
    const char *family;
    const char *only;                /* the row is for this model_type alone; NULL: for all */
    const char *module[2];           /* of self-attention, of cross-attention; NULL: there is none; "": any */
    const char *array[NAMING_PARTS]; /* as many as the order has arrays */
    naming_order order;
    bool in_out; /* [in, out], unless sizes tell that it is nanoGPT's; else [out, in], as nn.Linear keeps it */
} naming;

enum { NAMINGS = 27 };
extern const naming namings[NAMINGS];

int naming_arrays(const naming *n); /* how many its order has */

/* Whose an array is. */
typedef struct naming_match {
    int naming, part; /* part: index in array[] */
    bool cross;
    int stack_length; /* of the name: what comes before the number */
    int middle;       /* where what follows the number begins; it ends at: */
    int stem_length;  /* what comes before the module */
    int64_t number;   /* 0 if there is none */
    bool numbered;
} naming_match;

/* type: the model's model_type, or "". */
bool naming_find(const char *name, const char *type, naming_match *match);

/* Does a name look like that of a projection of attention, whoever's it is? */
bool naming_looks_alike(const char *name);

#endif
