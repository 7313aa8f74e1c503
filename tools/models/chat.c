/* chat.h. A template is known by the hash of its bytes, with \n in texts as a line feed: published ones are long
 * programs, and one that differs may compute something else. */
#include "chat.h"

#include "chatml.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static char qwen25[] = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.";

static const struct {
    uint64_t hash;
    chat_form form;
} known[] = {
    {UINT64_C(0x0e60067a5537498e), {.kind = CHAT_LLAMA3}},                               /* Llama 3 */
    {UINT64_C(0x74891e390e614ae2), {.kind = CHAT_LLAMA3}},                               /* as first published */
    {UINT64_C(0x4fd30286bc0da17c), {.kind = CHAT_LLAMA3, .dated = true}},                /* 3.1 and 3.3 */
    {UINT64_C(0x1a6da26e3aef1b34), {.kind = CHAT_LLAMA3, .dated = true, .today = true}}, /* 3.2 */
    {UINT64_C(0x5c10ee65212d93b3), {.kind = CHAT_GEMMA, .no_system = true}},             /* Gemma 1 and 2 */
    {UINT64_C(0xd19b6ff3a49deea5), {.kind = CHAT_GEMMA}},                                /* Gemma 3 */
    {UINT64_C(0x11d394755cef9355), {.kind = CHAT_CHATML, .system = qwen25}},             /* Qwen 2.5 */
    {UINT64_C(0xabb815b933a4981a), {.kind = CHAT_CHATML}},                               /* Qwen 3 */
    {UINT64_C(0xfdaf3f6c284777cf), {.kind = CHAT_CHATML}},                               /* Qwen 3 Coder */
    {UINT64_C(0x4f7d36b71c775eb0), {.kind = CHAT_CHATML, .thinks = true}},               /* Qwen 3.5 */
    {UINT64_C(0xe2bd426026cba99c), {.kind = CHAT_HARMONY}},                              /* gpt-oss */
};

/* FNV-1a. Line feeds and spaces at the end count for nothing. */
static uint64_t hash_template(const char *bytes, size_t count) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    while (count > 0 && strchr(" \r\n", bytes[count - 1]) != NULL && bytes[count - 1] != '\0')
        count--;
    for (size_t i = 0; i < count; i++) {
        const bool feed = bytes[i] == '\\' && i + 1 < count && bytes[i + 1] == 'n';
        i += feed;
        hash = (hash ^ (uint8_t)(feed ? '\n' : bytes[i])) * UINT64_C(0x100000001b3);
    }
    return hash;
}

static int32_t find(const tk_tokenizer *t, const char *piece) { return tk_find(t, piece, (int64_t)strlen(piece)); }

static bool has_tokens(const tk_tokenizer *t, chat_kind kind) {
    static const char *const tokens[][4] = {
        [CHAT_CHATML] = {"<|im_start|>", "<|im_end|>"},
        [CHAT_LLAMA3] = {"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"},
        [CHAT_GEMMA] = {"<bos>", "<start_of_turn>", "<end_of_turn>"},
        [CHAT_HARMONY] = {"<|start|>", "<|channel|>", "<|message|>", "<|end|>"}};
    for (int i = 0; i < 4 && tokens[kind][i] != NULL; i++)
        if (find(t, tokens[kind][i]) == TK_NONE)
            return false;
    return true;
}

void chat_read(const tk_tokenizer *t, const char *template_bytes, size_t count, chat_form *form) {
    *form = (chat_form){.kind = CHAT_OTHER};
    if (chatml_read(template_bytes, count, &form->system))
        form->kind = CHAT_CHATML;
    const uint64_t hash = hash_template(template_bytes, count);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].hash == hash)
            *form = known[i].form;
    if (form->system == qwen25 && (form->system = strdup(qwen25)) == NULL)
        form->kind = CHAT_OTHER;
    if (form->kind == CHAT_OTHER || has_tokens(t, form->kind))
        return;
    chat_free(form);
    *form = (chat_form){.kind = CHAT_OTHER};
}

void chat_free(chat_form *form) {
    free(form->system);
    form->system = NULL;
}

/* -------------------------------------------------------------------------------------------------------- tokens -- */

typedef struct chat_ids {
    const tk_tokenizer *t;
    int32_t *ids;
    int64_t used, most;
    bool good; /* all that was added fits */
} chat_ids;

static void add_id(chat_ids *c, int32_t id) {
    c->good = c->good && c->used < c->most;
    if (c->good)
        c->ids[c->used++] = id;
}

static void add_special(chat_ids *c, const char *piece) { add_id(c, find(c->t, piece)); }

/* Texts that follow each other are one text to the tokenizer. count: bytes of the last. */
static void add_text(chat_ids *c, const char *first, const char *second, const char *last, size_t count) {
    const size_t one = strlen(first), two = strlen(second);
    char *all = c->good ? malloc(one + two + count + 1) : NULL;
    c->good = all != NULL;
    if (!c->good)
        return;
    memcpy(all, first, one);
    memcpy(all + one, second, two);
    memcpy(all + one + two, last, count);
    const int64_t left = c->most - c->used,
                  used = tk_encode(c->t, all, (int64_t)(one + two + count), 0, c->ids + c->used, left);
    free(all);
    c->good = used >= 0 && used <= left;
    c->used += c->good ? used : 0;
}

/* As Jinja's trim. */
static const char *trim(const char *text, size_t *count) {
    static const char spaces[] = " \t\n\r\f\v";
    text += strspn(text, spaces);
    *count = strlen(text);
    while (*count > 0 && strchr(spaces, text[*count - 1]) != NULL)
        --*count;
    return text;
}

