/* Creating a context, and appending the widest rotated keys to a cache as integers, fit a thread with a stack of 16
 * KiB, the system's own part of it included. They are run on a large stack, whose untouched part is counted
 * afterwards. */
#define _GNU_SOURCE /* MAP_STACK */
#include "attention_case.h"
#include "tuning_case.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { STACK = 1 << 20, LIMIT = 16 << 10, MARK = 0x5A, CHANNELS = 1024 };

typedef struct call {
    const char *name;
    void (*run)(void);
} call;

static const char *tuning_file;

static void create_context(void) {
    fovea_context_options options;
    fovea_context *made;
    fovea_context_options_init(&options);
    options.tuning_file = tuning_file;
    test_check(fovea_context_create(&options, &made) == FOVEA_OK, "context: %s", fovea_error_detail());
    fovea_context_destroy(made);
}

/* The cache that is appended to. */
static fovea_kv_cache *cache;
static int64_t sequence;

static void append(void) {
    static float row[CHANNELS];
    fovea_kv_append_args a;
    fovea_kv_append_args_init(&a);
    a.count = 1;
    a.sequences = &sequence;
    a.k = a.v = fovea_tensor_bhtd(row, FOVEA_DTYPE_F32, 1, 1, 1, CHANNELS);
    test_check(fovea_kv_cache_append(cache, &a) == FOVEA_OK, "append: %s", fovea_error_detail());
}

static void check(const call *c);

static void check_append(fovea_dtype dtype) {
    fovea_context *ctx = test_context_untuned();
    fovea_rope_desc turns;
    fovea_rope *rope;
    fovea_kv_cache_desc d;
    fovea_rope_desc_init(&turns);
    turns.rotary_dim = CHANNELS;
    fovea_kv_cache_desc_init(&d);
    d.kv_heads = d.max_pages = 1;
    d.head_dim = d.value_dim = CHANNELS;
    d.k_dtype = d.v_dtype = dtype;
    test_check(fovea_rope_create(&turns, &rope) == FOVEA_OK, "rope: %s", fovea_error_detail());
    d.rope = rope;
    test_check(fovea_kv_cache_create(ctx, &d, &cache) == FOVEA_OK && fovea_kv_cache_add(cache, &sequence) == FOVEA_OK,
               "cache: %s", fovea_error_detail());
    check(&(call){"fovea_kv_cache_append", append});
    fovea_kv_cache_destroy(cache);
    fovea_rope_destroy(rope);
    fovea_context_destroy(ctx);
}

static void *on_stack(void *arg) {
    ((const call *)arg)->run();
    return NULL;
}

static void nothing(void) {}

/* Bytes of stack that a thread has used which did nothing but the call. */
static size_t used_by(const call *c) {
    char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED)
        exit(TEST_FAILED);
    memset(stack, MARK, STACK);
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    if (pthread_attr_setstack(&attributes, stack, STACK) != 0 ||
        pthread_create(&thread, &attributes, on_stack, (void *)(uintptr_t)c) != 0)
        exit(TEST_FAILED);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
    size_t untouched = 0;
    while (untouched < STACK && stack[untouched] == MARK)
        untouched++;
    munmap(stack, STACK);
    return STACK - untouched;
}

static void check(const call *c) {
    const call empty = {"nothing", nothing};
    used_by(c); /* the first call of a function is linked by the loader, on the same stack */
    const size_t own = used_by(&empty), used = used_by(c);
    printf("%s: %zu bytes of stack, %zu of them those of any thread\n", c->name, used, own);
    test_check(used < LIMIT, "%s takes %zu bytes of stack", c->name, used);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "stack_size", NULL);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    test_skip("a sanitizer's stacks are larger");
    return test_end();
#endif
    files_begin();
    fovea_tuning *sound = tuning_sound(1);
    char path[256];
    snprintf(path, sizeof path, "%s", files_name("tuning"));
    test_check(fovea_tuning_save(sound, path) == FOVEA_OK, "save: %s", fovea_error_detail());
    fovea_tuning_destroy(sound);
    check(&(call){"fovea_context_create without a tuning file", create_context});
    tuning_file = path;
    check(&(call){"fovea_context_create with a tuning file", create_context});
    files_end();
    check_append(FOVEA_DTYPE_I8);
    check_append(FOVEA_DTYPE_I4);
    return test_end();
}
