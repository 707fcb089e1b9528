/* Times and spans that are sorted, in compiled code: nsyswrap/intervals.py does the same with numpy.
 *
 * The rules of functions.c hold: arrays are contiguous, times are int64 nanoseconds, and nothing is allocated or kept.
 */
#include <stddef.h>
#include <stdint.h>

/* What a function returns instead of a number: the caller then does the same in another way. */
#define UNUSUAL (-1)

/* ---- Times among sorted times, and sorted spans that do not overlap. ----
 *
 * Each search begins where the one before it ended, so sorted times take a few comparisons each. Where the edges are not
 * sorted, results are wrong, but all of them lie between 0 and the number of edges.
 */

static inline int comes_before(int64_t edge, int64_t at, int right) { return right ? edge <= at : edge < at; }

/* The number of edges before a time, or at it as well with ``right``; ``from``, 0 to count, is where to look first. */
static inline int64_t place_of(const int64_t *edges, int64_t count, int64_t at, int right, int64_t from) {
    int64_t low = 0, high = count, step = 1;
    if (from < count && comes_before(edges[from], at, right)) {
        low = from + 1;
        while (step < count - low && comes_before(edges[low + step], at, right)) {
            low += step + 1;
            step *= 2;
        }
        if (step < count - low) high = low + step;
    } else {
        high = from;
        while (step <= high && !comes_before(edges[high - step], at, right)) {
            high -= step;
            step *= 2;
        }
        if (step <= high) low = high - step + 1;
    }
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (comes_before(edges[middle], at, right)) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* Writes the place of each time among sorted edges, as numpy.searchsorted does; returns their number. */
int64_t place_times(const int64_t *edges, int64_t edge_count, const int64_t *at, int64_t count, int64_t right,
                    int64_t *out) {
    int64_t place = 0;
    if (right)
        for (int64_t row = 0; row < count; row++) out[row] = place = place_of(edges, edge_count, at[row], 1, place);
    else
        for (int64_t row = 0; row < count; row++) out[row] = place = place_of(edges, edge_count, at[row], 0, place);
    return count;
}

/* Sorted spans that do not overlap. */
typedef struct {
    const int64_t *start, *end;
    int64_t count;
} Spans;

static inline int64_t covered_before(Spans spans, const int64_t *whole, int64_t at, int64_t *place) {
    int64_t found = *place = place_of(spans.start, spans.count, at, 1, *place);
    if (!found || spans.end[found - 1] <= at) return whole[found];
    return (int64_t)((uint64_t)whole[found] - ((uint64_t)spans.end[found - 1] - (uint64_t)at));
}

/* Writes how much of each interval some spans cover; returns the number of intervals.
 *
 * whole: the length of all spans before each one, and at the end that of all.
 */
int64_t cover_times(const int64_t *span_start, const int64_t *span_end, const int64_t *whole, int64_t span_count,
                    const int64_t *start, const int64_t *end, int64_t count, int64_t *out) {
    Spans spans = {span_start, span_end, span_count};
    int64_t first = 0, last = 0;
    for (int64_t row = 0; row < count; row++) {
        int64_t before = covered_before(spans, whole, start[row], &first), after = 0;
        if (end[row] > start[row]) after = covered_before(spans, whole, end[row], &last);
        out[row] = end[row] > start[row] && after > before ? (int64_t)((uint64_t)after - (uint64_t)before) : 0;
    }
    return count;
}

/* Writes each overlap of a span of one set with a span of another, in order: the number of both, and its start and end.
 *
 * left: NULL to write nothing; then the arrays that follow it are not needed.
 * room: the number of overlaps that there is room for.
 *
 * Returns their number, or UNUSUAL where there is no room for all.
 */
int64_t overlap_spans(const int64_t *one_start, const int64_t *one_end, int64_t one_count, const int64_t *other_start,
                      const int64_t *other_end, int64_t other_count, int64_t *left, int64_t *right, int64_t *start,
                      int64_t *end, int64_t room) {
    int64_t first = 0, last = 0, count = 0;
    for (int64_t row = 0; row < one_count; row++) {
        first = place_of(other_end, other_count, one_start[row], 1, first);
        last = place_of(other_start, other_count, one_end[row], 0, last < first ? first : last);
        if (!left) {
            count += last > first ? last - first : 0;
            continue;
        }
        if (last > first && last - first > room - count) return UNUSUAL;
        for (int64_t other = first; other < last; other++, count++) {
            left[count] = row;
            right[count] = other;
            start[count] = one_start[row] > other_start[other] ? one_start[row] : other_start[other];
            end[count] = one_end[row] < other_end[other] ? one_end[row] : other_end[other];
        }
    }
    return count;
}

enum { LOOSE, IN_ORDER, APART };

/* Returns APART where no interval is empty and each begins after the one before it ends; IN_ORDER where each begins
 * with or after the one before it; else LOOSE. */
int64_t order_of(const int64_t *start, const int64_t *end, int64_t count) {
    int64_t found = APART;
    for (int64_t row = 0; row < count; row++) {
        if (row && start[row] < start[row - 1]) return LOOSE;
        if (end[row] <= start[row] || (row && start[row] <= end[row - 1])) found = IN_ORDER;
    }
    return found;
}

/* Writes the union of intervals in order of start; returns the number of spans.
 *
 * out_start, out_end: room for as many spans as there are intervals.
 */
int64_t merge_in_order(const int64_t *start, const int64_t *end, int64_t count, int64_t *out_start, int64_t *out_end) {
    int64_t found = 0;
    for (int64_t row = 0; row < count; row++) {
        if (end[row] <= start[row]) continue;
        if (found && start[row] <= out_end[found - 1]) {
            if (end[row] > out_end[found - 1]) out_end[found - 1] = end[row];
            continue;
        }
        out_start[found] = start[row];
        out_end[found++] = end[row];
    }
    return found;
}

/* Cuts sorted spans where the label changes: nsyswrap/attribution/cuts.py does the same.
 *
 * part, code, start, end: of each piece the number of its span, its label, start and end.
 * room: the number of pieces that there is room for.
 *
 * Returns the number of pieces, or UNUSUAL where there is no room for all.
 */
int64_t cut_spans(const int64_t *span_start, const int64_t *span_end, int64_t span_count, const int64_t *label_start,
                  const int64_t *label_end, const int32_t *labels, int64_t label_count, int64_t otherwise,
                  int64_t *part, int32_t *code, int64_t *start, int64_t *end, int64_t room) {
    int64_t label = 0, count = 0;
    for (int64_t row = 0; row < span_count; row++) {
        int64_t at = span_start[row], stop = span_end[row];
        label = place_of(label_end, label_count, at, 1, label);
        do {
            int is_inside = label < label_count && label_start[label] <= at;
            int64_t next = label == label_count ? stop : is_inside ? label_end[label] : label_start[label];
            if (next > stop) next = stop;
            if (next <= at && at < stop) return UNUSUAL;
            if (count == room) return UNUSUAL;
            part[count] = row;
            code[count] = is_inside ? labels[label] : (int32_t)otherwise;
            start[count] = at;
            end[count++] = at < stop ? next : stop;
            at = next;
            if (is_inside) label++;
        } while (at < stop);
    }
    return count;
}
