/* Calls libfovea_mpi alone, which must find what it needs by itself: with --as-needed this program names nothing
 * else. */
#include <fovea_mpi.h>

int main(void) { return *fovea_mpi_error_detail() != '\0'; }
