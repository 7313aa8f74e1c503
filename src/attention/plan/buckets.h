/* The buckets that T5's relative bias puts distances into. */
#ifndef FV_ATTENTION_BUCKETS_H
#define FV_ATTENTION_BUCKETS_H

#include "fovea/fovea.h"

enum { FV_MOST_BUCKETS = 256 };

/* T5: starts[b] = the least distance of bucket b, of all that one direction has; returns how many these are. */
int64_t fv_relative_buckets(const fovea_attention_desc *desc);
void fv_relative_bucket_starts(const fovea_attention_desc *desc, int64_t *starts);

#endif
