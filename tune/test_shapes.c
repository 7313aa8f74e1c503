/* Operations and bytes of shapes, against counts of each row and key. */
#include "classes.h"
#include "make_gguf.h"
#include "model.h"
#include "test.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

volatile sig_atomic_t tune_stopped;

/* Pairs of a row and a key that it sees, of one head, and the keys that some row sees. */
static void count(const fovea_attention_desc *d, double *pairs, double *keys) {
    const int64_t offset = d->causal == FOVEA_CAUSAL_BOTTOM_RIGHT ? d->kv_len - d->q_len : 0;
    *pairs = *keys = 0;
    for (int64_t j = 0; j < d->kv_len; j++) {
        int64_t rows = 0;
        for (int64_t i = 0; i < d->q_len; i++) {
            const int64_t position = i + offset;
            const bool causal = d->causal == FOVEA_CAUSAL_NONE || j <= position;
            const bool left = d->window_left < 0 || j >= position - d->window_left;
            const bool right = d->window_right < 0 || j <= position + d->window_right;
            rows += causal && left && right;
        }
        *pairs += (double)rows;
        *keys += rows > 0;
    }
}

static void test_attention(void) {
    static const char *const shapes[] = {
        "q_len=100 kv_len=100",
        "q_len=100 kv_len=100 causal=top_left",
        "q_len=100 kv_len=40 causal=bottom_right",
        "q_len=40 kv_len=100 causal=bottom_right",
        "q_len=100 kv_len=40 causal=top_left",
        "q_len=100 kv_len=100 window_left=16 window_right=3",
        "q_len=100 kv_len=100 causal=top_left window_left=16",
        "batch=3 q_heads=4 kv_heads=2 q_len=1 kv_len=300 causal=bottom_right window_left=63 value_dim=32",
        "q_len=5 kv_len=300 causal=bottom_right window_left=63",
        "q_len=5 kv_len=300 causal=top_left",
        "q_len=5 kv_len=300 window_left=2 window_right=3",
        "q_len=8 kv_len=3 window_left=1",
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        tune_shape shape;
        char error[256];
        if (!test_check(tune_shape_read(shapes[i], &shape, error), "%s: %s", shapes[i], error))
            continue;
        const fovea_attention_desc *d = &shape.attention;
        double pairs, keys;
        count(d, &pairs, &keys);
        const double channels = (double)(d->head_dim + d->value_dim), heads = (double)(d->batch * d->q_heads);
        test_check(tune_flops(&shape) == 2 * channels * pairs * heads, "%s: %.0f flops, not %.0f", shapes[i],
                   tune_flops(&shape), 2 * channels * pairs * heads);
        const double rows = heads * (double)d->q_len;
        const double bytes = 4 * channels * (keys * (double)(d->batch * d->kv_heads) + rows);
        if (d->q_len <= 8) /* bytes are asked for where memory is the bound */
            test_check(tune_bytes(&shape) == bytes, "%s: %.0f bytes, not %.0f", shapes[i], tune_bytes(&shape), bytes);
    }
}

static void test_linear(void) {
    tune_shape shape;
    char error[256];
    test_check(tune_shape_read("linear rows=3 in=5 out=7", &shape, error), "%s", error);
    test_check(tune_flops(&shape) == 2 * 3 * 5 * 7, "linear: %.0f flops", tune_flops(&shape));
    test_check(tune_bytes(&shape) == 4 * (5 * 7 + 3 * (5 + 7)), "linear: %.0f bytes", tune_bytes(&shape));
}

typedef struct taken {
    int attentions, windows, maps, rows; /* rows: of all maps */
    tune_shape head;
} taken;

static bool take(void *list, const char *words, const char *from) {
    taken *t = list;
    tune_shape shape;
    char error[256];
    if (!test_check(tune_shape_read(words, &shape, error), "%s: %s: %s", from, words, error))
        return false;
    t->attentions += !shape.linear;
    t->windows += !shape.linear && shape.attention.window_left == 99;
    t->maps += shape.linear;
    t->rows += shape.linear ? (int)shape.rows : 0;
    if (shape.linear && shape.out == MADE_WORDS)
        t->head = shape;
    return true;
}

