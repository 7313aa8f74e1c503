/* A CPU with AVX-512 whose AMX-INT8 is emulated: kernels, dispatch and thread hooks are those of a CPU that has it.
 * Linked before the library, whose functions of these names are then left out. Without configuration emulated tiles do
 * nothing, so a forgotten hook shows, too. */
#include "amx/tiles.h"
#include "cpu/cpu.h"

void fv_tiles_configure_amx(void) { fv_tiles_configure_emulated(); }
void fv_tiles_release_amx(void) { fv_tiles_release_emulated(); }

void __real_fv_cpu_detect(fv_cpu *cpu); /* NOLINT: the linker's names */
void __wrap_fv_cpu_detect(fv_cpu *cpu);

/* TDPBF16PS would need tiles of its own. */
void __wrap_fv_cpu_detect(fv_cpu *cpu) {
    __real_fv_cpu_detect(cpu);
    cpu->target.features &= ~(unsigned)FV_HAS_amx_bf16;
    if (cpu->target.isa == FV_ISA_avx512)
        cpu->target.features |= FV_HAS_amx_int8;
}
