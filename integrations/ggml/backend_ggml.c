/* Looks up what backend_ggml.h names, and compares the program's ggml with the headers. Layouts are compared through
 * what ggml itself builds: an attention, whose fields must be found where the headers have them. */
#define _GNU_SOURCE
#include "backend_ggml.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

fg_functions fg_ggml;

enum { MOST_TYPES = 32 };
static fg_type types[MOST_TYPES];
static int type_count;

#define FG_OPERATION(name, serves, compute) #name,
const char *const fg_op_names[FG_OPERATIONS] = {
#include "backend_operations.inc"
};
#undef FG_OPERATION
static int op_numbers[FG_OPERATIONS]; /* in the program in use */

/* Operations that compute nothing. */
static struct {
    const char *name;
    int number;
} views[] = {{"NONE", -1}, {"RESHAPE", -1}, {"VIEW", -1}, {"PERMUTE", -1}, {"TRANSPOSE", -1}};
enum { VIEWS = sizeof views / sizeof views[0] };

void fg_say(const char *format, ...) {
    va_list arguments;
    char line[512];
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    fprintf(stderr, "ggml-fovea: %s\n", line);
}

enum ggml_status fg_status(fovea_status status, const char *what) {
    if (status == FOVEA_OK)
        return GGML_STATUS_SUCCESS;
    fg_say("%s: %s (%s)", what, fovea_error_detail(), fovea_status_name(status));
    return status == FOVEA_ERROR_OUT_OF_MEMORY ? GGML_STATUS_ALLOC_FAILED : GGML_STATUS_FAILED;
}

fg_op fg_op_of(enum ggml_op number) {
    int i = 0;
    while (i < FG_OPERATIONS && op_numbers[i] != (int)number)
        i++;
    return (fg_op)i;
}

const fg_type *fg_type_of(enum ggml_type number) {
    for (int i = 0; i < type_count; i++)
        if (types[i].number == (int)number)
            return &types[i];
    return NULL;
}

const fg_type *fg_type_at(int index) { return index < type_count ? &types[index] : NULL; }

fovea_tensor fg_tensor(const struct ggml_tensor *t) {
    const fg_type *type = fg_type_of(t->type);
    fovea_tensor v = {.data = t->data, .dtype = type->dtype};
    for (int i = 0; i < 4; i++) {
        v.shape[i] = t->ne[3 - i];
        v.stride[i] = (int64_t)t->nb[3 - i] / type->bytes;
    }
    return v;
}

bool fg_is_view(enum ggml_op op) {
    for (int i = 0; i < VIEWS; i++)
        if (views[i].number == (int)op)
            return true;
    return false;
}

enum ggml_op fg_op_none(void) { return (enum ggml_op)views[0].number; }

static bool find_functions(void *caller) {
    Dl_info info;
    void *library = NULL;
    if (dladdr(caller, &info))
        library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (!library) /* the program itself */
        library = dlopen(NULL, RTLD_LAZY);
    static const struct {
        const char *name;
        size_t offset;
    } functions[] = {
#define FG_ROW(name) {"ggml_" #name, offsetof(fg_functions, name)},
        FG_FUNCTIONS(FG_ROW)
#undef FG_ROW
    };
    const char *missing = library ? NULL : functions[0].name;
    for (size_t i = 0; i < sizeof functions / sizeof functions[0] && !missing; i++) {
        void *const function = dlsym(library, functions[i].name);
        memcpy((char *)&fg_ggml + functions[i].offset, &function, sizeof function);
        missing = function ? NULL : functions[i].name;
    }
    if (library)
        dlclose(library);
    /* ggml_backend_tensor_set_2d() came with the functions that moved those of struct ggml_backend_i. */
    if (missing)
        fg_say("not used: this program's ggml has no %s(): it is linked statically, or older than 0.10", missing);
    return !missing;
}

/* Names may be asked for up to the last one that is there: a search from 0 on ends with a name that every release with
 * these functions has. */
enum { MOST_NUMBERS = 512 };

static const char *op_name(int number) { return fg_ggml.op_name((enum ggml_op)number); }
static const char *type_name(int number) { return fg_ggml.type_name((enum ggml_type)number); }

static int find_number(const char *name, const char *(*name_of)(int)) {
    for (int i = 0; i < MOST_NUMBERS; i++) {
        const char *there = name_of(i);
        if (there && !strcmp(there, name))
            return i;
    }
    return -1;
}

