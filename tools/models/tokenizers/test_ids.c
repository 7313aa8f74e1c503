/* Prints the ids of texts, for test_trained.py:  test-tokenizers-ids FOLDER FRAME <FILE. The file has a JSON string a
 * line. */
#include "folder_tokenizer.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IDS_MOST = 1 << 16, LINE_MOST = 1 << 20 };

int main(int argc, char **argv) {
    static char text[512], line[LINE_MOST];
    static int32_t ids[IDS_MOST];
    tk_tokenizer *t;
    if (argc != 3 || folder_tokenizer(argv[1], (folder_frame)atoi(argv[2]), &t, (complaint){text, sizeof text}) != 0) {
        fprintf(stderr, "%s\n", text);
        return 1;
    }
    while (fgets(line, sizeof line, stdin) != NULL) {
        json_t *value = json_loads(line, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        const int64_t count =
            tk_encode_cut(t, json_string_value(value), (int64_t)json_string_length(value), ids, IDS_MOST);
        for (int64_t i = 0; i < count; i++)
            printf("%s%ld", i > 0 ? " " : "", (long)ids[i]);
        putchar('\n');
        json_decref(value);
    }
    tk_free(t);
    return 0;
}
