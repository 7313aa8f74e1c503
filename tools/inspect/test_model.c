/* test-inspect-model: the matrices of every head, whatever a family calls and how it orders them, and every complaint.
 */
#include "model.h"

#include "config.h"
#include "naming.h"
#include "test_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { D_MODEL = 10, D_K = 3, HEADS = 4, LAYERS = 2, NUMBERS = LAYERS * 3 * D_MODEL * HEADS * D_K };

static test_option options[] = {TEST_FILE_OPTION, {0}};
static char path[4096], config_file[4096];
static char header[1 << 14];

/* Element (i, c) of a head's matrix in all of these files: head is a key head for K and V. */
static float number(int64_t layer, int which, int64_t head, int64_t i, int64_t c) {
    return (float)((((layer * 3 + which) * HEADS + head) * D_MODEL + i) * D_K + c);
}

/* --------------------------------------------------------------------------------------------------- right files -- */

/* The output channel `out` of an array: whose it is. */
static void owner(naming_order order, int64_t kv_heads, int part, int64_t out, int *which, int64_t *head) {
    const int64_t group = HEADS / kv_heads, block = out / D_K;
    *which = part;
    *head = block;
    if (order == NAMING_Q_KV && part == 1) {
        *which = block < kv_heads ? 1 : 2;
        *head = block % kv_heads;
    } else if (order == NAMING_QKV) {
        *which = block < HEADS ? 0 : block < HEADS + kv_heads ? 1 : 2;
        *head = block - (*which > 0 ? HEADS + (*which - 1) * kv_heads : 0);
    } else if (order == NAMING_GROUPED) {
        const int64_t place = block % (group + 2);
        *which = place < group ? 0 : place == group ? 1 : 2;
        *head = block / (group + 2) * (*which == 0 ? group : 1) + (*which == 0 ? place : 0);
    }
}

/* A model of two layers, the later first, among arrays that are none of attention. */
static void write_model(const naming *n, bool cross, int64_t kv_heads) {
    static float data[NUMBERS + 4];
    int64_t count = 0;
    strcpy(header, "{");
    for (int64_t layer = LAYERS; layer-- > 0;)
        for (int part = 0; part < naming_arrays(n); part++) {
            const int64_t blocks = naming_arrays(n) == 1     ? HEADS + 2 * kv_heads
                                   : part == 0               ? HEADS
                                   : n->order == NAMING_Q_KV ? 2 * kv_heads
                                                             : kv_heads;
            const int64_t out = blocks * D_K, first = count;
            for (int64_t o = 0; o < out; o++)
                for (int64_t i = 0; i < D_MODEL; i++) {
                    int which;
                    int64_t head;
                    owner(n->order, kv_heads, part, o, &which, &head);
                    data[first + (n->in_out ? i * out + o : o * D_MODEL + i)] = number(layer, which, head, i, o % D_K);
                }
            count += out * D_MODEL;
            char name[128];
            snprintf(name, sizeof name, "a.layers.%lld.%s%s%s", (long long)layer + 9, n->module[cross],
                     *n->module[cross] != '\0' ? "." : "", n->array[part]);
            const int64_t shape[] = {n->in_out ? D_MODEL : out, n->in_out ? out : D_MODEL};
            test_file_add(header, sizeof header, name, "F32", 2, shape, 4 * first, 4 * count);
        }
    test_file_add(header, sizeof header, "a.norm.weight", "F32", 1, (const int64_t[]){4}, 4 * count, 4 * count + 16);
    test_file_write_safetensors(path, -1, header, data, (size_t)(4 * count + 16));
}

static int open_model(int64_t heads, int64_t kv_heads, model **m, complaint to) {
    return model_open((const char *const[]){path}, 1, heads, kv_heads, m, to);
}

