/* run.h. */
#include "run.h"

#include "prompt.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void run_end(int status, const char *what) {
    fflush(stdout);
    fprintf(stderr, "fovea-generate: %s\n", what);
    exit(status);
}

void die(const char *what) { run_end(1, what); }

void *allocate(size_t count, size_t bytes) {
    void *memory = calloc(count + 1, bytes);
    if (memory == NULL)
        die("out of memory");
    return memory;
}

complaint to(run *r) { return (complaint){r->complaint, sizeof r->complaint}; }

/* FNV-1a over words of 32 bits. */
void hash_logits(run *r, const float *logits, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &logits[i], sizeof bits);
        r->hash = (r->hash ^ bits) * 0x100000001b3u;
    }
}

char *sound_text(const char *bytes, size_t count, const char *what) {
    int64_t replaced;
    char *text = prompt_utf8(bytes, count, &replaced);
    if (text == NULL)
        die("out of memory");
    if (replaced > 0)
        fprintf(stderr, "fovea-generate: %s is not UTF-8: %" PRId64 " byte%s replaced by U+FFFD\n", what, replaced,
                replaced == 1 ? " was" : "s were");
    return text;
}
