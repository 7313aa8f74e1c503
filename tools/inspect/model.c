/* model.h. Names are looked at once: each array that a row of namings[] fits becomes an entry; sorted by stack, row and
 * number, the entries of a layer are neighbours. What is in no layer is kept for the user in rest. */
#include "model.h"

#include "config.h"
#include "figures.h"
#include "model_source.h"
#include "naming.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct entry {
    const model_source_item *item;
    naming_match is;
    bool in_out; /* how the matrix lies: [in, out], else [out, in] */
} entry;

struct model {
    model_source *file;
    config *config;
    int64_t heads, kv_heads; /* the caller's */
    entry *entries;
    int64_t entry_count;
    int64_t *layers; /* index of each complete layer's first entry */
    int64_t layer_count;
    rest rest;
    float *data[NAMING_PARTS];
    int64_t room[NAMING_PARTS]; /* elements */
    int64_t read_entry;         /* the first entry of the layer in data */
    model_layer read;           /* that layer */
};

static const char *path_of(const model *m, const entry *e) { return model_source_path(m->file, e->item->file); }
static const char *name_of(const entry *e) { return e->item->tensor->name; }
static const naming *row_of(const entry *e) { return &namings[e->is.naming]; }

/* The size of a matrix [in, out] whichever way it lies. */
static int64_t size_of(const entry *e, bool out) { return e->item->tensor->shape[out == e->in_out]; }

/* -------------------------------------------------------------------------------------------------------- layers -- */

static int compare_pieces(const char *x, int x_length, const char *y, int y_length) {
    const int order = memcmp(x, y, (size_t)(x_length < y_length ? x_length : y_length));
    return order != 0 ? order : (x_length > y_length) - (x_length < y_length);
}

static int compare_layers(const entry *x, const entry *y) {
    const char *a = name_of(x), *b = name_of(y);
    const naming_match *m = &x->is, *n = &y->is;
    int order = compare_pieces(a, m->stack_length, b, n->stack_length);
    if (order == 0 && m->naming != n->naming)
        order = m->naming < n->naming ? -1 : 1;
    if (order == 0 && m->cross != n->cross)
        order = m->cross ? 1 : -1;
    if (order == 0)
        order = compare_pieces(a + m->middle, m->stem_length - m->middle, b + n->middle, n->stem_length - n->middle);
    return order != 0 ? order : (m->number > n->number) - (m->number < n->number);
}

static int compare(const void *a, const void *b) {
    const entry *x = a, *y = b;
    const int layers = compare_layers(x, y);
    return layers != 0                ? layers
           : x->is.part != y->is.part ? (x->is.part > y->is.part) - (x->is.part < y->is.part)
                                      : strcmp(name_of(x), name_of(y)); /* .1. and .01. */
}

/* Do the arrays of a layer lie as their row says, [in, out]? nanoGPT has GPT-2's names for matrices that lie the
 * other way: W^Q, W^K and W^V together have more output channels than input channels, W^K and W^V of a cross-attention
 * twice as many. */
static bool is_in_out(const entry *e, int64_t count) {
    const safetensors_tensor *fused = e[count - 1].item->tensor;
    if (!row_of(e)->in_out || fused->dims != 2)
        return row_of(e)->in_out;
    return row_of(e)->order == NAMING_QKV ? fused->shape[0] <= fused->shape[1] : fused->shape[0] != 2 * fused->shape[1];
}

/* Why the entries of one layer are none; NULL: they are. */
static const char *fault_of(const entry *e, int64_t count) {
    static const char *const missing[8] = {"an array comes twice",    "W^Q is missing", "W^K is missing",
                                           "W^Q and W^K are missing", "W^V is missing", "W^Q and W^V are missing",
                                           "W^K and W^V are missing"};
    static const char unequal[] = "W^Q, W^K and W^V do not read the same channels";
    const naming *n = row_of(e);
    int there = 0;
    for (int64_t i = 0; i < count; i++)
        there |= n->order == NAMING_Q_KV && e[i].is.part == 1 ? 6 : 1 << e[i].is.part;
    const bool fused = n->order == NAMING_QKV || n->order == NAMING_GROUPED;
    if (count != naming_arrays(n) || (!fused && there != 7))
        return fused || count > naming_arrays(n) ? missing[0] : missing[7 - there];
    for (int64_t i = 0; i < count; i++)
        if (e[i].item->tensor->dims == 2 && e->item->tensor->dims == 2 && size_of(&e[i], false) != size_of(e, false))
            return unequal;
    return NULL;
}

