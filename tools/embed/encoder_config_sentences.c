/* encoder_config.h: what sentence-transformers' files say of a model's sentences. */
#include "encoder_config.h"

#include "text_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MOST = 1 << 24, MINILM_TOKENS = 256 };

static int read_pooling(const json_t *root, const char *path, fovea_pooling *pooling, complaint to) {
    static const struct {
        const char *flag, *word;
        fovea_pooling pooling;
    } known[] = {{"pooling_mode_cls_token", "cls", FOVEA_POOLING_FIRST},
                 {"pooling_mode_lasttoken", "lasttoken", FOVEA_POOLING_LAST},
                 {"pooling_mode_mean_tokens", "mean", FOVEA_POOLING_MEAN},
                 {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", FOVEA_POOLING_MEAN_SQRT_LEN},
                 {"pooling_mode_weightedmean_tokens", "weightedmean", FOVEA_POOLING_WEIGHTED_MEAN},
                 {"pooling_mode_max_tokens", "max", FOVEA_POOLING_MAX}};
    const char *mode = json_string_value(json_object_get(root, "pooling_mode"));
    int found = 0;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (json_is_true(json_object_get(root, known[i].flag)) || (mode != NULL && strcmp(mode, known[i].word) == 0)) {
            *pooling = known[i].pooling;
            found++;
        }
    return found == 1 ? 0 : complain(to, path, "asks for %d ways of pooling, not for one that is known", found);
}

/* modules.json: Transformer, Pooling, and Normalize or nothing. */
static int read_modules(const char *folder, const char *path, const char *text, encoder_config *config, complaint to) {
    json_t *modules = json_loads(text, 0, NULL), *module;
    size_t i;
    int status = json_is_array(modules) ? 0 : complain(to, path, "is no JSON list");
    config->any_length = true;
    json_array_foreach(modules, i, module) {
        const char *type = json_string_value(json_object_get(module, "type")),
                   *place = json_string_value(json_object_get(module, "path"));
        const char *name = type != NULL && strrchr(type, '.') != NULL ? strrchr(type, '.') + 1 : type;
        char inner_path[PATH_MOST], file[PATH_MOST];
        json_t *root = NULL;
        if (status != 0 || name == NULL)
            break;
        if (strcmp(name, "Normalize") == 0) {
            config->any_length = false;
        } else if (strcmp(name, "Pooling") == 0) {
            snprintf(file, sizeof file, "%s/config.json", place != NULL ? place : "1_Pooling");
            status = text_file_json_in(folder, file, FILE_MOST, inner_path, &root, to);
            if (status == 0)
                status = root != NULL ? read_pooling(root, inner_path, &config->pooling, to)
                                      : complain(to, inner_path, "does not exist");
            json_decref(root);
        } else if (strcmp(name, "Transformer") != 0) {
            status =
                complain(to, path, "the model cannot run: it needs the module %.40s, which this encoder lacks", name);
        }
    }
    json_decref(modules);
    return status;
}

int encoder_config_read_sentences(const char *folder, encoder_config *config, complaint to) {
    char path[PATH_MOST];
    json_t *root;
    if (encoder_config_read(folder, config, to) != 0 ||
        text_file_json_in(folder, "sentence_bert_config.json", FILE_MOST, path, &root, to) != 0)
        return -1;
    const json_int_t most = json_integer_value(json_object_get(root, "max_seq_length"));
    json_decref(root);
    config->most_tokens = most > 0 ? most : 0;
    if (path_join(path, folder, "modules.json", to) != 0)
        return -1;
    if (!path_exists(path)) {
        config->most_tokens = config->most_tokens > 0 ? config->most_tokens : MINILM_TOKENS;
        return 0;
    }
    int64_t bytes;
    char *text = text_file_read(path, FILE_MOST, &bytes, to);
    const int status = text != NULL ? read_modules(folder, path, text, config, to) : -1;
    free(text);
    return status;
}
