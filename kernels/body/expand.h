/* Integers of fewer bits as words of i8g (groups.h): FV_BITS of them. Bound: the stores.
 *
 * Goes by blocks of 16 steps, which lie in one group: two rows of words with the lowest 4 bits, and a row with the
 * others of this block, and of i5g of its neighbour, too. Each row has what becomes two of i8g. */
enum { MORE = FV_BITS - 4, BLOCK = 16, PER_WORD = MORE == 0 ? 8 : 32 / MORE, ROWS = PER_WORD * FV_BITS / 32 };

/* The words of a block's output row q. low: two rows of words; high: of other bits, those of the row from shift on;
 * table: of the integers that 4 bits are. */
static inline vw expand_row(const uint32_t *low, int64_t ldb, const uint32_t *high, int shift, int q, vw table,
                            vw zero) {
    vw w = w_and(w_right(w_load(low + q / 2 * ldb), q % 2 * 4), w_set1(0x0f0f0f0f));
    if (MORE > 0) {
        const vw bits = w_right(w_load(high), shift + q * MORE);
        w = w_or(w, w_left(w_and(bits, w_set1(((1u << MORE) - 1) * 0x01010101u)), 4));
    }
    return w_sub_8(MORE > 0 ? w : w_lookup(table, w), zero);
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
        const int64_t half = t % PER_WORD / BLOCK, rows = (b->steps - t + 3) / 4;
        const uint32_t *word = (const uint32_t *)b->data + t / PER_WORD * ROWS * ldb + skipped,
                       *low = word + (PER_WORD < BLOCK ? 0 : 2 * half) * ldb, *high = word + (ROWS - 1) * ldb;
        const float *zeros = b->scales + t / b->group.steps * fv_scales_row(extra, b->width) + b->width + b->first;
        for (int64_t j = 0; j < n; j += FV_W) {
            const vw zero = extra == FV_GROUP_zero ? w_bytes(w_of_float(v_load(zeros + j))) : zero_of_all;
            for (int q = 0; q < BLOCK / 4 && q < rows; q++)
                w_store(y + q * ldy + j,
                        expand_row(low + j, ldb, high + j, (int)half * BLOCK / 4 * MORE, q, table, zero));
        }
    }
}
