/* Chats: the text that a model sees, special tokens spelt, is what Jinja makes of the template; templates that are
 * known, and the tokens that they need. Each byte is a token. */
#include "chat.h"

#include "test.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { BYTES = 96, SPECIALS = 15, TOKENS = BYTES + SPECIALS, TEXT = 640 };

static const char *const specials[SPECIALS] = {"<|im_start|>",
                                               "<|im_end|>",
                                               "<|begin_of_text|>",
                                               "<|start_header_id|>",
                                               "<|end_header_id|>",
                                               "<|eot_id|>",
                                               "<bos>",
                                               "<start_of_turn>",
                                               "<end_of_turn>",
                                               "<|start|>",
                                               "<|channel|>",
                                               "<|message|>",
                                               "<|end|>",
                                               "<think>",
                                               "<s>"};

static char sentence[256];

/* The next piece of the vocabulary: printable characters, space and line feed as GPT-2 writes them, and special
 * tokens. */
static tk_text next_piece(void *at) {
    static char one[4];
    const int i = (*(int *)at)++;
    if (i >= BYTES)
        return (tk_text){specials[i - BYTES], (int64_t)strlen(specials[i - BYTES])};
    if (i < 2)
        snprintf(one, sizeof one, "%s", i == 0 ? "\xc4\xa0" : "\xc4\x8a");
    else
        snprintf(one, sizeof one, "%c", '!' + i - 2);
    return (tk_text){one, (int64_t)strlen(one)};
}

static tk_text no_piece(void *at) {
    (void)at;
    return (tk_text){"", 0};
}

/* With the first of the special tokens. */
static tk_tokenizer *make_tokenizer(int special_count) {
    int32_t types[TOKENS];
    int next = 0;
    tk_tokenizer *t = NULL;
    for (int i = 0; i < TOKENS; i++)
        types[i] = i < BYTES ? TK_NORMAL : TK_CONTROL;
    const tk_description d = {.name = "made",
                              .model = {"gpt2", 4},
                              .pre = {"gpt-2", 5},
                              .tokens = {BYTES + special_count, next_piece, &next},
                              .merges = {0, no_piece, NULL},
                              .types = types,
                              .bos = TK_NONE,
                              .eos = TK_NONE};
    test_check(tk_create(&d, &t, (complaint){sentence, sizeof sentence}) == 0, "%s", sentence);
    return t;
}

/* The text of a chat, or "none". */
static void render(const tk_tokenizer *t, const chat_form *form, int32_t first, const char *system, const char *user,
                   char text[TEXT]) {
    int32_t ids[TEXT];
    size_t used = 0;
    const int64_t count = chat_tokens(t, form, first, system, user, ids, TEXT);
    tk_decoder d = tk_decoder_begin(t, true);
    snprintf(text, TEXT, "none");
    for (int64_t i = 0; i < count; i++)
        used += (size_t)tk_decode(&d, ids[i], text + used);
    if (count >= 0)
        text[used] = '\0';
    for (int64_t most = 0; count > 0 && most < count; most++)
        test_check(chat_tokens(t, form, first, system, user, ids, most) == -1, "%d ids have room in %d", (int)count,
                   (int)most);
    test_check(count < 0 || chat_tokens(t, form, first, system, user, ids, count) == count, "%d ids have no room",
               (int)count);
}

#define DATES "Cutting Knowledge Date: December 2023\nToday Date: "
#define HEADER(role) "<|start_header_id|>" role "<|end_header_id|>\n\n"

static void test_texts(const tk_tokenizer *t) {
    static const struct {
        chat_form form;
        int first;
        const char *system, *user, *want;
    } cases[] = {
        {{.kind = CHAT_CHATML}, -1, NULL, " Hi ", "<|im_start|>user\n Hi <|im_end|>\n<|im_start|>assistant\n"},
        {{.kind = CHAT_CHATML, .system = (char *)(size_t) "Own."},
         TOKENS - 1,
         NULL,
         "Hi",
         "<s><|im_start|>system\nOwn.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"},
        {{.kind = CHAT_CHATML, .thinks = true},
         -1,
         " Be brief. ",
         " Hi\n",
         "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n"},
        {{.kind = CHAT_LLAMA3},
         -1,
         NULL,
         " \nHi you \t",
         "<|begin_of_text|>" HEADER("user") "Hi you<|eot_id|>" HEADER("assistant")},
        {{.kind = CHAT_LLAMA3},
         BYTES + 2,
         " Be brief. ",
         "Hi",
         "<|begin_of_text|>" HEADER("system") "Be brief.<|eot_id|>" HEADER("user") "Hi<|eot_id|>" HEADER("assistant")},
        {{.kind = CHAT_LLAMA3, .dated = true},
         -1,
         NULL,
         "Hi",
         "<|begin_of_text|>" HEADER("system") DATES
         "26 Jul 2024\n\n<|eot_id|>" HEADER("user") "Hi<|eot_id|>" HEADER("assistant")},
        {{.kind = CHAT_LLAMA3, .dated = true},
         -1,
         "Be brief.",
         "<|eot_id|>",
         "<|begin_of_text|>" HEADER("system") DATES
         "26 Jul 2024\n\nBe brief.<|eot_id|>" HEADER("user") "<|eot_id|><|eot_id|>" HEADER("assistant")},
        {{.kind = CHAT_GEMMA}, -1, NULL, " Hi ", "<bos><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\n"},
        {{.kind = CHAT_GEMMA},
         BYTES + 6,
         " Be brief. ",
         "Hi",
         "<bos><start_of_turn>user\n Be brief. \n\nHi<end_of_turn>\n<start_of_turn>model\n"},
        {{.kind = CHAT_GEMMA, .no_system = true}, -1, "Be brief.", "Hi", "none"},
        {{.kind = CHAT_OTHER}, -1, NULL, "Hi", "none"},
        {{.kind = CHAT_NONE}, -1, NULL, "Hi", "none"},
    };
    char text[TEXT], today[TEXT], date[32];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        render(t, &cases[i].form, cases[i].first, cases[i].system, cases[i].user, text);
        test_check(strcmp(text, cases[i].want) == 0, "chat %d is \"%s\", not \"%s\"", (int)i, text, cases[i].want);
    }
    const time_t now = time(NULL); /* at midnight, a day may pass */
    strftime(date, sizeof date, "%d %b %Y", localtime(&now));
    snprintf(today, sizeof today,
             "<|begin_of_text|>" HEADER("system") DATES
             "%s\n\n<|eot_id|>" HEADER("user") "Hi<|eot_id|>" HEADER("assistant"),
             date);
    render(t, &(chat_form){.kind = CHAT_LLAMA3, .dated = true, .today = true}, -1, NULL, "Hi", text);
    test_check(strcmp(text, today) == 0, "\"%s\" is not dated today", text);
    strftime(date, sizeof date, "%Y-%m-%d", localtime(&now));
    snprintf(today, sizeof today,
             "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\n"
             "Knowledge cutoff: 2024-06\nCurrent date: %s\n\nReasoning: medium\n\n# Valid channels: analysis, "
             "commentary, final. Channel must be included for every message.<|end|><|start|>developer<|message|>"
             "# Instructions\n\n Be brief. \n\n<|end|><|start|>user<|message|> Hi <|end|><|start|>assistant",
             date);
    render(t, &(chat_form){.kind = CHAT_HARMONY}, -1, " Be brief. ", " Hi ", text);
    test_check(strcmp(text, today) == 0, "\"%s\" is not \"%s\"", text, today);
}

