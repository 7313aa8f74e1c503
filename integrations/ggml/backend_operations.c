/* The table of operations (backend_operations.h). */
#include "backend_operations.h"
#include "operations.h"

#define FG_OPERATION(name, serves, compute) {fg_##serves, fg_##compute},
const fg_operation fg_operations[FG_OPERATIONS] = {
#include "backend_operations.inc"
};
#undef FG_OPERATION
