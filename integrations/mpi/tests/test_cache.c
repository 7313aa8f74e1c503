/* Caches over ranks against one fovea_kv_cache, which every rank has for itself. Run by mpirun.
 *     test-mpi-cache [--cases N] [--seed N]      default: 23 cases, or FOVEA_TEST_SCALE of them
 * A case is a random cache (types, windows, rope, stripes) and random steps: add, append, fork, evict, truncate,
 * remove, clear, attend. Each step is done to both, and must have the same status and lengths. Attention (a token, or a
 * chunk of a prompt, of several sequences) must have the same bits. Rows that a rank does not own are NaN in what it
 * appends. Errors: something wrong, or a full cache, on each rank in turn. The last line counts; exit code 0 or 1. */
#include "cache_pair.h"
#include "groups.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --------------------------------------------------------------------------------------------------------- steps -- */

/* A copy of rows of tokens, in which rows of others are NaN. lens: how many tokens sequences have. */
static float *own_rows(const both *x, const float *all, const int64_t *before, int64_t count, int64_t tokens,
                       int64_t channels) {
    const int64_t heads = x->desc.kv_heads;
    float *own = malloc((size_t)(count * heads * tokens * channels + 1) * sizeof *own);
    for (int64_t i = 0; i < count; i++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t t = 0; t < tokens; t++) {
                const int64_t stripe = (before[i] + t) / 256 / x->stripe, place = stripe % ranks;
                const bool mine = (stripe / ranks % 2 ? ranks - 1 - place : place) == rank;
                const int64_t at = ((i * heads + h) * tokens + t) * channels;
                for (int64_t c = 0; c < channels; c++)
                    own[at + c] = mine ? all[at + c] : NAN;
            }
    return own;
}

static void append(both *x, rng *r, int64_t most) {
    int64_t one[MOST_SEQUENCES], spread[MOST_SEQUENCES], lens[MOST_SEQUENCES], before[MOST_SEQUENCES];
    const int64_t first = rng_below(r, x->count), count = rng_between(r, 1, x->count - first);
    const int64_t tokens = rng_below(r, 3) ? rng_between(r, 1, most) : rng_between(r, 0, 3);
    for (int64_t layer = 0; layer < x->desc.layers; layer++) {
        for (int64_t i = 0; i < count; i++) {
            one[i] = x->sequence[first + i].one;
            spread[i] = x->sequence[first + i].spread;
            before[i] = length_of(x, layer, first + i);
            lens[i] = rng_below(r, 2) ? tokens : rng_between(r, 0, tokens);
            if (before[i] + lens[i] > MOST_TOKENS)
                lens[i] = 0;
        }
        float *k = floats(r, count * x->desc.kv_heads * tokens * x->desc.head_dim + 1);
        float *v = floats(r, count * x->desc.kv_heads * tokens * x->desc.value_dim + 1);
        float *own_k = own_rows(x, k, before, count, tokens, x->desc.head_dim);
        float *own_v = own_rows(x, v, before, count, tokens, x->desc.value_dim);
        fovea_kv_append_args a;
        fovea_kv_append_args_init(&a);
        a.layer = layer;
        a.count = count;
        a.sequences = one;
        a.lens = lens;
        a.rotated = rng_below(r, 4) == 0;
        a.k = fovea_tensor_bhtd(k, FOVEA_DTYPE_F32, count, x->desc.kv_heads, tokens, x->desc.head_dim);
        a.v = fovea_tensor_bhtd(v, FOVEA_DTYPE_F32, count, x->desc.kv_heads, tokens, x->desc.value_dim);
        const fovea_status want = fovea_kv_cache_append(x->one, &a);
        a.sequences = spread;
        a.k.data = own_k;
        a.v.data = own_v;
        same(x, want, fovea_mpi_cache_append(x->spread, &a), "append");
        free(k);
        free(v);
        free(own_k);
        free(own_v);
    }
}

