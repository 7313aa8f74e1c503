/* Arrays that a script of tests/data recorded (data/arrays.py has their format). */
#ifndef FOVEA_TESTS_ARRAYS_H
#define FOVEA_TESTS_ARRAYS_H

#include <stdint.h>

typedef struct test_array {
    char name[96], type[16]; /* "float32", "int64", ... */
    int64_t rank, shape[4];  /* sizes from rank on are 1 */
    int64_t at;              /* of its first element in the file */
} test_array;

/* Reads data/NAME.arrays, once in a program, which ends as failed if it cannot. Returns how many arrays there are. */
int64_t test_arrays_read(const char *name);

const test_array *test_array_at(int64_t index);

/* NULL: there is none of this name. */
const test_array *test_array_find(const char *name);

int64_t test_array_count(const test_array *array);
const void *test_array_data(const test_array *array);

/* The data of an array that is there, has this type and n elements; else the program ends as failed. */
const void *test_array_named(const char *name, const char *type, int64_t n);

#endif
