/* Saved sequences of states (fovea_state_cache_load), by libFuzzer. What is taken must be a sequence that can be saved,
 * forked, carried on, taken back and removed. The checksum would keep a fuzzer from everything behind it, so inputs are
 * tried as they are, and then with the right one.
 *
 *      fuzz-states --make-seeds FOLDER    writes a few sound sequences to begin with */
#include "saved.h"

enum { STATES = 2, CHANNELS = 3, TAPS = 3, SLOTS = 3, MOST = 64 };

static fovea_state_cache *make(void) {
    static const int64_t floats[STATES] = {(TAPS - 1) * CHANNELS, (TAPS - 1) * CHANNELS};
    fovea_state_cache_desc d;
    fovea_state_cache *cache;
    fovea_state_cache_desc_init(&d);
    d.states = STATES;
    d.floats = floats;
    d.max_sequences = 2;
    d.slots = SLOTS;
    require(fovea_state_cache_create(&d, &cache) == FOVEA_OK, "no cache");
    return cache;
}

static void carry_on(fovea_state_cache *cache, int64_t state, int64_t sequence, int64_t tokens) {
    static float x[MOST * CHANNELS], y[MOST * CHANNELS], weight[TAPS * CHANNELS];
    fovea_states states;
    fovea_conv_args a;
    fovea_states_init(&states);
    fovea_conv_args_init(&a);
    states.cache = cache;
    states.cache_state = state;
    states.cache_sequences = &sequence;
    a.x = fovea_tensor_bhtd(x, FOVEA_DTYPE_F32, 1, 1, tokens, CHANNELS);
    a.out = fovea_tensor_bhtd(y, FOVEA_DTYPE_F32, 1, 1, tokens, CHANNELS);
    a.weight = weight;
    a.taps = TAPS;
    a.states = &states;
    require(fovea_causal_conv(context(), &a, NULL, 0) == FOVEA_OK, "a sequence cannot be carried on");
}

static void try(const uint8_t *data, size_t size) {
    fovea_state_cache *cache = make();
    int64_t sequence, fork, length;
    if (fovea_state_cache_load(cache, data, size, &sequence) == FOVEA_OK) {
        size_t needed;
        char *again = malloc(size);
        require(again && fovea_state_cache_save(cache, sequence, again, size, &needed) == FOVEA_OK && needed <= size,
                "what was loaded is larger");
        free(again);
        require(fovea_state_cache_fork(cache, sequence, &fork) == FOVEA_OK, "a loaded sequence cannot be forked");
        for (int64_t state = 0; state < STATES; state++) {
            require(fovea_state_cache_length(cache, state, sequence, &length) == FOVEA_OK, "no length");
            if (length < INT64_MAX - MOST)
                carry_on(cache, state, sequence, 2);
        }
        require(fovea_state_cache_truncate(cache, fork, 0) == FOVEA_OK, "no way back");
        require(fovea_state_cache_remove(cache, sequence) == FOVEA_OK &&
                    fovea_state_cache_remove(cache, fork) == FOVEA_OK,
                "a loaded sequence cannot be removed");
    } else
        require(sequence == -1, "an error gives a sequence");
    fovea_state_cache_destroy(cache);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    try_sealed(try, data, size);
    return 0;
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    static const int64_t lengths[] = {0, 1, 2, 3, 20};
    if (*argc != 3 || strcmp((*argv)[1], "--make-seeds") != 0)
        return 0;
    for (int i = 0; i < 5; i++) {
        fovea_state_cache *cache = make();
        int64_t sequence;
        char data[4096];
        size_t size;
        require(fovea_state_cache_add(cache, &sequence) == FOVEA_OK, "no sequence");
        for (int64_t state = 0; state < STATES; state++)
            if (lengths[i] > 0)
                carry_on(cache, state, sequence, lengths[i]);
        require(fovea_state_cache_save(cache, sequence, data, sizeof data, &size) == FOVEA_OK, "save");
        write_seed((*argv)[2], i, data, size);
        fovea_state_cache_destroy(cache);
    }
    exit(0);
}
