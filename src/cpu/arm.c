/* 64-bit Arm: NEON is part of the architecture, so every CPU has the tier; features by what the system reports
 * (HWCAP on Linux, sysctl on macOS), the name by MIDR_EL1 where user programs may read it, caches from the system. */
#include "cpu/cpu.h"
#include "cpu/self_check.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#if defined(__linux__)
#include <sys/auxv.h>

enum { MIDR_READABLE = 1 << 11 }; /* HWCAP_CPUID: the kernel answers reads of the identification registers */

static void detect_features(fv_cpu *cpu) {
    static const struct {
        unsigned long word; /* of the auxiliary vector */
        int bit;
    } where[FV_FEATURE_COUNT] = {
        [FV_FEATURE_dotprod] = {AT_HWCAP, 20}, /* HWCAP_ASIMDDP */
        [FV_FEATURE_fhm] = {AT_HWCAP, 23},     /* HWCAP_ASIMDFHM */
        [FV_FEATURE_i8mm] = {AT_HWCAP2, 13},
        [FV_FEATURE_bf16] = {AT_HWCAP2, 14},
    };
    for (int i = 0; i < FV_FEATURE_COUNT; i++)
        if (where[i].word && getauxval(where[i].word) >> where[i].bit & 1)
            cpu->target.features |= 1u << i;
}

/* Implementer and part of the CPU that this thread happens to be on. */
static void detect_name(fv_cpu *cpu) {
    static const struct {
        unsigned implementer, part;
        const char *name;
    } known[] = {
        {0x41, 0xd03, "Arm Cortex-A53"},  {0x41, 0xd04, "Arm Cortex-A35"},   {0x41, 0xd05, "Arm Cortex-A55"},
        {0x41, 0xd07, "Arm Cortex-A57"},  {0x41, 0xd08, "Arm Cortex-A72"},   {0x41, 0xd09, "Arm Cortex-A73"},
        {0x41, 0xd0a, "Arm Cortex-A75"},  {0x41, 0xd0b, "Arm Cortex-A76"},   {0x41, 0xd0c, "Arm Neoverse-N1"},
        {0x41, 0xd0d, "Arm Cortex-A77"},  {0x41, 0xd40, "Arm Neoverse-V1"},  {0x41, 0xd41, "Arm Cortex-A78"},
        {0x41, 0xd44, "Arm Cortex-X1"},   {0x41, 0xd46, "Arm Cortex-A510"},  {0x41, 0xd47, "Arm Cortex-A710"},
        {0x41, 0xd48, "Arm Cortex-X2"},   {0x41, 0xd49, "Arm Neoverse-N2"},  {0x41, 0xd4d, "Arm Cortex-A715"},
        {0x41, 0xd4e, "Arm Cortex-X3"},   {0x41, 0xd4f, "Arm Neoverse-V2"},  {0x41, 0xd80, "Arm Cortex-A520"},
        {0x41, 0xd81, "Arm Cortex-A720"}, {0x41, 0xd82, "Arm Cortex-X4"},    {0x41, 0xd84, "Arm Neoverse-V3"},
        {0x41, 0xd8e, "Arm Neoverse-N3"}, {0x48, 0xd01, "HiSilicon TSV110"}, {0x46, 0x001, "Fujitsu A64FX"},
        {0xc0, 0xac3, "Ampere-1"},        {0xc0, 0xac4, "Ampere-1A"},
    };
    if (!(getauxval(AT_HWCAP) & MIDR_READABLE))
        return;
    uint64_t midr;
    __asm__("mrs %0, midr_el1" : "=r"(midr));
    const unsigned implementer = (unsigned)(midr >> 24) & 0xff, part = (unsigned)(midr >> 4) & 0xfff;
    const char *name = "64-bit Arm";
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].implementer == implementer && known[i].part == part)
            name = known[i].name;
    snprintf(cpu->vendor, sizeof cpu->vendor, "0x%02x", implementer);
    cpu->model = (int64_t)part;
    cpu->stepping = (int64_t)((midr >> 20 & 15) << 4 | (midr & 15));
    snprintf(cpu->name, sizeof cpu->name, "%s (implementer 0x%02x part 0x%03x r%up%u)", name, implementer, part,
             (unsigned)(midr >> 20) & 15, (unsigned)midr & 15);
}

static void detect_caches(fv_cpu *cpu) {
    cpu->l1d = fv_cpu_cache(FV_SYSTEM_CPUS, cpu->fastest.first, 1);
    cpu->l2 = fv_cpu_cache(FV_SYSTEM_CPUS, cpu->fastest.first, 2);
    cpu->l3_reported = fv_cpu_cache(FV_SYSTEM_CPUS, cpu->fastest.first, 3);
}

#elif defined(__APPLE__)
#include <sys/sysctl.h>

/* A number that the system knows by name; 0: it does not. Numbers are of 4 or 8 bytes. */
static int64_t number(const char *name) {
    int64_t value = 0;
    size_t size = sizeof value;
    return sysctlbyname(name, &value, &size, NULL, 0) == 0 ? value : 0;
}

static void detect_features(fv_cpu *cpu) {
    static const char *const names[FV_FEATURE_COUNT] = {
        [FV_FEATURE_dotprod] = "hw.optional.arm.FEAT_DotProd",
        [FV_FEATURE_fhm] = "hw.optional.arm.FEAT_FHM",
        [FV_FEATURE_i8mm] = "hw.optional.arm.FEAT_I8MM",
        [FV_FEATURE_bf16] = "hw.optional.arm.FEAT_BF16",
    };
    for (int i = 0; i < FV_FEATURE_COUNT; i++)
        if (names[i] && number(names[i]))
            cpu->target.features |= 1u << i;
}

static void detect_name(fv_cpu *cpu) {
    size_t size = sizeof cpu->name;
    if (sysctlbyname("machdep.cpu.brand_string", cpu->name, &size, NULL, 0) != 0)
        cpu->name[0] = '\0';
    cpu->name[sizeof cpu->name - 1] = '\0';
}

/* Level 0 is the faster kind of core; its second-level cache serves several. */
static void detect_caches(fv_cpu *cpu) {
    const int64_t sharing = number("hw.perflevel0.cpusperl2");
    cpu->l1d = number("hw.perflevel0.l1dcachesize");
    cpu->l2 = number("hw.perflevel0.l2cachesize") / (sharing > 0 ? sharing : 1);
}

#else

static void detect_features(fv_cpu *cpu) { (void)cpu; }
static void detect_name(fv_cpu *cpu) { (void)cpu; }
static void detect_caches(fv_cpu *cpu) { (void)cpu; }

#endif

void fv_cpu_detect(fv_cpu *cpu) {
    memset(cpu, 0, sizeof *cpu);
    cpu->target.isa = FV_ISA_neon;
    fv_cpu_detect_system(cpu);
    strcpy(cpu->vendor, "unknown");
    fv_cpu_fastest(FV_SYSTEM_CPUS, &cpu->fastest);
    detect_features(cpu);
    cpu->target.features &= ~fv_self_check(cpu->target);
    cpu->fast_pairs = true;
    detect_name(cpu);
    detect_caches(cpu);
    fv_cpu_sane_caches(cpu);
}
