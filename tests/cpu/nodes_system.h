/* A made-up system with nodes of memory (NUMA): its description in a folder, and, by the linker's --wrap, the affinity
 * of threads, so that there may be any number of nodes and CPUs on any machine. For one call of make_up() after
 * another, each ended by end_system(), which checks that the calling thread has its affinity mask back. */
#ifndef FOVEA_TESTS_NODES_SYSTEM_H
#define FOVEA_TESTS_NODES_SYSTEM_H

#include "context/context.h"
#include "folder.h"

#include <sched.h>
#include <stdatomic.h>

typedef struct topology {
    const char *name, *online, *memory; /* memory: has_memory */
    const char *cpus[4];                /* of node 0, 1 ...; NULL: no folder */
    int mask;                           /* CPUs [0, mask) are the process's */
    const char *want; /* "0:2 1:2": nodes and their CPUs, with m those without memory; "": not known */
} topology;

enum { TOPOLOGIES = 24, USABLE = 7, ONE_NODE = 9, NO_DESCRIPTION = 10 }; /* the usable ones come first: several nodes */
extern const topology topologies[TOPOLOGIES];

extern char nodes_folder[TEST_FOLDER];
extern int caller_cpu;                /* where a thread that is not bound runs */
extern atomic_bool refuse;            /* binding is refused */
extern atomic_int binds[CPU_SETSIZE]; /* how often threads other than the first were bound, by the first CPU */

void make_up(const topology *t);
void end_system(void);

/* On the made-up system; checks the status. */
fovea_context *make_context(fovea_threads_bind bind, fovea_threads_backend backend, fovea_status want);

/* The first CPU of the node whose thread had that memory last given to it, -1: none; the first CPU of a node. */
int cpu_of(const void *at);
int cpu_of_node(const fovea_context *ctx, int node);

#endif