/* <|im_start|>ROLE newline MESSAGE<|im_end|> newline. */
static void add_chatml(chat_ids *c, const chat_form *form, const char *role, const char *message) {
    size_t count = strlen(message);
    const char *text = form->thinks ? trim(message, &count) : message;
    add_special(c, "<|im_start|>");
    add_text(c, role, "\n", text, count);
    add_special(c, "<|im_end|>");
    add_text(c, "\n", "", "", 0);
}

/* <|start_header_id|>ROLE<|end_header_id|> and two newlines; what follows them is one text with them. */
static void add_header(chat_ids *c, const char *role) {
    add_special(c, "<|start_header_id|>");
    add_text(c, role, "", "", 0);
    add_special(c, "<|end_header_id|>");
}

static void add_llama3(chat_ids *c, const chat_form *form, const char *role, const char *message) {
    char dates[128] = "\n\n";
    size_t count = 0;
    const time_t now = time(NULL);
    struct tm day;
    const char *text = message != NULL ? trim(message, &count) : "";
    if (form->dated && strcmp(role, "system") == 0) {
        const char *const as = form->today ? "\n\nCutting Knowledge Date: December 2023\nToday Date: %d %b %Y\n\n"
                                           : "\n\nCutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n";
        c->good = c->good && localtime_r(&now, &day) != NULL && strftime(dates, sizeof dates, as, &day) > 0;
    }
    add_header(c, role);
    add_text(c, dates, "", text, count);
    add_special(c, "<|eot_id|>");
}

/* <start_of_turn>user newline SYSTEM two newlines MESSAGE<end_of_turn> newline. */
static void add_gemma(chat_ids *c, const char *system, const char *message) {
    size_t count;
    const char *text = trim(message, &count);
    char *before = malloc(strlen(system) + 8);
    c->good = c->good && before != NULL;
    if (c->good)
        snprintf(before, strlen(system) + 8, "user\n%s%s", system, *system != '\0' ? "\n\n" : "");
    add_special(c, "<start_of_turn>");
    add_text(c, c->good ? before : "", "", text, count);
    add_special(c, "<end_of_turn>");
    add_text(c, "\n", "", "", 0);
    free(before);
}

/* <think> is a token of its own, if the tokenizer has it. */
static void add_thought(chat_ids *c) {
    const bool token = find(c->t, "<think>") != TK_NONE;
    if (token)
        add_special(c, "<think>");
    add_text(c, token ? "" : "<think>", "\n", "", 0);
}

/* <|start|>ROLE<|message|>BEFORE MESSAGE BEHIND<|end|>. */
static void add_harmony(chat_ids *c, const char *role, const char *before, const char *message, const char *behind) {
    add_special(c, "<|start|>");
    add_text(c, role, "", "", 0);
    add_special(c, "<|message|>");
    add_text(c, before, message, behind, strlen(behind));
    add_special(c, "<|end|>");
}

static void add_harmony_system(chat_ids *c) {
    char text[256] = "";
    const time_t now = time(NULL);
    struct tm day;
    c->good = c->good && localtime_r(&now, &day) != NULL &&
              strftime(text, sizeof text,
                       "You are ChatGPT, a large language model trained by OpenAI.\nKnowledge cutoff: 2024-06\n"
                       "Current date: %Y-%m-%d\n\nReasoning: medium\n\n# Valid channels: analysis, commentary, final. "
                       "Channel must be included for every message.",
                       &day) > 0;
    add_harmony(c, "system", "", text, "");
}

int64_t chat_tokens(const tk_tokenizer *t, const chat_form *form, int32_t first, const char *system, const char *user,
                    int32_t *ids, int64_t most) {
    chat_ids c = {.t = t, .ids = ids, .most = most, .good = system == NULL || !form->no_system};
    switch (form->kind) {
    case CHAT_CHATML:
        system = system != NULL ? system : form->system;
        if (first >= 0)
            add_id(&c, first);
        if (system != NULL)
            add_chatml(&c, form, "system", system);
        add_chatml(&c, form, "user", user);
        add_special(&c, "<|im_start|>");
        add_text(&c, "assistant\n", "", "", 0);
        if (form->thinks)
            add_thought(&c);
        break;
    case CHAT_HARMONY:
        add_harmony_system(&c);
        if (system != NULL && *system != '\0')
            add_harmony(&c, "developer", "# Instructions\n\n", system, "\n\n");
        add_harmony(&c, "user", "", user, "");
        add_special(&c, "<|start|>");
        add_text(&c, "assistant", "", "", 0);
        break;
    case CHAT_LLAMA3:
        add_special(&c, "<|begin_of_text|>");
        if (system != NULL || form->dated)
            add_llama3(&c, form, "system", system);
        add_llama3(&c, form, "user", user);
        add_header(&c, "assistant");
        add_text(&c, "\n\n", "", "", 0);
        break;
    case CHAT_GEMMA:
        add_special(&c, "<bos>");
        add_gemma(&c, system != NULL ? system : "", user);
        add_special(&c, "<start_of_turn>");
        add_text(&c, "model\n", "", "", 0);
        break;
    default: return -1;
    }
    return c.good ? c.used : -1;
}

chat_part chat_part_of(const tk_tokenizer *t, const chat_form *form, int32_t id, bool *header) {
    if (form->kind != CHAT_HARMONY)
        return CHAT_TEXT;
    const bool begins = id == find(t, "<|message|>");
    if (begins || id == find(t, "<|start|>") || id == find(t, "<|channel|>") || id == find(t, "<|end|>"))
        *header = !begins;
    return begins ? CHAT_MESSAGE : *header ? CHAT_HEADER : CHAT_TEXT;
}
