/* Functions over arrays that take most of the time in the analysis of a large export, in compiled code.
 *
 * Each function has a twin in Python, which does the same with numpy where this file cannot be compiled: tests compare
 * the two. nsyswrap/compiled/library.py names the types. Arrays are contiguous, in the byte order of the machine;
 * times are int64 nanoseconds. Nothing here allocates memory, keeps a state or calls another library but memcpy and
 * memcmp, so several threads can run each function at the same time.
 */
#include <stdint.h>
#include <string.h>

/* What a function returns instead of a number: the caller then does the same in another way. */
#define UNUSUAL (-1)

/* ---- Rows of whole numbers in the leaf pages of SQLite. Source: sqlite.org/fileformat2, 1.6 and 2.1. ---- */

#define LEAF 13
#define LEAF_HEADER_BYTES 8
/* The first bit of a byte that says that a number of variable length goes on. */
#define MORE 0x80
#define LONGEST_ROW_NUMBER 9
#define MOST_COLUMNS 126
/* Products and sums up to here cannot overflow. */
#define LARGE ((int64_t)1 << 62)
enum { NONE, REAL = 7, ZERO = 8, ONE = 9, FIRST_TEXT = 12 };
enum { COLUMN, PRODUCT, SUM };
#define MOST_PARTS 4

/* A column of the result: Target of library.py. */
typedef struct {
    void *out;
    int64_t missing;
    int32_t item_bytes, may_miss;
    int32_t operation, part_count;
    int32_t parts[MOST_PARTS];
} Target;

/* The header of a row: where each value begins behind the header, and its type. */
typedef struct {
    uint8_t types[MOST_COLUMNS];
    int32_t begin[MOST_COLUMNS + 1];
    int known;
} Header;

static const uint8_t FIXED[FIRST_TEXT] = {0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0};

static int read_header(Header *header, const uint8_t *types, int64_t column_count) {
    if (header->known && !memcmp(header->types, types, (size_t)column_count)) return 1;
    int32_t at = 0;
    for (int64_t column = 0; column < column_count; column++) {
        uint8_t type = types[column];
        if (type >= MORE) return 0;
        header->types[column] = type;
        header->begin[column] = at;
        at += type < FIRST_TEXT ? FIXED[type] : (type - FIRST_TEXT) / 2;
    }
    header->begin[column_count] = at;
    header->known = 1;
    return 1;
}

/* The number whose last byte is before ``end``; the eight bytes before that are inside the page. */
static inline int64_t stored_number(const uint8_t *end, int bytes) {
    uint64_t word;
    memcpy(&word, end - 8, 8);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return (int64_t)(word << (64 - 8 * bytes)) >> (64 - 8 * bytes);
}

/* Puts a value into ``found``; returns 1, 0 for NULL, UNUSUAL for what is no whole number. */
static inline int read_value(const Header *header, const uint8_t *values, int32_t column, int64_t *found) {
    uint8_t type = header->types[column];
    if (type == NONE) return 0;
    if (type < REAL) {
        *found = stored_number(values + header->begin[column + 1], FIXED[type]);
        return 1;
    }
    if (type != ZERO && type != ONE) return UNUSUAL;
    *found = type == ONE;
    return 1;
}

/* The product or the sum of the parts of a target; returns as read_value. */
static int read_target(const Header *header, const uint8_t *values, const Target *target, int64_t *found) {
    int there = read_value(header, values, target->parts[0], found);
    for (int32_t part = 1; part < target->part_count; part++) {
        int64_t other = 0;
        int also = read_value(header, values, target->parts[part], &other);
        if (also < 0 || there < 0) return UNUSUAL;
        if (!(there = there && also)) continue;
        int over = target->operation == PRODUCT ? __builtin_mul_overflow(*found, other, found)
                                                : __builtin_add_overflow(*found, other, found);
        if (over || *found >= LARGE || *found <= -LARGE) return UNUSUAL;
    }
    return there;
}

static inline int write_number(const Target *target, int64_t row, int64_t number) {
    switch (target->item_bytes) {
    case 8: ((int64_t *)target->out)[row] = number; return 1;
    case 4: ((int32_t *)target->out)[row] = (int32_t)number; return number == (int32_t)number;
    case 1: ((uint8_t *)target->out)[row] = number != 0; return 1;
    }
    return 0;
}

