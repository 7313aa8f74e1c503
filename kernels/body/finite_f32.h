/* finite: are all values finite? x * 0 is 0 if x is, else NaN, and NaN stays in a sum. */
int FV_NAME(int64_t rows, int64_t n, const float *v, int64_t ldv) {
    assert(rows >= 0 && n >= 0 && ldv >= 0);
    vf sum[4]; /* four chains hide the latency of one */
    for (int j = 0; j < 4; j++)
        sum[j] = v_set1(0.0f);
    const vf zero = v_set1(0.0f);
    for (int64_t i = 0; i < rows; i++, v += ldv) {
        int64_t j = 0;
        for (; j + 4 * FV_W <= n; j += 4 * FV_W)
            for (int g = 0; g < 4; g++)
                sum[g] = v_fma(v_load(v + j + g * FV_W), zero, sum[g]);
        for (; j + FV_W <= n; j += FV_W)
            sum[0] = v_fma(v_load(v + j), zero, sum[0]);
        if (j < n)
            sum[0] = v_fma(v_load_n(v + j, n - j), zero, sum[0]);
    }
    const vf all = v_add(v_add(sum[0], sum[1]), v_add(sum[2], sum[3]));
    return v_to_bits(v_nan(all)) == 0;
}
