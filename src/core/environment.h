/* Variables of the environment: the one place that reads any. */
#ifndef FV_ENVIRONMENT_H
#define FV_ENVIRONMENT_H

#ifdef _WIN32
/* As it is now, also where the program and the library have C libraries of their own. Valid until the thread's fourth
 * call after this one. */
const char *fv_environment(const char *name);
#else
#include <stdlib.h>
#if defined __linux__ && !defined __ANDROID__
char *secure_getenv(const char *name); /* stdlib.h has it with _GNU_SOURCE only */
#else
#define secure_getenv getenv
#endif

/* NULL: it is not set, or the process has more rights than its user, whose files it must neither read nor write. */
static inline const char *fv_environment(const char *name) { return secure_getenv(name); }
#endif

#endif
