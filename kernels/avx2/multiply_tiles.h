/* Tiles of products of floats on avx2. Each row of the list has those of its own width, whole tiles of FV_NR columns;
 * the narrowest, 6x16, also those of one vector, whole or not, into which the others cut what is left of columns: one
 * text of them, with as many rows as registers hold. */
enum { NARROW = 2 * FV_W };

static int64_t multiply_strip(int64_t rows, int64_t columns, int64_t k) {
    (void)rows;
    (void)k;
    if (columns >= FV_NR && (FV_NR % NARROW == 0 || columns % FV_NR != FV_W))
        return FV_NR;
    return columns >= NARROW ? NARROW : columns >= FV_W ? FV_W : columns;
}

static int64_t multiply_most_rows(int64_t columns, int64_t k) {
    (void)k;
    return columns <= NARROW ? 6 : FV_MR;
}

/* Multiplies t->count tiles, each of `rows` rows and at most NARROW columns. */
void fv_multiply_tiles_avx2(multiply_tiles *t, int64_t rows);

FV_ALWAYS_INLINE void multiply_width(multiply_tiles *t, const int mr) {
    if (NV * FV_W > NARROW || t->n == NARROW)
        multiply_run(t, mr, NV, WHOLE);
    else
        multiply_run(t, mr, 1, PART);
}

#if FV_NR == 16
void fv_multiply_tiles_avx2(multiply_tiles *t, int64_t rows) {
#else
static void multiply_wide(multiply_tiles *t, int64_t rows) {
#endif
    switch (rows) {
    case 1: multiply_width(t, 1); break;
    case 2: multiply_width(t, 2); break;
    case 3: multiply_width(t, 3); break;
#if FV_MR >= 4
    case 4: multiply_width(t, 4); break;
#endif
#if FV_MR >= 6
    case 5: multiply_width(t, 5); break;
    case 6: multiply_width(t, 6); break;
#endif
    default: break;
    }
}

static void multiply_height(multiply_tiles *t, int64_t rows) {
    assert(t->count == 0 || rows <= multiply_most_rows(t->n, t->k));
    if (t->count == 0)
        return;
#if FV_NR > 16
    if (t->n > NARROW) {
        multiply_wide(t, rows);
        return;
    }
#endif
    fv_multiply_tiles_avx2(t, rows);
}
