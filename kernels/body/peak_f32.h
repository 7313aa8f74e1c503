/* peak: the highest rate of FMA of the tier, on FV_MR independent accumulators (kernels.h has the contract). Each is a
 * chain that rounding forbids to reorder, so the compiler cannot shorten it; FV_MR covers the latency of two FMA a
 * cycle. */
float FV_NAME(int64_t rounds) {
    vf acc[FV_MR];
    for (int i = 0; i < FV_MR; i++)
        acc[i] = v_set1((float)i);
    const vf x = v_set1(0.5f), y = v_set1(1.0f);
    for (int64_t round = 0; round < rounds; round++)
        for (int i = 0; i < FV_MR; i++)
            acc[i] = v_fma(acc[i], x, y);
    for (int i = 1; i < FV_MR; i++)
        acc[0] = v_add(acc[0], acc[i]);
    float lanes[FV_W], sum = 0.0f;
    v_store(lanes, acc[0]);
    for (int i = 0; i < FV_W; i++)
        sum += lanes[i];
    return sum;
}
