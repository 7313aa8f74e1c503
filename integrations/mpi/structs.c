/* Structs of callers (structs.h). */
#include "structs.h"
#include "agree.h"

#include <string.h>

void fv_mpi_init_struct(void *to, const void *defaults, size_t known, size_t size) {
    memcpy(to, defaults, size < known ? size : known);
    *(size_t *)to = size;
}

fovea_status fv_mpi_read_struct(void *to, const void *from, size_t known, const char *name) {
    if (!from)
        return fv_mpi_fail_null(name);
    const size_t size = *(const size_t *)from;
    if (size < sizeof size || size > known)
        return fv_mpi_fail(FOVEA_ERROR_VERSION, "%s.struct_size is %zu, this library knows %zu", name, size, known);
    memcpy(to, from, size);
    *(size_t *)to = known;
    return FOVEA_OK;
}
