/* dot of keys in lanes (dot.h): a group is read word by word, in the order in which it lies. Where registers do not hold the chains of all
 * rows, a few words for all rows, then the next ones. */

enum {
    LANE_VECTORS = FV_KEY_GROUP / FV_W,
    LANE_ROWS = FV_W >= FV_LANES ? 8 : 2, /* at once */
    LANE_CHANNELS = 32
};

/* Chains of a group with rows from row on go on through channels [first, last). */
DOT_INLINE void lanes_chains(const dot_queries *all, const float *words, int64_t row, int64_t first, int64_t last,
                             float *chains, dot_seen *seen, const char **next, const int stride, const int rows) {
    const float *q = all->q + first / WORD * STEP * stride + row;
    vf acc[LANE_VECTORS][LANE_ROWS];
    for (int v = 0; v < LANE_VECTORS; v++)
        for (int i = 0; i < rows; i++)
            acc[v][i] = v_load(chains + (i * LANE_VECTORS + v) * FV_W);
    words += first / WORD * FV_KEY_GROUP;
    for (int64_t c = first; c < last; c += WORD, words += FV_KEY_GROUP, q += STEP * stride) {
        for (int v = 0; v < LANE_VECTORS; v++)
            dot_word(v_load(words + v * FV_W), q, last - c, acc[v], stride, rows, seen);
        if (!*next || row > rows) /* evenly: a half with each of the first two passes, if there are several */
            continue;
        for (int i = 0; i < FV_KEY_GROUP * 4 / (rows < stride ? 2 : 1); i += LINE_BYTES, *next += LINE_BYTES)
            __builtin_prefetch(*next, 0, 2);
    }
    for (int v = 0; v < LANE_VECTORS; v++)
        for (int i = 0; i < rows; i++)
            v_store(chains + (i * LANE_VECTORS + v) * FV_W, acc[v][i]);
}

/* Scores of a group, whose first place has the column key; those before column 0 and past the last are not there. */
DOT_INLINE void lanes_group(const fv_dot_args *x, const dot_queries *q, const float *words, int64_t key,
                            const char **next, const int rows) {
    const int step = rows < LANE_ROWS ? rows : LANE_ROWS;
    const int64_t channels = step < rows ? LANE_CHANNELS : x->channels;
    _Alignas(LINE_BYTES) float chains[FV_DOT_ROWS * FV_KEY_GROUP];
    dot_seen seen = *q->seen;
    for (int i = 0; i < rows * LANE_VECTORS; i++)
        v_store(chains + i * FV_W, v_set1(0.0f));
    for (int64_t first = 0, last; first < x->channels; first = last) {
        last = x->channels - first < channels ? x->channels : first + channels;
        for (int64_t row = 0; row < rows; row += step)
            lanes_chains(q, words, row, first, last, chains + row * FV_KEY_GROUP, &seen, next, rows, step);
    }
    for (int i = 0; i < rows && i < x->rows; i++)
        for (int64_t at = key < 0 ? 0 : key; at < key + FV_KEY_GROUP && at < dot_columns(x); at += FV_W)
            dot_store(x, i, at, v_load(chains + i * FV_KEY_GROUP + (at - key)), &seen);
    *q->seen = seen;
}

DOT_INLINE void lanes_all(const fv_dot_args *x, const dot_queries *q, const int rows) {
    const FV_ELEMENT *group = (const FV_ELEMENT *)x->k - x->first * WORD;
    const char *next = x->next;
    for (int64_t key = -x->first; key < x->keys; key += FV_KEY_GROUP, group += x->ldk) {
        lanes_group(x, q, (const float *)(const void *)group, key, &next, rows);
        next = next && next < (const char *)x->next_end ? next : NULL;
    }
}
