/* A library for LD_PRELOAD: functions of libm that need not be exact are off by a thousandth, as no libm is. A program
 * whose results stay the same has no bit of theirs in them (test golden.other-libm). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

static void find(const char *name, void *function, size_t size) {
    void *symbol = dlsym(RTLD_NEXT, name);
    memcpy(function, &symbol, size); /* ISO C has no conversion */
}

#define ROUGH_OF(type, name, parameters, arguments)                                                                    \
    type name parameters;                                                                                              \
    type name parameters {                                                                                             \
        type(*exact) parameters;                                                                                       \
        find(#name, &exact, sizeof exact);                                                                             \
        return exact arguments * (type)1.001;                                                                          \
    }
#define ROUGH(name) ROUGH_OF(double, name, (double x), (x)) ROUGH_OF(float, name##f, (float x), (x))
#define ROUGH2(name)                                                                                                   \
    ROUGH_OF(double, name, (double x, double y), (x, y)) ROUGH_OF(float, name##f, (float x, float y), (x, y))

ROUGH(exp)
ROUGH(exp2)
ROUGH(expm1)
ROUGH(log)
ROUGH(log2)
ROUGH(log10)
ROUGH(log1p)
ROUGH(sin)
ROUGH(cos)
ROUGH(tan)
ROUGH(sinh)
ROUGH(cosh)
ROUGH(tanh)
ROUGH(erf)
ROUGH(erfc)
ROUGH(cbrt)
ROUGH2(pow)
ROUGH2(hypot)
ROUGH2(atan2)