static void check_heads(const model *m, const model_layer *l, int64_t layer, const char *what) {
    double columns[D_MODEL * 3 * D_K];
    for (int64_t head = 0; head < HEADS; head++) {
        int64_t wrong = 0;
        model_head(m, head, columns);
        for (int64_t i = 0; i < D_MODEL; i++)
            for (int which = 0; which < 3; which++)
                for (int64_t c = 0; c < D_K; c++) {
                    const int64_t own = which == 0 ? head : head / (HEADS / l->kv_heads);
                    wrong += columns[(3 * i + which) * D_K + c] != (double)number(layer, which, own, i, c);
                }
        test_check(wrong == 0, "%s, %lld key heads, layer %lld, head %lld: %lld wrong numbers", what,
                   (long long)l->kv_heads, (long long)layer, (long long)head, (long long)wrong);
    }
}

static void test_family(const naming *n, bool cross, int64_t kv_heads) {
    char text[512] = "";
    const complaint to = {text, sizeof text};
    write_model(n, cross, kv_heads);
    char type[64];
    snprintf(type, sizeof type, "{\"model_type\":\"%s\"}", n->only != NULL ? n->only : "");
    test_file_write(config_file, type, strlen(type));
    model *m;
    const int status = open_model(HEADS, naming_arrays(n) > 1 ? 0 : kv_heads, &m, to);
    remove(config_file);
    if (!test_check(status == 0, "%s: %s", n->family, text))
        return;
    test_check(model_layers(m) == LAYERS && model_rest(m)->count == 0, "%s: %lld layers", n->family,
               (long long)model_layers(m));
    for (int64_t layer = LAYERS; layer-- > 0;) {
        model_layer l;
        if (!test_check(model_describe(m, layer, &l, to) == 0 && model_read(m, layer, to) == 0, "%s: %s", n->family,
                        text))
            continue;
        test_check(l.cross == cross && l.family == n->family, "%s: taken for %s", n->family, l.family);
        test_check(l.number == layer + 9 && l.stack_length == 8 && strncmp(l.stack, "a.layers", 8) == 0, "%s: name",
                   n->family);
        test_check(l.heads == HEADS && l.kv_heads == kv_heads && l.d_k == D_K && l.d_model == D_MODEL, "%s: sizes",
                   n->family);
        check_heads(m, &l, layer, n->family);
    }
    model_close(m);
}

/* ---------------------------------------------------------------------------------------------------- complaints -- */

typedef struct array {
    const char *name, *dtype;
    int64_t rows, columns; /* columns 0: of one dimension */
} array;

/* Opens and describes all layers of a file with these arrays of zeros, or of numbers that are not finite. */
static void refused(const char *words, int64_t heads, int64_t kv_heads, const array *arrays, uint8_t byte) {
    static uint8_t data[1 << 15];
    char text[512] = "";
    const complaint to = {text, sizeof text};
    int64_t end = 0;
    strcpy(header, "{");
    for (const array *a = arrays; a->name != NULL; a++) {
        const int64_t shape[] = {a->rows, a->columns};
        const int64_t bytes = a->rows * (a->columns ? a->columns : 1) * (strcmp(a->dtype, "F32") == 0 ? 4 : 2);
        test_file_add(header, sizeof header, a->name, a->dtype, a->columns ? 2 : 1, shape, end, end + bytes);
        end += bytes;
    }
    if (end == 0)
        strcpy(header, "{}");
    memset(data, byte, sizeof data);
    test_file_write_safetensors(path, -1, header, data, (size_t)end);
    model *m;
    int status = open_model(heads, kv_heads, &m, to);
    test_check(status == 0 || m == NULL, "a model in spite of a complaint");
    for (int64_t i = 0; status == 0 && i < model_layers(m); i++)
        status = model_read(m, i, to);
    test_check(status == -1 && strstr(text, words) != NULL, "\"%s\", not \"%s\"", text, words);
    model_close(m);
}

#define LLAMA(part) "l.0.self_attn." part "_proj.weight"
#define ARRAYS(...)                                                                                                    \
    (const array[]) {                                                                                                  \
        __VA_ARGS__, { 0 }                                                                                             \
    }

