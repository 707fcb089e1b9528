"""Sequences are aligned whatever is lost, added or moved, and nothing that matches is thrown away."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.operators.alignment import aligned, aligned_twice

sequences = st.lists(st.integers(0, 4), max_size=30)


def longest(one: list[int], other: list[int]) -> int:
    """Return the length of the longest common subsequence, by the textbook's table."""
    row = [0] * (len(other) + 1)
    for each in one:
        row = [0, *row[1:]] if not other else row
        above = row.copy()
        for at, code in enumerate(other):
            row[at + 1] = above[at] + 1 if code == each else max(above[at + 1], row[at])
    return row[-1]


def places(pattern: list[int], other: list[int]) -> list[int]:
    """Return what ``aligned`` returns, as a list."""
    found: list[int] = aligned(np.array(pattern, np.int64), np.array(other, np.int64)).tolist()
    return found


@given(sequences, sequences)
def test_an_alignment_ascends_joins_equals_and_is_the_longest(pattern: list[int], other: list[int]) -> None:
    """The law of a longest common subsequence."""
    found = places(pattern, other)
    matched = [(at, place) for at, place in enumerate(found) if place >= 0]
    assert all(pattern[place] == other[at] for at, place in matched)
    assert all(low[1] < high[1] for low, high in itertools.pairwise(matched))
    assert len(matched) == longest(pattern, other)


@given(st.lists(st.integers(0, 10**6), unique=True, max_size=40), st.data())
def test_lost_launches_shift_no_others(pattern: list[int], data: st.DataObject) -> None:
    """Each launch that is left has its own place, however many are lost."""
    kept = data.draw(st.lists(st.booleans(), min_size=len(pattern), max_size=len(pattern)))
    left = [at for at, is_kept in enumerate(kept) if is_kept]
    assert places(pattern, [pattern[at] for at in left]) == left


@given(st.lists(st.integers(0, 9), min_size=1, max_size=20), st.integers(0, 20))
def test_an_added_launch_is_the_only_one_without_a_place(pattern: list[int], at: int) -> None:
    """A launch of another kind, wherever it is added, takes no place and moves none."""
    at = min(at, len(pattern))
    found = places(pattern, [*pattern[:at], 99, *pattern[at:]])
    assert found == [*range(at), -1, *range(at, len(pattern))]


def test_two_launches_that_changed_places_leave_all_others() -> None:
    """One of the two has no place, and all others have their own."""
    found = places([*range(10)], [0, 1, 2, 4, 3, 5, 6, 7, 8, 9])
    assert sum(each < 0 for each in found) == 1
    assert [each for each in found if each not in {-1, 3, 4}] == [0, 1, 2, 5, 6, 7, 8, 9]


def test_other_work_is_not_aligned() -> None:
    """A step of other work has nothing in common with the pattern, and takes no time."""
    pattern = np.zeros(20_000, np.int64)
    assert (aligned(pattern, pattern + 1) == -1).all()


def test_launches_of_another_size_are_joined_by_name() -> None:
    """Between exact places, equal names have a place that is not exact."""
    names = np.array([1, 2, 3, 4])
    place, exact = aligned_twice(np.array([10, 20, 30, 40]), np.array([10, 21, 31, 40]), names, names)
    assert place.tolist() == [0, 1, 2, 3]
    assert exact.tolist() == [True, False, False, True]
