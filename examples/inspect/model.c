/* model.h. Names are looked at once: each array whose name ends as one of namings[] asks becomes an entry; sorted by
 * what comes before the number, by family and number, the entries of a layer are neighbours. */
#include "model.h"

#include "config.h"
#include "figures.h"
#include "naming.h"
#include "safetensors.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef struct entry {
    const safetensors_tensor *tensor;
    int stack_length; /* of its name; the number follows after a point */
    int64_t number;
    int naming, part;
} entry;

struct model {
    safetensors *file;
    const char *path; /* the caller's */
    int64_t heads, kv_heads;
    entry *entries;
    int64_t entry_count;
    int64_t *layers; /* index of each complete layer's first entry */
    int64_t layer_count, incomplete;
    float *data[NAMING_PARTS];
    int64_t room[NAMING_PARTS]; /* elements */
    int64_t read_entry;         /* the first entry of the layer in data */
    model_layer read;           /* that layer */
};

/* -------------------------------------------------------------------------------------------------------- names -- */

/* Is this the name of that part? Fills stack_length and number. */
static bool match(const char *name, const char *suffix, entry *e) {
    enum { MOST_DIGITS = 9 };
    const size_t length = strlen(name), tail = strlen(suffix) + 1;
    if (length <= tail || name[length - tail] != '.' || strcmp(name + length - tail + 1, suffix) != 0)
        return false;
    size_t digits = 0;
    const size_t end = length - tail;
    while (digits < end && name[end - digits - 1] >= '0' && name[end - digits - 1] <= '9')
        digits++;
    const size_t begin = end - digits;
    if (digits == 0 || digits > MOST_DIGITS || (begin > 0 && name[begin - 1] != '.') || begin > INT32_MAX)
        return false;
    e->number = strtoll(name + begin, NULL, 10);
    e->stack_length = begin > 0 ? (int)begin - 1 : 0;
    return true;
}

static bool find_entry(const safetensors_tensor *t, entry *e) {
    for (int n = 0; n < NAMINGS; n++)
        for (int part = 0; part < NAMING_PARTS && namings[n].suffix[part] != NULL; part++)
            if (match(t->name, namings[n].suffix[part], e)) {
                e->tensor = t;
                e->naming = n;
                e->part = part;
                return true;
            }
    return false;
}

