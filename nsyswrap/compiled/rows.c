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

#define GROUP(type, code_type)                                                           \
    for (int64_t row = 0; row < count; row++) {                                          \
        int64_t code = ((const code_type *)codes)[row];                                  \
        if (code < 0 || code >= group_count) return UNUSUAL;                             \
        if (place[code] < 0 || place[code] >= count) return UNUSUAL;                     \
        ((type *)out)[place[code]++] = (type)values[row];                                \
    }                                                                                    \
    return count;

#define GROUP_BY(code_type)                                                              \
    switch (out_bytes) {                                                                 \
    case 4: GROUP(uint32_t, code_type)                                                   \
    case 8: GROUP(int64_t, code_type)                                                    \
    }                                                                                    \
    return UNUSUAL;

/* Writes values group after group, in the given order inside each; returns their number.
 *
 * codes: the group of each value, in code_bytes bytes.
 * place: where each group begins; afterwards, where it ends.
 * out: room for all values, in out_bytes bytes each.
 */
int64_t group_values(const void *codes, int64_t code_bytes, const int64_t *values, int64_t count, int64_t *place,
                     int64_t group_count, void *out, int64_t out_bytes) {
    switch (code_bytes) {
    case 1: GROUP_BY(int8_t)
    case 2: GROUP_BY(int16_t)
    case 4: GROUP_BY(int32_t)
    case 8: GROUP_BY(int64_t)
    }
    return UNUSUAL;
}
