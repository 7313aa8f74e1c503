/* sha256.h. */
#include "sha256.h"

#include <openssl/evp.h>
#include <string.h>

int sha256_of(const void *bytes, size_t count, sha256_digest *digest) {
    return EVP_Digest(bytes, count, digest->bytes, NULL, EVP_sha256(), NULL) == 1 ? 0 : -1;
}

static void give_up(sha256 *s) {
    EVP_MD_CTX_free(s->state);
    s->state = NULL;
}

sha256 sha256_begin(void) {
    sha256 s = {EVP_MD_CTX_new()};
    if (s.state != NULL && EVP_DigestInit_ex(s.state, EVP_sha256(), NULL) != 1)
        give_up(&s);
    return s;
}

void sha256_add(sha256 *s, const void *bytes, size_t count) {
    if (s->state != NULL && EVP_DigestUpdate(s->state, bytes, count) != 1)
        give_up(s);
}

void sha256_add_text(sha256 *s, const char *text) { sha256_add(s, text, strlen(text) + 1); }

int sha256_end(sha256 *s, sha256_digest *digest) {
    const int good = s->state != NULL && EVP_DigestFinal_ex(s->state, digest->bytes, NULL) == 1;
    give_up(s);
    return good ? 0 : -1;
}

bool sha256_equal(const sha256_digest *a, const sha256_digest *b) {
    return memcmp(a->bytes, b->bytes, SHA256_BYTES) == 0;
}

void sha256_hex(const sha256_digest *digest, char hex[SHA256_HEX]) {
    for (int i = 0; i < SHA256_BYTES; i++) {
        hex[2 * i] = "0123456789abcdef"[digest->bytes[i] >> 4];
        hex[2 * i + 1] = "0123456789abcdef"[digest->bytes[i] & 15];
    }
    hex[2 * SHA256_BYTES] = '\0';
}

static int digit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

bool sha256_read(const char *hex, sha256_digest *digest) {
    if (strlen(hex) != 2 * SHA256_BYTES)
        return false;
    for (int i = 0; i < SHA256_BYTES; i++) {
        const int high = digit(hex[2 * i]), low = digit(hex[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        digest->bytes[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}
