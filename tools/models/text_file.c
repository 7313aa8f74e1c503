/* text_file.h. */
#include "text_file.h"

#include "regular_file.h"

#include <stdlib.h>

/* Reads an open file. */
static char *read_bytes(FILE *file, const char *path, int64_t most, int64_t *bytes, complaint to) {
    char *text = NULL;
    long length = -1;
    if (fseek(file, 0, SEEK_END) != 0 || (length = ftell(file)) < 0 || fseek(file, 0, SEEK_SET) != 0)
        complain(to, path, "cannot be read (%s)", strerror(errno));
    else if (length > most)
        complain(to, path, "is too large: %ld bytes, of which at most %lld can be read", length, (long long)most);
    else if ((text = malloc((size_t)length + 1)) == NULL)
        complain(to, path, "out of memory");
    else if (fread(text, 1, (size_t)length, file) != (size_t)length)
        complain(to, path, "cannot be read to its end");
    else if (memchr(text, 0, (size_t)length) != NULL)
        complain(to, path, "is not text: it contains zero bytes");
    else {
        text[length] = '\0';
        *bytes = length;
        return text;
    }
    free(text);
    return NULL;
}

char *text_file_read(const char *path, int64_t most, int64_t *bytes, complaint to) {
    const char *why;
    FILE *file = regular_file_open(path, &why);
    if (file == NULL) {
        complain(to, path, "cannot be opened (%s)", why);
        return NULL;
    }
    char *text = read_bytes(file, path, most, bytes, to);
    fclose(file);
    return text;
}

int text_file_json(const char *path, int64_t most, json_t **object, complaint to) {
    *object = NULL;
    int64_t bytes;
    if (access(path, F_OK) != 0 && errno == ENOENT)
        return 0;
    char *text = text_file_read(path, most, &bytes, to);
    if (text == NULL)
        return -1;
    json_error_t error;
    json_t *json = json_loadb(text, (size_t)bytes, JSON_REJECT_DUPLICATES, &error);
    free(text);
    if (json == NULL && json_error_code(&error) == json_error_out_of_memory)
        return complain(to, path, "out of memory");
    if (json == NULL)
        return complain(to, path, "is not JSON: line %d, %s", error.line, error.text);
    if (!json_is_object(json)) {
        json_decref(json);
        return complain(to, path, "is not a JSON object");
    }
    *object = json;
    return 0;
}

int text_file_json_in(const char *folder, const char *name, int64_t most, char path[PATH_MOST], json_t **object,
                      complaint to) {
    *object = NULL;
    return path_join(path, folder, name, to) == 0 ? text_file_json(path, most, object, to) : -1;
}
