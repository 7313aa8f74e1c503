/* Structs that may grow (struct.h). */
#include "core/struct.h"

#include "core/status.h"
#include "fovea/fovea.h"

#include <string.h>

/* With pointers of 4 bytes fovea_context_options has the same size in 0.2 and 0.3. */
_Static_assert(sizeof(void *) == 8 && sizeof(size_t) == 8,
               "Fovea is for 64-bit platforms only: elsewhere a struct of version 0.2 is not known by its size");

#define DESCRIBED(type, last) [FV_STRUCT_##type] = {#type, sizeof(type), FV_STRUCT_SIZE(type, last)},
const fv_struct fv_structs[FV_STRUCT_COUNT] = {FV_STRUCTS(DESCRIBED)};
#undef DESCRIBED

static size_t size_of(const void *given) {
    size_t size;
    memcpy(&size, given, sizeof size); /* struct_size is the first field of each */
    return size;
}

void fv_struct_init(void *given, size_t size, const void *defaults, size_t known) {
    if (!given || size < sizeof size)
        return;
    memset(given, 0, size);
    memcpy(given, defaults, size < known ? size : known);
    memcpy(given, &size, sizeof size);
}

fovea_status fv_struct_check(fv_struct type, const void *given) {
    const size_t size = size_of(given);
    if (size > type.size)
        return fv_fail(FOVEA_ERROR_VERSION,
                       "%s has struct_size %zu, but this library (%s) knows %zu: the program needs a newer library",
                       type.name, size, FOVEA_VERSION_STRING, type.size);
    if (size < type.least)
        return fv_fail(FOVEA_ERROR_VERSION,
                       "%s has struct_size %zu, but this library (%s) needs %zu: compiled for version 0.2, or without "
                       "%s_init",
                       type.name, size, FOVEA_VERSION_STRING, type.least, type.name);
    return FOVEA_OK;
}

fovea_status fv_struct_read(fv_struct type, const void *given, void *own) {
    const fovea_status status = fv_struct_check(type, given);
    if (status != FOVEA_OK)
        return status;
    memcpy(own, given, size_of(given));
    memcpy(own, &type.size, sizeof type.size);
    return FOVEA_OK;
}

void fv_struct_write(fv_struct type, void *given, const void *own) {
    const size_t size = size_of(given);
    (void)type;
    memcpy((char *)given + sizeof size, (const char *)own + sizeof size, size - sizeof size);
}
