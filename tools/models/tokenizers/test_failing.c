/* test-tokenizers-failing: where memory fails, each allocation in turn (failing.h), alone and with all after it:
 * reading a vocabulary and encoding return an error, and no block is left over. */
#include "failing.h"
#include "small.h"

#include "test.h"

#include <string.h>

enum { MOST = 1000, IDS = 4096 };

static char sentence[512];
static const complaint to = {sentence, sizeof sentence};

static void fail_create(const char *name, bool persistent) {
    const long long before = live;
    int64_t n = 0;
    for (bool through = false; !through && n < MOST;) {
        tk_tokenizer *t = NULL;
        sentence[0] = '\0';
        arm(++n, persistent);
        const int status = small_create(FOVEA_TOKENIZERS "/small.txt", name, &t, to);
        fail_at = 0;
        through = !failed;
        test_check(failed ? status == -1 && t == NULL && sentence[0] != '\0' : status == 0,
                   "%s, allocation %lld fails: status %d, \"%s\"", name, (long long)n, status, sentence);
        tk_free(t);
        test_check(live == before, "%s, allocation %lld fails: %lld blocks left", name, (long long)n, live - before);
    }
    test_check(n > 5 && n < MOST, "%s: %lld allocations", name, (long long)n - 1);
}

static void fail_encode(const char *name, bool persistent) {
    static int32_t ids[IDS];
    static char text[1024];
    tk_tokenizer *t;
    int64_t n = 0;
    memset(text, 'a', sizeof text); /* grows what words are joined in; the rest is special tokens, and not UTF-8 */
    memcpy(text + 900, "<s> \xff\n\n\n<ab>>", 14);
    if (!test_check(small_create(FOVEA_TOKENIZERS "/small.txt", name, &t, to) == 0, "%s", sentence))
        return;
    const long long before = live;
    for (bool through = false; !through && n < MOST;) {
        arm(++n, persistent);
        const int64_t count = tk_encode(t, text, sizeof text, TK_SPECIAL | TK_FRAME, ids, IDS);
        fail_at = 0;
        through = !failed;
        test_check(failed ? count == TK_NO_MEMORY : count > 0, "%s, allocation %lld fails: %lld tokens", name,
                   (long long)n, (long long)count);
        test_check(live == before, "%s, allocation %lld fails: %lld blocks left", name, (long long)n, live - before);
    }
    test_check(n > 5 && n < MOST, "%s: %lld allocations", name, (long long)n - 1);
    tk_free(t);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "tokenizers-failing", NULL);
    for (int i = 0; i < SMALL_NAMES; i++)
        for (int persistent = 0; persistent < 2; persistent++) {
            fail_create(small_names[i], persistent);
            fail_encode(small_names[i], persistent);
        }
    return test_end();
}
