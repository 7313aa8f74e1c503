/* Descriptions filled by fovea_from_flash*(), against masks and biases by the formulas that
 * FlashAttention documents, packed sequences against each alone, and caches in pages against rows, bit for bit. */
#include "attention_case.h"
#include "recorded.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

enum { HEADS = 4, BATCH = 2 };

static const fovea_tensor absent;

/* May query i of q_len see key j of kv_len? As the documentation of flash_attn_func has it. */
static bool flash_sees(int64_t i, int64_t j, int64_t q_len, int64_t kv_len, bool causal, int64_t left, int64_t right) {
    const int64_t position = i + kv_len - q_len;
    return j >= 0 && j < kv_len && (!causal || j <= position) && (left < 0 || j >= position - left) &&
           (right < 0 || j <= position + right);
}

static void flash(const fovea_context *ctx, int64_t q_len, const int32_t *cache_seqlens, const int32_t *cache_leftpad,
                  bool causal, int64_t left, int64_t right, bool alibi) {
    enum { ROOM = 9, D = 8, MOST = 7, NEW = 3 };
    const int64_t n = BATCH * HEADS * q_len * D;
    float *q = fill(1, n), *k = fill(2, BATCH * ROOM * 2 * D), *v = fill(3, BATCH * ROOM * 2 * D);
    float got[BATCH * HEADS * MOST * D], want[BATCH * HEADS * MOST * D];
    float slopes[HEADS] = {0.5f, 0.3f, 0.25f, 0.1f}, bias[BATCH * HEADS * MOST * ROOM];
    uint8_t mask[BATCH * MOST * ROOM];
    int64_t room[3 * BATCH];
    fovea_attention_desc desc;
    fovea_attention_args args;
    fovea_attention_desc_init(&desc);
    fovea_attention_args_init(&args);
    set_tensors(&desc, &args, fovea_tensor_bthd(q, FOVEA_DTYPE_F32, BATCH, q_len, HEADS, D),
                fovea_tensor_bthd(k, FOVEA_DTYPE_F32, BATCH, ROOM, 2, D),
                fovea_tensor_bthd(v, FOVEA_DTYPE_F32, BATCH, ROOM, 2, D),
                fovea_tensor_bthd(want, FOVEA_DTYPE_F32, BATCH, q_len, HEADS, D));
    for (int64_t b = 0; b < BATCH; b++) {
        const int64_t first = cache_leftpad ? cache_leftpad[b] : 0,
                      last = cache_seqlens ? cache_seqlens[b] + NEW : ROOM;
        for (int64_t i = 0; i < q_len; i++)
            for (int64_t j = 0; j < ROOM; j++)
                mask[(b * q_len + i) * ROOM + j] = flash_sees(i, j - first, q_len, last - first, causal, left, right);
        for (int64_t h = 0; h < HEADS; h++)
            for (int64_t i = 0; i < q_len; i++)
                for (int64_t j = 0; j < ROOM; j++)
                    bias[((b * HEADS + h) * q_len + i) * ROOM + j] =
                        -slopes[h] * fabsf((float)(i + last - first - q_len - (j - first)));
    }
    set_mask(&desc, &args, fovea_tensor_bhtd(mask, FOVEA_DTYPE_BOOL, BATCH, 1, q_len, ROOM));
    desc.has_bias = alibi;
    if (alibi)
        args.bias = fovea_tensor_bhtd(bias, FOVEA_DTYPE_F32, BATCH, HEADS, q_len, ROOM);
    execute(ctx, &desc, &args, "mask of FlashAttention");
    set_mask(&desc, &args, absent);
    desc.causal = FOVEA_CAUSAL_NONE;
    desc.has_bias = 0;
    args.bias = absent;
    desc.relative = alibi ? FOVEA_RELATIVE_ALIBI : FOVEA_RELATIVE_NONE;
    if (alibi)
        args.relative = fovea_tensor_bhtd(slopes, FOVEA_DTYPE_F32, 1, HEADS, 1, 1);
    args.out.data = got;
    if (cache_seqlens)
        fovea_from_flash_kvcache(&desc, &args, cache_seqlens, NEW, cache_leftpad, causal, left, right, room);
    else
        fovea_from_flash(&desc, &args, causal, left, right, room);
    execute(ctx, &desc, &args, "FlashAttention");
    if (cache_leftpad) /* sums begin at the first key that is there */
        compare(got, want, n, "FlashAttention, cache_leftpad");
    else
        test_same(got, want, n, "FlashAttention: q_len %d, cache %d, causal %d, window %d, %d, alibi %d", (int)q_len,
                  cache_seqlens != NULL, causal, (int)left, (int)right, alibi);
    free(q);
    free(k);
    free(v);
}

