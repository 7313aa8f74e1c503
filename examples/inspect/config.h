/* The numbers of heads that a model's config.json tells. */
#ifndef INSPECT_CONFIG_H
#define INSPECT_CONFIG_H

#include "complain.h"

#include <stdint.h>

/* Reads config.json in the folder of a model file. Numbers that it does not have become 0; likewise if there is no such
 * file. -1 and a complaint if it is there and cannot be used. */
int config_read(const char *model_path, int64_t *heads, int64_t *kv_heads, complaint to);

#endif
