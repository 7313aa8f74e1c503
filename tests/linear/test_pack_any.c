/* fv_pack_any() against fv_operand_place(): each element is where products look for it, +0 behind the last step, and
 * nothing else is written. */
#include "pack_any.h"
#include "rng.h"
#include "test.h"

#include <string.h>

enum { STEPS = 37, COLUMNS = 48, MOST = 64 * 64 };

static uint64_t element(const void *data, int64_t at, int bits) {
    uint64_t value = 0;
    memcpy(&value, (const char *)data + at * bits / 8, (size_t)bits / 8);
    return value;
}

/* Some columns of a matrix of steps x COLUMNS, by rows or by columns, into a panel of that many. */
static void try(fv_format format, int64_t steps, int64_t first, int64_t columns, bool by_column, const char *numbers) {
    static char packed[8 * MOST], before[8 * MOST];
    const fv_format_info f = fv_format_of(format);
    const int64_t words = fv_operand_words(format, steps), padded = words * f.per_word;
    const fv_operand b = {.columns = 2 * COLUMNS,
                          .steps = steps,
                          .row = COLUMNS,
                          .panel = words * COLUMNS,
                          .width = COLUMNS,
                          .format = format};
    const fv_matrix m = {.data = numbers,
                         .steps = steps,
                         .columns = columns,
                         .step = by_column ? 1 : COLUMNS,
                         .column = by_column ? STEPS : 1,
                         .bits = f.bits,
                         .scale = 1.0f};
    int64_t wrong = 0;
    memset(packed, 0x5a, sizeof packed);
    memcpy(before, packed, sizeof before);
    fv_pack_any(&m, &b, packed, COLUMNS + first);
    for (int64_t j = 0; j < columns; j++)
        for (int64_t t = 0; t < padded; t++) {
            const int64_t at = fv_operand_place(&b, t, COLUMNS + first + j);
            const uint64_t wanted = t < steps ? element(numbers, t * m.step + j * m.column, f.bits) : 0;
            wrong += element(packed, at, f.bits) != wanted;
            memset(packed + at * f.bits / 8, 0x5a, (size_t)f.bits / 8);
        }
    test_check(wrong == 0, "%s: %lld of %lld x %lld elements from column %lld on", f.name, (long long)wrong,
               (long long)steps, (long long)columns, (long long)first);
    test_check(memcmp(packed, before, sizeof packed) == 0, "%s: wrote elsewhere", f.name);
}

static void double_bits(int64_t rows, int64_t n, const uint16_t *x, int64_t ldx, float *y, int64_t ldy) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++)
            y[i * ldy + j] = 2.0f * (float)x[i * ldx + j];
}

/* 16 bits into floats: widened, then scaled. */
static void test_floats(void) {
    uint16_t numbers[STEPS];
    float packed[STEPS];
    for (int t = 0; t < STEPS; t++)
        numbers[t] = (uint16_t)t;
    const fv_operand b = {.columns = 1, .steps = STEPS, .row = 1, .format = FV_FORMAT_f32};
    const fv_matrix m = {numbers, STEPS, 1, 1, STEPS, 16, double_bits, NULL, 0.25f};
    fv_pack_any(&m, &b, packed, 0);
    for (int t = 0; t < STEPS; t++)
        test_check(packed[t] == 0.5f * (float)t, "element %d is %g", t, (double)packed[t]);
}

int main(int argc, char **argv) {
    static char numbers[4 * MOST];
    test_begin(argc, argv, "pack_any", NULL);
    rng r = rng_stream(test_seed(), "numbers");
    for (int i = 0; i < MOST; i++) /* floats that a multiplication by 1 leaves as they are */
        ((float *)(void *)numbers)[i] = (float)rng_below(&r, 65536) / 256.0f;
    for (fv_format format = 0; format < FV_FORMAT_COUNT; format++)
        for (int64_t steps = 1; steps <= STEPS; steps += 4)
            for (int by_column = 0; by_column < 2; by_column++) {
                if (fv_format_of(format).word == FV_WORD_column || fv_format_of(format).scale == FV_SCALE_group)
                    continue; /* those of groups have packers of their own */
                try(format, steps, 0, COLUMNS, by_column, numbers);
                try(format, steps - (steps > 4), 5, 7, by_column, numbers);
            }
    test_floats();
    return test_end();
}
