/* config.h. Families call the same numbers by different names: what is known of that is in tables here. */
#include "config.h"

#include "text_file.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONFIG_MOST = 1 << 20, STACK_MOST = 512 };

struct config {
    char path[PATH_MOST];
    json_t *json;
};

/* -------------------------------------------------------------------------------------------------------- tables -- */

/* Names of a number, the first that is there counts. */
static const struct number {
    size_t offset;
    const char *names[7];
} numbers[] = {
    {offsetof(config_sizes, heads), {"num_attention_heads", "n_head", "n_heads", "num_heads"}},
    {offsetof(config_sizes, kv_heads),
     {"num_key_value_heads", "num_kv_heads", "n_kv_heads", "kv_n_heads", "multi_query_group_num"}},
    {offsetof(config_sizes, head_dim), {"head_dim", "d_kv", "kv_channels", "attention_head_dim"}},
    {offsetof(config_sizes, d_model), {"true_hidden_size", "hidden_size", "d_model", "n_embd", "dim"}},
    {offsetof(config_sizes, layers), {"num_hidden_layers", "n_layer", "n_layers", "num_layers"}},
    {offsetof(config_sizes, layer_groups), {"num_hidden_groups"}},
};
enum { NUMBERS = sizeof numbers / sizeof numbers[0], MOST = 1 << 20 };

/* Parts of a config, each the concern of stacks with that word in their names. "" is in all. */
static const struct part {
    const char *word, *object;
} parts[] = {{"vision", "vision_config"},
             {"visual", "vision_config"},
             {"audio", "audio_config"},
             {"text", "text_config"},
             {"language_model", "text_config"},
             {"", "text_config"},
             {"", "attn_config"},
             {"encoder", "encoder"},
             {"decoder", "decoder"}};
enum { PARTS = sizeof parts / sizeof parts[0] };

/* Numbers of encoder and decoder apart, which come before the general ones. */
static const struct half {
    const char *word;
    size_t offset;
    const char *name;
} halves[] = {{"encoder", offsetof(config_sizes, heads), "encoder_attention_heads"},
              {"encoder", offsetof(config_sizes, layers), "encoder_layers"},
              {"decoder", offsetof(config_sizes, heads), "decoder_attention_heads"},
              {"decoder", offsetof(config_sizes, layers), "decoder_layers"},
              {"decoder", offsetof(config_sizes, layers), "num_decoder_layers"}};
enum { HALVES = sizeof halves / sizeof halves[0] };

/* Signs of the kind of positions: a key that is there, and true unless it is no flag; or a text. */
static const struct position_key {
    const char *key, *text, *positions;
} position_keys[] = {
    {"alibi", NULL, "ALiBi"},
    {"relative_attention", NULL, "relative"},
    {"relative_attention_num_buckets", NULL, "relative"},
    {"rope_theta", NULL, "rotary"},
    {"rope_parameters", NULL, "rotary"},
    {"rotary_dim", NULL, "rotary"},
    {"rotary_pct", NULL, "rotary"},
    {"rotary_emb_base", NULL, "rotary"},
    {"position_embedding_type", "absolute", "learned"},
    {"position_embedding_type", "relative_key", "relative"},
    {"position_embedding_type", "relative_key_query", "relative"},
    {"position_embedding_type", "rotary", "rotary"},
    {"position_embedding_type", "rope", "rotary"},
    {"position_embedding_type", "alibi", "ALiBi"},
};
enum { POSITION_KEYS = sizeof position_keys / sizeof position_keys[0] };

/* Otherwise the type of the model does; words between spaces. */
static const struct position_types {
    const char *types, *positions;
} position_types[] = {
    {" llama mistral mixtral qwen2 qwen3 gemma gemma2 gemma3 gemma3_text phi phi3 gptj gpt_neox falcon stablelm "
     "codegen "
     "persimmon chatglm internlm2 baichuan starcoder2 cohere olmo modernbert ",
     "rotary"},
    {" bert roberta xlm-roberta albert distilbert electra camembert mobilebert gpt2 gpt_bigcode gpt_neo opt bart mbart "
     "blenderbot clip clip_text_model clip_vision_model siglip siglip_vision_model vit deit beit dinov2 ",
     "learned"},
    {" marian pegasus m2m_100 ", "sinusoidal"},
    {" whisper ", "sinusoidal in the encoder, learned in the decoder"},
    {" t5 mt5 umt5 longt5 mpnet deberta deberta-v2 xlnet ", "relative"},
    {" bloom ", "ALiBi"},
};
enum { POSITION_TYPES = sizeof position_types / sizeof position_types[0] };