static int decode_row(Header *header, const uint8_t *at, const uint8_t *page_end,
                      int64_t column_count, const Target *targets, int64_t target_count, int64_t row) {
    if (page_end - at < 3) return 0;
    int64_t length = *at++;
    if (length >= MORE) {
        if (*at >= MORE) return 0;
        length = (length & (MORE - 1)) << 7 | *at++;
    }
    for (int byte = 1; at < page_end && byte < LONGEST_ROW_NUMBER && *at >= MORE; byte++) at++;
    at++;
    if (length <= column_count || length > page_end - at || *at != column_count + 1) return 0;
    const uint8_t *values = at + column_count + 1;
    if (!read_header(header, at + 1, column_count)) {
        header->known = 0;
        return 0;
    }
    if (values + header->begin[column_count] != at + length) return 0;
    for (int64_t each = 0; each < target_count; each++) {
        const Target *target = &targets[each];
        int64_t number = 0;
        int there = read_target(header, values, target, &number);
        if (there < 0 || (!there && !target->may_miss)) return 0;
        if (!write_number(target, row, there ? number : target->missing)) return 0;
    }
    return 1;
}

static int valid_targets(const Target *targets, int64_t target_count, int64_t column_count) {
    if (column_count < 1 || column_count > MOST_COLUMNS) return 0;
    for (int64_t each = 0; each < target_count; each++) {
        if (targets[each].part_count < 1 || targets[each].part_count > MOST_PARTS) return 0;
        for (int32_t part = 0; part < targets[each].part_count; part++) {
            int32_t column = targets[each].parts[part];
            if (column < 0 || column >= column_count) return 0;
        }
    }
    return 1;
}

/* Decodes the rows of some leaf pages into the targets; returns the number of rows, or UNUSUAL.
 *
 * bytes, byte_count: the bytes that were read, which hold the pages.
 * page_at, page_count: where each page begins in them.
 * room: number of rows that the targets have room for.
 */
int64_t decode_rows(const uint8_t *bytes, int64_t byte_count, const int64_t *page_at, int64_t page_count,
                    int64_t page_bytes, int64_t column_count, const Target *targets, int64_t target_count,
                    int64_t room) {
    Header header;
    int64_t row = 0;
    header.known = 0;
    if (!valid_targets(targets, target_count, column_count) || page_bytes < LEAF_HEADER_BYTES) return UNUSUAL;
    for (int64_t number = 0; number < page_count; number++) {
        if (page_at[number] < 0 || page_at[number] > byte_count - page_bytes) return UNUSUAL;
        const uint8_t *page = bytes + page_at[number];
        int64_t cells = page[3] << 8 | page[4], first = LEAF_HEADER_BYTES + 2 * cells;
        if (page[0] != LEAF || first > page_bytes || cells > room - row) return UNUSUAL;
        for (int64_t cell = 0; cell < cells; cell++, row++) {
            const uint8_t *place = page + LEAF_HEADER_BYTES + 2 * cell;
            int64_t at = place[0] << 8 | place[1];
            /* A cell in front of this would overlap the header. */
            if (at < first || at > page_bytes) return UNUSUAL;
            if (!decode_row(&header, page + at, page + page_bytes, column_count, targets, target_count, row))
                return UNUSUAL;
        }
    }
    return row;
}

/* ---- Ids as codes, in the order in which they first occur. ---- */

/* Writes the code of each id; returns how many were coded: all, or fewer where the table is half full.
 *
 * keys, codes_of: a hash table of ``mask + 1`` places; codes_of is -1 where a place is free.
 * order: the id of each code; it has room for half of the places.
 * known: the number of codes.
 */
int64_t code_ids(const int64_t *ids, int64_t count, int32_t *out, int64_t *keys, int32_t *codes_of, int64_t mask,
                 int64_t *order, int64_t *known) {
    for (int64_t row = 0; row < count; row++) {
        int64_t id = ids[row];
        if (row && id == ids[row - 1]) {
            out[row] = out[row - 1];
            continue;
        }
        uint64_t hash = (uint64_t)id * 0x9E3779B97F4A7C15u;
        int64_t place = (int64_t)((hash ^ hash >> 32) & (uint64_t)mask);
        while (codes_of[place] >= 0 && keys[place] != id) place = (place + 1) & mask;
        if (codes_of[place] < 0) {
            if (2 * (*known + 1) > mask + 1) return row;
            keys[place] = id;
            codes_of[place] = (int32_t)*known;
            order[(*known)++] = id;
        }
        out[row] = codes_of[place];
    }
    return count;
}