static int find_entries(model *m, complaint to) {
    const int64_t count = model_source_count(m->file);
    m->entries = calloc((size_t)count + 1, sizeof *m->entries);
    m->layers = calloc((size_t)count + 1, sizeof *m->layers);
    if (m->entries == NULL || m->layers == NULL)
        return complain(to, model_source_path(m->file, 0), "out of memory");
    for (int64_t i = 0; i < count; i++) {
        const model_source_item *item = model_source_array(m->file, i);
        const char *name = item->tensor->name;
        entry *e = &m->entries[m->entry_count];
        if (naming_find(name, config_type(m->config), &e->is))
            e->item = item, m->entry_count++;
        else if (item->tensor->dims > 1 && naming_looks_alike(name) &&
                 rest_add(&m->rest, name, (int)strlen(name), "not recognized") != 0)
            return complain(to, model_source_path(m->file, item->file), "out of memory");
    }
    qsort(m->entries, (size_t)m->entry_count, sizeof *m->entries, compare);
    return 0;
}

static int complain_of_none(const model *m, complaint to) {
    char list[512] = "";
    size_t length = 0;
    if (model_source_partial(m->file) != NULL)
        return complain(to, model_source_path(m->file, 0), "has no complete layer; %s", model_source_partial(m->file));
    for (int i = 0; i < m->rest.count && i < 3; i++) {
        const rest_item *r = &m->rest.item[i];
        length += (size_t)snprintf(list + length, sizeof list - length, "%s%.120s (%s)", i == 0 ? "; it has " : ", ",
                                   rest_names(r), r->why);
    }
    if (m->rest.count > 3)
        snprintf(list + length, sizeof list - length, " and %d more", m->rest.count - 3);
    return complain(to, model_source_path(m->file, 0), "%s%s",
                    m->entry_count > 0 ? "has no complete layer" : "has no attention weights with known names", list);
}

static int find_layers(model *m, complaint to) {
    if (find_entries(m, to) != 0)
        return -1;
    for (int64_t first = 0, next; first < m->entry_count; first = next) {
        const entry *e = &m->entries[first];
        for (next = first + 1; next < m->entry_count && compare_layers(e, &m->entries[next]) == 0;)
            next++;
        const bool in_out = is_in_out(e, next - first);
        for (int64_t i = first; i < next; i++)
            m->entries[i].in_out = in_out;
        const char *why = fault_of(e, next - first);
        if (why == NULL)
            m->layers[m->layer_count++] = first;
        for (int64_t i = first; why != NULL && i < next; i++)
            if (rest_add(&m->rest, name_of(&m->entries[i]), (int)strlen(name_of(&m->entries[i])), why) != 0)
                return complain(to, path_of(m, e), "out of memory");
    }
    return m->layer_count > 0 ? 0 : complain_of_none(m, to);
}

int model_open(const char *const *paths, int count, int64_t heads, int64_t kv_heads, model **model_out, complaint to) {
    *model_out = NULL;
    model *m = calloc(1, sizeof *m);
    if (m == NULL)
        return complain(to, paths[0], "out of memory");
    m->heads = heads;
    m->kv_heads = kv_heads;
    int status = model_source_open(paths, count, &m->file, to);
    if (status == 0)
        status = config_open(model_source_path(m->file, 0), &m->config, to);
    if (status == 0)
        status = find_layers(m, to);
    if (status == 0)
        *model_out = m;
    else
        model_close(m);
    return status;
}

void model_close(model *m) {
    if (m == NULL)
        return;
    model_source_close(m->file);
    config_close(m->config);
    rest_free(&m->rest);
    free(m->entries);
    free(m->layers);
    for (int i = 0; i < NAMING_PARTS; i++)
        free(m->data[i]);
    free(m);
}

int64_t model_layers(const model *m) { return m->layer_count; }
const char *model_type(const model *m) { return config_type(m->config); }
int model_files(const model *m) { return model_source_files(m->file); }
const char *model_partial(const model *m) { return model_source_partial(m->file); }
const rest *model_rest(const model *m) { return &m->rest; }

/* ------------------------------------------------------------------------------------------------------- a layer -- */

/* The sentence for channels that are not those of what config.json, or the command line, says. */
static int misfit(const model *m, const entry *e, int64_t channels, const char *what, complaint to) {
    if (m->heads == 0)
        return complain(to, config_path(m->config),
                        "contradicts the model: %s has %lld channels, and %lld channels are not those of %s (if it is "
                        "another model's, --heads N overrides it)",
                        name_of(e), (long long)channels, (long long)channels, what);
    return complain(to, path_of(m, e), "%s: %lld channels are not those of %s", name_of(e), (long long)channels, what);
}

