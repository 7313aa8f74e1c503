/* Prompts and their answers (run.h): several at a time, each a sequence of one session. */
#ifndef GENERATE_ANSWERS_H
#define GENERATE_ANSWERS_H

#include "run.h"

/* Answers all prompts, and prints each answer: of one prompt as it comes, of several in their order, when they are
 * complete. */
void answers_print(run *r);

#endif