/* Caches in pages: the bits of the same keys one after another. */
static void flash_paged(const fovea_context *ctx, bool causal, int64_t left, int64_t right) {
    enum { PAGE = 4, PAGES = 7, COLUMNS = 3, D = 8, NEW = 3, MOST = PAGE * COLUMNS, KV_HEADS = 2 };
    static const int32_t table[BATCH][COLUMNS] = {{5, 0, 3}, {2, 6, -1}}, cache_seqlens[BATCH] = {8, 4};
    const int64_t page = PAGE * KV_HEADS * D;
    float *q = fill(1, BATCH * NEW * HEADS * D), *k = fill(2, PAGES * page), *v = fill(3, PAGES * page);
    float k_rows[BATCH * MOST * KV_HEADS * D] = {0}, v_rows[BATCH * MOST * KV_HEADS * D] = {0};
    float got[BATCH * NEW * HEADS * D], want[BATCH * NEW * HEADS * D];
    int64_t room[3 * BATCH];
    for (int n = 0; n < BATCH * COLUMNS; n++)
        if (table[n / COLUMNS][n % COLUMNS] >= 0) {
            const size_t bytes = (size_t)page * sizeof(float);
            memcpy(k_rows + n * page, k + table[n / COLUMNS][n % COLUMNS] * page, bytes);
            memcpy(v_rows + n * page, v + table[n / COLUMNS][n % COLUMNS] * page, bytes);
        }
    for (int paged = 0; paged < 2; paged++) {
        fovea_attention_desc desc;
        fovea_attention_args args;
        fovea_kv_pages pages;
        fovea_attention_desc_init(&desc);
        fovea_attention_args_init(&args);
        fovea_kv_pages_init(&pages);
        set_tensors(&desc, &args, fovea_tensor_bthd(q, FOVEA_DTYPE_F32, BATCH, NEW, HEADS, D),
                    fovea_tensor_bthd(k_rows, FOVEA_DTYPE_F32, BATCH, MOST, KV_HEADS, D),
                    fovea_tensor_bthd(v_rows, FOVEA_DTYPE_F32, BATCH, MOST, KV_HEADS, D),
                    fovea_tensor_bthd(paged ? got : want, FOVEA_DTYPE_F32, BATCH, NEW, HEADS, D));
        if (paged) {
            pages.k = fovea_tensor_bthd(k, FOVEA_DTYPE_F32, PAGES, PAGE, KV_HEADS, D);
            pages.v = fovea_tensor_bthd(v, FOVEA_DTYPE_F32, PAGES, PAGE, KV_HEADS, D);
            pages.table = table[0];
            pages.table_stride = COLUMNS;
            desc.page_keys = PAGE;
            args.pages = &pages;
            args.k = args.v = absent;
        }
        fovea_from_flash_kvcache(&desc, &args, cache_seqlens, NEW, NULL, causal, left, right, room);
        execute(ctx, &desc, &args, "flash_attn_with_kvcache, block_table");
    }
    test_same(got, want, BATCH * NEW * HEADS * D, "block_table: causal %d, window %d, %d", causal, (int)left,
              (int)right);
    free(q);
    free(k);
    free(v);
}

