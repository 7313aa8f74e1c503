/* Files that are read whole: texts, and JSON objects. A pipe or a device is refused, as in regular_file.h. */
#ifndef MINILM_TEXT_FILE_H
#define MINILM_TEXT_FILE_H

#include "complain.h"

#include <jansson.h>
#include <stdint.h>

/* The bytes of a file with a zero behind them, freed by free(); NULL after a complaint. A zero among them is one, too. */
char *text_file_read(const char *path, int64_t most, int64_t *bytes, complaint to);

/* The object of a JSON file, freed by json_decref(). Returns 0, with *object NULL where there is no such file; or -1
 * after a complaint. */
int text_file_json(const char *path, int64_t most, json_t **object, complaint to);

#endif
