/* fovea-tune-each-host OUTPUT FOVEA-TUNE ARGUMENT...: what mpirun fovea-tune --each-host becomes (docs/tuning.md).
 *
 * Each rank asks its fovea-tune for the kind of its machine: the line by which rows of tuning files are found, with the
 * number of threads. The first rank of each kind tunes; the others sleep, for one of them may share its host. Rank 0
 * gets the files and merges them by fovea-tune merge. All that this program knows of tuning is fovea-tune's command
 * line. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include <errno.h>
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TEXT = 1 << 16, KIND = 1024, MOST_KINDS = 64 }; /* a tuning file; a line of it; words of fovea-tune merge */
enum { GOOD = 0, USAGE = 2, NOISY = 3, FAILED = 4, STOPPED = 130, DID_NOT_RUN = -1 };

static volatile sig_atomic_t child;

/* mpirun stops ranks, not what they have started. */
static void stop(int number) {
    if (child > 0)
        kill((pid_t)child, number);
}

/* Runs a program; its standard output, of at most size - 1 bytes, is text. text NULL: it goes where ours does. Returns
 * its exit status. */
static int run(char **words, char *text, size_t size) {
    int ends[2] = {-1, -1}, status = 0;
    if (text && pipe(ends) != 0)
        return FAILED;
    fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) {
        if (text && dup2(ends[1], STDOUT_FILENO) < 0)
            _exit(FAILED);
        if (text)
            close(ends[0]), close(ends[1]);
        execvp(words[0], words);
        fprintf(stderr, "fovea-tune-each-host: %s: %s\n", words[0], strerror(errno));
        _exit(FAILED);
    }
    child = pid;
    size_t length = 0;
    bool fits = true;
    if (text) {
        close(ends[1]);
        for (char more[4096]; pid > 0;) {
            const ssize_t n = read(ends[0], more, sizeof more);
            if (n == 0 || (n < 0 && errno != EINTR))
                break;
            fits = fits && n >= 0 && length + (size_t)n < size;
            if (fits && n > 0)
                memcpy(text + length, more, (size_t)n), length += (size_t)n;
        }
        text[length] = '\0';
        close(ends[0]);
    }
    pid_t ended = pid;
    while (pid > 0 && (ended = waitpid(pid, &status, 0)) < 0 && errno == EINTR)
        ;
    child = 0;
    return ended > 0 && fits && WIFEXITED(status) ? WEXITSTATUS(status) : FAILED;
}

/* FOVEA-TUNE and its arguments, and more. */
static int tune(char **given, const char *const more[], char *text, size_t size) {
    int count = 0, extra = 0;
    while (given[count])
        count++;
    while (more[extra])
        extra++;
    char **words = calloc((size_t)(count + extra + 1), sizeof *words);
    if (!words)
        return FAILED;
    memcpy(words, given, (size_t)count * sizeof *words);
    memcpy(words + count, more, (size_t)extra * sizeof *words);
    const int status = run(words, text, size);
    free(words);
    return status;
}

