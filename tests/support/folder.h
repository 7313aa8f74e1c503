/* A folder of a test's own for the files that it makes up. A folder or file that cannot be made ends the program as
 * failed. */
#ifndef FOVEA_TESTS_FOLDER_H
#define FOVEA_TESTS_FOLDER_H

enum { TEST_FOLDER = 64 }; /* its path, at most */

/* A new empty folder, in which other users may look for files. */
void test_folder_begin(char folder[TEST_FOLDER]);

/* Writes a text file below it, and the folders on the way; name: "a/b/file". */
void test_folder_put(const char *folder, const char *name, const char *text);

/* Removes the folder and all that is in it. */
void test_folder_end(const char *folder);

#endif
