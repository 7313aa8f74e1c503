/* Texts of a file, some at a time: lines of UTF-8, or a field of JSON lines. */
#ifndef EMBED_TEXTS_FILE_H
#define EMBED_TEXTS_FILE_H

#include "complain.h"

#include <stdint.h>
#include <stdio.h>

typedef struct texts_file {
    FILE *file;
    const char *path, *field; /* field NULL: the lines are the texts */
    int64_t lines;            /* read so far */
    char *line;
    size_t room;
    /* From the last texts_file_next(). */
    char **text; /* [most] */
    int64_t count, most;
} texts_file;

/* path "-": standard input. At most `most` texts at a time. 0, or -1 after a complaint. */
int texts_file_open(const char *path, const char *field, int64_t most, texts_file *texts, complaint to);

/* Reads the next texts: count is how many; 0: no more. A line without the field, or with a zero byte, is refused. What
 * was read before it is in count, and is as good as without it. */
int texts_file_next(texts_file *texts, complaint to);
void texts_file_close(texts_file *texts); /* zeros are allowed */

/* How many texts a regular file has; -1 for others. */
int64_t texts_file_count(const char *path);

#endif
