/* Sequences of states as bytes (fovea/state_cache.h). In this order, without gaps, numbers of 64 bits in the machine's
 * byte order:
 *
 *     head       as below
 *     states     for each: its floats, its length, how many states are kept
 *     kept       for each of these its length and its floats
 *     checksum   FNV-1a of all before it */
#include "recurrence/cache.h"

#include <string.h>

enum { VERSION = 1 };
#define MAGIC UINT64_C(0x315453616576f446) /* no text */

typedef struct head {
    uint64_t magic;
    int64_t version, states;
} head;

typedef struct state_head {
    int64_t floats, length, kept;
} state_head;

static int64_t kept_of(const fovea_state_cache *c, const fv_state_sequence *s, int64_t state) {
    int64_t count = 0;
    for (int64_t k = 0; k < c->slots; k++)
        count += s->kept[state * c->slots + k].block >= 0;
    return count;
}

static char *put(char *to, const void *from, size_t bytes) {
    memcpy(to, from, bytes);
    return to + bytes;
}

static size_t kept_bytes(int64_t floats) { return sizeof(int64_t) + (size_t)floats * sizeof(float); }

fovea_status fovea_state_cache_save(fovea_state_cache *c, int64_t sequence, void *data, size_t size, size_t *needed) {
    if (!c || !needed)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", c ? "needed" : "cache");
    fv_mutex_lock(&c->lock);
    const fv_state_sequence *s = fv_state_sequence_find(c, sequence); /* nobody else changes it meanwhile */
    fv_mutex_unlock(&c->lock);
    if (!s)
        return FOVEA_ERROR_ARGUMENT;
    *needed = sizeof(head) + (size_t)c->states * sizeof(state_head) + sizeof(uint64_t);
    for (int64_t i = 0; i < c->states; i++)
        *needed += (size_t)kept_of(c, s, i) * kept_bytes(c->pool[i].floats);
    if (!data)
        return FOVEA_OK;
    if (size < *needed)
        return fv_fail(FOVEA_ERROR_WORKSPACE, "data has %zu bytes, but this sequence needs %zu", size, *needed);
    char *to = put(data, &(head){MAGIC, FV_SAVED_VERSION(VERSION), c->states}, sizeof(head));
    for (int64_t i = 0; i < c->states; i++)
        to = put(to, &(state_head){c->pool[i].floats, s->length[i], kept_of(c, s, i)}, sizeof(state_head));
    for (int64_t k = 0; k < c->states * c->slots; k++)
        if (s->kept[k].block >= 0) {
            const int64_t state = k / c->slots;
            to = put(to, &s->kept[k].length, sizeof s->kept[k].length);
            to = put(to, fv_state_floats(c, state, s->kept[k].block), kept_bytes(c->pool[state].floats) - 8);
        }
    const uint64_t sum = fv_hash(FV_HASH_BEGIN, data, *needed - sizeof sum);
    put(to, &sum, sizeof sum);
    return FOVEA_OK;
}

/* Checks all but the floats. */
static fovea_status check(const fovea_state_cache *c, const char *data, size_t size) {
    head h;
    uint64_t sum;
    if (size < sizeof h + sizeof sum)
        return fv_fail(FOVEA_ERROR_FILE, "these %zu bytes are no saved states", size);
    memcpy(&h, data, sizeof h);
    memcpy(&sum, data + size - sizeof sum, sizeof sum);
    if (h.magic != MAGIC)
        return fv_fail(FOVEA_ERROR_FILE, "these bytes are no saved states");
    const fovea_status status = fv_saved_version_check(h.version, VERSION);
    if (status != FOVEA_OK)
        return status;
    if ((int32_t)h.version < 1 || sum != fv_hash(FV_HASH_BEGIN, data, size - sizeof sum))
        return fv_fail(FOVEA_ERROR_FILE, "the saved states are truncated or damaged");
    if (h.states != c->states)
        return fv_fail(FOVEA_ERROR_INCOMPATIBLE, "%lld states were saved, but the cache has %lld", (long long)h.states,
                       (long long)c->states);
    const size_t left = size - sizeof h - sizeof sum;
    if (left / sizeof(state_head) < (size_t)c->states)
        return fv_fail(FOVEA_ERROR_FILE, "the saved states are truncated or damaged");
    size_t needed = (size_t)c->states * sizeof(state_head);
    for (int64_t i = 0; i < c->states; i++) {
        state_head s;
        memcpy(&s, data + sizeof h + (size_t)i * sizeof s, sizeof s);
        if (s.floats != c->pool[i].floats)
            return fv_fail(FOVEA_ERROR_INCOMPATIBLE, "state %lld was saved with %lld floats, but the cache has %lld",
                           (long long)i, (long long)s.floats, (long long)c->pool[i].floats);
        if (s.length < 0 || s.length > FV_SIZE_LIMIT || s.kept < 0 || (s.length > 0) != (s.kept > 0) ||
            s.kept > s.length || (size_t)s.kept > (left - needed) / kept_bytes(s.floats))
            return fv_fail(FOVEA_ERROR_FILE, "the saved states are truncated or damaged");
        needed += (size_t)s.kept * kept_bytes(s.floats);
    }
    return needed == left ? FOVEA_OK : fv_fail(FOVEA_ERROR_FILE, "the saved states are truncated or damaged");
}

/* Are the states kept those after the last tokens, each once? They go up to the state's length, and begin anew. */
static bool lengths_right(const fovea_state_cache *c, const char *states, const char *kept) {
    for (int64_t i = 0; i < c->states; i++) {
        state_head s;
        memcpy(&s, states + (size_t)i * sizeof s, sizeof s);
        for (int64_t k = 0, next = 0; k < s.kept; k++, kept += kept_bytes(s.floats)) {
            int64_t length;
            memcpy(&length, kept, sizeof length);
            if (k > 0 ? length != next : length <= s.length - s.kept || length > s.length)
                return false;
            next = length < s.length ? length + 1 : s.length - s.kept + 1;
        }
    }
    return true;
}

fovea_status fovea_state_cache_load(fovea_state_cache *c, const void *data, size_t size, int64_t *sequence) {
    if (!c || !data || !sequence)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", !c ? "cache" : !data ? "data" : "sequence");
    *sequence = -1;
    const char *states = (const char *)data + sizeof(head);
    fovea_status status = check(c, data, size);
    const char *kept = states + (size_t)c->states * sizeof(state_head);
    if (status == FOVEA_OK && !lengths_right(c, states, kept))
        status = fv_fail(FOVEA_ERROR_FILE, "the saved states are truncated or damaged");
    if (status != FOVEA_OK)
        return status;
    fv_mutex_lock(&c->lock);
    fv_state_sequence *s = fv_state_sequence_new(c);
    for (int64_t i = 0; s && i < c->states; i++) {
        state_head saved;
        memcpy(&saved, states + (size_t)i * sizeof saved, sizeof saved);
        s->length[i] = saved.length;
        for (int64_t k = 0; k < saved.kept; k++, kept += kept_bytes(saved.floats)) {
            int64_t length;
            memcpy(&length, kept, sizeof length);
            if (length <= saved.length - c->slots) /* this cache keeps fewer */
                continue;
            fv_kept_state *to = fv_state_kept(c, s, i, length);
            fv_state_take(c, i, to, -1);
            to->length = length;
            memcpy(fv_state_floats(c, i, to->block), kept + sizeof length, kept_bytes(saved.floats) - sizeof length);
        }
    }
    if (s)
        *sequence = s->number;
    fv_mutex_unlock(&c->lock);
    return s ? FOVEA_OK : FOVEA_ERROR_FULL;
}
