/* x86: tiers and features by CPUID, and by XGETBV for what the operating system saves; caches by the deterministic
 * cache leaf. */
#include "cpu/cpu.h"
#include "cpu/self_check.h"

#include <cpuid.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

typedef struct leaf {
    uint32_t eax, ebx, ecx, edx;
} leaf;

static leaf cpuid(uint32_t number, uint32_t sub) {
    leaf l = {0, 0, 0, 0};
    if (number <= (uint32_t)__get_cpuid_max(number & 0x80000000u, NULL))
        __cpuid_count(number, sub, l.eax, l.ebx, l.ecx, l.edx);
    return l;
}

static bool bit(uint32_t word, int index) { return (word >> index) & 1; }

/* Register states that the operating system saves at a context switch. Only with OSXSAVE. */
static uint64_t saved_states(void) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

/* Tier by tier, lowest first; the first that is not whole ends it. */
static void detect_isa(fv_cpu *cpu, uint64_t saved) {
    enum { YMM = 0x6, ZMM = 0xe6 }; /* XCR0: SSE and AVX; with opmask and both parts of the ZMM registers */
    const leaf one = cpuid(1, 0), seven = cpuid(7, 0);
    const struct {
        fv_isa isa;
        bool cpu, system;
        const char *needs;
    } tiers[] = {
        {FV_ISA_avx2, bit(one.ecx, 28) && bit(one.ecx, 12) && bit(seven.ebx, 5), (saved & YMM) == YMM, "AVX2 and FMA3"},
#ifdef FV_HAVE_AVX512
        {FV_ISA_avx512, bit(seven.ebx, 16) && bit(seven.ebx, 17) && bit(seven.ebx, 30) && bit(seven.ebx, 31),
         (saved & ZMM) == ZMM, "AVX-512 F, DQ, BW and VL"},
#endif
    };
    cpu->target.isa = FV_ISA_scalar;
    for (size_t i = 0; i < sizeof tiers / sizeof tiers[0]; i++) {
        if (!tiers[i].cpu || !tiers[i].system) {
            snprintf(cpu->missing, sizeof cpu->missing, "%s %s",
                     tiers[i].cpu ? "the operating system does not save" : "the CPU does not have", tiers[i].needs);
            return;
        }
        cpu->target.isa = tiers[i].isa;
    }
}

/* Why the system lets this process have no tiles, NULL: it does. It is asked where there are kernels for them. */
static const char *tiles_refused(uint64_t saved) {
    enum { TILES = 0x60000 };
    if ((saved & TILES) != TILES)
        return "the operating system does not save tiles";
    return fv_cpu_tiles_refused((fv_needed_features() & (FV_HAS_amx_bf16 | FV_HAS_amx_int8)) != 0);
}

static void detect_features(fv_cpu *cpu, uint64_t saved) {
    enum { EAX, ECX, EDX };
    static const struct {
        uint8_t leaf, sub, word, bit;
    } where[FV_FEATURE_COUNT] = {
        [FV_FEATURE_f16c] = {1, 0, ECX, 29},       [FV_FEATURE_avx_vnni] = {7, 1, EAX, 4},
        [FV_FEATURE_avx512_bf16] = {7, 1, EAX, 5}, [FV_FEATURE_avx512_vnni] = {7, 0, ECX, 11},
        [FV_FEATURE_amx_bf16] = {7, 0, EDX, 22},   [FV_FEATURE_amx_int8] = {7, 0, EDX, 25},
    };
    for (int i = 0; i < FV_FEATURE_COUNT; i++) {
        const leaf l = cpuid(where[i].leaf, where[i].sub);
        const uint32_t words[] = {l.eax, l.ecx, l.edx};
        if (where[i].leaf && bit(words[where[i].word], where[i].bit))
            cpu->target.features |= 1u << i;
    }
    const unsigned tiles = FV_HAS_amx_bf16 | FV_HAS_amx_int8;
    const char *why = bit(cpuid(7, 0).edx, 24) ? tiles_refused(saved) : "";
    if (why && (cpu->target.features & tiles))
        snprintf(cpu->no_tiles, sizeof cpu->no_tiles, "%s", why);
    if (why)
        cpu->target.features &= ~tiles;
    cpu->target = fv_target_capped(cpu->target, cpu->target.isa);
}

/* Leaf 4 (Intel) and 0x8000001d (AMD) have one form: a sub-leaf for each cache, type 0 ends the list. */
static void detect_caches(fv_cpu *cpu) {
    const bool amd = bit(cpuid(0x80000001u, 0).ecx, 22);
    for (uint32_t sub = 0; sub < 16; sub++) {
        const leaf c = cpuid(amd ? 0x8000001du : 4, sub);
        const uint32_t type = c.eax & 31, level = (c.eax >> 5) & 7;
        if (type == 0)
            break;
        const int64_t bytes =
            (int64_t)((c.ebx >> 22) + 1) * (((c.ebx >> 12) & 1023) + 1) * ((c.ebx & 4095) + 1) * ((int64_t)c.ecx + 1);
        if (level == 1 && type == 1)
            cpu->l1d = bytes;
        else if (level == 2)
            cpu->l2 = bytes;
        else if (level == 3)
            cpu->l3_reported = bytes;
    }
    fv_cpu_sane_caches(cpu);
}

static void detect_name(fv_cpu *cpu) {
    char brand[49] = "";
    for (uint32_t i = 0; i < 3; i++) {
        const leaf l = cpuid(0x80000002u + i, 0);
        memcpy(brand + 16 * i, &l, sizeof l);
    }
    const char *start = brand + strspn(brand, " ");
    const leaf vendor = cpuid(0, 0), one = cpuid(1, 0);
    memcpy(cpu->vendor, &vendor.ebx, 4);
    memcpy(cpu->vendor + 4, &vendor.edx, 4);
    memcpy(cpu->vendor + 8, &vendor.ecx, 4);
    const uint32_t base = (one.eax >> 8) & 15;
    const uint32_t family = base == 15 ? base + ((one.eax >> 20) & 255) : base;
    const uint32_t model = ((one.eax >> 4) & 15) | (base == 6 || base == 15 ? (one.eax >> 12) & 0xf0 : 0);
    const bool amd = strcmp(cpu->vendor, "AuthenticAMD") == 0;
    cpu->fast_pairs = amd && (cpu->target.features & FV_HAS_avx512_bf16);
    cpu->family = family;
    cpu->model = model;
    cpu->stepping = one.eax & 15;
    snprintf(cpu->name, sizeof cpu->name, "%.40s (family %u model %u)", *start ? start : cpu->vendor, family, model);
}

void fv_cpu_detect(fv_cpu *cpu) {
    memset(cpu, 0, sizeof *cpu);
    const uint64_t saved = bit(cpuid(1, 0).ecx, 27) ? saved_states() : 0;
    detect_isa(cpu, saved);
    detect_features(cpu, saved);
    const unsigned wrong = fv_self_check(cpu->target);
    if (wrong & FV_HAS_amx_bf16)
        snprintf(cpu->no_tiles, sizeof cpu->no_tiles, "TDPBF16PS gives other results than its definition");
    cpu->target.features &= ~wrong;
    fv_cpu_detect_system(cpu);
    detect_caches(cpu);
    detect_name(cpu);
}
