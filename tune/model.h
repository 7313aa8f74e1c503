/* The shapes of a model: what a decoder with these weights executes. */
#ifndef TUNE_MODEL_H
#define TUNE_MODEL_H

#include <stdbool.h>

/* Takes a shape in words; false if it cannot, which was said. */
typedef bool tune_take(void *list, const char *words, const char *from);

/* All shapes of a GGUF file, each once: prompts and decoding over keys and values of float16, and each size and type of
 * weights with 1, 4, 32 and 512 rows. False and a sentence to stderr if the file is no such model. */
bool tune_model_shapes(const char *path, tune_take *take, void *list);

#endif
