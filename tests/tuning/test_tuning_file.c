/* Tuning files as files: where they are looked for, which are not touched, and that a writer that fails, is killed or
 * is not alone leaves a whole one. And the log of shapes. What is in them: test_tuning_text.c. */
#define _GNU_SOURCE
#include "linear_case.h"
#include "tuning_case.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char text[FV_TUNING_BYTES];

static void write_sound(const char *path) { file_write(path, text, strlen(text)); }

/* The status and sentence of a context that gets no name for its file. */
static fovea_context_facts info_of(const char *named) {
    fovea_context *ctx = context_tuned(named, 1);
    fovea_context_facts info;
    fovea_context_facts_init(&info);
    fovea_context_info(ctx, &info);
    fovea_context_destroy(ctx);
    return info;
}

static void check_info(const char *what, const char *named, fovea_status status, int rows, const char *word) {
    const fovea_context_facts info = info_of(named);
    test_check(info.tuning_status == status && info.tuning_rows == rows && strstr(info.tuning, word),
               "%s: %s, %d rows, \"%s\" (\"%s\" expected)", what, fovea_status_name(info.tuning_status),
               info.tuning_rows, info.tuning, word);
}

static void test_search(void) {
    char saved[4096];
    snprintf(saved, sizeof saved, "%s", getenv("HOME") ? getenv("HOME") : "");
    unsetenv("FOVEA_TUNING_FILE");
    setenv("XDG_CACHE_HOME", files_name("cache"), 1);
    setenv("HOME", files_name("home"), 1);
    const fovea_context_facts none = info_of(NULL);
    if (access("/etc/fovea/tuning", F_OK) != 0)
        test_check(none.tuning_status == FOVEA_OK && none.tuning_rows == 0 && strstr(none.tuning, "no tuning file in"),
                   "no file anywhere: %s", none.tuning);
    fovea_tuning *tuning = tuning_sound(1);
    char home[256];
    snprintf(home, sizeof home, "%s", files_name("home/.cache/fovea/tuning"));
    test_check(fovea_tuning_save(tuning, home) == FOVEA_OK, "save makes folders: %s", fovea_error_detail());
    if (access("/etc/fovea/tuning", F_OK) != 0)
        check_info("XDG_CACHE_HOME has none: HOME is not asked", NULL, FOVEA_OK, 0, "no tuning file in");
    unsetenv("XDG_CACHE_HOME");
    check_info("HOME", NULL, FOVEA_OK, FV_TUNING_OPERATIONS, "home/.cache/fovea/tuning");
    setenv("XDG_CACHE_HOME", "relative", 1);
    check_info("a relative XDG_CACHE_HOME", NULL, FOVEA_OK, FV_TUNING_OPERATIONS, "home/.cache/fovea/tuning");
    setenv("XDG_CACHE_HOME", files_name("cache"), 1);
    test_check(fovea_tuning_save(tuning, files_name("cache/fovea/tuning")) == FOVEA_OK, "save: %s",
               fovea_error_detail());
    check_info("XDG_CACHE_HOME before HOME", NULL, FOVEA_OK, FV_TUNING_OPERATIONS, "cache/fovea/tuning");
    setenv("FOVEA_TUNING_FILE", home, 1);
    check_info("FOVEA_TUNING_FILE before XDG_CACHE_HOME", NULL, FOVEA_OK, FV_TUNING_OPERATIONS,
               "home/.cache/fovea/tuning");
    check_info("the option before all", files_name("nowhere"), FOVEA_ERROR_FILE, 0, "nowhere");
    check_info("the option says none", "", FOVEA_OK, 0, "the options say none");
    setenv("FOVEA_TUNING_FILE", "", 1);
    check_info("FOVEA_TUNING_FILE says none", NULL, FOVEA_OK, 0, "FOVEA_TUNING_FILE says none");
    setenv("FOVEA_TUNING_FILE", files_name("gone"), 1);
    check_info("FOVEA_TUNING_FILE names no file", NULL, FOVEA_ERROR_FILE, 0, "gone");
    setenv("FOVEA_TUNING_FILE", "", 1);
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", saved, 1);
    fovea_tuning_destroy(tuning);
}

