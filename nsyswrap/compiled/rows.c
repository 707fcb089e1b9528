/* Rows of columns of numbers, in compiled code: nsyswrap/compiled/rows.py does the same with numpy.
 *
 * The rules of functions.c hold: arrays are contiguous, and nothing is allocated or kept.
 */
#include <stdint.h>
#include <string.h>

/* What a function returns instead of a number: the caller then does the same in another way. */
#define UNUSUAL (-1)

/* Rows of a mask that are looked at together. */
#define WORD 8

#define CHOOSE(type)                                                                     \
    for (int64_t first = 0; first < count && found < room; first += WORD) {              \
        int64_t last = count - first < WORD ? count : first + WORD;                      \
        uint64_t word = 1;                                                               \
        if (last - first == WORD) memcpy(&word, mask + first, WORD);                     \
        if (!word) continue;                                                             \
        for (int64_t row = first; row < last && found < room; row++) {                   \
            ((type *)out)[found] = ((const type *)values)[row];                          \
            found += mask[row] != 0;                                                     \
        }                                                                                \
    }                                                                                    \
    return found;

/* Writes the values where a mask is not 0; returns their number, at most ``room``. */
int64_t choose_values(const uint8_t *mask, int64_t count, const void *values, int64_t item_bytes, void *out,
                      int64_t room) {
    int64_t found = 0;
    switch (item_bytes) {
    case 1: CHOOSE(uint8_t)
    case 2: CHOOSE(uint16_t)
    case 4: CHOOSE(uint32_t)
    case 8: CHOOSE(uint64_t)
    }
    return UNUSUAL;
}

/* Sets a mask in some ranges of rows; returns their number, or UNUSUAL where a range is not inside. */
int64_t mark_ranges(const int64_t *begin, const int64_t *end, int64_t range_count, uint8_t *mask, int64_t count) {
    for (int64_t range = 0; range < range_count; range++) {
        if (begin[range] < 0 || end[range] < begin[range] || end[range] > count) return UNUSUAL;
        memset(mask + begin[range], 1, (size_t)(end[range] - begin[range]));
    }
    return range_count;
}

#define TAKE(type, row_type)                                                             \
    for (int64_t at = 0; at < row_count; at++) {                                         \
        int64_t row = ((const row_type *)rows)[at];                                      \
        if (row < 0) row += count;                                                       \
        if (row < 0 || row >= count) return UNUSUAL;                                     \
        ((type *)out)[at] = ((const type *)values)[row];                                 \
    }                                                                                    \
    return row_count;

#define TAKE_BY(row_type)                                                                \
    switch (item_bytes) {                                                                \
    case 1: TAKE(uint8_t, row_type)                                                      \
    case 2: TAKE(uint16_t, row_type)                                                     \
    case 4: TAKE(uint32_t, row_type)                                                     \
    case 8: TAKE(uint64_t, row_type)                                                     \
    }                                                                                    \
    return UNUSUAL;

/* Writes the values of some rows, where -1 is the last one; returns their number, or UNUSUAL where a row is missing. */
int64_t take_values(const void *values, int64_t count, int64_t item_bytes, const void *rows, int64_t row_bytes,
                    int64_t row_count, void *out) {
    switch (row_bytes) {
    case 1: TAKE_BY(int8_t)
    case 2: TAKE_BY(int16_t)
    case 4: TAKE_BY(int32_t)
    case 8: TAKE_BY(int64_t)
    }
    return UNUSUAL;
}

#define GROUP(type, value_type, code_type)                                               \
    for (int64_t row = 0; row < count; row++) {                                          \
        int64_t code = ((const code_type *)codes)[row];                                  \
        if (code < 0 || code >= group_count) return UNUSUAL;                             \
        if (place[code] < 0 || place[code] >= count) return UNUSUAL;                     \
        ((type *)out)[place[code]++] = (type)((const value_type *)values)[row];          \
    }                                                                                    \
    return count;

#define GROUP_BY(code_type)                                                              \
    if (out_bytes == 8 && value_bytes == 8) { GROUP(int64_t, int64_t, code_type) }       \
    if (out_bytes == 4 && value_bytes == 8) { GROUP(uint32_t, int64_t, code_type) }      \
    if (out_bytes == 4 && value_bytes == 4) { GROUP(uint32_t, uint32_t, code_type) }     \
    return UNUSUAL;

/* Writes values group after group, in the given order inside each; returns their number.
 *
 * codes: the group of each value, in code_bytes bytes; a negative number of bytes says that there is no sign.
 * values: int64, or uint32 in 4 bytes.
 * place: where each group begins; afterwards, where it ends.
 * out: room for all values, which have the same types.
 */
