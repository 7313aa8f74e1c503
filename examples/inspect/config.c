/* config.h. */
#include "config.h"

#include "../regular_file.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

enum { PATH_MOST = 4096, CONFIG_MOST = 1 << 20 };

/* The first of these names that is there: 1 to 65536; 0 if none is; -1 for another value. */
static int64_t number(const json_t *config, const char *const names[4]) {
    for (int i = 0; i < 4 && names[i] != NULL; i++) {
        const json_t *item = json_object_get(config, names[i]);
        if (item == NULL || json_is_null(item))
            continue;
        const int64_t value = json_is_integer(item) ? json_integer_value(item) : -1;
        return value >= 1 && value <= 1 << 16 ? value : -1;
    }
    return 0;
}

int config_read(const char *model_path, int64_t *heads, int64_t *kv_heads, complaint to) {
    static const char *const head_names[4] = {"num_attention_heads", "n_head", "n_heads", "num_heads"};
    static const char *const kv_names[4] = {"num_key_value_heads", "num_kv_heads", "n_kv_heads", NULL};
    static char text[CONFIG_MOST + 1];
    char path[PATH_MOST];
    *heads = *kv_heads = 0;
    const char *slash = strrchr(model_path, '/');
    const int folder = slash != NULL ? (int)(slash - model_path) + 1 : 0;
    if (snprintf(path, sizeof path, "%.*sconfig.json", folder, model_path) >= (int)sizeof path)
        return complain(to, model_path, "has too long a name");
    const char *why;
    FILE *file = regular_file_open(path, &why);
    if (file == NULL)
        return errno == ENOENT ? 0 : complain(to, path, "cannot be opened (%s)", why);
    const size_t length = fread(text, 1, sizeof text, file);
    const int failed = ferror(file);
    fclose(file);
    json_error_t error = {.text = "not read"};
    json_t *config = failed || length > CONFIG_MOST ? NULL : json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(config)) {
        json_decref(config);
        return error.text[0] == '\0' && config == NULL ? complain(to, path, "out of memory")
                                                       : complain(to, path, "is not a JSON object of at most 1 MiB");
    }
    *heads = number(config, head_names);
    *kv_heads = number(config, kv_names);
    /* Falcon's first form has one key head, and says so in a word of its own. */
    if (json_is_true(json_object_get(config, "multi_query")) &&
        !json_is_true(json_object_get(config, "new_decoder_architecture")))
        *kv_heads = 1;
    json_decref(config);
    return *heads >= 0 && *kv_heads >= 0 ? 0 : complain(to, path, "its numbers of heads are not from 1 to 65536");
}
