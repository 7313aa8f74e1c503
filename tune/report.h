/* The page of fovea-tune report while it is written, and what of it has a file of its own. What is measured for it ends
 * by `until` (tune_now()). */
#ifndef FOVEA_TUNE_REPORT_H
#define FOVEA_TUNE_REPORT_H

#include "tune.h"

#include <stdio.h>

typedef struct page {
    FILE *file;
    const fovea_context *ctx;
    fovea_tuning *tuning; /* NULL: none */
    int own;              /* its section of this CPU and build; -1: none */
} page;

/* Time over two sizes of a class's plan, with the chosen point. */
void report_heat_map(const page *p, const tune_class *c, double until);

/* What these classes reach, below what the machine allows, and a table of them. */
void report_roofline(const page *p, const tune_class *classes, int count, double until);

/* The class of the page's style that colours an operation. */
static inline const char *report_style(fv_tuning_op operation) {
    return tune_is_linear(operation) ? "linear" : "attention";
}

#endif