int64_t group_values(const void *codes, int64_t code_bytes, const void *values, int64_t value_bytes, int64_t count,
                     int64_t *place, int64_t group_count, void *out, int64_t out_bytes) {
    switch (code_bytes) {
    case 1: GROUP_BY(int8_t)
    case -1: GROUP_BY(uint8_t)
    case 2: GROUP_BY(int16_t)
    case -2: GROUP_BY(uint16_t)
    case 4: GROUP_BY(int32_t)
    case 8: GROUP_BY(int64_t)
    }
    return UNUSUAL;
}

/* Values are counted in so many equal parts of a range at a time. */
#define BINS 4096
/* The range of the middle is first guessed from so many values, of which so many are at each side of it. */
#define SAMPLE 64
#define SIDE 19

/* The place of a value in a range as one of the bins, or BINS where it is outside. */
static inline uint64_t bin_of(uint64_t value, uint64_t low, uint64_t width, int shift) {
    uint64_t beyond = value - low;
    return beyond <= width ? beyond >> shift : BINS;
}

#define MIDDLE(name, type)                                                               \
    static void guess_##name(const type *values, int64_t count, type *low, type *high) { \
        type sample[SAMPLE];                                                             \
        for (int64_t at = 0; at < SAMPLE; at++) {                                        \
            type value = values[count / SAMPLE * at + count % SAMPLE * at / SAMPLE];     \
            int64_t to = at;                                                             \
            for (; to && sample[to - 1] > value; to--) sample[to] = sample[to - 1];      \
            sample[to] = value;                                                          \
        }                                                                                \
        *low = sample[SIDE];                                                             \
        *high = sample[SAMPLE - 1 - SIDE];                                               \
    }                                                                                    \
                                                                                         \
    static void middle_##name(const type *values, int64_t count, int64_t *out) {         \
        int64_t counts[BINS + 1], wanted = (count - 1) / 2, below, above;                \
        int is_guess = 1;                                                                \
        type low, high;                                                                  \
        guess_##name(values, count, &low, &high);                                        \
        for (;;) {                                                                       \
            uint64_t width = (uint64_t)high - (uint64_t)low, bin = 0;                    \
            int shift = 0;                                                               \
            while (width >> shift >= BINS) shift++;                                      \
            memset(counts, 0, sizeof counts);                                            \
            below = 0;                                                                   \
            for (int64_t row = 0; row < count; row++) {                                  \
                below += values[row] < low;                                              \
                counts[bin_of((uint64_t)values[row], (uint64_t)low, width, shift)]++;    \
            }                                                                            \
            if (is_guess && (wanted < below || wanted >= below + count - counts[BINS])) {\
                is_guess = 0;                                                            \
                low = high = values[0];                                                  \
                for (int64_t row = 1; row < count; row++) {                              \
                    if (values[row] < low) low = values[row];                            \
                    if (values[row] > high) high = values[row];                          \
                }                                                                        \
                continue;                                                                \
            }                                                                            \
            while (bin < BINS - 1 && below + counts[bin] <= wanted) below += counts[bin++];\
            low = (type)((uint64_t)low + (bin << shift));                                \
            above = count - below - counts[bin];                                         \
            if (!shift) break;                                                           \
            if (((uint64_t)1 << shift) - 1 < (uint64_t)high - (uint64_t)low)             \
                high = (type)((uint64_t)low + ((uint64_t)1 << shift) - 1);               \
            is_guess = 0;                                                                \
        }                                                                                \
        out[0] = out[1] = (int64_t)low;                                                  \
        /* Of an even number of values, the other one in the middle may be the next larger one. */ \
        if (count % 2 || count - above > wanted + 1) return;                             \
        int is_found = 0;                                                                \
        for (int64_t row = 0; row < count; row++)                                        \
            if (values[row] > low && (!is_found || values[row] < high)) {                \
                high = values[row];                                                      \
                is_found = 1;                                                            \
            }                                                                            \
        out[1] = (int64_t)high;                                                          \
    }

MIDDLE(long, int64_t)
MIDDLE(short, uint32_t)

/* Writes the two values in the middle, which are one and the same for an odd number of values; returns that number.
 *
 * values: at least SAMPLE, int64 or uint32 in 4 bytes.
 */
int64_t middle_values(const void *values, int64_t item_bytes, int64_t count, int64_t *out) {
    if (count < SAMPLE) return UNUSUAL;
    if (item_bytes == 8) middle_long(values, count, out);
    else if (item_bytes == 4) middle_short(values, count, out);
    else return UNUSUAL;
    return count;
}