/* Sequences of different lengths in one axis of tokens: the bits of each alone. */
static void flash_varlen(const fovea_context *ctx, bool causal, int64_t left, int64_t right) {
    enum { SEQUENCES = 4, Q_TOKENS = 12, KV_TOKENS = 17, D = 8, MOST_Q = 6, MOST_K = 9 };
    static const int32_t q_cu[SEQUENCES + 1] = {0, 6, 6, 8, 12}, kv_cu[SEQUENCES + 1] = {0, 4, 6, 8, 17};
    float *q = fill(1, Q_TOKENS * HEADS * D), *k = fill(2, KV_TOKENS * 2 * D), *v = fill(3, KV_TOKENS * 2 * D);
    float got[Q_TOKENS * HEADS * D], want[Q_TOKENS * HEADS * D];
    int64_t room[3 * SEQUENCES + 2];
    fovea_attention_desc desc;
    fovea_attention_args args;
    fovea_attention_desc_init(&desc);
    fovea_attention_args_init(&args);
    set_tensors(&desc, &args, fovea_tensor_bthd(q, FOVEA_DTYPE_F32, 1, Q_TOKENS, HEADS, D),
                fovea_tensor_bthd(k, FOVEA_DTYPE_F32, 1, KV_TOKENS, 2, D),
                fovea_tensor_bthd(v, FOVEA_DTYPE_F32, 1, KV_TOKENS, 2, D),
                fovea_tensor_bthd(got, FOVEA_DTYPE_F32, 1, Q_TOKENS, HEADS, D));
    const fovea_attention_args whole = args;
    fovea_from_flash_varlen(&desc, &args, SEQUENCES, q_cu, kv_cu, MOST_Q, MOST_K, causal, left, right, room);
    execute(ctx, &desc, &args, "flash_attn_varlen_func");
    for (int b = 0; b < SEQUENCES; b++) {
        const int64_t q_len = q_cu[b + 1] - q_cu[b], kv_len = kv_cu[b + 1] - kv_cu[b];
        if (q_len == 0)
            continue;
        fovea_tensor out = whole.out;
        out.data = want;
        fovea_attention_desc_init(&desc);
        fovea_attention_args_init(&args);
        set_tensors(&desc, &args, fovea_tensor_tokens(whole.q, q_cu[b], q_len),
                    fovea_tensor_tokens(whole.k, kv_cu[b], kv_len), fovea_tensor_tokens(whole.v, kv_cu[b], kv_len),
                    fovea_tensor_tokens(out, q_cu[b], q_len));
        fovea_from_flash(&desc, &args, causal, left, right, room);
        execute(ctx, &desc, &args, "flash_attn_func of one sequence");
    }
    test_same(got, want, Q_TOKENS * HEADS * D, "flash_attn_varlen_func: causal %d, window %d, %d", causal, (int)left,
              (int)right);
    free(q);
    free(k);
    free(v);
}

static void test_flash(const fovea_context *ctx) {
    static const int32_t cache_seqlens[BATCH] = {6, 1}, cache_leftpad[BATCH] = {2, 1};
    static const int64_t windows[][2] = {{-1, -1}, {2, -1}, {-1, 1}, {1, 2}, {2, 0}, {0, 0}};
    for (int w = 0; w < 6; w++)
        for (int causal = 0; causal < 2; causal++) {
            flash_varlen(ctx, causal, windows[w][0], windows[w][1]);
            flash_paged(ctx, causal, windows[w][0], windows[w][1]);
            for (int64_t q_len = 1; q_len <= 7; q_len += 2) {
                flash(ctx, q_len, NULL, NULL, causal, windows[w][0], windows[w][1], w % 2);
                flash(ctx, q_len, cache_seqlens, NULL, causal, windows[w][0], windows[w][1], w % 2);
                flash(ctx, q_len, cache_seqlens, cache_leftpad, causal, windows[w][0], windows[w][1], w % 2);
            }
        }
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "compat_flash", NULL);
    fovea_context *ctx = test_context_untuned();
    test_flash(ctx);
    fovea_context_destroy(ctx);
    return test_end();
}