static void check_load(const char *what, const char *path, fovea_status status, const char *words) {
    fovea_tuning *tuning = NULL;
    check_status(what, fovea_tuning_load(path, &tuning), status, words);
    test_check((tuning != NULL) == (status == FOVEA_OK), "%s: %s", what, tuning ? "a tuning" : "no tuning");
    if (status != FOVEA_OK && *path) /* to a context, no name says that there is no file */
        check_defaults(what, path, status, words);
    fovea_tuning_destroy(tuning);
}

static void test_refused(void) {
    char path[256], sound[256], cut[FV_TUNING_PATH + 1];
    fovea_tuning *tuning;
    snprintf(sound, sizeof sound, "%s", files_name("sound"));
    write_sound(sound);
    check_load("a sound file", sound, FOVEA_OK, NULL);
    tuning = (fovea_tuning *)(void *)path;
    check_status("load from NULL", fovea_tuning_load(NULL, &tuning), FOVEA_ERROR_NULL, "path");
    test_check(!tuning, "load from NULL leaves the pointer");
    check_status("load to NULL", fovea_tuning_load(sound, NULL), FOVEA_ERROR_NULL, "tuning");
    check_status("save nothing", fovea_tuning_save(NULL, sound), FOVEA_ERROR_NULL, "tuning");
    check_load("no file", files_name("none"), FOVEA_ERROR_FILE, "none");
    check_load("no folder", files_name("none/none"), FOVEA_ERROR_FILE, "none");
    check_load("no name", "", FOVEA_ERROR_FILE, "name");
    snprintf(cut, sizeof cut, "%*s.", FV_TUNING_PATH - 1, sound);
    memset(cut, '/', FV_TUNING_PATH - 1 - strlen(sound));
    check_load("a sound file's long name and one byte more", cut, FOVEA_ERROR_FILE, "4096 bytes");
    snprintf(path, sizeof path, "%s", files_name("folder"));
    test_check(mkdir(path, 0755) == 0, "mkdir");
    check_load("a directory", path, FOVEA_ERROR_FILE, "not a regular file");
    snprintf(path, sizeof path, "%s", files_name("fifo"));
    test_check(mkfifo(path, 0644) == 0, "mkfifo");
    check_load("a FIFO, which would block", path, FOVEA_ERROR_FILE, "not a regular file");
    check_load("a device", "/dev/zero", FOVEA_ERROR_FILE, "not a regular file");

    snprintf(path, sizeof path, "%s", files_name("gigabyte"));
    file_write(path, "", 0);
    test_check(truncate(path, (off_t)1 << 30) == 0, "truncate");
    check_load("1 GB", path, FOVEA_ERROR_FILE, "larger than the 65536 bytes");
    unlink(path);
    snprintf(path, sizeof path, "%s", files_name("writable"));
    write_sound(path);
    chmod(path, 0666);
    check_load("a file that anybody may write", path, FOVEA_ERROR_FILE, "writable by everybody");
    /* A link is fine where nobody else can put one, and not in a shared folder. */
    snprintf(path, sizeof path, "%s", files_name("link"));
    test_check(symlink("sound", path) == 0, "symlink");
    check_load("a symbolic link", path, FOVEA_OK, NULL);
    snprintf(path, sizeof path, "%s", files_name("shared"));
    mkdir(path, 0755);
    chmod(path, 01777);
    snprintf(path, sizeof path, "%s", files_name("shared/own"));
    write_sound(path);
    check_load("an own file in a shared folder", path, FOVEA_OK, NULL);
    snprintf(path, sizeof path, "%s", files_name("shared/link"));
    test_check(symlink(sound, path) == 0, "symlink");
    check_load("a symbolic link in a shared folder", path, FOVEA_ERROR_FILE, "symbolic link|not trusted");
    snprintf(path, sizeof path, "%s", files_name("to-shared-link"));
    test_check(symlink("shared/own", path) == 0, "symlink");
    check_load("a link to an own file in a shared folder", path, FOVEA_OK, NULL);
    snprintf(path, sizeof path, "%s", files_name("loop"));
    test_check(symlink("loop", path) == 0, "symlink");
    check_load("a link to itself", path, FOVEA_ERROR_FILE, "symbolic link");
    if (geteuid() == 0) {
        snprintf(path, sizeof path, "%s", files_name("shared/other"));
        write_sound(path);
        test_check(chown(path, 12345, 12345) == 0, "chown");
        check_load("another user's file in a shared folder", path, FOVEA_ERROR_FILE, "another user's|not trusted");
        snprintf(path, sizeof path, "%s", files_name("to-other"));
        test_check(symlink("shared/other", path) == 0, "symlink");
        check_load("a link to it", path, FOVEA_ERROR_FILE, "another user's|not trusted");
    } else
        test_skip("another user's file: only root can make one");
}