static void test_complaints(void) {
    const array q = {LLAMA("q"), "F32", 8, 6}, k = {LLAMA("k"), "F32", 4, 6}, v = {LLAMA("v"), "F32", 4, 6};
    const array fused = {"h.0.attn.c_attn.weight", "F32", 6, 18};
    refused("has no attention weights", 2, 0, ARRAYS({0}), 0);
    refused("known names; it has l.0.attn.q_a.weight (not recognized)", 2, 0,
            ARRAYS({"l.0.attn.q_a.weight", "F32", 8, 6}), 0);
    refused("l.0.attn.kv.weight (not recognized), l.*.attn.q_a.weight (not recognized), l.0.attn.qk.weight (not "
            "recognized) and 1 more",
            2, 0,
            ARRAYS({"l.0.attn.q_a.weight", "F32", 8, 6}, {"l.1.attn.q_a.weight", "F32", 8, 6},
                   {"l.0.attn.kv.weight", "F32", 8, 6}, {"l.0.attn.qk.weight", "F32", 8, 6},
                   {"l.0.attn.w_v.weight", "F32", 8, 6}),
            0);
    refused("has no complete layer; it has l.0.self_attn.q_proj.weight (W^V is missing), l", 2, 0, ARRAYS(q, k), 0);
    refused("(an array comes twice)", 2, 0, ARRAYS(q, k, {"l.00.self_attn.k_proj.weight", "F32", 4, 6}, v), 0);
    refused("--heads N", 0, 0, ARRAYS(q, k, v), 0);
    refused("8 channels are not those of 3 heads", 3, 0, ARRAYS(q, k, v), 0);
    refused("8 channels are not those of 16 heads", 16, 0, ARRAYS(q, k, v), 0);
    refused("4 channels are not those of 2 key heads of 4", 2, 2, ARRAYS(q, k, v), 0);
    refused("do not fit heads of 8", 1, 0, ARRAYS(q, k, v), 0);
    refused("4 heads cannot share 3", 4, 0, ARRAYS(q, {LLAMA("k"), "F32", 6, 6}, {LLAMA("v"), "F32", 6, 6}), 0);
    refused("do not fit", 4, 0, ARRAYS(q, k, {LLAMA("v"), "F32", 8, 6}), 0);
    refused("(W^Q, W^K and W^V do not read the same channels)", 4, 0, ARRAYS(q, k, {LLAMA("v"), "F32", 4, 5}), 0);
    refused("is not a matrix", 4, 0, ARRAYS(q, {LLAMA("k"), "F32", 24, 0}, v), 0);
    refused("is not a matrix", 4, 0, ARRAYS({LLAMA("q"), "F32", 0, 6}, k, v), 0);
    refused("k_proj.weight is of dtype I16", 4, 0, ARRAYS(q, {LLAMA("k"), "I16", 4, 6}, v), 0);
    refused("holds a number that is not finite", 4, 0, ARRAYS(q, k, v), 0xff);
    refused("18 channels are not those of 4 heads and 4", 4, 0, ARRAYS(fused), 0);
    refused("19 channels are not those of 4 heads and 1", 4, 1, ARRAYS({"h.0.attn.c_attn.weight", "F32", 6, 19}), 0);
    refused("3 heads cannot share 2", 3, 2, ARRAYS({"h.0.attn.c_attn.weight", "F32", 6, 14}), 0);
    refused("too large", 1, 0, ARRAYS({"h.0.attn.c_attn.weight", "BF16", 1, 3 * 4097}), 0);
}

/* -------------------------------------------------------------------------------------------------------- config -- */