/* A model of one layer, with a window in some layers and a tied table of words; then one that lacks a setting. */
static void test_model(void) {
    static const made_setting settings[] = {{"llama.context_length", GGUF_U32, 4096, NULL},
                                            {"llama.attention.sliding_window", GGUF_U32, 100, NULL},
                                            {NULL, GGUF_U32, 0, NULL}},
                              nobody[] = {{"general.architecture", GGUF_TEXT, 0, "nobody"}, {NULL, GGUF_U32, 0, NULL}};
    static made_gguf made;
    char path[] = "/tmp/fovea-model-XXXXXX";
    const int file = mkstemp(path);
    taken t = {.maps = 0};
    made_llama(&made, settings);
    if (!test_check(file >= 0 && write(file, made.bytes, made.size) == (ssize_t)made.size, "no file"))
        return;
    test_check(tune_model_shapes(path, take, &t), "a model is refused");
    test_check(t.attentions == 8 && t.windows == 4, "model: %d attentions, %d with the window", t.attentions,
               t.windows);
    test_check(t.maps == 4 * 4 + 1 && t.rows == 4 * (1 + 4 + 32 + 512) + 1, "model: %d maps of %d rows", t.maps,
               t.rows);
    test_check(t.head.rows == 1 && t.head.in == MADE_WIDTH, "model: the table of words is multiplied for each token");
    made_llama(&made, nobody);
    test_check(pwrite(file, made.bytes, made.size, 0) == (ssize_t)made.size && ftruncate(file, (off_t)made.size) == 0,
               "no file");
    test_check(!tune_model_shapes(path, take, &t), "a model without a width is taken");
    close(file);
    unlink(path);
}

/* Classes of rows that a file may hold: their shapes have the groups, limits and heads that the rows are for, and of
 * sizes that no memory holds heads that can still be counted. */
