/* Shared by trials of integers in groups (kernels/groups.h): their weights, and an oracle of the formulas that uses
 * none of the library's own readers. */
#ifndef FOVEA_TESTS_CHECK_GROUPS_H
#define FOVEA_TESTS_CHECK_GROUPS_H

#include "check.h"

/* t->size; from GROUP_OWN on the operation's. GROUP_MODE: a rounding mode of <fenv.h>. */
enum {
    GROUP_STEPS,
    GROUP_SIZE,
    GROUP_COLUMNS,
    GROUP_FIRST,
    GROUP_WIDTH,
    GROUP_EXTRA,
    GROUP_KIND,
    GROUP_MODE,
    GROUP_TABLE,
    GROUP_OWN
};
/* t->operand; from GROUP_OPERANDS on the operation's */
enum { GROUP_WORDS, GROUP_SCALES, GROUP_OPERANDS };

/* Ordinary numbers; all integers the least or the greatest; bytes 0x0f, only the first half of which is set; scales
 * that are 0, tiny, huge or no numbers. */
typedef enum group_kind { ORDINARY, LEAST, GREATEST, LOW_HALVES, SPECIAL, GROUP_KINDS } group_kind;

typedef struct group_shape {
    int64_t steps, group; /* group: at least steps where there is only one */
} group_shape;

enum { GROUP_SHAPES = 18, GROUP_STEPS_MOST = 2200, GROUP_COLUMNS_MOST = 208 };
extern const group_shape group_shapes[GROUP_SHAPES];

/* A trial of such weights; NULL as trial_begin(). GROUP_COLUMNS are columns, GROUP_WIDTH more if number says so. With
 * i8g and zeros of their own groups are of at most 512 steps. */
trial *group_trial(checker *c, group_shape shape, int64_t columns, fv_group_extra extra, group_kind kind,
                   int64_t number, int64_t rows);

/* Columns at which tiles of that many go wrong, from FV_LANES on. Returns how many. */
enum { GROUP_WIDTHS = 6 };
int group_widths(int64_t tile, int64_t widths[GROUP_WIDTHS]);

/* The operand, its words and scales being at these addresses. */
fv_operand group_operand(const trial *t, const void *words, const float *scales);
fv_operand group_operand_placed(const trial *t);

/* w - zero of step i and column j, of f8g the byte; scale, and zero or minimum (0 if there is none). */
int group_number(const trial *t, int64_t i, int64_t j);
float group_scale(const trial *t, int64_t i, int64_t j);
float group_extra(const trial *t, int64_t i, int64_t j);

/* Channel c of a group of a row of A of a kind: sets X, reads it. */
void group_put(fv_kind kind, fv_group_row *row, int64_t c, int64_t X);
int64_t group_get(fv_kind kind, const fv_group_row *row, int64_t c);

/* The X of one group of n of x, its scale returned. */
float group_integers(int64_t n, int64_t most, const float *x, int64_t *integers);

/* x as the kind wants it: group after group of a row. most: of X. */
void group_inputs(trial *t, operand *x, int64_t most);

#endif