/* Waits for all ranks without keeping a CPU busy. */
static void sleep_until_all(void) {
    MPI_Request request;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    for (int there = 0; !there;) {
        MPI_Test(&request, &there, MPI_STATUS_IGNORE);
        if (!there)
            nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
}

/* -------------------------------------------------------------------------------------------------------- rank 0 -- */

/* The ranks' messages. */
typedef struct all {
    int ranks;
    int *first;  /* the rank that tunes for a rank's kind */
    int *status; /* of that rank's run; DID_NOT_RUN */
    char *host;  /* [ranks][MPI_MAX_PROCESSOR_NAME] */
    char *kind;  /* [ranks][KIND] */
    char *text;  /* [ranks][TEXT] */
} all;

static const char *verdict(int status) {
    return status == GOOD      ? "tuned"
           : status == NOISY   ? "too noisy, or too little time: nothing stored"
           : status == STOPPED ? "interrupted: what was proved is stored"
                               : "failed: nothing stored";
}

static void report(const all *x, FILE *to) {
    for (int rank = 0; rank < x->ranks; rank++) {
        if (x->first[rank] != rank)
            continue;
        fprintf(to, "%s: %s\n    by %s", x->kind + (size_t)rank * KIND, verdict(x->status[rank]),
                x->host + (size_t)rank * MPI_MAX_PROCESSOR_NAME);
        int others = 0;
        for (int i = rank + 1; i < x->ranks; i++)
            others += x->first[i] == rank;
        fprintf(to, others ? ", for %d more rank%s\n" : "\n", others, others == 1 ? "" : "s");
    }
}

/* Statuses of all kinds as one. */
static int conclude(const all *x) {
    int worst = NOISY;
    for (int i = 0; i < x->ranks; i++)
        if (x->status[i] == GOOD && worst == NOISY)
            worst = GOOD;
    for (int i = 0; i < x->ranks; i++)
        if (x->status[i] == STOPPED && worst != FAILED)
            worst = STOPPED;
        else if (x->status[i] != GOOD && x->status[i] != NOISY && x->status[i] != DID_NOT_RUN)
            worst = FAILED;
    return worst;
}

static int merge(const all *x, char *program, char *output) {
    const char *place = getenv("TMPDIR");
    char folder[512], files[MOST_KINDS][600];
    char *words[MOST_KINDS + 5] = {program, (char[]){"merge"}};
    int count = 0;
    snprintf(folder, sizeof folder, "%.400s/fovea-tune.XXXXXX", place && *place ? place : "/tmp");
    bool good = mkdtemp(folder) != NULL;
    for (int i = 0; i < x->ranks && good; i++) {
        if (x->first[i] != i || (x->status[i] != GOOD && x->status[i] != NOISY && x->status[i] != STOPPED))
            continue;
        snprintf(files[count], sizeof files[count], "%s/%d", folder, i);
        FILE *file = fopen(files[count], "w");
        good = file && fputs(x->text + (size_t)i * TEXT, file) >= 0;
        good = file && fclose(file) == 0 && good;
        words[2 + count] = files[count];
        count++;
    }
    if (!good)
        fprintf(stderr, "fovea-tune-each-host: %s: %s\n", folder, strerror(errno));
    words[2 + count] = (char[]){"-o"};
    words[3 + count] = output;
    const int status = good && count > 0 ? run(words, NULL, 0) : FAILED;
    while (count > 0)
        remove(files[--count]);
    rmdir(folder);
    return status;
}

/* ----------------------------------------------------------------------------------------------------- all ranks -- */

/* Kinds of all ranks, hence who tunes. False and a sentence, on all ranks, if a rank has none. */
static bool find_kinds(all *x, char *output, char **given, int rank) {
    char kind[KIND], host[MPI_MAX_PROCESSOR_NAME] = "";
    int length, kinds = 0, guilty = -1;
    memset(kind, 0, sizeof kind);
    const char *const asked[] = {"--kind", "-o", rank == 0 ? output : "-", NULL}; /* rank 0's: can it be written? */
    const int status = tune(given, asked, kind, sizeof kind);
    kind[status == GOOD ? strcspn(kind, "\n") : 0] = '\0';
    MPI_Get_processor_name(host, &length);
    MPI_Allgather(kind, KIND, MPI_CHAR, x->kind, KIND, MPI_CHAR, MPI_COMM_WORLD);
    MPI_Gather(host, sizeof host, MPI_CHAR, x->host, sizeof host, MPI_CHAR, 0, MPI_COMM_WORLD);
    for (int i = 0; i < x->ranks; i++) {
        const char *own = x->kind + (size_t)i * KIND;
        guilty = guilty < 0 && !*own ? i : guilty;
        for (x->first[i] = 0; strcmp(x->kind + (size_t)x->first[i] * KIND, own) != 0;)
            x->first[i]++;
        kinds += x->first[i] == i;
    }
    if (rank == 0 && guilty >= 0)
        fprintf(stderr, "fovea-tune-each-host: %s (rank %d) does not tell its kind\n",
                x->host + (size_t)guilty * MPI_MAX_PROCESSOR_NAME, guilty);
    else if (rank == 0 && kinds > MOST_KINDS)
        fprintf(stderr, "fovea-tune-each-host: %d kinds of machines, more than %d\n", kinds, MOST_KINDS);
    return guilty < 0 && kinds <= MOST_KINDS;
}

static int each_host(all *x, char *output, char **given, int rank) {
    if (!find_kinds(x, output, given, rank))
        return FAILED;
    static char text[TEXT];
    int status = DID_NOT_RUN;
    if (x->first[rank] == rank)
        status = tune(given, (const char *const[]){"-o", "-", NULL}, text, sizeof text);
    sleep_until_all();
    MPI_Gather(&status, 1, MPI_INT, x->status, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (rank == 0)
        memcpy(x->text, text, sizeof text);
    for (int i = 1; i < x->ranks; i++)
        if (x->first[i] == i && rank == i)
            MPI_Send(text, TEXT, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
        else if (x->first[i] == i && rank == 0)
            MPI_Recv(x->text + (size_t)i * TEXT, TEXT, MPI_CHAR, i, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    int result = FAILED;
    if (rank == 0) {
        report(x, strcmp(output, "-") == 0 ? stderr : stdout);
        const int merged = merge(x, given[0], output);
        result = merged != GOOD ? FAILED : conclude(x);
    }
    MPI_Bcast(&result, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return result;
}

int main(int argc, char **argv) {
    int rank;
    all x;
    if (argc < 3 || strcmp(argv[1], "--help") == 0) {
        fputs("usage: mpirun --map-by ppr:1:node --bind-to none fovea-tune --each-host -o FILE [OPTION]...\n",
              argc < 3 ? stderr : stdout);
        return argc < 3 ? USAGE : GOOD;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &x.ranks);
    const struct sigaction action = {.sa_handler = stop};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    const size_t ranks = (size_t)x.ranks;
    x.first = calloc(ranks, sizeof *x.first);
    x.status = calloc(ranks, sizeof *x.status);
    x.host = calloc(ranks, MPI_MAX_PROCESSOR_NAME);
    x.kind = calloc(ranks, KIND);
    x.text = calloc(rank == 0 ? ranks : 1, TEXT);
    if (!x.first || !x.status || !x.host || !x.kind || !x.text) {
        fputs("fovea-tune-each-host: out of memory\n", stderr);
        MPI_Abort(MPI_COMM_WORLD, FAILED);
    }
    const int status = each_host(&x, argv[1], argv + 2, rank);
    free(x.first);
    free(x.status);
    free(x.host);
    free(x.kind);
    free(x.text);
    MPI_Finalize();
    return rank == 0 ? status : GOOD; /* enough for mpirun, which then complains of one rank only */
}