/* In a child, as a user who may do nothing; its checks come back as its exit status. */
static void test_permission(void) {
    char path[256], folder[256];
    snprintf(path, sizeof path, "%s", files_name("secret"));
    write_sound(path);
    chmod(path, 0);
    snprintf(folder, sizeof folder, "%s", files_name("read-only"));
    mkdir(folder, 0555);
    snprintf(folder, sizeof folder, "%s", files_name("read-only/tuning"));
    const pid_t child = fork();
    if (child == 0) {
        if (geteuid() == 0 && setuid(65534) != 0)
            _exit(77);
        fovea_tuning *tuning = NULL;
        const bool refused =
            fovea_tuning_load(path, &tuning) == FOVEA_ERROR_FILE && strstr(fovea_error_detail(), "Permission denied");
        fovea_tuning *sound = tuning_sound(1);
        const bool unsaved = fovea_tuning_save(sound, folder) == FOVEA_ERROR_FILE && access(folder, F_OK) != 0;
        const bool defaults = check_defaults("no permission", path, FOVEA_ERROR_FILE, "Permission denied");
        _exit(refused && unsaved && defaults ? 0 : 1);
    }
    int status;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        test_skip("no permission: cannot become another user");
    else
        test_check(WIFEXITED(status) && WEXITSTATUS(status) == 0, "no permission: status %x", (unsigned)status);
    chmod(path, 0644);
}

/* There is a sound file. */
static void check_whole(const char *what, const char *path) {
    fovea_tuning *tuning = NULL;
    test_check(fovea_tuning_load(path, &tuning) == FOVEA_OK && tuning->rows >= 2, "%s: %s", what, fovea_error_detail());
    fovea_tuning_destroy(tuning);
}

/* A disk with room for a few bytes only: a limit of the file size, in a child. */
static void test_disk_full(void) {
    char path[256];
    snprintf(path, sizeof path, "%s", files_name("full/tuning"));
    fovea_tuning *tuning = tuning_sound(1);
    test_check(fovea_tuning_save(tuning, path) == FOVEA_OK, "save: %s", fovea_error_detail());
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGXFSZ, SIG_IGN);
        const struct rlimit limit = {100, 100};
        setrlimit(RLIMIT_FSIZE, &limit);
        tuning->row[0].threads = 5;
        _exit(fovea_tuning_save(tuning, path) == FOVEA_ERROR_FILE && strstr(fovea_error_detail(), "left as it was")
                  ? 0
                  : 1);
    }
    int status;
    waitpid(child, &status, 0);
    test_check(WIFEXITED(status) && WEXITSTATUS(status) == 0, "disk full: status %x", (unsigned)status);
    check_whole("disk full", path);
    test_check(access(files_name("full/.tuning.new"), F_OK) != 0, "disk full: something was left beside it");
    check_status("save over a directory", fovea_tuning_save(tuning, files_name("full")), FOVEA_ERROR_FILE, "regular");
    fovea_tuning_destroy(tuning);
}

/* Children that save without end are killed; the file is whole each time, and the next save works. None is killed
 * before it says that it runs: LLVM's OpenMP enters a process made by fork in a shared place, by its number, and one
 * killed there leaves an entry that later aborts the program that gets this number ("found unknown library"). */
