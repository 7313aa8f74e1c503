/* Integers of fewer bits as words of i8g (groups.h): FV_BITS of them. Bound: the stores.
 *
 * Goes by blocks of 16 steps, which lie in one group, and become four rows of i8g. */
enum { BLOCK = 16, PER_WORD = FV_BITS == 4 ? 8 : FV_BITS == 5 ? 32 : 16, ROWS = PER_WORD * FV_BITS / 32 };

/* A word of each column of rows that begin at `rows`; piece: its pieces, or NULL; table: of the integers that 4 bits
 * are. */
static inline vw expand_row(const uint32_t *rows, int64_t ldb, int word, const fv_group_piece *piece, vw table,
                            vw zero) {
    if (FV_BITS == 4) {
        const vw both = w_load(rows + word / 2 * ldb);
        return w_sub_8(w_lookup(table, w_and(w_right(both, word % 2 * 4), w_set1(0x0f0f0f0f))), zero);
    }
    if (!piece)
        return w_sub_8(w_and(w_load(rows + word * ldb), w_set1(((1u << FV_BITS) - 1) * 0x01010101u)), zero);
    vw w = w_set1(0);
    for (int i = 0; i < 3; i++, piece++) {
        const vw bits = w_and(w_right(w_load(rows + piece->row * ldb), piece->from),
                              w_set1(((1u << piece->bits) - 1) * 0x01010101u));
        w = w_or(w, w_left(bits, piece->to));
    }
    return w_sub_8(w, zero);
}

void FV_NAME(const fv_operand *b, uint32_t *y, int64_t ldy) {
    const fv_group_extra extra = (fv_group_extra)b->group.extra;
    const int64_t n = b->columns, ldb = b->row;
    const vw table = w_table(fv_tables[b->format == FV_FORMAT_i4tg ? b->group.table : FV_TABLE_codes]);
    const vw zero_of_all = w_set1((uint32_t)fv_group_zero(b->format, extra) * 0x01010101u);
    assert(n >= 1 && b->steps >= 1 && b->first + n <= b->width && n % FV_LANES == 0 && ldy >= n);
    const int64_t chunk = b->group.gap ? b->group.steps * b->group.chunk : b->steps;
    int64_t skipped = 0, in_chunk = chunk; /* divisions would take as long as a block */
    for (int64_t t = 0; t < b->steps; t += BLOCK, y += BLOCK / 4 * ldy, in_chunk -= BLOCK) {
        if (in_chunk <= 0) {
            skipped += b->group.gap;
            in_chunk = chunk;
        }
        const int64_t rows = (b->steps - t + 3) / 4;
        const int first = (int)(t % PER_WORD / 4); /* word of these rows */
        const uint32_t *from = (const uint32_t *)b->data + t / PER_WORD * ROWS * ldb + skipped;
        const float *zeros = b->scales + t / b->group.steps * fv_scales_row(extra, b->width) + b->width + b->first;
        for (int q = 0; q < BLOCK / 4 && q < rows; q++) {
            const fv_group_piece *const piece = FV_BITS == 4 ? NULL : fv_group_pieces(FV_BITS, first + q);
            for (int64_t j = 0; j < n; j += FV_W) {
                const vw zero = extra == FV_GROUP_zero ? w_bytes(w_of_float(v_load(zeros + j))) : zero_of_all;
                w_store(y + q * ldy + j, expand_row(from + j, ldb, first + q, piece, table, zero));
            }
        }
    }
}
