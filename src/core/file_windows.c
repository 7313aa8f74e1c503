/* Files of Windows (file.h). */
#include "core/file.h"

#include "core/environment.h"
#include "core/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

#include <aclapi.h>

FV_PRINTF(2, 3)
static fovea_status fail(char error[FV_FILE_ERROR], const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error, FV_FILE_ERROR, format, arguments);
    va_end(arguments);
    return FOVEA_ERROR_FILE;
}

/* With the system's words for its error. */
static fovea_status fail_by(char error[FV_FILE_ERROR], const char *path, DWORD reason, const char *end) {
    char words[160] = "";
    const DWORD flags = FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS | FORMAT_MESSAGE_MAX_WIDTH_MASK;
    DWORD length = FormatMessageA(flags, NULL, reason, 0, words, sizeof words, NULL);
    while (length > 0 && (words[length - 1] == ' ' || words[length - 1] == '.'))
        words[--length] = '\0';
    return fail(error, "%.300s: %s (error %lu)%s", path, words, reason, end);
}

static const char *name_of(const char *path) {
    const char *name = path;
    for (; *path; path++)
        if (*path == '/' || *path == '\\' || *path == ':')
            name = path + 1;
    return name;
}

/* "folder\", "." and the like name no file, whatever is there. */
static fovea_status check_name(const char *path, char error[FV_FILE_ERROR]) {
    const char *name = name_of(path);
    if (strcmp(name, "") == 0 || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return fail(error, "\"%.300s\" names a folder, not a file", path);
    if (strlen(path) >= MAX_PATH)
        return fail(error, "a file name of %zu bytes", strlen(path));
    return FOVEA_OK;
}

static bool is_known(PSID sid, WELL_KNOWN_SID_TYPE type) { return IsWellKnownSid(sid, type) != 0; }

static bool is_own(PSID sid) {
    union {
        TOKEN_USER user;
        char room[sizeof(TOKEN_USER) + SECURITY_MAX_SID_SIZE];
    } me;
    DWORD length;
    HANDLE token;
    if (!OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &token))
        return false;
    const bool own = GetTokenInformation(token, TokenUser, &me, sizeof me, &length) && EqualSid(sid, me.user.User.Sid);
    CloseHandle(token);
    return own;
}

/* May everybody, or every user, write by this list? Without one all may. */
static bool is_open(PACL list) {
    const DWORD write = FILE_WRITE_DATA | FILE_APPEND_DATA | WRITE_DAC | WRITE_OWNER | GENERIC_WRITE | GENERIC_ALL;
    for (DWORD i = 0; list && i < list->AceCount; i++) {
        void *entry;
        if (!GetAce(list, i, &entry))
            return true;
        const ACCESS_ALLOWED_ACE *ace = entry;
        PSID who = (PSID)(uintptr_t)&ace->SidStart;
        if (ace->Header.AceType == ACCESS_ALLOWED_ACE_TYPE && !(ace->Header.AceFlags & INHERIT_ONLY_ACE) &&
            (ace->Mask & write) &&
            (is_known(who, WinWorldSid) || is_known(who, WinAuthenticatedUserSid) || is_known(who, WinBuiltinUsersSid)))
            return true;
    }
    return !list;
}

/* Refuses files that fv_file_read() does not read. */
static fovea_status check_opened(const char *path, HANDLE file, char error[FV_FILE_ERROR]) {
    BY_HANDLE_FILE_INFORMATION about;
    if (GetFileType(file) != FILE_TYPE_DISK || !GetFileInformationByHandle(file, &about) ||
        (about.dwFileAttributes & (FILE_ATTRIBUTE_DIRECTORY | FILE_ATTRIBUTE_DEVICE)))
        return fail(error, "%.300s is not a regular file", path);
    if (about.dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT)
        return fail(error, "%.300s is a symbolic link: not trusted", path);
    PSID owner;
    PACL list;
    PSECURITY_DESCRIPTOR security;
    const DWORD reason = GetSecurityInfo(file, SE_FILE_OBJECT, OWNER_SECURITY_INFORMATION | DACL_SECURITY_INFORMATION,
                                         &owner, NULL, &list, NULL, &security);
    if (reason != ERROR_SUCCESS)
        return fail_by(error, path, reason, "");
    fovea_status status = FOVEA_OK;
    if (is_open(list))
        status = fail(error, "%.300s is writable by everybody: not trusted", path);
    else if (!is_own(owner) && !is_known(owner, WinBuiltinAdministratorsSid) && !is_known(owner, WinLocalSystemSid))
        status = fail(error, "%.300s is another user's file: not trusted", path);
    LocalFree(security);
    return status;
}

