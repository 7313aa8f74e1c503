/* Files on Windows (core/file.h): they are replaced whole or left, locked by one at a time, and refused where all may
 * write. */
#include "core/file.h"
#include "test.h"

#include <stdio.h>
#include <string.h>
#include <windows.h>

#include <aclapi.h>

static char folder[MAX_PATH], error[FV_FILE_ERROR];

static const char *name_in(const char *name) {
    static char path[2 * MAX_PATH];
    snprintf(path, sizeof path, "%s\\%s", folder, name);
    return path;
}

static void check(const char *what, fovea_status status, fovea_status wanted, const char *words) {
    test_check(status == wanted && (status == FOVEA_OK || strstr(error, words)), "%s: %s, \"%s\"", what,
               fovea_status_name(status), status == FOVEA_OK ? "" : error);
}

static fovea_status read_file(const char *name, char *text, size_t size) {
    size_t length = 0;
    bool absent;
    const fovea_status status = fv_file_read(name_in(name), text, size - 1, &length, &absent, error);
    text[length] = '\0';
    test_check(!absent || status == FOVEA_ERROR_FILE, "%s: absent, and read", name);
    return status;
}

static void check_text(const char *what, const char *wanted) {
    char text[64];
    check(what, read_file("file", text, sizeof text), FOVEA_OK, "");
    test_check(strcmp(text, wanted) == 0, "%s: \"%s\"", what, text);
}

static void test_replace(void) {
    char text[4];
    check("no file", read_file("file", text, sizeof text), FOVEA_ERROR_FILE, "no such file");
    check("a new file", fv_file_replace(name_in("file"), "first", 5, error), FOVEA_OK, "");
    check_text("a new file", "first");
    check("a larger file", read_file("file", text, sizeof text), FOVEA_ERROR_FILE, "larger than the 3 bytes");
    test_check(fv_file_may_replace(name_in("file"), error), "may replace: %s", error);
    check("another", fv_file_replace(name_in("file"), "second", 6, error), FOVEA_OK, "");
    check_text("another", "second");
    HANDLE held = CreateFileA(name_in("file"), GENERIC_READ, FILE_SHARE_READ, NULL, OPEN_EXISTING, 0, NULL);
    check("one that is held", fv_file_replace(name_in("file"), "third", 5, error), FOVEA_ERROR_FILE, "left as it was");
    CloseHandle(held);
    check_text("one that is held", "second");
    test_check(GetFileAttributesA(name_in(".file.new")) == INVALID_FILE_ATTRIBUTES, "a half-written file is left");
    check("a folder", fv_file_replace(folder, "", 0, error), FOVEA_ERROR_FILE, "not a regular file");
    check("no name", fv_file_replace(name_in(""), "", 0, error), FOVEA_ERROR_FILE, "names a folder");
    check("no folder", fv_file_replace(name_in("none\\file"), "", 0, error), FOVEA_ERROR_FILE, "none\\file");
}

static void test_lock(void) {
    int lock, other;
    check("lock", fv_file_lock(name_in("file"), 1, &lock, error), FOVEA_OK, "");
    check("locked", fv_file_lock(name_in("second"), 1, &other, error), FOVEA_ERROR_BUSY, "another process");
    fv_file_unlock(lock);
    check("unlocked", fv_file_lock(name_in("second"), 1, &other, error), FOVEA_OK, "");
    fv_file_unlock(other);
    check("no folder", fv_file_lock(name_in("none\\file"), 1, &lock, error), FOVEA_ERROR_FILE, "does not exist");
}

static void test_log(void) {
    char text[64];
    for (int i = 0; i < 3; i++) {
        const int log = fv_file_open_log(name_in("log"), error);
        if (!test_check(log != -1, "log: %s", error))
            return;
        fv_file_append(log, 10, "a line\n", 7);
        fv_file_close(log);
    }
    check("log", read_file("log", text, sizeof text), FOVEA_OK, "");
    test_check(strcmp(text, "a line\na line\n") == 0, "a log of at most 10 bytes before a line: \"%s\"", text);
}

static void test_writable(void) {
    char text[64], path[2 * MAX_PATH];
    snprintf(path, sizeof path, "%s", name_in("file"));
    check("no list of who may write",
          SetNamedSecurityInfoA(path, SE_FILE_OBJECT, DACL_SECURITY_INFORMATION, NULL, NULL, NULL, NULL) ==
                  ERROR_SUCCESS
              ? read_file("file", text, sizeof text)
              : FOVEA_OK,
          FOVEA_ERROR_FILE, "writable by everybody");
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "file_windows", NULL);
    char temporary[MAX_PATH - 40];
    GetTempPathA(sizeof temporary, temporary);
    snprintf(folder, sizeof folder, "%sfovea-test-%lu", temporary, GetCurrentProcessId());
    fv_file_make_folders(name_in("file"));
    test_replace();
    test_lock();
    test_log();
    test_writable();
    static const char *const names[] = {"file", "log"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        DeleteFileA(name_in(names[i]));
    test_check(RemoveDirectoryA(folder), "the folder has other files");
    return test_end();
}