/* Are the channels of W^Q those of heads as config.json has them, each with a gate of as many channels (Qwen3-Next)? */
static bool has_gates(const entry *e, const config_sizes *told) {
    return row_of(e)->order == NAMING_SEPARATE && told->head_dim > 0 &&
           size_of(e, true) == 2 * told->heads * told->head_dim;
}

/* d_k, heads and kv_heads from the numbers of output channels. */
static int divide(const model *m, const entry *e, int64_t head_dim, model_layer *l, complaint to) {
    const naming_order order = row_of(e)->order;
    const int64_t out = size_of(e, true);
    char what[128], each[48] = "";
    if (head_dim != 0)
        snprintf(each, sizeof each, " of %lld", (long long)head_dim);
    if (order == NAMING_SEPARATE || order == NAMING_Q_KV) {
        l->d_k = out / l->heads / (l->gated ? 2 : 1);
        snprintf(what, sizeof what, "%lld head%s%s", (long long)l->heads, l->heads == 1 ? "" : "s", each);
        if (l->d_k < 1 || out % l->heads != 0 || (head_dim != 0 && l->d_k != head_dim))
            return misfit(m, e, out, what, to);
        const int64_t half = size_of(e + 1, true) / 2, whole = size_of(e + 1, true);
        const int64_t k = order == NAMING_Q_KV ? half : whole,
                      v = order == NAMING_Q_KV ? whole - half : size_of(e + 2, true);
        snprintf(what, sizeof what, "%lld key head%s of %lld", (long long)l->kv_heads, l->kv_heads == 1 ? "" : "s",
                 (long long)l->d_k);
        if (l->kv_heads != 0 && k != l->kv_heads * l->d_k)
            return misfit(m, e + 1, k, what, to);
        if (k != v || k % l->d_k != 0 || k < l->d_k)
            return complain(to, path_of(m, e), "%s: keys of %lld channels and values of %lld do not fit heads of %lld",
                            name_of(e), (long long)k, (long long)v, (long long)l->d_k);
        l->kv_heads = k / l->d_k;
    } else {
        l->kv_heads = l->kv_heads != 0 ? l->kv_heads : l->heads;
        l->d_k = out / (l->heads + 2 * l->kv_heads);
        snprintf(what, sizeof what, "%lld heads and %lld of keys and values%s", (long long)l->heads,
                 (long long)l->kv_heads, each);
        if (l->d_k < 1 || out % (l->heads + 2 * l->kv_heads) != 0 || (head_dim != 0 && l->d_k != head_dim))
            return misfit(m, e, out, what, to);
    }
    if (l->heads % l->kv_heads != 0)
        return complain(to, path_of(m, e), "%s: %lld heads cannot share %lld of keys and values", name_of(e),
                        (long long)l->heads, (long long)l->kv_heads);
    if (l->d_k > FIGURES_MOST_CHANNELS || l->d_model > INT32_MAX)
        return complain(to, path_of(m, e), "%s: heads of %lld channels are too large: at most %d", name_of(e),
                        (long long)l->d_k, FIGURES_MOST_CHANNELS);
    return 0;
}