static fovea_status open_checked(const char *path, DWORD access, DWORD how, HANDLE *file, bool *absent,
                                 char error[FV_FILE_ERROR]) {
    *absent = false;
    fovea_status status = check_name(path, error);
    if (status != FOVEA_OK)
        return status;
    *file = CreateFileA(path, access | READ_CONTROL, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, how,
                        FILE_FLAG_OPEN_REPARSE_POINT | FILE_FLAG_BACKUP_SEMANTICS, NULL);
    const DWORD reason = GetLastError();
    if (*file == INVALID_HANDLE_VALUE) {
        *absent = reason == ERROR_FILE_NOT_FOUND || reason == ERROR_PATH_NOT_FOUND;
        return *absent ? fail(error, "%.300s: there is no such file, or no such folder", path)
                       : fail_by(error, path, reason, "");
    }
    status = check_opened(path, *file, error);
    if (status != FOVEA_OK)
        CloseHandle(*file);
    return status;
}

fovea_status fv_file_read(const char *path, char *text, size_t size, size_t *length, bool *absent,
                          char error[FV_FILE_ERROR]) {
    HANDLE file;
    fovea_status status = open_checked(path, GENERIC_READ, OPEN_EXISTING, &file, absent, error);
    if (status != FOVEA_OK)
        return status;
    char beyond;
    DWORD n = 1;
    *length = 0;
    while (status == FOVEA_OK && n > 0) {
        const size_t left = size - *length, part = left < 1 << 20 ? left : 1 << 20;
        if (!ReadFile(file, left ? text + *length : &beyond, left ? (DWORD)part : 1, &n, NULL))
            status = fail_by(error, path, GetLastError(), "");
        else if (n > 0 && left == 0)
            status = fail(error, "%.300s is larger than the %zu bytes that such a file may have", path, size);
        else
            *length += n;
    }
    CloseHandle(file);
    return status;
}

bool fv_file_of_tuning(int index, char *path, size_t size) {
    const char *folder = fv_environment(index == 0 ? "LOCALAPPDATA" : "PROGRAMDATA");
    path[0] = '\0';
    if (index < 2 && folder && folder[0] && folder[1] == ':')
        snprintf(path, size, "%s\\fovea\\tuning", folder);
    if (strlen(path) + 1 == size)
        path[0] = '\0'; /* cut: another file's name */
    return index < 2;
}

void fv_file_beside_library(const char *name, char *path, size_t size) {
    static const char here;
    char file[MAX_PATH];
    HMODULE module;
    path[0] = '\0';
    if (!GetModuleHandleExA(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT,
                            &here, &module))
        return;
    const DWORD length = GetModuleFileNameA(module, file, sizeof file);
    if (length == 0 || length >= sizeof file)
        return;
    if (snprintf(path, size, "%.*s%s", (int)(name_of(file) - file), file, name) >= (int)size)
        path[0] = '\0';
}

void fv_file_make_folders(const char *path) {
    char folder[MAX_PATH], error[FV_FILE_ERROR];
    if (check_name(path, error) != FOVEA_OK)
        return;
    strcpy(folder, path);
    for (char *at = folder; *at; at++)
        if ((*at == '/' || *at == '\\') && at > folder && at[-1] != ':') {
            const char separator = *at;
            *at = '\0';
            CreateDirectoryA(folder, NULL);
            *at = separator;
        }
}

/* The path of a file in the same folder, ".NAME" and an ending. */
static bool neighbour(const char *path, const char *ending, char other[MAX_PATH]) {
    const char *name = name_of(path);
    return snprintf(other, MAX_PATH, "%.*s.%s%s", (int)(name - path), path, *ending == '.' ? name : "", ending) <
           MAX_PATH;
}

