/* Facts about a model's attention, from its config.json.
 *
 *     config *c;
 *     if (config_open(model_path, &c, complaint) != 0) ...        c NULL: there is no config.json
 *     config_sizes sizes;
 *     if (config_look_up(c, "decoder.layers", 14, &sizes, complaint) != 0) ...
 *     config_close(c);
 */
#ifndef INSPECT_CONFIG_H
#define INSPECT_CONFIG_H

#include "complain.h"

#include <stdint.h>

typedef struct config config;

/* Facts about a stack of layers. Numbers that it does not say are 0. */
typedef struct config_sizes {
    int64_t heads, kv_heads, head_dim, d_model;
    int64_t layers;        /* of the model: more than the file has, where layers share weights */
    int64_t layer_groups;  /* ALBERT: sets of weights that layers share */
    const char *positions; /* "learned", "sinusoidal", "rotary", "relative", "ALiBi"; NULL: it does not say */
} config_sizes;

/* Reads config.json in the folder of a model file. *c is NULL, without an error, if there is none. -1 and a complaint
 * if it is there and cannot be used. */
int config_open(const char *model_path, config **c, complaint to);
void config_close(config *c); /* NULL is allowed */

const char *config_path(const config *c); /* for complaints; "config.json" for NULL */
const char *config_type(const config *c); /* model_type, as "bert"; "" if it does not say, or for NULL */

/* stack: what the names of a stack's arrays begin with, as "vision_model.encoder.layers"; length bytes of it. It tells
 * which part of a config serves: that of text or vision, of encoder or decoder. NULL for c: all 0. */
int config_look_up(const config *c, const char *stack, int length, config_sizes *sizes, complaint to);

#endif
