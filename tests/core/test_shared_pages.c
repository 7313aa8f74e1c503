/* Allocations that share pages (core/memory.h): many, of sizes below, among and beyond those that share, by threads at
 * once. Each is on its boundary and keeps its bytes until it is freed, in any order; then the system has its pages. */
#include "core/memory.h"
#include "test.h"

#include <stdatomic.h>
#include <string.h>

enum { TASKS = 4, HELD = 24, TURNS = 400, KIB = 1024 };

typedef struct held {
    unsigned char *memory;
    size_t bytes;
    bool shared;
} held;

typedef struct totals {
    _Atomic int64_t wrong, shared, apart;
} totals;

static bool keeps(const held *h, unsigned char mark) {
    return h->memory[0] == mark && h->memory[h->bytes / 2] == mark && h->memory[h->bytes - 1] == mark;
}

static void let_go(held *h) {
    if (h->shared)
        fv_free_shared(h->memory);
    else
        fv_free_pages(h->memory);
    h->memory = NULL;
}

static void turns(void *arg, int64_t task) {
    static const size_t sizes[] = {100,        256 * KIB - 1, 256 * KIB,      300 * KIB + 7,
                                   4096 * KIB, 32768 * KIB,   32768 * KIB + 1};
    totals *t = arg;
    held all[HELD] = {{NULL, 0, false}};
    uint64_t random = (uint64_t)task + 1;
    for (int turn = 0; turn < TURNS; turn++) {
        random = random * 6364136223846793005U + 1442695040888963407U;
        const int at = (int)(random >> 33) % HELD;
        const unsigned char mark = (unsigned char)(task * HELD + at + 1);
        held *h = &all[at];
        if (h->memory) {
            t->wrong += !keeps(h, mark);
            let_go(h);
            continue;
        }
        h->bytes = sizes[(random >> 50) % (sizeof sizes / sizeof sizes[0])];
        h->memory = fv_allocate_shared(h->bytes, &h->shared);
        t->wrong += !h->memory || (uintptr_t)h->memory % FV_ALIGNMENT != 0;
        if (!h->memory)
            break;
        t->shared += h->shared;
        t->apart += !h->shared;
        h->memory[0] = h->memory[h->bytes / 2] = h->memory[h->bytes - 1] = mark;
    }
    for (int at = 0; at < HELD; at++)
        if (all[at].memory) {
            t->wrong += !keeps(&all[at], (unsigned char)(task * HELD + at + 1));
            let_go(&all[at]);
        }
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "shared_pages", NULL);
    fovea_context_options options;
    fovea_context *ctx;
    fovea_context_options_init(&options);
    options.threads = TASKS;
    test_check(fovea_context_create(&options, &ctx) == FOVEA_OK, "%s", fovea_error_detail());
    totals t = {0};
    test_check(fovea_parallel(ctx, TASKS, turns, &t) == FOVEA_OK, "%s", fovea_error_detail());
    test_check(t.wrong == 0, "%lld allocations lost bytes or their boundary", (long long)t.wrong);
    test_check(t.apart > 0, "all share pages");
#if !defined(_WIN32) && !defined(__SANITIZE_ADDRESS__)
    test_check(t.shared > 0, "none share pages");
    held three[3] = {{NULL, 0, false}};
    for (int i = 0; i < 3; i++)
        three[i].memory = fv_allocate_shared(512 * KIB, &three[i].shared);
    test_check(three[1].memory - three[0].memory == 512 * KIB || three[2].memory - three[1].memory == 512 * KIB,
               "no two of 512 KiB are neighbours");
#ifdef __linux__
    const unsigned char *freed = three[1].memory; /* of a slab that others of the three keep */
    memset(three[1].memory, 1, three[1].bytes = 512 * KIB);
    let_go(&three[1]);
    test_check(freed[0] == 0 && freed[512 * KIB - 1] == 0, "the system did not get the pages of freed bytes");
#endif
    for (int i = 0; i < 3; i++)
        if (three[i].memory)
            let_go(&three[i]);
#endif
    fovea_context_destroy(ctx);
    return test_end();
}
