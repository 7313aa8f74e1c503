/* records.h: what needs quotes, escapes, or has no form in JSON; and the names of forms in records. */
#include "records.h"

#include "cost.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void check_text(void (*print)(FILE *to, const char *text), const char *text, const char *wanted) {
    char *got = NULL;
    size_t length;
    FILE *to = open_memstream(&got, &length);
    print(to, text);
    fclose(to);
    test_check(strcmp(got, wanted) == 0, "\"%s\" became %s, not %s", text, got, wanted);
    free(got);
}

static void check_number(double number, const char *wanted) {
    char *got = NULL;
    size_t length;
    FILE *to = open_memstream(&got, &length);
    record_json_number(to, number);
    fclose(to);
    test_check(strcmp(got, wanted) == 0, "%g became %s, not %s", number, got, wanted);
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
    check_text(record_csv_text, "plain words", "plain words");
    check_text(record_csv_text, "", "");
    check_text(record_csv_text, "a, b", "\"a, b\"");
    check_text(record_csv_text, "say \"a\"", "\"say \"\"a\"\"\"");
    check_text(record_csv_text, "two\nlines", "\"two\nlines\"");
    check_text(record_csv_text, "two\rlines", "\"two\rlines\"");
    check_text(record_json_text, "plain, words", "\"plain, words\"");
    check_text(record_json_text, "a \"b\" \\", "\"a \\\"b\\\" \\\\\"");
    check_text(record_json_text, "tab\tline\n\x01", "\"tab\\u0009line\\u000a\\u0001\"");
    check_text(record_json_text, "caf\xc3\xa9", "\"caf\xc3\xa9\"");
    check_text(record_json_text, "cut \xc3", "\"cut \\ufffd\"");
    check_text(record_json_text,
               "\xff"
               "a",
               "\"\\ufffda\"");
    check_number(0.25, "0.25");
    check_number((double)0.1f, "0.100000001");
    check_number(-1e-30, "-1e-30");
    check_number((double)NAN, "null");
    check_number((double)INFINITY, "null");
    check_number((double)-INFINITY, "null");
    return test_end();
}
