/* The page of fovea-tune report while it is written. */
#ifndef TUNE_PAGE_H
#define TUNE_PAGE_H

#include "classes.h"
#include "context/context.h"
#include "tuning/tuning.h"

#include <stdio.h>

typedef struct page {
    FILE *file;
    const fovea_context *ctx;
    fovea_tuning *tuning; /* NULL: none */
    int own;              /* its section of this CPU and build; -1: none */
} page;

/* The class of the page's style that colours an operation. */
static inline const char *report_style(fv_tuning_op operation) {
    return tune_is_linear(operation) ? "linear" : "attention";
}

#endif