static void test_killed(void) {
    char path[256];
    snprintf(path, sizeof path, "%s", files_name("killed/tuning"));
    fovea_tuning *tuning = tuning_sound(1);
    test_check(fovea_tuning_save(tuning, path) == FOVEA_OK, "save: %s", fovea_error_detail());
    rng r = rng_stream(test_seed(), "killed");
    for (int i = 0; i < 30; i++) {
        int runs[2];
        char byte = 0;
        if (!test_check(pipe(runs) == 0, "no pipe"))
            break;
        const pid_t child = fork();
        if (child == 0)
            for (bool said = false;; said = said || write(runs[1], &byte, 1) == 1)
                fovea_tuning_save(tuning, path);
        close(runs[1]);
        test_check(read(runs[0], &byte, 1) == 1, "child %d does not run", i);
        close(runs[0]);
        const long wait = 200000 + (long)rng_below(&r, 3000000);
        nanosleep(&(struct timespec){.tv_nsec = wait}, NULL);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        check_whole("killed while writing", path);
    }
    file_write(files_name("killed/.tuning.new"), "half", 4); /* as a killed one leaves it */
    test_check(fovea_tuning_save(tuning, path) == FOVEA_OK, "save after a killed one: %s", fovea_error_detail());
    check_whole("save after a killed one", path);
    fovea_tuning_destroy(tuning);
}

/* Two at once, as two tuners do it: lock, load, add a row, write. No row is lost. */
enum { ADDED = 40 };

static void add_rows(const char *path, int first) {
    for (int i = 0; i < ADDED; i++) {
        char error[FV_FILE_ERROR];
        int lock;
        fovea_tuning *tuning;
        bool absent;
        const fv_tuning_section own = section_own();
        fv_tuning_row row = row_any(FV_TUNING_attention_f32, first + i);
        if (fv_file_lock(path, 10, &lock, error) != FOVEA_OK)
            _exit(1);
        if (fv_tuning_read(path, &tuning, &absent, error) != FOVEA_OK ||
            fv_tuning_put(tuning, &own, &row, error) != FOVEA_OK || fv_tuning_write(tuning, path, error) != FOVEA_OK)
            _exit(2);
        fv_file_unlock(lock);
        fovea_tuning_destroy(tuning);
    }
    _exit(0);
}

static void test_two(void) {
    char path[256];
    snprintf(path, sizeof path, "%s", files_name("two/tuning"));
    fovea_tuning *tuning = tuning_sound(1);
    test_check(fovea_tuning_save(tuning, path) == FOVEA_OK, "save: %s", fovea_error_detail());
    fovea_tuning_destroy(tuning);
    pid_t child[2];
    for (int i = 0; i < 2; i++)
        if ((child[i] = fork()) == 0)
            add_rows(path, 100 * (i + 1));
    for (int i = 0; i < 2; i++) {
        int status;
        waitpid(child[i], &status, 0);
        test_check(WIFEXITED(status) && WEXITSTATUS(status) == 0, "two at once: status %x", (unsigned)status);
    }
    if (test_check(fovea_tuning_load(path, &tuning) == FOVEA_OK, "two at once: %s", fovea_error_detail()))
        test_check(tuning->rows == FV_TUNING_OPERATIONS + 2 * ADDED, "two at once: %d rows of %d", tuning->rows,
                   FV_TUNING_OPERATIONS + 2 * ADDED);
    fovea_tuning_destroy(tuning);
}

/* Under a lock of another process a save ends soon, with a status of its own, and names that are folders make none. */
static void test_locked(void) {
    char path[256], error[FV_FILE_ERROR];
    int lock;
    snprintf(path, sizeof path, "%s", files_name("locked/tuning"));
    fovea_tuning *tuning = tuning_sound(1);
    test_check(fv_file_lock(path, 1, &lock, error) == FOVEA_ERROR_FILE && strstr(error, "its folder does not exist"),
               "lock of a folder that is none: %s", error);
    fv_file_make_folders(path);
    if (!test_check(fv_file_lock(path, 1, &lock, error) == FOVEA_OK, "lock: %s", error))
        return;
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    check_status("save under a lock", fovea_tuning_save(tuning, path), FOVEA_ERROR_BUSY, "holds a lock");
    clock_gettime(CLOCK_MONOTONIC, &end);
    const double seconds = (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
    test_check(seconds > 0.9 && seconds < 8, "save under a lock took %.1f s", seconds);
    test_check(access(path, F_OK) != 0, "save under a lock wrote something");
    fv_file_unlock(lock);
    test_check(fovea_tuning_save(tuning, path) == FOVEA_OK, "save after a lock: %s", fovea_error_detail());
    static const char *const folders[] = {"/", ".", "..", "", "new/", "locked/.", "locked/tuning/"};
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        const char *name = i < 4 ? folders[i] : files_name(folders[i]);
        check_status(name, fovea_tuning_save(tuning, name), FOVEA_ERROR_FILE, "names a folder, not a file");
    }
    test_check(access(files_name("new"), F_OK) != 0, "a refused name made a folder");
    fovea_tuning_destroy(tuning);
}