static int compare_layers(const entry *x, const entry *y) {
    const int length = x->stack_length < y->stack_length ? x->stack_length : y->stack_length;
    const int names = memcmp(x->tensor->name, y->tensor->name, (size_t)length);
    if (names != 0 || x->stack_length != y->stack_length)
        return names != 0 ? names : x->stack_length < y->stack_length ? -1 : 1;
    if (x->naming != y->naming)
        return x->naming < y->naming ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

static int compare(const void *a, const void *b) {
    const entry *x = a, *y = b;
    const int layers = compare_layers(x, y);
    return layers != 0          ? layers
           : x->part != y->part ? (x->part > y->part) - (x->part < y->part)
                                : strcmp(x->tensor->name, y->tensor->name); /* .1. and .01. */
}

static int parts_of(const naming *n) { return n->order == NAMING_SEPARATE ? NAMING_PARTS : 1; }

static int find_layers(model *m, complaint to) {
    const int64_t count = safetensors_count(m->file);
    m->entries = calloc((size_t)count + 1, sizeof *m->entries);
    m->layers = calloc((size_t)count + 1, sizeof *m->layers);
    if (m->entries == NULL || m->layers == NULL)
        return complain(to, m->path, "out of memory");
    for (int64_t i = 0; i < count; i++)
        m->entry_count += find_entry(safetensors_at(m->file, i), &m->entries[m->entry_count]);
    qsort(m->entries, (size_t)m->entry_count, sizeof *m->entries, compare);
    for (int64_t first = 0, next; first < m->entry_count; first = next) {
        const entry *e = &m->entries[first];
        bool complete = true;
        for (next = first; next < m->entry_count && compare_layers(e, &m->entries[next]) == 0; next++)
            complete = complete && m->entries[next].part == next - first;
        if (complete && next - first == parts_of(&namings[e->naming]))
            m->layers[m->layer_count++] = first;
        else
            m->incomplete++;
    }
    if (m->layer_count > 0)
        return 0;
    return m->incomplete > 0
               ? complain(to, m->path, "has no layer whole: each lacks one of query, key and value")
               : complain(to, m->path,
                          "has no weights of attention with names that are known (BERT, GPT-2, LLaMA ...)");
}

int model_open(const char *path, int64_t heads, int64_t kv_heads, model **model_out, complaint to) {
    *model_out = NULL;
    model *m = calloc(1, sizeof *m);
    if (m == NULL)
        return complain(to, path, "out of memory");
    m->path = path;
    m->heads = heads;
    m->kv_heads = kv_heads;
    int64_t config_kv_heads = 0;
    int status = safetensors_open(path, &m->file, to);
    if (status == 0)
        status = find_layers(m, to);
    if (status == 0 && heads == 0)
        status = config_read(path, &m->heads, &config_kv_heads, to);
    if (kv_heads == 0)
        m->kv_heads = config_kv_heads;
    if (status == 0 && m->heads == 0)
        status =
            complain(to, path, "does not say how many heads it has, nor is there a config.json that does: --heads N");
    if (status == 0)
        *model_out = m;
    else
        model_close(m);
    return status;
}

void model_close(model *m) {
    if (m == NULL)
        return;
    safetensors_close(m->file);
    free(m->entries);
    free(m->layers);
    for (int i = 0; i < NAMING_PARTS; i++)
        free(m->data[i]);
    free(m);
}

int64_t model_layers(const model *m) { return m->layer_count; }

int64_t model_incomplete(const model *m) { return m->incomplete; }

/* ------------------------------------------------------------------------------------------------------- a layer -- */

/* The size of a matrix [in, out] whichever way it lies. */
static int64_t size_of(const entry *e, bool out) { return e->tensor->shape[out == (namings[e->naming].in_out != 0)]; }

/* d_k, heads and kv_heads from the numbers of output channels. */
static int divide(const model *m, const entry *e, model_layer *l, complaint to) {
    const char *name = e->tensor->name;
    const int64_t out = size_of(e, true);
    l->heads = m->heads;
    l->kv_heads = m->kv_heads;
    if (namings[e->naming].order == NAMING_SEPARATE) {
        l->d_k = out / l->heads;
        if (l->d_k < 1 || out % l->heads != 0)
            return complain(to, m->path, "%s: %lld channels are not those of %lld heads", name, (long long)out,
                            (long long)l->heads);
        const int64_t k = size_of(e + 1, true), v = size_of(e + 2, true);
        if (k != v || k % l->d_k != 0 || k < l->d_k || (l->kv_heads != 0 && k != l->kv_heads * l->d_k))
            return complain(to, m->path, "%s: keys of %lld channels and values of %lld do not fit heads of %lld", name,
                            (long long)k, (long long)v, (long long)l->d_k);
        l->kv_heads = k / l->d_k;
    } else {
        l->kv_heads = l->kv_heads != 0 ? l->kv_heads : l->heads;
        l->d_k = out / (l->heads + 2 * l->kv_heads);
        if (l->d_k < 1 || out % (l->heads + 2 * l->kv_heads) != 0)
            return complain(to, m->path, "%s: %lld channels are not those of %lld heads and %lld of keys and values",
                            name, (long long)out, (long long)l->heads, (long long)l->kv_heads);
    }
    if (l->heads % l->kv_heads != 0)
        return complain(to, m->path, "%s: %lld heads cannot share %lld of keys and values", name, (long long)l->heads,
                        (long long)l->kv_heads);
    if (l->d_k > FIGURES_MOST_CHANNELS || l->d_model > INT32_MAX)
        return complain(to, m->path, "%s: heads of %lld channels are too large: at most %d", name, (long long)l->d_k,
                        FIGURES_MOST_CHANNELS);
    return 0;
}

int model_describe(const model *m, int64_t index, model_layer *l, complaint to) {
    const entry *e = &m->entries[m->layers[index]];
    const naming *n = &namings[e->naming];
    *l = (model_layer){
        .family = n->family, .stack = e->tensor->name, .stack_length = e->stack_length, .number = e->number};
    for (int part = 0; part < parts_of(n); part++) {
        const safetensors_tensor *t = e[part].tensor;
        if (t->dims != 2 || t->shape[0] < 1 || t->shape[1] < 1)
            return complain(to, m->path, "%s is not a matrix", t->name);
        if (size_of(&e[part], false) != size_of(e, false))
            return complain(to, m->path, "%s takes %lld channels, %s %lld", t->name,
                            (long long)size_of(&e[part], false), e->tensor->name, (long long)size_of(e, false));
    }
    l->d_model = size_of(e, false);
    return divide(m, e, l, to);
}

int model_read(model *m, int64_t index, complaint to) {
    const entry *e = &m->entries[m->layers[index]];
    if (model_describe(m, index, &m->read, to) != 0)
        return -1;
    m->read_entry = m->layers[index];
    for (int part = 0; part < parts_of(&namings[e->naming]); part++) {
        const safetensors_tensor *t = e[part].tensor;
        if (m->room[part] < t->elements) {
            free(m->data[part]);
            m->data[part] = malloc((size_t)t->elements * sizeof(float));
            m->room[part] = m->data[part] != NULL ? t->elements : 0;
            if (m->data[part] == NULL)
                return complain(to, m->path, "%s: out of memory", t->name);
        }
        if (safetensors_read_f32(m->file, t, m->data[part], to) != 0)
            return -1;
        for (int64_t i = 0; i < t->elements; i++)
            if (!(m->data[part][i] - m->data[part][i] == 0.0f))
                return complain(to, m->path, "%s holds a number that is not finite", t->name);
    }
    return 0;
}

/* The array, and the output channel in it, where a head's matrix begins. */
static void locate(const model_layer *l, naming_order order, int64_t head, int which, int *part, int64_t *channel) {
    const int64_t group = l->heads / l->kv_heads, key_head = head / group;
    *part = order == NAMING_SEPARATE ? which : 0;
    if (order == NAMING_SEPARATE)
        *channel = which == NAMING_Q ? head : key_head;
    else if (order == NAMING_QKV)
        *channel = which == NAMING_Q ? head : l->heads + (which - 1) * l->kv_heads + key_head;
    else
        *channel = key_head * (group + 2) + (which == NAMING_Q ? head % group : group + which - 1);
    *channel *= l->d_k;
}

void model_head(const model *m, int64_t head, double *columns) {
    const entry *e = &m->entries[m->read_entry];
    const model_layer *l = &m->read;
    const naming *n = &namings[e->naming];
    for (int which = 0; which < NAMING_PARTS; which++) {
        int part;
        int64_t channel;
        locate(l, n->order, head, which, &part, &channel);
        const int64_t out = size_of(&e[part], true);
        const int64_t in_step = n->in_out ? out : 1, out_step = n->in_out ? 1 : l->d_model;
        const float *from = m->data[part] + channel * out_step;
        for (int64_t i = 0; i < l->d_model; i++)
            for (int64_t c = 0; c < l->d_k; c++)
                columns[(3 * i + which) * l->d_k + c] = (double)from[i * in_step + c * out_step];
    }
}