int model_describe(const model *m, int64_t index, model_layer *l, complaint to) {
    const entry *e = &m->entries[m->layers[index]];
    const naming *n = row_of(e);
    config_sizes told;
    *l = (model_layer){.family = n->family,
                       .stack = name_of(e),
                       .stack_length = e->is.stack_length,
                       .number = e->is.number,
                       .numbered = e->is.numbered,
                       .cross = e->is.cross,
                       .used = 1,
                       .heads = m->heads,
                       .kv_heads = m->kv_heads};
    for (int part = 0; part < naming_arrays(n); part++) {
        const safetensors_tensor *t = e[part].item->tensor;
        if (t->dims != 2 || t->shape[0] < 1 || t->shape[1] < 1)
            return complain(to, path_of(m, &e[part]), "%s is not a matrix", t->name);
    }
    l->d_model = size_of(e, false);
    const int status = config_look_up(m->config, l->stack, l->stack_length, &told, to);
    if (status != 0 && m->heads == 0)
        return -1;
    l->positions = told.positions;
    l->model_layers = told.layers;
    if (status == 0 && told.layer_groups > 0 && told.layers > told.layer_groups)
        l->used = told.layers / told.layer_groups;
    l->gated = has_gates(e, &told);
    if (l->gated && m->heads != 0 && m->heads != told.heads)
        return complain(
            to, path_of(m, e),
            "%s: its %lld channels are %lld heads of %lld with a gate each, as config.json says: --heads %lld "
            "would take gates for heads",
            name_of(e), (long long)size_of(e, true), (long long)told.heads, (long long)told.head_dim,
            (long long)m->heads);
    if (told.d_model != 0 && told.d_model != l->d_model && told.d_model == size_of(e, true) && !l->cross)
        return complain(
            to, path_of(m, e),
            "%s is [%lld, %lld], but config.json says %lld input channels: the matrix seems to be transposed",
            name_of(e), (long long)e->item->tensor->shape[0], (long long)e->item->tensor->shape[1],
            (long long)told.d_model);
    if (m->heads == 0) {
        l->heads = told.heads;
        l->kv_heads = m->kv_heads != 0 ? m->kv_heads : told.kv_heads;
        if (l->heads == 0)
            return complain(to, path_of(m, e), "%s: --heads N is needed, as %s", name_of(e),
                            m->config != NULL ? "config.json does not give the number of heads"
                                              : "no config.json beside it gives the number of heads");
        if (told.d_model != 0 && told.d_model != l->d_model && !l->cross)
            return complain(to, config_path(m->config),
                            "contradicts the model: it says %lld channels, but %s has %lld (if it is another model's, "
                            "--heads N overrides it)",
                            (long long)told.d_model, name_of(e), (long long)l->d_model);
    }
    return divide(m, e, m->heads == 0 || l->gated ? told.head_dim : 0, l, to);
}

int model_read(model *m, int64_t index, complaint to) {
    const entry *e = &m->entries[m->layers[index]];
    if (model_describe(m, index, &m->read, to) != 0)
        return -1;
    m->read_entry = m->layers[index];
    for (int part = 0; part < naming_arrays(row_of(e)); part++) {
        const safetensors_tensor *t = e[part].item->tensor;
        if (t->elements > m->room[part]) {
            free(m->data[part]);
            m->data[part] =
                (uint64_t)t->elements > SIZE_MAX / sizeof(float) ? NULL : malloc((size_t)t->elements * sizeof(float));
            m->room[part] = m->data[part] != NULL ? t->elements : 0;
            if (m->data[part] == NULL)
                return complain(to, path_of(m, e), "%s: out of memory", t->name);
        }
        if (model_source_read_f32(m->file, e[part].item, m->data[part], to) != 0)
            return -1;
        for (int64_t i = 0; i < t->elements; i++)
            if (!(m->data[part][i] - m->data[part][i] == 0.0f))
                return complain(to, path_of(m, e), "%s holds a number that is not finite", t->name);
    }
    return 0;
}

/* The array, and the output channel in it, where a head's matrix begins. */
static void locate(const model_layer *l, naming_order order, int64_t head, int which, int *part, int64_t *channel) {
    const int64_t group = l->heads / l->kv_heads, key_head = head / group;
    *part = order == NAMING_SEPARATE ? which : order == NAMING_Q_KV ? which != NAMING_Q : 0;
    const int64_t first[] = {[NAMING_SEPARATE] = key_head,
                             [NAMING_QKV] = l->heads + (which - 1) * l->kv_heads + key_head,
                             [NAMING_GROUPED] = key_head * (group + 2) + group + which - 1,
                             [NAMING_Q_KV] = (which - 1) * l->kv_heads + key_head};
    if (which != NAMING_Q)
        *channel = first[order];
    else
        *channel = order == NAMING_GROUPED ? key_head * (group + 2) + head % group : l->gated ? 2 * head : head;
    *channel *= l->d_k;
}

void model_head(const model *m, int64_t head, double *columns) {
    const entry *e = &m->entries[m->read_entry];
    const model_layer *l = &m->read;
    const naming *n = row_of(e);
    for (int which = 0; which < NAMING_PARTS; which++) {
        int part;
        int64_t channel;
        locate(l, n->order, head, which, &part, &channel);
        const int64_t out = size_of(&e[part], true);
        const int64_t in_step = e->in_out ? out : 1, out_step = e->in_out ? 1 : l->d_model;
        const float *from = m->data[part] + channel * out_step;
        for (int64_t i = 0; i < l->d_model; i++)
            for (int64_t c = 0; c < l->d_k; c++)
                columns[(3 * i + which) * l->d_k + c] = (double)from[i * in_step + c * out_step];
    }
}
