/* records.h: what needs quotes, escapes, or has no form in JSON; and the names of forms in records. */
#include "records.h"

#include "cost.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void check_csv(const char *text, const char *wanted) {
    char *got = NULL;
    size_t length;
    FILE *to = open_memstream(&got, &length);
    record_csv_text(to, text);
    fclose(to);
    test_check(strcmp(got, wanted) == 0, "\"%s\" became %s, not %s", text, got, wanted);
    free(got);
}

static void check_json(json_t *value, const char *wanted) {
    char *got = NULL;
    size_t length;
    FILE *to = open_memstream(&got, &length);
    test_check(record_write(record_append(json_array(), value), to) == 0, "%s is not written", wanted);
    fclose(to);
    test_check(strcmp(got, wanted) == 0, "%s, not %s", got, wanted);
    free(got);
}

/* The number of a form is that of mha.h, and a letter tells variants apart. */
static void check_form(const cost_form *f) {
    char *end;
    test_check(strtol(f->name, &end, 10) == (long)f->form && strlen(end) < 2, "form %d is called %s", (int)f->form,
               f->name);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "inspect-records", NULL);
    for (int i = 0; i < COST_FORMS; i++)
        check_form(&cost_all_forms[i]);
    check_csv("plain words", "plain words");
    check_csv("", "");
    check_csv("a, b", "\"a, b\"");
    check_csv("say \"a\"", "\"say \"\"a\"\"\"");
    check_csv("two\nlines", "\"two\nlines\"");
    check_csv("two\rlines", "\"two\rlines\"");
    check_json(record_text("a \"b\" \x01"), "[\"a \\\"b\\\" \\u0001\"]");
    check_json(record_text("cut \xc3"), "[\"cut \xef\xbf\xbd\"]");
    check_json(record_number(0.25), "[0.25]");
    check_json(record_number((double)0.1f), "[0.100000001]");
    check_json(record_number(-1e-30), "[-1e-30]");
    check_json(record_number((double)NAN), "[null]");
    check_json(record_number((double)-INFINITY), "[null]");
    test_check(record_append(json_array(), NULL) == NULL && record_add(json_object(), "a", NULL) == NULL,
               "what is missing is left out");
    return test_end();
}
