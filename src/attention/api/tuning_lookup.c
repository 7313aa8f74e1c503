/* The row of a tuning file that serves an attention (fovea_tuning_lookup). */
#include "attention/attention.h"
#include "attention/plan/knobs.h"
#include "context/context.h"
#include "core/core.h"

#include <stdio.h>

static void look_up(const fovea_tuning *tuning, const fovea_context *ctx, const fovea_attention_desc *desc,
                    fovea_tuning_match *match) {
    int64_t key[FV_TUNING_KEYS];
    const fv_tuning_op op = fv_attention_tuning_keys(desc, key);
    const fv_isa isa = ctx->target.isa;
    const int threads = ctx->threads.count;
    char shipped[sizeof match->reason];
    const fv_tuning_row *row =
        fv_tuning_look_up(tuning, &ctx->cpu, isa, threads, op, key, match->reason, sizeof match->reason);
    if (!row && ctx->tuning->shipped) {
        row = fv_tuning_look_up(ctx->tuning->shipped, &ctx->cpu, isa, threads, op, key, shipped, sizeof shipped);
        if (row)
            snprintf(match->reason, sizeof match->reason, "shipped rows of %.200s", ctx->tuning->shipped_path);
    }
    if (!row)
        return;
    match->found = 1;
    match->line = row->line;
    match->gain = (double)row->evidence.gain / 1000;
    match->gain_low = (double)row->evidence.low / 1000;
    match->gain_high = (double)row->evidence.high / 1000;
    fv_tuning_print_row(row, match->row);
}

fovea_status fovea_tuning_lookup(const fovea_tuning *tuning, const fovea_context *ctx, const fovea_attention_desc *desc,
                                 fovea_tuning_match *match) {
    FV_HOLD_EXCEPTIONS();
    if (!tuning || !ctx || !match)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", !tuning ? "tuning" : !ctx ? "ctx" : "match");
    const fv_struct type = FV_STRUCT(fovea_tuning_match);
    fovea_attention_desc own_desc;
    fovea_status status = fv_struct_check(type, match);
    if (status == FOVEA_OK)
        status = fv_attention_read_desc(desc, &own_desc);
    if (status == FOVEA_OK)
        status = fv_attention_select_arithmetic(ctx, &own_desc);
    if (status != FOVEA_OK)
        return status;
    fovea_tuning_match own;
    fovea_tuning_match_init(&own);
    look_up(tuning, ctx, &own_desc, &own);
    fv_struct_write(type, match, &own);
    return FOVEA_OK;
}
