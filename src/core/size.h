/* Sizes that cannot overflow: the one place where elements become bytes. */
#ifndef FV_SIZE_H
#define FV_SIZE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Limits of what callers may ask for, and the number that stands for "no limit" of a window in plans: from any position
 * such a window reaches past every key. */
#define FV_SIZE_LIMIT ((int64_t)1 << 48)     /* of a single size: more than any memory holds */
#define FV_CHANNEL_LIMIT ((int64_t)1 << 16)  /* of head_dim and value_dim: scratch has rows of a tile times these */
#define FV_POSITION_LIMIT ((int64_t)1 << 60) /* of an offset, on either side of 0 */
#define FV_NO_LIMIT ((int64_t)1 << 61)
static_assert(FV_NO_LIMIT > FV_POSITION_LIMIT + 2 * FV_SIZE_LIMIT, "no limit is past every key from every position");
static_assert(FV_NO_LIMIT < INT64_MAX / 2 - FV_SIZE_LIMIT, "a sum of two and a size stays in range");

enum { FV_ALIGNMENT = 64 }; /* bytes: a cache line, and the widest vector */

/* *result = a * b or a + b, both >= 0; false if that does not fit. */
static inline bool fv_multiply(int64_t a, int64_t b, int64_t *result) {
    assert(a >= 0 && b >= 0);
    return !__builtin_mul_overflow(a, b, result);
}

static inline bool fv_add(int64_t a, int64_t b, int64_t *result) {
    assert(a >= 0 && b >= 0);
    return !__builtin_add_overflow(a, b, result);
}

/* Lays out a workspace: *offset grows by count * size bytes rounded up to FV_ALIGNMENT; returns where the part begins.
 * An overflow sticks: *offset becomes negative. */
static inline int64_t fv_reserve(int64_t *offset, int64_t count, int64_t size) {
    const int64_t begin = *offset;
    int64_t bytes, end;
    if (begin < 0 || !fv_multiply(count, size, &bytes) || !fv_add(begin, bytes, &end) ||
        !fv_add(end, FV_ALIGNMENT - 1, &end)) {
        *offset = -1;
        return 0;
    }
    *offset = end - end % FV_ALIGNMENT;
    return begin;
}

/* The first such boundary in a workspace. */
static inline char *fv_aligned(void *workspace) {
    const uintptr_t gap = (uintptr_t)workspace % FV_ALIGNMENT;
    return (char *)workspace + (gap ? FV_ALIGNMENT - gap : 0);
}

static inline int64_t fv_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t fv_max(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t fv_ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0); }
static inline int64_t fv_round_up(int64_t a, int64_t to) { return fv_ceil_div(a, to) * to; }
static inline int64_t fv_round_down(int64_t a, int64_t to) { return a / to * to; }

#endif