/* Packed, in 16 bits. */
static void append_packed(both *x, rng *r) {
    const int64_t ends[2] = {2, 2 + rng_between(r, 1, 40)}, i = rng_below(r, x->count), heads = x->desc.kv_heads;
    if (length_of(x, 0, i) + ends[1] > MOST_TOKENS)
        return;
    uint16_t *x16 = malloc((size_t)(ends[1] * heads * (x->desc.head_dim + x->desc.value_dim)) * sizeof *x16);
    for (int64_t j = 0; j < ends[1] * heads * (x->desc.head_dim + x->desc.value_dim); j++)
        x16[j] = (uint16_t)(0x3f00 + rng_below(r, 256));
    fovea_kv_append_args a;
    fovea_kv_append_args_init(&a);
    a.count = 1;
    a.cu_seqlens = ends;
    a.sequences = &x->sequence[i].one;
    a.k = fovea_tensor_bthd(x16, FOVEA_DTYPE_BF16, 1, ends[1], heads, x->desc.head_dim);
    a.v = fovea_tensor_bthd(x16 + ends[1] * heads * x->desc.head_dim, FOVEA_DTYPE_BF16, 1, ends[1], heads,
                            x->desc.value_dim);
    for (a.layer = 0; a.layer < x->desc.layers; a.layer++) {
        a.sequences = &x->sequence[i].one;
        const fovea_status want = fovea_kv_cache_append(x->one, &a);
        a.sequences = &x->sequence[i].spread;
        same(x, want, fovea_mpi_cache_append(x->spread, &a), "append packed");
    }
    free(x16);
}

static void add(both *x) {
    fovea_kv_cache_add(x->one, &x->sequence[x->count].one);
    const fovea_status status = fovea_mpi_cache_add(x->spread, &x->sequence[x->count].spread);
    x->count++;
    same(x, FOVEA_OK, status, "add");
}

static void fork_one(both *x, rng *r) {
    const int64_t i = rng_below(r, x->count);
    const fovea_status want = fovea_kv_cache_fork(x->one, x->sequence[i].one, &x->sequence[x->count].one);
    const fovea_status status = fovea_mpi_cache_fork(x->spread, x->sequence[i].spread, &x->sequence[x->count].spread);
    x->count++;
    same(x, want, status, "fork");
}

static void cut(both *x, rng *r, bool evicts) {
    const int64_t i = rng_below(r, x->count), length = length_of(x, 0, i);
    const int64_t begin = rng_below(r, 8) ? rng_between(r, 0, length) : rng_between(r, -2, length + 2);
    const int64_t end = rng_below(r, 2) ? begin + rng_below(r, 600) : begin + rng_below(r, 20);
    const int64_t limit = rng_below(r, 4) && end > length ? length : end;
    const fovea_status want = evicts ? fovea_kv_cache_evict(x->one, x->sequence[i].one, begin, limit)
                                     : fovea_kv_cache_truncate(x->one, x->sequence[i].one, begin);
    const fovea_status status = evicts ? fovea_mpi_cache_evict(x->spread, x->sequence[i].spread, begin, limit)
                                       : fovea_mpi_cache_truncate(x->spread, x->sequence[i].spread, begin);
    same(x, want, status, evicts ? "evict" : "truncate");
}

static void drop(both *x, rng *r) {
    const int64_t i = rng_below(r, x->count);
    const fovea_status want = fovea_kv_cache_remove(x->one, x->sequence[i].one);
    const fovea_status status = fovea_mpi_cache_remove(x->spread, x->sequence[i].spread);
    x->sequence[i] = x->sequence[--x->count];
    same(x, want, status, "remove");
}

static void clear(both *x) {
    fovea_kv_cache_clear(x->one);
    fovea_mpi_cache_clear(x->spread);
    x->count = 0;
    fovea_kv_stats stats;
    fovea_kv_stats_init(&stats);
    check(fovea_mpi_cache_stats(x->spread, &stats) == FOVEA_OK && stats.used_pages == 0 && stats.sequences == 0,
          "clear: %" PRId64 " pages, %" PRId64 " sequences", stats.used_pages, stats.sequences);
}

