/* test-inspect-allocation: each allocation of the readers fails in turn: a sentence that says so, nothing left over. */
#include "failing.h"

#include "config.h"
#include "figures.h"
#include "model.h"
#include "test_file.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static test_option options[] = {TEST_FILE_OPTION, {0}};
static char path[4096], config_file[4096], index_file[4096], text[512];
static const complaint to = {text, sizeof text};

/* jansson is a shared library: it is handed the functions that fail. It does not always say that memory ran out: it may
 * call the text wrong, or lose characters of a long name (2.14). So of its failures no more is asked than a sentence or
 * a result. */
static bool json_failed;

static void *json_allocate(size_t size) {
    void *block = malloc(size);
    json_failed = json_failed || block == NULL;
    return block;
}

static void json_free(void *block) { free(block); }

static int read_safetensors(void) {
    safetensors *file;
    const int status = safetensors_open(path, &file, to);
    safetensors_close(file);
    return status;
}

static int read_config(void) {
    config *c;
    const int status = config_open(path, &c, to);
    config_close(c);
    return status;
}

static int read_model(void) {
    model *m;
    model_layer layer;
    int status = model_open((const char *const[]){path}, 1, 2, 0, &m, to);
    if (status == 0)
        status = model_describe(m, 0, &layer, to) == 0 ? model_read(m, 0, to) : -1;
    model_close(m);
    return status;
}

static int read_index(void) {
    model *m;
    const int status = model_open((const char *const[]){index_file}, 1, 2, 0, &m, to);
    model_close(m);
    return status;
}

static int make_space(void) {
    figures_space *space;
    const int status = figures_space_create(8, 3, &space);
    figures_space_free(space);
    return status != 0 ? complain(to, "space", "out of memory") : 0;
}

static void try_all(const char *what, int (*call)(void)) {
    for (failing f = {.what = what, .least = 3}; fail_more(&f);) {
        text[0] = '\0';
        json_failed = false;
        fail_arm(&f);
        const int status = call();
        fail_at = 0;
        f.through = !failed;
        const bool told =
            json_failed ? status == 0 || text[0] != '\0' : status == -1 && strstr(text, "out of memory") != NULL;
        test_check((failed ? told : status == 0) && live == f.live_before,
                   "%s, allocation %" PRId64 ": %d, \"%s\", %lld blocks left", what, f.n, status, text,
                   live - f.live_before);
    }
}

int main(int argc, char **argv) {
    static const uint8_t data[3 * 4 * 6 * 4];
    char header[1024] = "{";
    test_begin(argc, argv, "inspect-allocation", options);
    snprintf(path, sizeof path, "%s", test_file_path(options, "test_allocation.safetensors"));
    snprintf(config_file, sizeof config_file, "%s", test_file_path(options, "config.json"));
    for (int part = 0; part < 3; part++) {
        char name[64];
        snprintf(name, sizeof name, "l.0.self_attn.%c_proj.weight", "qkv"[part]);
        test_file_add(header, sizeof header, name, "F32", 2, (const int64_t[]){4, 6}, part * 96, part * 96 + 96);
    }
    test_file_write_safetensors(path, -1, header, data, sizeof data);
    test_file_write(config_file, "{\"n_head\":2}", 12);
    snprintf(index_file, sizeof index_file, "%s", test_file_path(options, "test_allocation.index.json"));
    static const char index[] = "{\"weight_map\":{\"l.0.self_attn.q_proj.weight\":\"test_allocation.safetensors\"}}";
    test_file_write(index_file, index, sizeof index - 1);
    json_set_alloc_funcs(json_allocate, json_free);
    read_config(); /* makes jansson's seed */
    try_all("safetensors_open", read_safetensors);
    try_all("config_open", read_config);
    try_all("model", read_model);
    try_all("index", read_index);
    try_all("figures_space_create", make_space);
    remove(path);
    remove(config_file);
    remove(index_file);
    return test_end();
}
