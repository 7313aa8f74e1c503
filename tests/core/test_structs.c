/* The structs that may grow (fovea/types.h). From version 0.4 on, fields are only added at the end: the place of the
 * last field of 0.4 must not move. No struct ends in padding, so that an added field always changes the size. */
#include "core/status.h"
#include "core/struct.h"
#include "fovea/fovea.h"
#include "test.h"

#include <string.h>

/* Sizes where pointers have 8 bytes. Who adds a field writes its name for `now`; the other columns never change. */
#define ROW(type, now, last, in_0_4, in_0_3)                                                                           \
    { #type, FV_STRUCT_##type, sizeof(type), FV_STRUCT_SIZE(type, now), FV_STRUCT_SIZE(type, last), in_0_4, in_0_3 }
static const struct {
    const char *name;
    int index;
    size_t size, end, end_0_4, in_0_4, in_0_3;
} rows[] = {
    ROW(fovea_activate_args, reserved_flags, reserved_flags, 376, 376),
    ROW(fovea_attention_args, stats, stats, 968, 968),
    ROW(fovea_attention_desc, page_keys, page_keys, 216, 216),
    ROW(fovea_attention_scores, out, out, 136, 136),
    ROW(fovea_attention_stats, split_blocks, split_blocks, 56, 56),
    ROW(fovea_attention_summary, top_weights, top_weights, 448, 448),
    ROW(fovea_context_options, reserved, reserved, 64, 64),
    ROW(fovea_embedding_args, y, y, 120, 120),
    ROW(fovea_context_facts, nodes, nodes, 1592, 1592),
    ROW(fovea_kv_append_args, reserved, reserved, 232, 232),
    ROW(fovea_kv_cache_desc, placement_node, placement_node, 88, 88),
    ROW(fovea_kv_pages, v_scales, v_scales, 384, 384),
    ROW(fovea_kv_stats, peak_pages, peak_pages, 96, 96),
    ROW(fovea_linear_args, activation, activation, 136, 136),
    ROW(fovea_linear_desc, placement_node, placement_node, 152, 152),
    ROW(fovea_linear_stats, fast_products, fast_products, 24, 24),
    ROW(fovea_mask_desc, block_count, block_count, 168, 168),
    ROW(fovea_mha_costs, scratch, scratch, 56, 56),
    ROW(fovea_mha_desc, placement_node, placement_node, 120, 120),
    ROW(fovea_mha_weights, fused_bias, fused_bias, 592, 592),
    ROW(fovea_norm_args, eps, eps, 216, 232),
    ROW(fovea_pool_tokens_args, reserved, reserved, 216, 216),
    ROW(fovea_quantization, out_group_size, group_of, 80, 80),
    ROW(fovea_quantize_stats, relative, relative, 32, 32),
    ROW(fovea_quantize_options, search, search, 24, 24),
    ROW(fovea_rope_desc, divisors, divisors, 96, 96),
    ROW(fovea_tuning_match, reason, reason, 1320, 1320),
    ROW(fovea_states, cache_sequences, cache_sequences, sizeof(fovea_states), sizeof(fovea_states)),
    ROW(fovea_delta_args, states, states, sizeof(fovea_delta_args), sizeof(fovea_delta_args)),
    ROW(fovea_scan_args, states, states, sizeof(fovea_scan_args), sizeof(fovea_scan_args)),
    ROW(fovea_conv_args, states, states, sizeof(fovea_conv_args), sizeof(fovea_conv_args)),
    ROW(fovea_state_cache_desc, slots, slots, sizeof(fovea_state_cache_desc), sizeof(fovea_state_cache_desc)),
    ROW(fovea_router, scale, scale, sizeof(fovea_router), sizeof(fovea_router)),
    ROW(fovea_experts_desc, up_offset, up_offset, sizeof(fovea_experts_desc), sizeof(fovea_experts_desc)),
    ROW(fovea_experts_weights, reserved, reserved, sizeof(fovea_experts_weights), sizeof(fovea_experts_weights)),
    ROW(fovea_experts_args, logits, logits, sizeof(fovea_experts_args), sizeof(fovea_experts_args)),
};

static bool refused(fv_struct s, size_t given, const char *words) {
    return fv_struct_check(s, &given) == FOVEA_ERROR_VERSION && strstr(fovea_error_detail(), s.name) &&
           strstr(fovea_error_detail(), words);
}

/* Every kind is initialized, up to the size given; others, and no struct at all, are refused with a sentence. */
static void check_init(void) {
    char bytes[2048];
    for (int kind = 1; kind < FV_STRUCT_END; kind++) {
        const fv_struct s = fv_structs[kind];
        const size_t sizes[] = {s.size, s.size + 8, sizeof(size_t), 3};
        for (int i = 0; i < 4; i++) {
            size_t given = 0;
            memset(bytes, 0x5a, sizeof bytes);
            const fovea_status status = fovea_struct_init((fovea_struct)kind, bytes, sizes[i]);
            memcpy(&given, bytes, sizeof given);
            const bool room = sizes[i] >= sizeof given;
            test_check(status == (room ? FOVEA_OK : FOVEA_ERROR_ARGUMENT) && (!room || given == sizes[i]),
                       "%s of %zu bytes: %s, struct_size %zu", s.name, sizes[i], fovea_status_name(status), given);
            for (size_t at = room ? sizes[i] : 0; at < sizeof bytes; at++)
                test_check(bytes[at] == 0x5a, "%s of %zu bytes: byte %zu was written", s.name, sizes[i], at);
        }
        test_check(fovea_struct_init((fovea_struct)kind, NULL, s.size) == FOVEA_ERROR_NULL, "%s: NULL", s.name);
    }
    for (int kind = 0; kind <= FV_STRUCT_END; kind += FV_STRUCT_END)
        test_check(fovea_struct_init((fovea_struct)kind, bytes, sizeof bytes) == FOVEA_ERROR_VERSION &&
                       strstr(fovea_error_detail(), "fovea_struct") && bytes[0] == 0x5a,
                   "kind %d: %s", kind, fovea_error_detail());
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "structs", NULL);
    test_check(sizeof rows / sizeof rows[0] == FV_STRUCT_END - 1, "%d structs may grow", FV_STRUCT_END - 1);
    test_check(sizeof(fovea_tensor) == 88 && sizeof(fovea_matrix) == 56 && sizeof(fovea_linear_part) == 88 &&
                   sizeof(fovea_attention_part) == 176 && sizeof(fovea_embedding_table) == 48,
               "structs that stand in arrays have grown");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *name = rows[i].name;
        const fv_struct s = fv_structs[rows[i].index];
        test_check(strcmp(s.name, name) == 0 && s.size == rows[i].size, "%s is listed as %s of %zu bytes", name, s.name,
                   s.size);
        test_check(rows[i].end == rows[i].size, "%s ends in padding, or in a field that this list lacks", name);
        test_check(rows[i].end_0_4 == rows[i].in_0_4 && s.least == rows[i].in_0_4,
                   "%s: the last field of version 0.4 ends at %zu", name, rows[i].end_0_4);
        /* A struct of 0.3 has the same fields, or is refused by its size, whatever is added. */
        const bool same = rows[i].in_0_3 == rows[i].in_0_4;
        size_t given = rows[i].in_0_3;
        test_check(s.former == (same ? 0 : given) && s.size != s.former, "%s could be one of 0.3", name);
        test_check(same ? fv_struct_check(s, &given) == FOVEA_OK : refused(s, given, "that of version 0.3"),
                   "%s of 0.3: %s", name, fovea_error_detail());
        test_check(refused(s, s.least - 8, "before 0.4") && refused(s, 0, "_init") && refused(s, s.size + 8, "newer"),
                   "%s of another size: %s", name, fovea_error_detail());
    }
    check_init();
    return test_end();
}