/* A folder has no lock of its own: a file in it that one process at a time may have open, and that goes with it. */
fovea_status fv_file_lock(const char *path, int seconds, int *lock, char error[FV_FILE_ERROR]) {
    enum { TRIES = 50 }; /* in a second */
    char name[MAX_PATH];
    const fovea_status status = check_name(path, error);
    if (status != FOVEA_OK)
        return status;
    if (!neighbour(path, "fovea-lock", name))
        return fail(error, "%.300s: the name is too long", path);
    for (int i = 0; i < seconds * TRIES; i++) {
        const HANDLE file = CreateFileA(name, GENERIC_WRITE, 0, NULL, OPEN_ALWAYS,
                                        FILE_FLAG_DELETE_ON_CLOSE | FILE_ATTRIBUTE_HIDDEN, NULL);
        const DWORD reason = GetLastError();
        *lock = (int)(intptr_t)file; /* handles have 32 bits, signed */
        if (file != INVALID_HANDLE_VALUE)
            return FOVEA_OK;
        if (reason == ERROR_PATH_NOT_FOUND)
            return fail(error, "%.300s: its folder does not exist", path);
        if (reason != ERROR_SHARING_VIOLATION && reason != ERROR_ACCESS_DENIED) /* denied while it is being deleted */
            return fail_by(error, path, reason, "");
        if (reason == ERROR_ACCESS_DENIED && i == TRIES)
            return fail(error, "%.300s: no file can be written in its folder", path);
        Sleep(1000 / TRIES);
    }
    fail(error, "%.300s: another process still holds a lock on its folder after %d s", path, seconds);
    return FOVEA_ERROR_BUSY;
}

void fv_file_unlock(int lock) { CloseHandle((HANDLE)(intptr_t)lock); }

/* Opens the file that will take the place of the old one. */
static fovea_status open_temporary(const char *path, char temporary[MAX_PATH], HANDLE *file,
                                   char error[FV_FILE_ERROR]) {
    const fovea_status status = check_name(path, error);
    if (status != FOVEA_OK)
        return status;
    const DWORD old = GetFileAttributesA(path);
    if (old != INVALID_FILE_ATTRIBUTES && (old & (FILE_ATTRIBUTE_DIRECTORY | FILE_ATTRIBUTE_DEVICE)))
        return fail(error, "%.300s is not a regular file: left alone", path);
    if (!neighbour(path, ".new", temporary))
        return fail(error, "%.300s: the name is too long", path);
    *file = CreateFileA(temporary, GENERIC_WRITE, 0, NULL, CREATE_ALWAYS, FILE_ATTRIBUTE_NORMAL, NULL);
    if (*file == INVALID_HANDLE_VALUE)
        return fail_by(error, path, GetLastError(), ": no file can be written in its folder");
    return FOVEA_OK;
}

fovea_status fv_file_replace(const char *path, const char *text, size_t length, char error[FV_FILE_ERROR]) {
    char temporary[MAX_PATH];
    HANDLE file;
    const fovea_status status = open_temporary(path, temporary, &file, error);
    if (status != FOVEA_OK)
        return status;
    DWORD reason = ERROR_SUCCESS, n = 1;
    while (length > 0 && reason == ERROR_SUCCESS) {
        reason = WriteFile(file, text, length < 1 << 20 ? (DWORD)length : 1 << 20, &n, NULL) ? reason : GetLastError();
        text += n;
        length -= n;
    }
    if (reason == ERROR_SUCCESS && !FlushFileBuffers(file))
        reason = GetLastError();
    CloseHandle(file);
    if (reason == ERROR_SUCCESS && !MoveFileExA(temporary, path, MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH))
        reason = GetLastError();
    if (reason == ERROR_SUCCESS)
        return FOVEA_OK;
    DeleteFileA(temporary);
    return fail_by(error, path, reason, ": left as it was");
}

bool fv_file_may_replace(const char *path, char error[FV_FILE_ERROR]) {
    char temporary[MAX_PATH];
    HANDLE file;
    if (open_temporary(path, temporary, &file, error) != FOVEA_OK)
        return false;
    CloseHandle(file);
    DeleteFileA(temporary);
    return true;
}

int fv_file_open_log(const char *path, char error[FV_FILE_ERROR]) {
    HANDLE file;
    bool absent;
    const fovea_status status =
        open_checked(path, FILE_APPEND_DATA | SYNCHRONIZE | FILE_READ_ATTRIBUTES, OPEN_ALWAYS, &file, &absent, error);
    return status == FOVEA_OK ? (int)(intptr_t)file : -1;
}

void fv_file_append(int log, int64_t size, const char *line, size_t length) {
    const HANDLE file = (HANDLE)(intptr_t)log;
    LARGE_INTEGER now;
    DWORD written;
    if (GetFileSizeEx(file, &now) && now.QuadPart < size)
        (void)WriteFile(file, line, (DWORD)length, &written, NULL); /* a full disk loses the line */
}

void fv_file_close(int log) { CloseHandle((HANDLE)(intptr_t)log); }
