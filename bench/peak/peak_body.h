/* The peak of a tier. A file includes the vocabulary header of its tier, defines PEAK_NAME and PEAK_COUNT, and then
 * includes this. Each of PEAK_COUNT vectors is a chain acc = fma(acc, 0.5, 1), which rounding forbids to shorten or to
 * reorder; PEAK_COUNT covers the latency of the tier's FMA units. */
#include "peak_tiers.h"

float PEAK_NAME(int64_t rounds) {
    vf acc[PEAK_COUNT];
    for (int i = 0; i < PEAK_COUNT; i++)
        acc[i] = v_set1((float)i);
    const vf half = v_set1(0.5f), one = v_set1(1.0f);
    for (int64_t round = 0; round < rounds; round++)
        for (int i = 0; i < PEAK_COUNT; i++)
            acc[i] = v_fma(acc[i], half, one);
    for (int i = 1; i < PEAK_COUNT; i++)
        acc[0] = v_add(acc[0], acc[i]);
    float lanes[FV_W], sum = 0.0f;
    v_store(lanes, acc[0]);
    for (int i = 0; i < FV_W; i++)
        sum += lanes[i];
    return sum;
}
