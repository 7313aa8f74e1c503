/* texts_file.h. */
#include "texts_file.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { CHUNK_BYTES = 1 << 23 }; /* of texts at a time: memory stays flat whatever their length */

int texts_file_open(const char *path, const char *field, int64_t most, texts_file *texts, complaint to) {
    *texts = (texts_file){.path = strcmp(path, "-") == 0 ? "standard input" : path, .field = field, .most = most};
    texts->text = calloc((size_t)most, sizeof *texts->text);
    if (texts->text == NULL)
        return complain(to, texts->path, "out of memory");
    texts->file = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    return texts->file != NULL ? 0 : complain(to, texts->path, "cannot be opened");
}

static void forget(texts_file *t) {
    for (int64_t i = 0; i < t->count; i++)
        free(t->text[i]);
    t->count = 0;
}

/* The text of a line, allocated; NULL after a complaint. */
static char *text_of(const texts_file *t, size_t length, complaint to) {
    char *text = NULL;
    if (t->field == NULL) {
        text = malloc(length + 1);
        if (text != NULL)
            memcpy(text, t->line, length + 1);
    } else {
        json_t *root = json_loadb(t->line, length, 0, NULL);
        const char *value = json_string_value(json_object_get(root, t->field));
        if (value == NULL) {
            complain(to, t->path, "line %lld has no text \"%s\"", (long long)t->lines, t->field);
            json_decref(root);
            return NULL;
        }
        text = malloc(strlen(value) + 1);
        if (text != NULL)
            strcpy(text, value);
        json_decref(root);
    }
    if (text == NULL)
        complain(to, t->path, "out of memory");
    return text;
}

int texts_file_next(texts_file *t, complaint to) {
    int64_t bytes = 0;
    forget(t);
    while (t->count < t->most && bytes < CHUNK_BYTES) {
        ssize_t length = getline(&t->line, &t->room, t->file);
        if (length < 0)
            return ferror(t->file) ? complain(to, t->path, "cannot be read behind line %lld", (long long)t->lines) : 0;
        t->lines++;
        while (length > 0 && (t->line[length - 1] == '\n' || t->line[length - 1] == '\r'))
            t->line[--length] = 0;
        if (memchr(t->line, 0, (size_t)length) != NULL)
            return complain(to, t->path, "line %lld has a zero byte: this is no text", (long long)t->lines);
        if ((t->text[t->count] = text_of(t, (size_t)length, to)) == NULL)
            return -1;
        t->count++;
        bytes += length;
    }
    return 0;
}

void texts_file_close(texts_file *t) {
    forget(t);
    if (t->file != NULL && t->file != stdin)
        fclose(t->file);
    free(t->text);
    free(t->line);
}

int64_t texts_file_count(const char *path) {
    struct stat status;
    if (strcmp(path, "-") == 0 || stat(path, &status) != 0 || !S_ISREG(status.st_mode))
        return -1;
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return -1;
    static char block[1 << 16];
    int64_t lines = 0;
    int last = '\n';
    for (size_t n; (n = fread(block, 1, sizeof block, file)) > 0; last = block[n - 1])
        for (size_t i = 0; i < n; i++)
            lines += block[i] == '\n';
    fclose(file);
    return lines + (last != '\n');
}
