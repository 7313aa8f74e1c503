/* test-tokenizers-failing: where memory fails, each allocation in turn (failing.h), alone and with all after it:
 * reading a vocabulary and encoding return an error, and no block is left over. */
#include "failing.h"
#include "small.h"

#include "test.h"

#include <string.h>

enum { IDS = 4096 };

static char sentence[512];
static const complaint to = {sentence, sizeof sentence};

static void fail_encode(const char *name, bool persistent) {
    static int32_t ids[IDS];
    static char text[1024];
    tk_tokenizer *t;
    memset(text, 'a', sizeof text); /* grows what words are joined in; the rest is special tokens, and not UTF-8 */
    memcpy(text + 900, "<s> \xff\n\n\n<ab>>", 14);
    if (!test_check(small_create(FOVEA_TOKENIZERS "/small.txt", name, &t, to) == 0, "%s", sentence))
        return;
    for (failing f = {.what = name, .least = 4, .persistent = persistent}; fail_more(&f);) {
        fail_arm(&f);
        const int64_t count = tk_encode(t, text, sizeof text, TK_SPECIAL | TK_FRAME, ids, IDS);
        fail_at = 0;
        f.through = !failed;
        test_check((failed ? count == TK_NO_MEMORY : count > 0) && live == f.live_before,
                   "%s, allocation %" PRId64 " fails: %" PRId64 " tokens, %lld blocks left", name, f.n, count,
                   live - f.live_before);
    }
    tk_free(t);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "tokenizers-failing", NULL);
    for (int i = 0; i < SMALL_NAMES; i++)
        for (int persistent = 0; persistent < 2; persistent++) {
            tk_tokenizer *t;
            FAIL_READING(small_names[i], NULL, sentence, persistent, t, tk_free,
                         small_create(FOVEA_TOKENIZERS "/small.txt", small_names[i], &t, to))
            fail_encode(small_names[i], persistent);
        }
    return test_end();
}
