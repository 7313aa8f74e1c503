/* Workspaces of calls (memory.h). */
#include "core/memory.h"
#include "core/size.h"
#include "core/status.h"

fovea_status fv_call_workspace(int64_t bytes, void *workspace, size_t size, void **own, char **base) {
    *own = NULL;
    if (workspace && (bytes < 0 || size < (size_t)bytes))
        return fv_fail(FOVEA_ERROR_WORKSPACE, "workspace has %zu bytes, but this call needs %lld", size,
                       (long long)bytes);
    if (!workspace && size > 0)
        return fv_fail(FOVEA_ERROR_WORKSPACE, "workspace is NULL, but its size is %zu", size);
    if (!workspace) {
        *own = workspace = bytes > 0 ? malloc((size_t)bytes) : NULL;
        if (!workspace)
            return fv_fail(FOVEA_ERROR_OUT_OF_MEMORY, "no memory for a workspace of %lld bytes", (long long)bytes);
    }
    *base = fv_aligned(workspace);
    return FOVEA_OK;
}
