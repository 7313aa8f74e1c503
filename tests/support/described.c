/* Described machines (described.h). */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* mprotect, environ */
#endif
#include "described.h"

#include "dispatch/dispatch.h"

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

extern char **environ; /* no header of macOS declares it */

#ifdef FV_HAVE_X86
static const char architecture[] = "x86";
#elif defined(FV_HAVE_ARM64)
static const char architecture[] = "arm64";
#else
static const char architecture[] = "portable";
#endif

static fv_cpu described;
static bool entered;

const fv_cpu *machine_facts(void) { return &described; }

/* --------------------------------------------------------------------------------------------------- description -- */

typedef enum value_kind { TEXT, LONG, INT, BOOL, KIB, MIB } value_kind;

static const struct {
    const char *key;
    value_kind kind;
    size_t offset, size;
} keys[] = {
#define TEXT_OF(field) TEXT, offsetof(fv_cpu, field), sizeof described.field
    {"name", TEXT_OF(name)},
    {"vendor", TEXT_OF(vendor)},
    {"missing", TEXT_OF(missing)},
    {"no_tiles", TEXT_OF(no_tiles)},
    {"family", LONG, offsetof(fv_cpu, family), 0},
    {"model", LONG, offsetof(fv_cpu, model), 0},
    {"stepping", LONG, offsetof(fv_cpu, stepping), 0},
    {"fast_pairs", BOOL, offsetof(fv_cpu, fast_pairs), 0},
    {"l1d_kib", KIB, offsetof(fv_cpu, l1d), 0},
    {"l2_kib", KIB, offsetof(fv_cpu, l2), 0},
    {"l3_kib", KIB, offsetof(fv_cpu, l3_reported), 0},
    {"cores", LONG, offsetof(fv_cpu, cores), 0},
    {"affinity", INT, offsetof(fv_cpu, affinity), 0},
    {"fastest", INT, offsetof(fv_cpu, fastest.count), 0},
    {"quota", INT, offsetof(fv_cpu, quota), 0},
    {"memory_mib", MIB, offsetof(fv_cpu, memory), 0},
};

static void put_number(void *at, value_kind kind, int64_t number) {
    const int narrow = (int)number;
    const bool flag = number != 0;
    number <<= kind == KIB ? 10 : kind == MIB ? 20 : 0;
    if (kind == INT)
        memcpy(at, &narrow, sizeof narrow);
    else if (kind == BOOL)
        memcpy(at, &flag, sizeof flag);
    else
        memcpy(at, &number, sizeof number);
}

/* "node NUMBER CPUS [no memory]" */
static bool take_node(fv_cpu *cpu, const char *value) {
    fv_node node = {.memory = strstr(value, "no memory") == NULL};
    if (cpu->nodes.count == FV_NODES || sscanf(value, "%d %d", &node.number, &node.cpus) != 2) /* NOLINT */
        return false;
    cpu->nodes.node[cpu->nodes.count++] = node;
    cpu->nodes.cpus += node.cpus;
    cpu->nodes.with_cpus += node.cpus > 0;
    return true;
}

static bool take_line(fv_cpu *cpu, const char *key, const char *value) {
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        char *at = (char *)cpu + keys[i].offset, *end;
        if (strcmp(key, keys[i].key) != 0)
            continue;
        if (keys[i].kind == TEXT)
            return snprintf(at, keys[i].size, "%s", value) < (int)keys[i].size;
        put_number(at, keys[i].kind, strtoll(value, &end, 10));
        return *value && !*end;
    }
    return strcmp(key, "node") == 0 && take_node(cpu, value);
}

static void refuse(const char *path, int line, const char *what) {
    fprintf(stderr, "%s, line %d: %s\n", path, line, what);
    exit(2);
}