/* ------------------------------------------------------------------------------------------------------- reading -- */

int config_open(const char *model_path, config **out, complaint to) {
    *out = NULL;
    config *c = calloc(1, sizeof *c);
    if (c == NULL)
        return complain(to, model_path, "out of memory");
    const int status = path_beside(c->path, model_path, "config.json", to) == 0
                           ? text_file_json(c->path, CONFIG_MOST, &c->json, to)
                           : -1;
    if (c->json != NULL)
        *out = c;
    else
        config_close(c);
    return status;
}

void config_close(config *c) {
    if (c == NULL)
        return;
    json_decref(c->json);
    free(c);
}

const char *config_path(const config *c) { return c != NULL ? c->path : "config.json"; }

const char *config_type(const config *c) {
    const char *type = c != NULL ? json_string_value(json_object_get(c->json, "model_type")) : NULL;
    return type != NULL ? type : "";
}

/* ------------------------------------------------------------------------------------------------------- looking -- */

/* Reads a number if it is there and not yet known. */
static int number(const config *c, const json_t *object, const char *name, int64_t *value, complaint to) {
    const json_t *item = json_object_get(object, name);
    if (*value != 0 || item == NULL || json_is_null(item))
        return 0;
    const int64_t found = json_is_integer(item) ? json_integer_value(item) : 0;
    if (found < 1 || found > MOST)
        return complain(to, c->path, "%s is not a number from 1 to %d", name, MOST);
    *value = found;
    return 0;
}

static int read_numbers(const config *c, const json_t *object, const char *stack, config_sizes *sizes, complaint to) {
    for (int i = 0; i < HALVES; i++)
        if (strstr(stack, halves[i].word) != NULL &&
            number(c, object, halves[i].name, (int64_t *)((char *)sizes + halves[i].offset), to) != 0)
            return -1;
    for (int i = 0; i < NUMBERS; i++)
        for (int n = 0; n < 7 && numbers[i].names[n] != NULL; n++)
            if (number(c, object, numbers[i].names[n], (int64_t *)((char *)sizes + numbers[i].offset), to) != 0)
                return -1;
    return 0;
}

static const char *positions_of(const json_t *object) {
    for (int i = 0; i < POSITION_KEYS; i++) {
        const struct position_key *p = &position_keys[i];
        const json_t *item = json_object_get(object, p->key);
        const char *text = json_string_value(item);
        const bool told = item != NULL && !json_is_null(item) && !json_is_false(item);
        if (p->text == NULL ? told : text != NULL && strcmp(text, p->text) == 0)
            return p->positions;
    }
    const char *type = json_string_value(json_object_get(object, "model_type"));
    char word[128];
    snprintf(word, sizeof word, " %.100s ", type != NULL ? type : "?");
    for (int i = 0; i < POSITION_TYPES; i++)
        if (strstr(position_types[i].types, word) != NULL)
            return position_types[i].positions;
    return NULL;
}

/* Parts before the whole: the vision model's own numbers count, not those of the model it is part of. */
int config_look_up(const config *c, const char *stack, int length, config_sizes *sizes, complaint to) {
    *sizes = (config_sizes){0};
    if (c == NULL)
        return 0;
    char name[STACK_MOST];
    bool own = false; /* a part of its own was there: the text model's numbers are not those of the vision model */
    snprintf(name, sizeof name, "%.*s", length, stack);
    for (int i = 0; i <= PARTS; i++) {
        const json_t *object = i < PARTS ? json_object_get(c->json, parts[i].object) : c->json;
        const char *word = i < PARTS ? parts[i].word : "";
        if (!json_is_object(object) || strstr(name, word) == NULL || (own && i < PARTS && *word == '\0'))
            continue;
        own = own || *word != '\0';
        if (read_numbers(c, object, name, sizes, to) != 0)
            return -1;
        /* Falcon's first form and GPT-BigCode have one key head, and say so in a word of its own. */
        if (json_is_true(json_object_get(object, "multi_query")) &&
            !json_is_true(json_object_get(object, "new_decoder_architecture")))
            sizes->kv_heads = 1;
        if (sizes->positions == NULL)
            sizes->positions = positions_of(object);
        if (sizes->heads != 0 && i < PARTS)
            break;
    }
    return 0;
}