/* Pages of all ranks are those of one cache: each has its own and no other. */
static void same_pages(both *x) {
    fovea_kv_stats one, spread;
    fovea_kv_stats_init(&one);
    fovea_kv_stats_init(&spread);
    fovea_kv_cache_stats(x->one, &one);
    fovea_mpi_cache_stats(x->spread, &spread);
    int64_t mine[2] = {spread.used_pages, spread.shared_pages}, all[2];
    MPI_Allreduce(mine, all, 2, MPI_INT64_T, MPI_SUM, comm);
    check(all[0] == one.used_pages && all[1] == one.shared_pages && spread.page_bytes == one.page_bytes &&
              spread.token_bytes == one.token_bytes && spread.sequences == one.sequences,
          "pages: one has %" PRId64 ", %" PRId64 " shared, ranks %" PRId64 ", %" PRId64 "; %s", one.used_pages,
          one.shared_pages, all[0], all[1], x->text);
}

/* --------------------------------------------------------------------------------------------------------- cases -- */

static void close_both(both *x) {
    clear(x);
    fovea_kv_cache_destroy(x->one);
    fovea_mpi_cache_destroy(x->spread);
}

static void run(rng *r, int64_t index, const fovea_rope *rope) {
    both x;
    open_both(&x, r, index, rope, 400);
    for (int step = 0; step < 26; step++) {
        const int64_t what = rng_below(r, 16);
        if (x.count == 0)
            add(&x);
        else if (what < 5)
            append(&x, r, 700);
        else if (what < 6)
            append_packed(&x, r);
        else if (what < 8 && x.count < MOST_SEQUENCES)
            rng_below(r, 3) ? fork_one(&x, r) : add(&x);
        else if (what < 10)
            cut(&x, r, true);
        else if (what < 11)
            cut(&x, r, false);
        else if (what < 12 && rng_below(r, 3) == 0)
            rng_below(r, 4) ? drop(&x, r) : clear(&x);
        else
            attend(&x, r);
        same_pages(&x);
    }
    close_both(&x);
}

/* -------------------------------------------------------------------------------------------------------- errors -- */

static void all_failed(const both *x, fovea_status status, fovea_status want, int guilty, const char *what) {
    char name[32];
    snprintf(name, sizeof name, "rank %d: ", guilty);
    same(x, want, status, what);
    check(guilty < 0 || strncmp(fovea_mpi_error_detail(), name, strlen(name)) == 0, "%s: the sentence is '%s'", what,
          fovea_mpi_error_detail());
}

static void test_errors(rng *r) {
    for (int guilty = 0; guilty<ranks; guilty += ranks> 3 ? ranks - 1 : 1) {
        const bool me = rank == guilty;
        both x;
        open_both(&x, r, guilty, NULL, 400);
        add(&x);
        append(&x, r, 700);
        const int64_t length = length_of(&x, x.desc.layers - 1, 0), s = x.sequence[0].spread;
        int64_t made = 5, mine = s;
        all_failed(&x, fovea_mpi_cache_fork(x.spread, me ? 77 : s, &made), FOVEA_ERROR_ARGUMENT, guilty, "fork");
        check(made == -1, "a fork after an error");
        all_failed(&x, fovea_mpi_cache_add(x.spread, me ? NULL : &made), FOVEA_ERROR_NULL, guilty, "add");
        all_failed(&x, fovea_mpi_cache_remove(x.spread, me ? 77 : s), FOVEA_ERROR_ARGUMENT, guilty, "remove");
        all_failed(&x, fovea_mpi_cache_truncate(x.spread, s, me ? -1 : 0), FOVEA_ERROR_SHAPE, guilty, "truncate");
        all_failed(&x, fovea_mpi_cache_evict(x.spread, s, 0, me ? length + 2000 : 0), FOVEA_ERROR_SHAPE, guilty,
                   "evict");
        if (ranks > 1)
            all_failed(&x, fovea_mpi_cache_truncate(x.spread, s, me ? 1 : 0), FOVEA_ERROR_ARGUMENT, -1,
                       "other lengths");
        float *data = floats(r, x.desc.kv_heads * 600 * 40);
        fovea_kv_append_args good, bad;
        fovea_kv_append_args_init(&good);
        good.count = 1;
        good.sequences = &mine;
        good.k = fovea_tensor_bhtd(data, FOVEA_DTYPE_F32, 1, x.desc.kv_heads, 600, x.desc.head_dim);
        good.v = fovea_tensor_bhtd(data, FOVEA_DTYPE_F32, 1, x.desc.kv_heads, 600, x.desc.value_dim);
        bad = good;
        bad.k.shape[3] += me;
        all_failed(&x, fovea_mpi_cache_append(x.spread, &bad), FOVEA_ERROR_SHAPE, guilty, "channels");
        bad = good;
        bad.layer = me ? 7 : 0;
        all_failed(&x, fovea_mpi_cache_append(x.spread, &bad), FOVEA_ERROR_ARGUMENT, guilty, "layer");
        bad = good;
        bad.v.data = me ? NULL : data;
        all_failed(&x, fovea_mpi_cache_append(x.spread, &bad), FOVEA_ERROR_NULL, guilty, "values");
        mine = me ? 99 : s;
        all_failed(&x, fovea_mpi_cache_append(x.spread, &good), FOVEA_ERROR_ARGUMENT, guilty, "sequence");
        mine = s;
        all_failed(&x, fovea_mpi_cache_append(x.spread, me ? NULL : &good), FOVEA_ERROR_NULL, guilty, "no append");
        free(data);
        same_pages(&x);
        attend(&x, r);
        close_both(&x);
    }
}