/* An answer of gpt-oss: headers, and where messages begin. */
static void test_parts(const tk_tokenizer *t) {
    static const char *const answer[] = {"<|channel|>", "a", "<|message|>", "b", "c",           "<|end|>",
                                         "<|start|>",   "d", "<|channel|>", "e", "<|message|>", "f"};
    static const char parts[] = "HHMTTHHHHHMT";
    bool header = true, other = true;
    for (size_t i = 0; i < sizeof answer / sizeof answer[0]; i++) {
        const int32_t id = tk_find(t, answer[i], (int64_t)strlen(answer[i]));
        const chat_part part = chat_part_of(t, &(chat_form){.kind = CHAT_HARMONY}, id, &header);
        test_check("THM"[part] == parts[i], "token %d, %s, is of part %d", (int)i, answer[i], (int)part);
        test_check(chat_part_of(t, &(chat_form){.kind = CHAT_CHATML}, id, &other) == CHAT_TEXT, "%s is no text",
                   answer[i]);
    }
}

/* Special tokens in a message are bytes. */
static void test_special(const tk_tokenizer *t) {
    int32_t ids[TEXT];
    const int64_t count = chat_tokens(t, &(chat_form){.kind = CHAT_LLAMA3}, -1, NULL, "<|eot_id|>", ids, TEXT);
    int found = 0;
    for (int64_t i = 0; i < count; i++)
        found += ids[i] == BYTES + 5;
    test_check(found == 1, "a message ends %d times", found);
}

#define GEMMA2                                                                                                         \
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}"        \
    "{% endif %}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"           \
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"          \
    "{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}"      \
    "{% endif %}{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}{% endfor %}"     \
    "{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}"
#define LLAMA3(feed)                                                                                                   \
    "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + "    \
    "message['role'] + '<|end_header_id|>" feed feed "'+ message['content'] | trim + '<|eot_id|>' %}"                  \
    "{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}"             \
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>" feed feed "' }}{% endif %}"

static void test_templates(const tk_tokenizer *all, const tk_tokenizer *few) {
    static const struct {
        const char *template;
        chat_kind kind, of_few;
    } cases[] = {
        {LLAMA3("\n"), CHAT_LLAMA3, CHAT_OTHER},
        {LLAMA3("\\n"), CHAT_LLAMA3, CHAT_OTHER},
        {LLAMA3("\n") "\n", CHAT_LLAMA3, CHAT_OTHER},
        {LLAMA3("\n") "x", CHAT_OTHER, CHAT_OTHER},
        {LLAMA3(" "), CHAT_OTHER, CHAT_OTHER},
        {GEMMA2, CHAT_GEMMA, CHAT_OTHER},
        {"{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
         "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
         CHAT_CHATML, CHAT_CHATML},
        {"", CHAT_OTHER, CHAT_OTHER}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int k = 0; k < 2; k++) {
            chat_form form;
            chat_read(k == 0 ? all : few, cases[i].template, strlen(cases[i].template), &form);
            const chat_kind want = k == 0 ? cases[i].kind : cases[i].of_few;
            test_check(form.kind == want && form.no_system == (want == CHAT_GEMMA), "template %d is of kind %d, not %d",
                       (int)i, (int)form.kind, (int)want);
            chat_free(&form);
        }
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "chat", NULL);
    tk_tokenizer *all = make_tokenizer(SPECIALS), *few = make_tokenizer(2);
    if (all != NULL && few != NULL) {
        test_texts(all);
        test_special(all);
        test_parts(all);
        test_templates(all, few);
    }
    tk_free(all);
    tk_free(few);
    return test_end();
}
