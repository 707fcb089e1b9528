"""The order in which the items of bins are shown."""

from nsyswrap.base.intervals import Spans, Window, times
from nsyswrap.timeline.bins import AROUND, cut


def test_the_next_spans_come_whole_after_the_first_ones() -> None:
    """However long they are: a step is drawn from all its items."""
    window = Window(0, 10_000, "steps", "steps")
    first = [Spans(times([500]), times([510]))]
    grid = cut((window, window), 1_000, times([]), [], first, Spans(times([2_000, 9_000]), times([8_000, 9_010])))
    around = [int(grid.edges[at]) for at in grid.order[: 2 * AROUND + 1]]
    assert around == [470, 480, 490, 500, 510, 520, 530]
    rest = [int(grid.edges[at]) for at in grid.order[2 * AROUND + 1 :]]
    assert rest[:600] == list(range(2_000, 8_000, 10))
    assert rest[600] == 9_000
    assert sorted(grid.order.tolist()) == list(range(grid.count))