/* The tokens of a sequence as two, packed. */
static void run_packed(const fovea_context *ctx, const fovea_attention_desc *desc, fovea_attention_args args) {
    static const int64_t q_at[] = {0, 20, 33}, kv_at[] = {0, 30, 55};
    fovea_attention_desc packed = *desc;
    packed.packed = 1;
    packed.batch = 2;
    args.q_cu_seqlens = q_at;
    args.kv_cu_seqlens = kv_at;
    check_status("packed", attention_once(ctx, &packed, &args), FOVEA_OK, NULL);
}

/* One line for each shape, however often it is executed. */
static void test_log(void) {
    char path[256], got[2048] = "";
    snprintf(path, sizeof path, "%s", files_name("shapes"));
    setenv("FOVEA_LOG_SHAPES", path, 1);
    fovea_context *ctx = context_tuned("", 1);
    unsetenv("FOVEA_LOG_SHAPES");
    attention_case cases[3] = {case_plain(1, 4, 2, 33, 55, 16, 24), case_plain(2, 4, 2, 33, 55, 16, 24),
                               case_plain(1, 4, 2, 33, 55, 16, 24)};
    cases[1].desc.causal = FOVEA_CAUSAL_TOP_LEFT;
    cases[1].desc.window_left = 9;
    cases[2].desc.mask = FOVEA_MASK_BOOLEAN;
    rng r = rng_stream(test_seed(), "log");
    for (int i = 0; i < 3; i++) {
        inputs *in = inputs_make(&cases[i], &r);
        outputs *out = outputs_make(&cases[i], cases[i].layout);
        for (int again = 0; again < 3; again++)
            case_run(ctx, NULL, &cases[i], in, out);
        if (i == 0)
            run_packed(ctx, &cases[i].desc, case_args(in, out));
        inputs_free(in);
        outputs_free(out);
    }
    const linear_case c = linear_case_plain(2, 9, 48, 20);
    linear_problem *p = linear_problem_make(&c, &r);
    for (int again = 0; again < 3; again++)
        linear_problem_run(p, ctx);
    linear_problem_free(p);
    fovea_context_destroy(ctx);
    FILE *file = fopen(path, "r");
    if (test_check(file != NULL, "no log")) {
        got[fread(got, 1, sizeof got - 1, file)] = '\0';
        fclose(file);
    }
    test_check(strcmp(got, "attention batch=1 q_heads=4 kv_heads=2 q_len=33 kv_len=55 head_dim=16 value_dim=24 "
                           "window_left=-1 window_right=-1 causal=none threads=1\n"
                           "attention batch=2 q_heads=4 kv_heads=2 q_len=33 kv_len=55 head_dim=16 value_dim=24 "
                           "window_left=-1 window_right=-1 causal=none packed=1 threads=1\n"
                           "attention batch=2 q_heads=4 kv_heads=2 q_len=33 kv_len=55 head_dim=16 value_dim=24 "
                           "window_left=9 window_right=-1 causal=top_left threads=1\n"
                           "attention batch=1 q_heads=4 kv_heads=2 q_len=33 kv_len=55 head_dim=16 value_dim=24 "
                           "window_left=-1 window_right=-1 causal=none masked=1 threads=1\n"
                           "linear rows=18 in=48 out=20 threads=1\n") == 0,
               "the log of shapes:\n%s", got);
    setenv("FOVEA_LOG_SHAPES", files_name("none/none"), 1); /* no work stops for it */
    ctx = context_tuned("", 1);
    unsetenv("FOVEA_LOG_SHAPES");
    fovea_context_destroy(ctx);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "tuning_file", NULL);
    files_begin();
    fovea_tuning *tuning = tuning_sound(1);
    tuning_text(tuning, NULL, NULL, NULL, text, sizeof text);
    fovea_tuning_destroy(tuning);
    test_search();
    test_refused();
    test_permission();
    test_disk_full();
    test_killed();
    test_two();
    test_locked();
    test_log();
    files_end();
    return test_end();
}
