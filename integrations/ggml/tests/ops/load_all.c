/* test-llama-archs loads no backends. */
#include <ggml-backend.h>

__attribute__((constructor)) static void load(void) { ggml_backend_load_all(); }