static bool read_machine(const char *path, fv_cpu *cpu, char why[MACHINE_WHY]) {
    FILE *file = fopen(path, "re");
    char line[256], tier[32] = "", features[FV_FEATURES_TEXT] = "", own[32] = "";
    memset(cpu, 0, sizeof *cpu);
    if (!file)
        refuse(path, 0, "cannot be read");
    for (int number = 1; fgets(line, sizeof line, file); number++) {
        char *value = strchr(line, ' ');
        line[strcspn(line, "\n")] = '\0';
        if (!*line || *line == '#')
            continue;
        if (!value)
            refuse(path, number, "no value");
        *value++ = '\0';
        if (strcmp(line, "architecture") == 0)
            snprintf(own, sizeof own, "%s", value);
        else if (strcmp(line, "tier") == 0)
            snprintf(tier, sizeof tier, "%s", value);
        else if (strcmp(line, "features") == 0)
            snprintf(features, sizeof features, "%s", value);
        else if (!take_line(cpu, line, value))
            refuse(path, number, "not a word of descriptions, or not a value of it");
    }
    fclose(file);
    if (strcmp(own, architecture) != 0) {
        snprintf(why, MACHINE_WHY, "kernels of %s, this build has those of %s", own, architecture);
        return false;
    }
    cpu->target.isa = fv_isa_named(tier);
    cpu->target.features = fv_features_named(features);
    char again[FV_FEATURES_TEXT];
    if (strcmp(fv_features_text(cpu->target.features, ",", again), features) != 0)
        refuse(path, 0, "features that are unknown, or in another order than that of features.inc");
    if (fv_kernel_best(FV_OP_exp, FV_TYPE_f32, cpu->target)->isa != cpu->target.isa) {
        snprintf(why, MACHINE_WHY, "this build has no %s", tier);
        return false;
    }
    fv_cpu_sane_caches(cpu);
    return true;
}

/* --------------------------------------------------------------------------------------------------------- entry -- */

void __real_fv_cpu_detect(fv_cpu *cpu); /* NOLINT: the linker's names */
void __wrap_fv_cpu_detect(fv_cpu *cpu);
fv_openmp __real_fv_threads_of_openmp(void); /* NOLINT */
fv_openmp __wrap_fv_threads_of_openmp(void);
bool __real_fv_node_place(const fv_nodes *nodes, int node, void *memory, int64_t part, int64_t first, /* NOLINT */
                          int64_t end);
bool __wrap_fv_node_place(const fv_nodes *nodes, int node, void *memory, int64_t part, int64_t first, int64_t end);

void __wrap_fv_cpu_detect(fv_cpu *cpu) {
    if (entered)
        *cpu = described;
    else
        __real_fv_cpu_detect(cpu);
}

fv_openmp __wrap_fv_threads_of_openmp(void) {
    return entered ? (fv_openmp){true, described.affinity, INT_MAX} : __real_fv_threads_of_openmp();
}

bool __wrap_fv_node_place(const fv_nodes *nodes, int node, void *memory, int64_t part, int64_t first, int64_t end) {
    return entered || __real_fv_node_place(nodes, node, memory, part, first, end);
}

/* Rows that this CPU cannot run get the code of the portable tier. */
static void lend_code(void) {
    fv_cpu own;
    __real_fv_cpu_detect(&own);
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)fv_kernels / page * page,
                    end = (uintptr_t)(fv_kernels + fv_kernel_count);
    if (mprotect((void *)begin, end - begin, PROT_READ | PROT_WRITE) != 0) /* NOLINT: the list's own pages */
        exit(2);
    for (int i = 0; i < fv_kernel_count; i++)
        if (!fv_kernel_runs(&fv_kernels[i], own.target)) {
            const fv_kernel *from = fv_kernel_reference(&fv_kernels[i]);
            memcpy((char *)(uintptr_t)&fv_kernels[i].run, &from->run, sizeof from->run);
        }
}

bool machine_enter(const char *path, char why[MACHINE_WHY]) {
    fv_cpu cpu;
    if (!read_machine(path, &cpu, why))
        return false;
    if (!entered)
        lend_code();
    described = cpu;
    entered = true;
    return true;
}

void machine_clear_environment(void) {
    for (char **at = environ; *at;) {
        char name[128];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(*at, "="), *at);
        if (strncmp(name, "FOVEA_", 6) == 0 || strcmp(name, "HOME") == 0 || strcmp(name, "XDG_CACHE_HOME") == 0)
            unsetenv(name), at = environ;
        else
            at++;
    }
    setenv("FOVEA_KNOWN_CPUS", "", 1);
}

const char *machine_test_begin(int argc, char **argv, const char *name, test_option *options) {
    const char *path = NULL;
    char why[MACHINE_WHY];
    for (int i = 1; i + 1 < argc && !path; i++)
        path = strcmp(argv[i], "--machine") == 0 ? argv[i + 1] : NULL;
    if (path)
        machine_clear_environment();
    const bool enters = !path || machine_enter(path, why); /* before anything asks what CPU this is */
    test_begin(argc, argv, name, options);
    if (enters)
        return path;
    test_skip("%s: %s", path, why);
    exit(test_end());
}
