/* vocabulary.h. */
#include "vocabulary.h"

#include "text_file.h"

#include <stdlib.h>
#include <string.h>

enum { FILE_MOST = 1 << 26, IDS_MOST = 1 << 22 };

struct vocabulary {
    char *bytes; /* all pieces, a zero after each */
    const char **text;
    int64_t count, at; /* at: the next one of the list */
};

static int out_of_memory(const char *path, complaint to) { return complain(to, path, "out of memory"); }

/* Cuts the file into pieces. */
static int list_lines(vocabulary *v, const char *path, int64_t bytes, complaint to) {
    if (bytes > 0 && v->bytes[bytes - 1] == '\n')
        bytes--;
    v->bytes[bytes] = '\n';
    int64_t lines = 0;
    for (int64_t i = 0; i <= bytes; i++)
        lines += v->bytes[i] == '\n';
    if ((v->text = calloc((size_t)lines, sizeof *v->text)) == NULL)
        return out_of_memory(path, to);
    for (char *piece = v->bytes; v->count < lines; v->count++) {
        char *end = strchr(piece, '\n');
        *end = 0;
        if (end == piece)
            return complain(to, path, "line %lld is empty", (long long)v->count + 1);
        v->text[v->count] = piece;
        piece = end + 1;
    }
    return 0;
}

int vocabulary_load(const char *path, vocabulary **v_out, complaint to) {
    int64_t bytes;
    *v_out = NULL;
    vocabulary *v = calloc(1, sizeof *v);
    if (v == NULL)
        return out_of_memory(path, to);
    v->bytes = text_file_read(path, FILE_MOST, &bytes, to);
    if (v->bytes != NULL && list_lines(v, path, bytes, to) == 0)
        return *v_out = v, 0;
    vocabulary_free(v);
    return -1;
}

/* The sizes of a JSON object's pieces, checked. */
static int measure(const char *path, const json_t *pieces, int64_t *count, size_t *bytes, complaint to) {
    const char *piece;
    json_t *id;
    *count = 0;
    *bytes = 1;
    json_object_foreach((json_t *)pieces, piece, id) {
        const int64_t number = json_is_integer(id) ? json_integer_value(id) : -1;
        if (number < 0 || number >= IDS_MOST)
            return complain(to, path, "the id of a piece of its vocabulary is not a number from 0 to %d", IDS_MOST - 1);
        if (*piece == '\0')
            return complain(to, path, "piece %lld of its vocabulary is empty", (long long)number);
        *bytes += strlen(piece) + 1;
        *count = number + 1 > *count ? number + 1 : *count;
    }
    return *count > 0 ? 0 : complain(to, path, "its vocabulary is empty");
}

static int list_pieces(vocabulary *v, const char *path, const json_t *pieces, complaint to) {
    const char *piece;
    json_t *id;
    size_t bytes;
    if (measure(path, pieces, &v->count, &bytes, to) != 0)
        return -1;
    v->bytes = malloc(bytes);
    v->text = calloc((size_t)v->count, sizeof *v->text);
    if (v->bytes == NULL || v->text == NULL)
        return out_of_memory(path, to);
    char *at = v->bytes;
    json_object_foreach((json_t *)pieces, piece, id) {
        const size_t length = strlen(piece);
        const int64_t number = json_integer_value(id);
        if (v->text[number] != NULL)
            return complain(to, path, "two pieces of its vocabulary have the id %lld", (long long)number);
        v->text[number] = memcpy(at, piece, length + 1);
        at += length + 1;
    }
    return 0;
}

int vocabulary_from_json(const char *path, const json_t *pieces, vocabulary **v_out, complaint to) {
    *v_out = NULL;
    vocabulary *v = calloc(1, sizeof *v);
    if (v == NULL)
        return out_of_memory(path, to);
    if (list_pieces(v, path, pieces, to) == 0)
        return *v_out = v, 0;
    vocabulary_free(v);
    return -1;
}

void vocabulary_free(vocabulary *v) {
    if (v == NULL)
        return;
    free(v->bytes);
    free(v->text);
    free(v);
}

static tk_text next_piece(void *at) {
    vocabulary *v = at;
    const char *piece = v->text[v->at++];
    return piece != NULL ? (tk_text){piece, (int64_t)strlen(piece)} : (tk_text){"", 0};
}

tk_list vocabulary_list(vocabulary *v) { return (tk_list){v->count, next_piece, v}; }