static void test_rows(void) {
    static const struct {
        fv_interval group, units;
        int64_t limited, want;
    } rows[] = {{{1, 1}, {1, INT64_MAX}, FV_ATTENTION_LIMITED_no, 1},
                {{2, 4}, {1, INT64_MAX}, FV_ATTENTION_LIMITED_causal, 4},
                {{9, INT64_MAX}, {8, INT64_MAX}, FV_ATTENTION_LIMITED_window, 16},
                {{1, 1}, {1, INT64_MAX}, FV_ATTENTION_LIMITED_masked, 1},
                {{100000000000000000, INT64_MAX}, {100000000000000000, INT64_MAX}, FV_ATTENTION_LIMITED_window, 1024}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (fv_tuning_op op = FV_TUNING_attention_f32; op <= FV_TUNING_attention_few_f32; op++) {
            fv_tuning_row row = {.operation = op, .threads = 2};
            for (int k = 0; k < fv_tuning_operations[op]->keys; k++)
                row.key[k] = fv_tuning_operations[op]->key[k].range;
            row.key[FV_ATTENTION_KEY_head_dim] = row.key[FV_ATTENTION_KEY_value_dim] = (fv_interval){64, 64};
            row.key[FV_ATTENTION_KEY_keys] = (fv_interval){1024, 4095};
            row.key[FV_ATTENTION_KEY_limited] = (fv_interval){rows[i].limited, rows[i].limited};
            row.key[FV_ATTENTION_KEY_group] = rows[i].group;
            row.key[FV_ATTENTION_KEY_units] = rows[i].units;
            const tune_class c = tune_class_of_row(&row, FV_ISA_scalar);
            const fovea_attention_desc *d = &c.search.attention;
            int64_t key[FV_TUNING_KEYS];
            tune_shape_keys(&c.search, key);
            test_check(d->kv_heads > 0 && d->q_heads / d->kv_heads == rows[i].want, "row %zu: %lld heads, %lld of keys",
                       i, (long long)d->q_heads, (long long)d->kv_heads);
            test_check(key[FV_ATTENTION_KEY_limited] == rows[i].limited || d->q_len == 1, "row %zu: another limit", i);
            test_check(tune_flops(&c.search) > (double)d->q_heads * (double)d->q_len * 64, "row %zu: few keys", i);
        }
}

/* Classes of shapes that programs run: what is measured for a class lies in its box, and costs no more than seconds. */
static void test_boxes(void) {
    static const char *const shapes[] = {
        "q_heads=4 q_len=100 head_dim=32",
        "q_heads=16 q_len=2048 head_dim=64 causal=top_left",
        "q_heads=32 kv_heads=8 q_len=512 head_dim=128 causal=top_left",
        "q_heads=32 kv_heads=8 q_len=256 head_dim=128 causal=top_left",
        "q_heads=64 kv_heads=8 q_len=1000 head_dim=128 causal=top_left",
        "q_heads=71 kv_heads=1 q_len=512 head_dim=64 causal=top_left",
        "q_heads=32 kv_heads=8 q_len=1 kv_len=1000 head_dim=128",
        "q_heads=16 q_len=2048 head_dim=64 masked=1",
        "q_heads=32 kv_heads=8 q_len=300 head_dim=128 causal=top_left masked=1",
        "batch=9 q_heads=16 q_len=2048 head_dim=64 packed=1",
        "linear rows=512 in=768 out=768",
        "linear rows=1 in=4096 out=4096",
        "q_heads=16 q_len=512 head_dim=64 dtype=bf16",
        "q_heads=16 q_len=512 head_dim=64 dtype=bf16 arithmetic=bf16",
        "q_heads=32 kv_heads=8 q_len=1 kv_len=1000 head_dim=128 dtype=f16 k_dtype=bf16",
        "linear rows=512 in=768 out=768 dtype=bf16",
        "linear rows=1 in=4096 out=4096 dtype=f16",
        "linear rows=512 in=768 out=768 dtype=i8",
        "linear rows=1 in=4096 out=4096 dtype=i8",
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        tune_shape shape;
        char error[256];
        if (!test_check(tune_shape_read(shapes[i], &shape, error), "%s: %s", shapes[i], error))
            continue;
        const tune_class c = tune_class_of(&shape, 1, FV_ISA_avx512);
        for (int place = -1; place < 20; place++) {
            const tune_shape measured = place < 0 ? c.search : tune_class_shape(&c, 0.05 * place, 1, FV_ISA_avx512);
            int64_t key[FV_TUNING_KEYS];
            bool inside = tune_shape_keys(&measured, key) == c.operation;
            for (int k = 0; k < fv_tuning_operations[c.operation]->keys; k++)
                inside = inside && key[k] >= c.key[k].least && key[k] <= c.key[k].most;
            char name[96];
            tune_shape_name(&measured, name, sizeof name);
            test_check(inside, "%s, place %d: %s is not of the class %s", shapes[i], place, name, c.name);
            test_check(tune_flops(&measured) < 1e10, "%s, place %d: %s takes %.2g flops", shapes[i], place, name,
                       tune_flops(&measured));
        }
    }
}

/* A mask is a class of its own; a packed batch is of the class of one sequence, however many there are. */
static void test_masked_and_packed(void) {
    static const char *const shapes[] = {"q_heads=8 q_len=2048", "q_heads=8 q_len=2048 masked=1",
                                         "q_heads=8 q_len=2048 batch=9 packed=1", "q_heads=8 q_len=2048 batch=9"};
    int64_t key[4][FV_TUNING_KEYS];
    for (int i = 0; i < 4; i++) {
        tune_shape shape;
        char error[256];
        test_check(tune_shape_read(shapes[i], &shape, error), "%s: %s", shapes[i], error);
        tune_shape_keys(&shape, key[i]);
    }
    test_check(memcmp(key[0], key[1], sizeof key[0]) != 0, "a mask changes no key");
    test_check(memcmp(key[0], key[2], sizeof key[0]) == 0, "a packed batch is not of the class of one sequence");
    test_check(memcmp(key[0], key[3], sizeof key[0]) != 0, "a padded batch is of the class of one sequence");
}

/* Types and arithmetics are classes of their own, whose shapes have them. */
static void test_types(void) {
    static const struct {
        const char *text;
        fv_tuning_op operation;
        fovea_dtype dtype;
        fovea_arithmetic arithmetic;
    } all[] = {
        {"q_len=512", FV_TUNING_attention_f32, FOVEA_DTYPE_F32, FOVEA_ARITHMETIC_EXACT},
        {"q_len=512 dtype=f16", FV_TUNING_attention_f16, FOVEA_DTYPE_F16, FOVEA_ARITHMETIC_EXACT},
        {"q_len=1 kv_len=900 dtype=bf16", FV_TUNING_attention_few_bf16, FOVEA_DTYPE_BF16, FOVEA_ARITHMETIC_EXACT},
        {"q_len=512 dtype=bf16 arithmetic=bf16_tile", FV_TUNING_attention_bf16_as_bf16_tile, FOVEA_DTYPE_BF16,
         FOVEA_ARITHMETIC_BF16_TILE},
        {"q_len=1 kv_len=900 dtype=bf16 k_dtype=i8 v_dtype=i8", FV_TUNING_attention_few_i8, FOVEA_DTYPE_I8,
         FOVEA_ARITHMETIC_EXACT},
        {"q_len=1 kv_len=900 dtype=bf16 k_dtype=i4 v_dtype=i4", FV_TUNING_attention_few_i4, FOVEA_DTYPE_I4,
         FOVEA_ARITHMETIC_EXACT},
        {"linear rows=99 in=64 out=64 dtype=bf16", FV_TUNING_linear_bf16, FOVEA_DTYPE_BF16, FOVEA_ARITHMETIC_EXACT},
        {"linear rows=2 in=64 out=64 dtype=f16", FV_TUNING_linear_few_f16, FOVEA_DTYPE_F16, FOVEA_ARITHMETIC_EXACT},
        {"linear rows=99 in=64 out=64 dtype=i8", FV_TUNING_linear_i8, FOVEA_DTYPE_I8, FOVEA_ARITHMETIC_EXACT},
        {"linear rows=2 in=64 out=64 dtype=i8", FV_TUNING_linear_few_i8, FOVEA_DTYPE_I8, FOVEA_ARITHMETIC_EXACT},
        {"linear rows=2 in=64 out=64 dtype=u8", FV_TUNING_linear_few_i8, FOVEA_DTYPE_I8, FOVEA_ARITHMETIC_EXACT},
        {"linear rows=99 in=64 out=64 dtype=q8_0", FV_TUNING_linear_Q8_0, FOVEA_DTYPE_Q8_0, FOVEA_ARITHMETIC_EXACT},
        {"linear rows=2 in=256 out=64 dtype=q4_k", FV_TUNING_linear_few_Q4_K, FOVEA_DTYPE_Q4_K, FOVEA_ARITHMETIC_EXACT},
        {"linear rows=99 in=256 out=64 dtype=q5_k", FV_TUNING_linear_Q5_K, FOVEA_DTYPE_Q5_K, FOVEA_ARITHMETIC_EXACT},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        tune_shape shape;
        char error[256];
        test_check(tune_shape_read(all[i].text, &shape, error), "%s: %s", all[i].text, error);
        const tune_class c = tune_class_of(&shape, 1, FV_ISA_scalar);
        const fovea_attention_desc *d = &c.search.attention;
        test_check(c.operation == all[i].operation && fv_tuning_dtype(c.operation) == all[i].dtype &&
                       (c.search.linear ? c.search.dtype == all[i].dtype
                                        : d->k_dtype == all[i].dtype && d->arithmetic == all[i].arithmetic),
                   "%s: is of %s", all[i].text, c.name);
    }
}

/* A run without options has a class for each type of quantized weights and 1, 2 to 8, 9 to 64 and more rows, and for
 * decoding over a cache of each type. */
static void test_formats(void) {
    static const fv_interval rows[] = {{1, 1}, {2, FV_LINEAR_FEW_ROWS}, {FV_LINEAR_FEW_ROWS + 1, 64}, {65, 1023}};
    static const tune_options none;
    tune_class *classes;
    const int count = tune_classes(&none, 1, FV_ISA_scalar, &classes);
    for (int dtype = 1; dtype < FV_DTYPES; dtype++) {
        int maps[4] = {0}, decoding = 0;
        for (int i = 0; i < count; i++) {
            const tune_class *c = &classes[i];
            const bool linear = tune_is_linear(c->operation);
            if (fv_tuning_dtype(c->operation) != (fovea_dtype)dtype)
                continue;
            decoding += !linear && tune_is_cold(c->operation);
            for (int r = 0; linear && r < 4; r++)
                maps[r] += memcmp(&c->key[FV_LINEAR_KEY_rows], &rows[r], sizeof rows[r]) == 0;
        }
        const bool quantized = fv_dtype_quantized((fovea_dtype)dtype) && dtype != FOVEA_DTYPE_U8 && /* as I8 */
                               dtype != FOVEA_DTYPE_F8_E4M3; /* exact products alone, as of floats */
        for (int r = 0; r < 4 && quantized; r++)
            test_check(maps[r] == 1, "%s, from %d rows: %d classes", fv_dtype_word((fovea_dtype)dtype),
                       (int)rows[r].least, maps[r]);
        test_check(decoding > 0 || !fv_dtype_of((fovea_dtype)dtype)->cached, "%s: no decoding",
                   fv_dtype_word((fovea_dtype)dtype));
    }
    free(classes);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "tune_shapes", NULL);
    test_formats();
    test_types();
    test_attention();
    test_linear();
    test_model();
    test_rows();
    test_boxes();
    test_masked_and_packed();
    return test_end();
}
