/* Files that are read whole: texts, and JSON objects. A pipe or a device is refused, as in regular_file.h. */
#ifndef MODELS_TEXT_FILE_H
#define MODELS_TEXT_FILE_H

#include "path.h"

#include <jansson.h>
#include <stdint.h>

/* The bytes of a file with a zero behind them, freed by free(); NULL after a complaint. A zero among them is one,
 * too. */
char *text_file_read(const char *path, int64_t most, int64_t *bytes, complaint to);

/* The object of a JSON file, freed by json_decref(). Returns 0, with *object NULL where there is no such file; or -1
 * after a complaint. */
int text_file_json(const char *path, int64_t most, json_t **object, complaint to);

/* The same of FOLDER/NAME, which path becomes. */
int text_file_json_in(const char *folder, const char *name, int64_t most, char path[PATH_MOST], json_t **object,
                      complaint to);

#endif
