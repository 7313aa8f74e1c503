/* Variables of Windows (environment.h): the process's, of which a C library has a copy from when it began. */
#include "core/environment.h"

#include <windows.h>

enum { VALUE = 4096, RECENT = 4 };

const char *fv_environment(const char *name) {
    static _Thread_local char value[RECENT][VALUE];
    static _Thread_local unsigned next;
    char *to = value[next++ % RECENT];
    SetLastError(ERROR_SUCCESS);
    const DWORD length = GetEnvironmentVariableA(name, to, VALUE);
    if (length >= VALUE)
        return "?"; /* names no file, and is no word of any variable */
    return length == 0 && GetLastError() == ERROR_ENVVAR_NOT_FOUND ? NULL : (to[length] = '\0', to);
}
