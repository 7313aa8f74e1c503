/* Saved sequences (fovea_kv_cache_load), by libFuzzer. What is taken must be a sequence that saves to the same bytes
 * and can be attended to, forked, grown and removed. The checksum would keep a fuzzer from everything behind it, so
 * inputs are tried as they are, and then with the right one.
 *
 *      fuzz-cache --make-seeds FOLDER    writes a few sound sequences to begin with */
#include "saved.h"

enum { LAYERS = 2, DIM = 4, PAGES = 12 };

static fovea_kv_cache *make(fovea_dtype dtype) {
    static const int64_t windows[LAYERS] = {-1, 300};
    fovea_kv_cache_desc d;
    fovea_kv_cache *cache;
    fovea_kv_cache_desc_init(&d);
    d.layers = LAYERS;
    d.kv_heads = 1;
    d.head_dim = d.value_dim = DIM;
    d.max_pages = PAGES;
    d.k_dtype = d.v_dtype = dtype;
    d.windows = windows;
    require(fovea_kv_cache_create(context(), &d, &cache) == FOVEA_OK, "no cache");
    return cache;
}

static fovea_status append(fovea_kv_cache *cache, int64_t layer, int64_t sequence, int64_t tokens) {
    static float rows[600 * DIM];
    fovea_kv_append_args a;
    fovea_kv_append_args_init(&a);
    a.layer = layer;
    a.count = 1;
    a.sequences = &sequence;
    a.k = a.v = fovea_tensor_bhtd(rows, FOVEA_DTYPE_F32, 1, 1, tokens, DIM);
    return fovea_kv_cache_append(cache, &a);
}

static void attend(fovea_kv_cache *cache, fovea_dtype dtype, int64_t layer, int64_t sequence, int64_t length) {
    float q[DIM] = {1.0f}, out[DIM];
    fovea_attention_desc d;
    fovea_attention_args args;
    fovea_attention_plan *plan;
    fovea_attention_desc_init(&d);
    d.q_heads = d.kv_heads = d.q_len = 1;
    d.kv_len = length;
    d.head_dim = d.value_dim = DIM;
    d.causal = FOVEA_CAUSAL_BOTTOM_RIGHT;
    d.window_left = layer == 1 ? 300 : -1;
    d.page_keys = FOVEA_KV_PAGE_KEYS;
    d.k_dtype = d.v_dtype = dtype;
    require(fovea_attention_plan_create(context(), &d, &plan) == FOVEA_OK, "no plan");
    fovea_attention_args_init(&args);
    args.q = fovea_tensor_bhtd(q, FOVEA_DTYPE_F32, 1, 1, 1, DIM);
    args.out = fovea_tensor_bhtd(out, FOVEA_DTYPE_F32, 1, 1, 1, DIM);
    args.cache = cache;
    args.cache_layer = layer;
    args.cache_sequences = &sequence;
    require(fovea_attention_execute(plan, &args, NULL, 0) == FOVEA_OK, "a loaded sequence cannot be attended to");
    fovea_attention_plan_destroy(plan);
}

static void try_type(fovea_dtype dtype, const uint8_t *data, size_t size) {
    fovea_kv_cache *cache = make(dtype);
    int64_t sequence, length;
    if (fovea_kv_cache_load(cache, data, size, &sequence) == FOVEA_OK) {
        size_t needed;
        char *again = malloc(size);
        require(again && fovea_kv_cache_save(cache, sequence, again, size, &needed) == FOVEA_OK && needed == size,
                "what was loaded has another size");
        require(memcmp(again, data, size) == 0, "what was loaded saves to other bytes");
        free(again);
        int64_t fork;
        require(fovea_kv_cache_fork(cache, sequence, &fork) == FOVEA_OK, "a loaded sequence cannot be forked");
        for (int64_t layer = 0; layer < LAYERS; layer++) {
            require(fovea_kv_cache_length(cache, layer, sequence, &length) == FOVEA_OK, "no length");
            if (length < 100000)
                attend(cache, dtype, layer, sequence, length);
            const fovea_status status = append(cache, layer, sequence, 3);
            require(status == FOVEA_OK || status == FOVEA_ERROR_FULL, "a loaded sequence cannot grow");
        }
        require(fovea_kv_cache_remove(cache, sequence) == FOVEA_OK && fovea_kv_cache_remove(cache, fork) == FOVEA_OK,
                "a loaded sequence cannot be removed");
    } else
        require(sequence == -1, "an error gives a sequence");
    fovea_kv_stats stats;
    fovea_kv_stats_init(&stats);
    require(fovea_kv_cache_stats(cache, &stats) == FOVEA_OK && stats.used_pages == 0, "pages are lost");
    fovea_kv_cache_destroy(cache);
}

/* By a cache of floats, and by those of integers. */
static void try(const uint8_t *data, size_t size) {
    try_type(FOVEA_DTYPE_F32, data, size);
    try_type(FOVEA_DTYPE_I8, data, size);
    try_type(FOVEA_DTYPE_I4, data, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    try_sealed(try, data, size);
    return 0;
}

/* Layers of 2^31 positions, all evicted: an empty sequence that says so. */
static void write_evicted(const char *folder, int number, const char *empty, size_t size) {
    enum { WORD = 8, HEAD = 10 * WORD, LAYER = 3 * WORD };
    const int64_t range[2] = {0, (int64_t)1 << 31}, ranges = 1;
    char data[HEAD + LAYERS * LAYER + 3 * WORD];
    require(size == sizeof data - sizeof range, "an empty sequence has another size");
    memcpy(data, empty, size);
    memcpy(data + HEAD - 2 * WORD, &ranges, sizeof ranges);
    for (int i = 0; i < LAYERS; i++)
        memcpy(data + HEAD + i * LAYER + WORD, &range[1], WORD);
    memcpy(data + HEAD + LAYERS * LAYER, range, sizeof range);
    write_seed(folder, number, data, sizeof data); /* the fuzzer makes its checksum right */
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    static const int64_t lengths[] = {0, 5, 300, 600};
    if (*argc != 3 || strcmp((*argv)[1], "--make-seeds") != 0)
        return 0;
    for (int i = 0; i < 12; i++) {
        fovea_kv_cache *cache = make(i < 4 ? FOVEA_DTYPE_F32 : i < 8 ? FOVEA_DTYPE_I8 : FOVEA_DTYPE_I4);
        int64_t sequence;
        size_t size;
        require(fovea_kv_cache_add(cache, &sequence) == FOVEA_OK, "no sequence");
        for (int64_t layer = 0; layer < LAYERS; layer++)
            require(append(cache, layer, sequence, lengths[i % 4]) == FOVEA_OK, "append");
        if (i % 4 == 3)
            require(fovea_kv_cache_evict(cache, sequence, 7, 599) == FOVEA_OK, "evict");
        require(fovea_kv_cache_save(cache, sequence, NULL, 0, &size) == FOVEA_OK, "save");
        char *data = malloc(size);
        require(data && fovea_kv_cache_save(cache, sequence, data, size, &size) == FOVEA_OK, "save");
        write_seed((*argv)[2], i, data, size);
        if (i % 4 == 0)
            write_evicted((*argv)[2], 12 + i / 4, data, size);
        free(data);
        fovea_kv_cache_destroy(cache);
    }
    exit(0);
}