static void check_config(const char *content, const char *stack, config_sizes want, const char *words) {
    char text[512] = "";
    config *c;
    config_sizes is = {0};
    test_file_write(config_file, content, strlen(content));
    int status = config_open(path, &c, (complaint){text, sizeof text});
    if (status == 0)
        status = config_look_up(c, stack, (int)strlen(stack), &is, (complaint){text, sizeof text});
    if (words != NULL)
        test_check(status == -1 && strstr(text, words) != NULL, "%s: \"%s\"", content, text);
    else
        test_check(status == 0 && is.heads == want.heads && is.kv_heads == want.kv_heads &&
                       is.head_dim == want.head_dim && is.d_model == want.d_model && is.layers == want.layers &&
                       strcmp(is.positions ? is.positions : "", want.positions ? want.positions : "") == 0,
                   "%s, %s: %lld, %lld, %lld, %lld, %lld, %s; %s", content, stack, (long long)is.heads,
                   (long long)is.kv_heads, (long long)is.head_dim, (long long)is.d_model, (long long)is.layers,
                   is.positions ? is.positions : "no positions", text);
    config_close(c);
}

#define SIZES(...) ((config_sizes){__VA_ARGS__})

static void test_config(void) {
    static const char clip[] = "{\"model_type\": \"clip\", \"text_config\": {\"num_attention_heads\": 8}, "
                               "\"vision_config\": {\"num_attention_heads\": 12, \"hidden_size\": 768}}";
    static const char bart[] = "{\"model_type\": \"bart\", \"encoder_attention_heads\": 16, \"d_model\": 64, "
                               "\"decoder_attention_heads\": 8, \"encoder_layers\": 12, \"decoder_layers\": 6, "
                               "\"num_hidden_layers\": 12}";
    static const char mpt[] = "{\"n_heads\": 8, \"attn_config\": {\"alibi\": true, \"kv_n_heads\": 2}}";
    static const char blind[] = "{\"text_config\": {\"num_attention_heads\": 8}, \"vision_config\": {}}";
    check_config("{}", "l", SIZES(.heads = 0), NULL);
    check_config("{\"num_attention_heads\": 12, \"num_key_value_heads\": 4, \"head_dim\": 64}", "l",
                 SIZES(.heads = 12, .kv_heads = 4, .head_dim = 64), NULL);
    check_config("{\"n_head\": 12, \"num_key_value_heads\": null, \"model_type\": \"gpt2\"}", "h",
                 SIZES(.heads = 12, .positions = "learned"), NULL);
    check_config("{\"num_heads\": 8, \"d_kv\": 64, \"relative_attention_num_buckets\": 32}", "encoder.block",
                 SIZES(.heads = 8, .head_dim = 64, .positions = "relative"), NULL);
    check_config("{\"num_attention_heads\": 71, \"num_kv_heads\": 71, \"multi_query\": true, \"alibi\": false, "
                 "\"model_type\": \"falcon\"}",
                 "h", SIZES(.heads = 71, .kv_heads = 1, .positions = "rotary"), NULL);
    check_config("{\"num_attention_heads\": 71, \"num_kv_heads\": 8, \"multi_query\": true, "
                 "\"new_decoder_architecture\": true}",
                 "h", SIZES(.heads = 71, .kv_heads = 8), NULL);
    check_config(clip, "text_model.encoder.layers", SIZES(.heads = 8), NULL);
    check_config(clip, "vision_model.encoder.layers", SIZES(.heads = 12, .d_model = 768), NULL);
    check_config(blind, "vision_model.layers", SIZES(.heads = 0), NULL);
    check_config(blind, "model.layers", SIZES(.heads = 8), NULL);
    check_config(bart, "model.encoder.layers", SIZES(.heads = 16, .d_model = 64, .layers = 12, .positions = "learned"),
                 NULL);
    check_config(bart, "model.decoder.layers", SIZES(.heads = 8, .d_model = 64, .layers = 6, .positions = "learned"),
                 NULL);
    check_config(mpt, "blocks", SIZES(.heads = 8, .kv_heads = 2, .positions = "ALiBi"), NULL);
    check_config("{\"position_embedding_type\": \"relative_key\", \"rope_theta\": null}", "l",
                 SIZES(.positions = "relative"), NULL);
    check_config("{\"n_head\": 0}", "", SIZES(.heads = 0), "n_head is not a number from 1");
    check_config("{\"n_head\": 1048577}", "", SIZES(.heads = 0), "n_head is not a number from 1");
    check_config("{\"num_heads\": [3, 6]}", "", SIZES(.heads = 0), "num_heads is not a number");
    check_config("{\"n_head\": 2, \"n_head\": 3}", "", SIZES(.heads = 0), "is not JSON");
    check_config("[12]", "", SIZES(.heads = 0), "is not a JSON object");
    check_config("", "", SIZES(.heads = 0), "is not JSON");
    char *huge = malloc((1 << 20) + 3);
    memset(huge, ' ', (1 << 20) + 2);
    memcpy(huge, "{}", 2);
    huge[(1 << 20) + 2] = '\0';
    check_config(huge, "", SIZES(.heads = 0), "is too large");
    free(huge);
    remove(config_file);
}

