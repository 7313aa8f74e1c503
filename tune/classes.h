/* Classes of shapes: each a box of sizes that one row of the tuning file covers. */
#ifndef TUNE_CLASSES_H
#define TUNE_CLASSES_H

#include "shapes.h"

typedef struct tune_class {
    fv_tuning_op operation;
    fv_interval key[FV_TUNING_KEYS];
    int64_t group;     /* of an attention: query heads of a key head in its shapes */
    bool square;       /* as many keys as queries */
    tune_shape search; /* the shape of the search */
    char name[192];
} tune_class;

/* The classes of all shapes that the options name, no two alike; the number of them, or -1 and a sentence to stderr.
 * The caller frees *classes. */
int tune_classes(const tune_options *options, int threads, fv_isa isa, tune_class **classes);

/* Seconds that an execution of its shape of the search takes, about. */
double tune_class_cost(const tune_class *c, int threads, fv_isa isa);

tune_class tune_class_of(const tune_shape *shape, int threads, fv_isa isa);
tune_class tune_class_of_row(const fv_tuning_row *row, fv_isa isa);

/* Shapes of the class on which a choice is proved, no two alike and none that of the search: as many as there are, up
 * to TUNE_PROOFS. */
enum { TUNE_PROOFS = 3 };
int tune_class_proofs(const tune_class *c, int threads, fv_isa isa, tune_shape shapes[TUNE_PROOFS]);

/* A shape of the class: where from 0 (its smallest) to 1 (its largest). */
tune_shape tune_class_shape(const tune_class *c, double where, int threads, fv_isa isa);

#endif