/* One rank has few pages: tokens that do not fit there are on no rank. */
static void test_full(rng *r) {
    for (int guilty = 0; guilty<ranks; guilty += ranks> 3 ? ranks - 1 : 1) {
        fovea_kv_cache_desc d;
        fovea_kv_cache_desc_init(&d);
        d.kv_heads = d.head_dim = d.value_dim = 1;
        d.max_pages = rank == guilty ? 2 : 100;
        fovea_mpi_cache *cache;
        int64_t s, length, used = 0;
        fovea_kv_stats stats;
        fovea_kv_stats_init(&stats);
        check(fovea_mpi_cache_create(comm, ctx, &d, 1, &cache) == FOVEA_OK, "create: %s", fovea_mpi_error_detail());
        fovea_mpi_cache_add(cache, &s);
        float *data = floats(r, 256 * 3 * (ranks + 1));
        fovea_kv_append_args a;
        fovea_kv_append_args_init(&a);
        a.count = 1;
        a.sequences = &s;
        for (int64_t tokens = 10; tokens <= 256 * 3 * ranks; tokens += 256 * 3 * ranks - 10) {
            a.k = a.v = fovea_tensor_bhtd(data, FOVEA_DTYPE_F32, 1, 1, tokens, 1);
            const fovea_status status = fovea_mpi_cache_append(cache, &a);
            check(status == (tokens == 10 ? FOVEA_OK : FOVEA_ERROR_FULL), "full: %s (%s)", fovea_status_name(status),
                  fovea_mpi_error_detail());
            fovea_mpi_cache_length(cache, 0, s, &length);
            fovea_mpi_cache_stats(cache, &stats);
            used = tokens == 10 ? stats.used_pages : used;
            check(length == 10 && stats.used_pages == used, "full: length %" PRId64 ", %" PRId64 " pages", length,
                  stats.used_pages);
        }
        free(data);
        fovea_mpi_cache_destroy(cache);
    }
}

int main(int argc, char **argv) {
    const char *scaled = getenv("FOVEA_TEST_SCALE");
    int64_t cases = (int64_t)(20 * (scaled ? atof(scaled) : 1)) + 3;
    group_begin(&argc, &argv, MPI_THREAD_FUNNELED);
    for (int i = 1; i + 1 < argc; i += 2) {
        cases = strcmp(argv[i], "--cases") == 0 ? atoll(argv[i + 1]) : cases;
        seed = strcmp(argv[i], "--seed") == 0 ? atoll(argv[i + 1]) : seed;
    }
    ctx = group_context(FOVEA_ISA_BEST, 2);
    fovea_rope_desc turn;
    fovea_rope_desc_init(&turn);
    turn.rotary_dim = 8;
    fovea_rope *rope;
    if (fovea_rope_create(&turn, &rope) != FOVEA_OK)
        MPI_Abort(MPI_COMM_WORLD, 1);
    while (group_next()) {
        rng r = {(uint64_t)(seed + ranks)};
        test_errors(&r);
        test_full(&r);
        for (int64_t i = 0; i < cases; i++)
            run(&r, i, rope);
    }
    fovea_rope_destroy(rope);
    fovea_context_destroy(ctx);
    return group_report("caches");
}
