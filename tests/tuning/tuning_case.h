/* Tuning files for tests: sound ones for this CPU and build, and text that is sound but for one thing. */
#ifndef FOVEA_TESTS_TUNING_CASE_H
#define FOVEA_TESTS_TUNING_CASE_H

#include "attention/plan/knobs.h"
#include "attention_case.h"
#include "linear/knobs.h"
#include "tuning/tuning.h"

/* A row for the tier under test: for any size, but for what the caller changes. */
fv_tuning_row row_any(fv_tuning_op operation, int threads);

/* The section of this CPU and build. */
fv_tuning_section section_own(void);

/* A tuning of one row of each operation. */
fovea_tuning *tuning_sound(int threads);

/* Its text, with what is between from and to (strings that occur in it) replaced by with, and the sum made right
 * again. from NULL: nothing. Returns text. */
char *tuning_text(const fovea_tuning *tuning, const char *from, const char *to, const char *with, char *text,
                  size_t size);

/* The sum of a text that has none yet, put at its end. */
void tuning_close(char *text, size_t size);

/* A name in a folder of this process's own, removed by files_end(). Returns a static buffer, one of four in turn. */
const char *files_name(const char *name);
void files_begin(void);
void files_end(void);

/* Writes a file as it is, no questions asked. */
void file_write(const char *path, const void *bytes, size_t size);

/* A context that loads that file, on that many threads (by itself: no pool). */
fovea_context *context_tuned(const char *path, int threads);

/* A context that is told of a file that is not to be used: it says status and words (parted by |, each of them), and
 * makes the plans and computes the bits of one without a file. */
bool check_defaults(const char *what, const char *path, fovea_status status, const char *words);

/* One with as many threads as another, which a file of that path tells these knobs for any size, of the operations from
 * first to last. */
fovea_context *context_knobs(const fovea_context *other, const char *path, fv_tuning_op first, fv_tuning_op last,
                             const fv_tuning_value knob[FV_TUNING_KNOBS]);

#endif
