/* Rows that adapters have in tuning files (tuning.h). Their text alone is kept: what it says is theirs to read. */
#include "context/context.h"
#include "core/core.h"
#include "tuning/tuning.h"

#include <stdio.h>
#include <string.h>

/* The words behind a row's first one: for which contexts it is. */
static void contexts_of(const fovea_context *ctx, char text[64]) {
    snprintf(text, 64, " isa=%s threads=%d", fv_isa_word(ctx->target.isa), ctx->threads.count);
}

/* Does a text begin with these words? */
static bool begins(const char *text, const char *words) {
    const size_t length = strlen(words);
    return strncmp(text, words, length) == 0 && (text[length] == ' ' || text[length] == '\0');
}

/* Rows for a model of CPU need not say for how many threads. */
static bool is_for(const fv_tuning_row *row, const char *operation, const char *contexts) {
    const char *words = row->text + strlen(operation);
    char isa[64];
    snprintf(isa, sizeof isa, "%.*s", (int)(strstr(contexts, " threads=") - contexts), contexts);
    return !row->known && begins(row->text, operation) &&
           (begins(words, contexts) || (begins(words, isa) && strncmp(words + strlen(isa), " threads=", 9) != 0));
}

fovea_status fovea_tuning_get_adapter_row(const fovea_tuning *tuning, const fovea_context *ctx, const char *operation,
                                          int index, fovea_tuning_match *match) {
    if (!ctx || !operation || !match)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", !ctx ? "ctx" : !operation ? "operation" : "match");
    const fv_struct type = FV_STRUCT(fovea_tuning_match);
    const fovea_status status = fv_struct_check(type, match);
    if (status != FOVEA_OK)
        return status;
    char contexts[64];
    int at = 0;
    fovea_tuning_match own;
    fv_tuning_part parts[2];
    const fv_tuning_part *part = ctx->tuning->part, *end = part + sizeof ctx->tuning->part / sizeof *part;
    contexts_of(ctx, contexts);
    fovea_tuning_match_init(&own);
    if (tuning) {
        fv_tuning_parts(tuning, &ctx->cpu, parts);
        part = parts, end = parts + 2;
    }
    for (; part < end; part++)
        for (int i = 0; part->section >= 0 && i < part->tuning->rows && !own.found; i++) {
            const fv_tuning_row *row = &part->tuning->row[i];
            if (row->section != part->section || !is_for(row, operation, contexts) || at++ != index)
                continue;
            own.found = 1;
            own.line = row->line;
            memcpy(own.row, row->text, sizeof row->text);
        }
    fv_struct_write(type, match, &own);
    return FOVEA_OK;
}

fovea_status fovea_tuning_put_adapter_row(fovea_tuning **tuning, const fovea_context *ctx, const char *operation,
                                          const char *words) {
    if (!tuning || !ctx || !operation || !words)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL",
                       !tuning      ? "tuning"
                       : !ctx       ? "ctx"
                       : !operation ? "operation"
                                    : "words");
    char contexts[64], error[FV_FILE_ERROR];
    fv_tuning_row row = {0};
    fv_word word;
    contexts_of(ctx, contexts);
    const int length = snprintf(row.text, sizeof row.text, "%s%s %s", operation, contexts, words);
    bool good =
        fv_tuning_is_adapter(operation) && !strpbrk(operation, " #") && length >= 0 && length < (int)sizeof row.text;
    const char *colon = row.text + (good ? strlen(operation) : 0);
    while (fv_word_next(&colon, " ", &word) == FV_WORD_FOUND)
        ;
    good = good && strncmp(colon, ": ", 2) == 0;
    for (int i = 0; good && i < length; i++)
        good = row.text[i] >= ' ' && row.text[i] <= '~';
    if (!good)
        return fv_fail(FOVEA_ERROR_TUNING, "\"%.40s %.80s\" is no row of an adapter: see tuning.h", operation, words);
    fv_tuning_section section;
    fv_tuning_section_of(&ctx->cpu, &section);
    fovea_tuning *one, *all = *tuning;
    fovea_status status = fv_tuning_create(&one, error);
    if (status == FOVEA_OK)
        status = fv_tuning_put(one, &section, &row, error);
    if (status != FOVEA_OK) {
        status = fv_fail(status, "%s", error);
    } else if (!all) {
        *tuning = one;
        return FOVEA_OK;
    } else {
        status = fovea_tuning_merge(all, one);
    }
    fovea_tuning_destroy(one);
    return status;
}
