/* Structs of callers (structs.h). */
#include "structs.h"
#include "agree.h"
#include "fovea_mpi.h"

#include <string.h>

fovea_status fovea_mpi_struct_init(fovea_mpi_struct kind, void *object, size_t size) {
    static const fovea_mpi_costs costs;
    static const fovea_mpi_attention_desc attention_desc = {.min_offset = FOVEA_MPI_OFFSET_FULL,
                                                            .max_offset = FOVEA_MPI_OFFSET_FULL};
    const void *defaults = kind == FOVEA_MPI_STRUCT_COSTS ? (const void *)&costs : &attention_desc;
    const size_t known = kind == FOVEA_MPI_STRUCT_COSTS ? sizeof costs : sizeof attention_desc;
    if (!object)
        return fv_mpi_fail_null("object");
    if (size < sizeof size)
        return fv_mpi_fail(FOVEA_ERROR_ARGUMENT, "a struct of %zu bytes has no room for struct_size", size);
    if (kind != FOVEA_MPI_STRUCT_COSTS && kind != FOVEA_MPI_STRUCT_ATTENTION_DESC)
        return fv_mpi_fail(FOVEA_ERROR_VERSION, "this library knows no fovea_mpi_struct %d", (int)kind);
    memset(object, 0, size);
    memcpy(object, defaults, size < known ? size : known);
    memcpy(object, &size, sizeof size);
    return FOVEA_OK;
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
