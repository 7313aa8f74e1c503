/* chatml.h. A template is brought to one form, without the spaces of its code and with \n in texts as a line feed,
 * and compared. */
#include "chatml.h"

#include <stdlib.h>
#include <string.h>

static const char each[] = "{%formessageinmessages%}";
static const char own_begin[] = "{%ifloop.firstandmessages[0]['role']!='system'%}{{'<|im_start|>system\n";
static const char own_end[] = "<|im_end|>\n'}}{%endif%}";
static const char rest[] = "{{'<|im_start|>'+message['role']+'\n'+message['content']+'<|im_end|>'+'\n'}}{%endfor%}"
                           "{%ifadd_generation_prompt%}{{'<|im_start|>assistant\n'}}{%endif%}";

/* Into to, which has room for count + 1. */
static void normalize(const char *from, size_t count, char *to) {
    bool code = false, quoted = false;
    for (size_t i = 0; i < count; i++) {
        const char next = i + 1 < count ? from[i + 1] : '\0';
        if (!quoted && from[i] == '{' && (next == '{' || next == '%'))
            code = true;
        else if (!quoted && from[i] == '}')
            code = next == '}';
        else if (code && from[i] == '\'')
            quoted = !quoted;
        if (quoted && from[i] == '\\' && next == 'n') {
            *to++ = '\n';
            i++;
        } else if (!code || quoted || from[i] != ' ')
            *to++ = from[i];
    }
    *to = '\0';
}

/* The text behind a beginning; NULL: text begins otherwise. */
static const char *behind(const char *text, const char *beginning) {
    const size_t length = strlen(beginning);
    return text != NULL && strncmp(text, beginning, length) == 0 ? text + length : NULL;
}

/* The message between own_begin and own_end, which has no quotes, escapes or special tokens. */
static char *own_message(const char *begin, const char *end) {
    const size_t length = (size_t)(end - begin);
    char *message = malloc(length + 1);
    if (message == NULL)
        return NULL;
    memcpy(message, begin, length);
    message[length] = '\0';
    if (strpbrk(message, "'\\") == NULL && strstr(message, "<|") == NULL)
        return message;
    free(message);
    return NULL;
}

bool chatml_read(const char *template_bytes, size_t count, char **system) {
    *system = NULL;
    char *text = memchr(template_bytes, 0, count) == NULL ? malloc(count + 1) : NULL;
    if (text == NULL)
        return false;
    normalize(template_bytes, count, text);
    const char *at = behind(text, each), *own = behind(at, own_begin);
    const char *end = own != NULL ? strstr(own, own_end) : NULL;
    if (end != NULL && (*system = own_message(own, end)) != NULL)
        at = behind(end, own_end);
    const bool known = at != NULL && strcmp(at, rest) == 0;
    free(text);
    if (!known) {
        free(*system);
        *system = NULL;
    }
    return known;
}