/* The numbers of one name, but for case: those up to mxfp4's may be asked for, as each release has it. */
static bool find_types(void) {
    const int last = find_number("mxfp4", type_name);
    const fovea_dtype_facts *f;
    for (int dtype = 1; (f = fovea_dtype_info((fovea_dtype)dtype)); dtype++)
        for (int i = 0; i <= last && f->stored && !f->scaled; i++) {
            const enum ggml_type type = (enum ggml_type)i;
            const char *name = type_name(i);
            if (!name || strcasecmp(name, f->name) || type_count == MOST_TYPES)
                continue;
            types[type_count++] = (fg_type){name, (fovea_dtype)dtype, f->block_elements, f->block_bytes, i};
            if (fg_ggml.blck_size(type) != f->block_elements || (int)fg_ggml.type_size(type) != f->block_bytes) {
                fg_say("not used: this program's ggml has another %s", name);
                return false;
            }
        }
    return true;
}

/* An operation that this release lacks has the number -1, which no node has. GLU is the last of each. */
static void find_operations(void) {
    const int last = find_number("GLU", op_name);
    for (int i = 0; i < VIEWS; i++)
        views[i].number = find_number(views[i].name, op_name);
    for (int i = 0; i < FG_OPERATIONS; i++) {
        op_numbers[i] = last;
        while (op_numbers[i] >= 0 && strcmp(op_name(op_numbers[i]), fg_op_names[i]) != 0)
            op_numbers[i]--;
    }
}

/* ggml's own header of a tensor in its context: two sizes, a pointer, a number, and padding. */
enum { OBJECT_BYTES = 32 };

static bool same_layout(struct ggml_context *ctx) {
    const enum ggml_type f32 = (enum ggml_type)find_number("f32", type_name),
                         f16 = (enum ggml_type)find_number("f16", type_name);
    struct ggml_tensor *q = fg_ggml.new_tensor_4d(ctx, f32, 8, 3, 4, 5),
                       *k = fg_ggml.new_tensor_4d(ctx, f16, 8, 7, 2, 5);
    struct ggml_tensor *v = fg_ggml.view_4d(ctx, k, 6, 7, 2, 5, k->nb[1], k->nb[2], k->nb[3], 4);
    struct ggml_tensor *mask = fg_ggml.new_tensor_4d(ctx, f16, 7, 3, 1, 1);
    struct ggml_tensor *sinks = fg_ggml.new_tensor_4d(ctx, f32, 4, 1, 1, 1);
    struct ggml_tensor *out = fg_ggml.flash_attn_ext(ctx, q, k, v, mask, 0.5f, 2.0f, 3.0f);
    fg_ggml.flash_attn_ext_add_sinks(out, sinks);
    fg_ggml.set_name(out, "out");
    struct ggml_cgraph *graph = fg_ggml.new_graph(ctx);
    fg_ggml.build_forward_expand(graph, out);
    float params[3];
    memcpy(params, out->op_params, sizeof params);
    const struct ggml_tensor *sources[] = {q, k, v, mask, sinks, NULL};
    return fg_ggml.tensor_overhead() == sizeof(struct ggml_tensor) + OBJECT_BYTES && k->type == f16 &&
           out->type == f32 && !strcmp(op_name((int)out->op), "FLASH_ATTN_EXT") &&
           !memcmp(out->src, sources, sizeof sources) && out->ne[0] == 6 && out->ne[1] == 4 && out->ne[2] == 3 &&
           out->ne[3] == 5 && out->nb[3] == 288 && params[0] == 0.5f && params[1] == 2.0f && params[2] == 3.0f &&
           v->view_src == k && v->view_offs == 4 && fg_ggml.get_name(out) == out->name &&
           (out->flags & GGML_TENSOR_FLAG_COMPUTE) && !out->data && !out->buffer && fg_ggml.graph_n_nodes(graph) >= 1 &&
           fg_ggml.graph_node(graph, -1) == out;
}

static bool check_layout(void) {
    struct ggml_context *ctx = fg_ggml.init((struct ggml_init_params){
        .mem_size = 8 * fg_ggml.tensor_overhead() + fg_ggml.graph_overhead() + 1024, .no_alloc = true});
    const bool same = ctx && same_layout(ctx);
    fg_ggml.free(ctx);
    if (!same)
        fg_say("not used: tensors of this program's ggml %s have another layout", fg_ggml.version());
    return same;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

bool fg_ggml_load(void *caller) {
    static bool tried, served;
    pthread_mutex_lock(&lock);
    if (!tried) {
        tried = true;
        served = find_functions(caller) && find_types();
        if (served)
            find_operations();
        served = served && check_layout();
    }
    pthread_mutex_unlock(&lock);
    return served;
}
