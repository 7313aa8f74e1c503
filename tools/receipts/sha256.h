/* SHA-256, by libcrypto. Functions that can fail return 0, or -1 without memory. */
#ifndef RECEIPTS_SHA256_H
#define RECEIPTS_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SHA256_BYTES = 32, SHA256_HEX = 2 * SHA256_BYTES + 1 };

typedef struct sha256_digest {
    uint8_t bytes[SHA256_BYTES];
} sha256_digest;

int sha256_of(const void *bytes, size_t count, sha256_digest *digest);

/* The same of bytes that come in parts. A part may fail, which sha256_end() tells. */
typedef struct sha256 {
    void *state; /* NULL: failed */
} sha256;

sha256 sha256_begin(void);
void sha256_add(sha256 *s, const void *bytes, size_t count);
void sha256_add_text(sha256 *s, const char *text); /* and the zero behind it */
int sha256_end(sha256 *s, sha256_digest *digest);

bool sha256_equal(const sha256_digest *a, const sha256_digest *b);
void sha256_hex(const sha256_digest *digest, char hex[SHA256_HEX]);
bool sha256_read(const char *hex, sha256_digest *digest); /* 64 digits, lower case; false: they are not */

#endif
