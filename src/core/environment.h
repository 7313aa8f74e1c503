/* Variables of the environment: the one place that reads any. */
#ifndef FV_ENVIRONMENT_H
#define FV_ENVIRONMENT_H

#ifdef _WIN32
/* As it is now, also where the program and the library have C libraries of their own. Valid until the thread's fourth
 * call after this one. */
const char *fv_environment(const char *name);
#else
#include <stdlib.h>

/* NULL: it is not set. */
static inline const char *fv_environment(const char *name) { return getenv(name); }
#endif

#endif