/* Facts from a model's config.json: right, or another model's. */
static void beside(const char *content, int64_t heads, int64_t want_heads, int64_t want_kv_heads, const char *words) {
    char text[1024] = "";
    const complaint to = {text, sizeof text};
    model *m;
    model_layer l;
    test_file_write(config_file, content, strlen(content));
    int status = open_model(heads, 0, &m, to);
    if (status == 0)
        status = model_describe(m, 0, &l, to);
    if (words != NULL)
        test_check(status == -1 && strstr(text, words) != NULL, "%s: \"%s\"", content, text);
    else if (test_check(status == 0, "%s: %s", content, text))
        test_check(l.heads == want_heads && l.kv_heads == want_kv_heads, "%s: %lld, %lld heads", content,
                   (long long)l.heads, (long long)l.kv_heads);
    model_close(m);
    remove(config_file);
}

static void test_beside(void) {
    const naming *separate = &namings[0], *fused = &namings[0];
    while (fused->order != NAMING_QKV || fused->only != NULL)
        fused++;
    write_model(fused, false, 2);
    beside("{\"n_head\":4,\"n_kv_heads\":2}", 0, 4, 2, NULL);
    beside("{\"n_head\":5}", 0, 0, 0, "contradicts the model: a.layers.9");
    beside("{\"n_head\":4,\"n_kv_heads\":2,\"head_dim\":5}", 0, 0, 0, "4 heads and 2 of keys and values of 5");
    write_model(separate, false, 2);
    beside("{\"n_head\":4}", 0, 4, 2, NULL);
    beside("{\"n_head\":5}", 0, 0, 0, "12 channels are not those of 5 heads");
    beside("{\"n_head\":5}", 4, 4, 2, NULL);
    beside("{\"n_head\":[4]}", 0, 0, 0, "n_head is not a number");
    beside("{\"n_head\":[4]}", 4, 4, 2, NULL);
    beside("{\"n_head\":4,\"head_dim\":4}", 0, 0, 0, "12 channels are not those of 4 heads of 4");
    beside("{\"n_head\":4,\"num_kv_heads\":4}", 0, 0, 0, "6 channels are not those of 4 key heads of 3");
    beside("{\"n_head\":4,\"hidden_size\":11}", 0, 0, 0, "it says 11 channels");
    beside("{}", 0, 0, 0, "config.json does not give the number");
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "inspect-model", options);
    snprintf(path, sizeof path, "%s", test_file_path(options, "test_model.tmp"));
    snprintf(config_file, sizeof config_file, "%s", test_file_path(options, "config.json"));
    remove(config_file);
    for (int i = 0; i < NAMINGS; i++)
        for (int64_t kv_heads = 1; kv_heads <= HEADS; kv_heads *= 2)
            for (int cross = 0; cross < 2; cross++)
                if (namings[i].module[cross] != NULL)
                    test_family(&namings[i], cross != 0, kv_heads);
    test_complaints();
    test_config();
    test_beside();
    remove(path);
    return test_end();
}
