/* Tables of what is refused: of a call that works up to three numbers are spoiled, and restored behind it.
 *
 *     static const refusal rows[] = {{FOVEA_ERROR_SHAPE, "kv_heads is 3", {SPOIL(call, desc.kv_heads, 3)}}};
 *     refuse_each(&good, rows, sizeof rows / sizeof rows[0], check);
 */
#ifndef FOVEA_TESTS_REFUSALS_H
#define FOVEA_TESTS_REFUSALS_H

#include "fovea/fovea.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct spoil {
    size_t at, size; /* of the number; size 0: none */
    int64_t value;   /* whose lowest bytes it gets; addresses, too */
} spoil;

enum { SPOILS = 3 };

typedef struct refusal {
    fovea_status want;
    const char *words; /* as check_status() takes them; they also name the case */
    spoil spoils[SPOILS];
} refusal;

#define SPOIL(type, field, number)                                                                                     \
    { offsetof(type, field), sizeof(((type *)0)->field), (int64_t)(number) }

/* check() calls with the spoiled struct. */
static inline void refuse_each(void *good, const refusal *rows, size_t count,
                               void (*check)(void *spoiled, fovea_status want, const char *words)) {
    for (size_t i = 0; i < count; i++) {
        int64_t saved[SPOILS];
        for (int k = 0; k < SPOILS; k++) {
            const spoil *s = &rows[i].spoils[k];
            memcpy(&saved[k], (char *)good + s->at, s->size);
            memcpy((char *)good + s->at, &s->value, s->size);
        }
        check(good, rows[i].want, rows[i].words);
        for (int k = SPOILS - 1; k >= 0; k--)
            memcpy((char *)good + rows[i].spoils[k].at, &saved[k], rows[i].spoils[k].size);
    }
}

#endif
