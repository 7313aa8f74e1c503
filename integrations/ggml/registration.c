/* Entry points for the program: ggml_backend_init(), and functions that it looks up by name. */
#include "backend.h"
#include "backend_options.h"
#include "device.h"

#include <stdio.h>
#include <string.h>

static const char *reg_name(ggml_backend_reg_t reg) {
    (void)reg;
    return "Fovea";
}

static size_t reg_device_count(ggml_backend_reg_t reg) {
    (void)reg;
    return fg_device_count();
}

static void *reg_proc_address(ggml_backend_reg_t reg, const char *name) {
    static const struct {
        const char *name;
        void (*function)(void);
    } functions[] = {
        {"ggml_backend_set_n_threads", (void (*)(void))fg_backend_set_n_threads},
        {"ggml_backend_set_abort_callback", (void (*)(void))fg_backend_set_abort_callback},
        {"fovea_ggml_calls", (void (*)(void))fg_backend_calls},
    };
    (void)reg;
    void *found = NULL;
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        if (!strcmp(functions[i].name, name)) /* ISO C has no conversion to a pointer to data */
            memcpy(&found, &functions[i].function, sizeof found);
    return found;
}

static void say_status(void) {
    if (fg_options_none()) {
        fg_say("Fovea %s is loaded, and takes nothing: %s", fovea_version(), fg_options_none());
        return;
    }
    char names[400] = "";
    bool always = false;
    for (int i = 0; i < FG_OPERATIONS; i++)
        if (fg_options_take((fg_op)i, &always)) {
            const size_t n = strlen(names);
            snprintf(names + n, sizeof names - n, "%s%s", n ? ", " : "", fg_op_names[i]);
        }
    fg_say("Fovea %s computes%s %s", fovea_version(), fg_options_listed() ? "" : ", where it is faster,", names);
}

static ggml_backend_reg_t registration(void *caller) {
    static struct ggml_backend_reg reg = {.api_version = GGML_BACKEND_API_VERSION,
                                          .iface = {.get_name = reg_name,
                                                    .get_device_count = reg_device_count,
                                                    .get_device = fg_device,
                                                    .get_proc_address = reg_proc_address}};
    static bool said;
    if (!fg_ggml_load(caller))
        return NULL;
    if (!said) {
        said = true;
        fg_options_load();
        say_status();
    }
    return &reg;
}

GGML_BACKEND_API ggml_backend_reg_t ggml_backend_init(void);
ggml_backend_reg_t ggml_backend_init(void) { return registration(__builtin_return_address(0)); }

/* 0 tells ggml not to load the backend. */
GGML_BACKEND_API int ggml_backend_score(void);
int ggml_backend_score(void) { return fg_ggml_load(__builtin_return_address(0)) ? 1 : 0; }
