/* Uses libfovea_mpi as installed: a plan over one rank. */
#include <fovea_mpi.h>

#include <stdio.h>

int main(int argc, char **argv) {
    fovea_context *ctx;
    fovea_context_options options;
    fovea_context_options_init(&options);
    fovea_attention_desc whole;
    fovea_attention_desc_init(&whole);
    whole.q_len = whole.kv_len = 300;
    whole.head_dim = whole.value_dim = 16;
    fovea_mpi_attention_desc desc;
    fovea_mpi_attention_desc_init(&desc);
    desc.attention = &whole;
    MPI_Init(&argc, &argv);
    fovea_mpi_attention_plan *plan = NULL;
    const int ok = fovea_context_create(&options, &ctx) == FOVEA_OK &&
                   fovea_mpi_attention_plan_create(MPI_COMM_WORLD, ctx, &desc, &plan) == FOVEA_OK &&
                   fovea_mpi_attention_keys(plan, 0) == 300;
    printf("%s\n", ok ? "over ranks" : fovea_mpi_error_detail());
    fovea_mpi_attention_plan_destroy(plan);
    fovea_context_destroy(ctx);
    MPI_Finalize();
    return !ok;
}
