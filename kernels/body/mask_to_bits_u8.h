/* bits: a boolean mask of bytes into the bits of a row's keys, 64 at once (kernels.h has the contract). */
void FV_NAME(int64_t begin, int64_t end, const uint8_t *mask, int64_t step, fv_keybits *bits) {
    assert(0 <= begin && begin <= end && end <= FV_SEGMENT);
    assert(step == 0 || step == 1);
    if (step == 0 && begin < end && *mask)
        return;
    for (int64_t word = begin / 64; word * 64 < end; word++) {
        if (step && word * 64 >= begin && word * 64 + 64 <= end) {
            bits->word[word] &= v_bytes_to_bits(mask + word * 64, 64);
            continue;
        }
        const int64_t first = word * 64 > begin ? word * 64 : begin;
        const int64_t last = word * 64 + 64 < end ? word * 64 + 64 : end;
        const uint64_t named = (last - first == 64 ? ~(uint64_t)0 : ((uint64_t)1 << (last - first)) - 1)
                               << (first % 64);
        const uint64_t attended = step ? v_bytes_to_bits(mask + first, last - first) << (first % 64) : 0;
        bits->word[word] &= attended | ~named;
    }
}
