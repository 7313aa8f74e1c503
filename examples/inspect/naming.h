/* What families of models call the weights of attention, and in which order they keep them. */
#ifndef INSPECT_NAMING_H
#define INSPECT_NAMING_H

enum { NAMING_Q, NAMING_K, NAMING_V, NAMING_PARTS };

/* Where W^Q, W^K and W^V are. */
typedef enum naming_order {
    NAMING_SEPARATE, /* three arrays */
    NAMING_QKV,      /* one: all heads of Q, then of K, then of V */
    NAMING_GROUPED   /* one: for each key head its query heads, its key, its value */
} naming_order;

/* Names are PREFIX.NUMBER.SUFFIX; the number is that of the layer. */
typedef struct naming {
    const char *family;
    const char *suffix[NAMING_PARTS]; /* of a fused array: the first alone */
    naming_order order;
    int in_out; /* 1: [in, out]; 0: [out, in], as nn.Linear keeps it */
} naming;

enum { NAMINGS = 14 };
extern const naming namings[NAMINGS];

#endif
