/* The largest of the norms of scale and pack. */
#ifndef FV_NORM_H
#define FV_NORM_H

static inline float norm_highest(vf each) {
    float lane[FV_W];
    v_store(lane, each);
    for (int i = 1; i < FV_W; i++)
        lane[0] = lane[i] > lane[0] ? lane[i] : lane[0];
    return lane[0];
}

#endif
