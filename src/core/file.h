/* Files that the library reads and writes on request: the tuning file and the log of shapes. file.c, and
 * file_windows.c there, are the only files of the library that open any, but for /proc and /sys (src/cpu).
 *
 * On Windows paths are in the code page of the process, as main() and fopen() have them.
 *
 * error is where a sentence about a failure goes; it names the path. */
#ifndef FV_FILE_H
#define FV_FILE_H

#include "fovea/fovea.h"

#include <stdbool.h>

enum { FV_FILE_ERROR = 512 };

/* Reads a whole file of at most size bytes into text. Refused: what is not a regular file (nothing blocks, no device is
 * touched); a file that anybody may write; and in a folder where anybody may put files (as /tmp; on Windows, in every
 * one), symbolic links and files of others than this user and root (Administrators, the system). *absent: there is no
 * such file, or no way to its folder. */
fovea_status fv_file_read(const char *path, char *text, size_t size, size_t *length, bool *absent,
                          char error[FV_FILE_ERROR]);

/* Where tuning files are searched for, in this order: the user's (0) and the machine's (1). "": nowhere, as variables
 * name no folder or the path is as long as size. false: there is no such index. */
bool fv_file_of_tuning(int index, char *path, size_t size);
#ifdef _WIN32
#define FV_FILE_TUNING_FOLDERS "%LOCALAPPDATA%\\fovea and %PROGRAMDATA%\\fovea"
#else
#define FV_FILE_TUNING_FOLDERS "$XDG_CACHE_HOME/fovea (or ~/.cache/fovea) and /etc/fovea"
#endif

/* The path of name in the folder of the library, or of the program that it is part of; "" if that is not known. */
void fv_file_beside_library(const char *name, char *path, size_t size);

/* Puts a file in place of what is there, if anything: written to another name, synced, renamed; so that whoever reads
 * sees the old one whole or the new one whole, also after a crash. Follows a symbolic link.
 * Between fv_file_lock() and fv_file_unlock(). */
fovea_status fv_file_replace(const char *path, const char *text, size_t length, char error[FV_FILE_ERROR]);

/* Could fv_file_replace() write there? A sentence if not. Likewise between lock and unlock. */
bool fv_file_may_replace(const char *path, char error[FV_FILE_ERROR]);

/* One process at a time may change the files of a folder by these functions: locks the folder, waiting at most seconds
 * for whoever has it (FOVEA_ERROR_BUSY after that). *lock is what fv_file_unlock() takes. */
fovea_status fv_file_lock(const char *path, int seconds, int *lock, char error[FV_FILE_ERROR]);
void fv_file_unlock(int lock);

/* Makes the folders of a path that are missing, as mkdir -p; whoever writes there says what failed. */
void fv_file_make_folders(const char *path);

/* Opens a file to which lines are added, makes it if need be; the same files are refused as by fv_file_read(). -1 and a
 * sentence if that fails. */
int fv_file_open_log(const char *path, char error[FV_FILE_ERROR]);

/* Adds a line in one write, so that those of several processes do not mix; not to a file of size bytes or more. */
void fv_file_append(int log, int64_t size, const char *line, size_t length);
void fv_file_close(int log);

#endif
