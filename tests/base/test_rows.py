"""Rows that a mask chooses or that numbers name are those of numpy's indexing."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.base import rows as rows_of
from nsyswrap.base.rows import chosen, taken


def column(count: int, kind: str = "i8") -> npt.NDArray[np.int64]:
    """Return numbers of a type, most of them different."""
    return np.arange(3, count + 3, dtype=np.int64).astype(kind)


@given(mask=st.lists(st.booleans(), max_size=40), block=st.integers(1, 9), kind=st.sampled_from(["i1", "i4", "f8"]))
def test_chosen_values_are_those_of_the_mask(mask: list[bool], block: int, kind: str) -> None:
    where, values = np.array(mask, bool), column(len(mask), kind)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows_of, "BLOCK", block)
        found = chosen(where, values, values[::-1], np.broadcast_to(values[:1], len(mask)))
    assert [each.tolist() for each in found] == [
        each[where].tolist() for each in (values, values[::-1], np.broadcast_to(values[:1], len(mask)))
    ]
    assert taken(values, where).tolist() == values[where].tolist()


def test_values_of_a_full_mask_are_a_copy() -> None:
    """What is taken can be changed in place."""
    values = column(5)
    taken(values, np.ones(5, bool))[:] = 0
    assert values.tolist() == [3, 4, 5, 6, 7]


@given(data=st.data(), count=st.integers(1, 20), kind=st.sampled_from(["i1", "i4", "i8", "u4"]))
def test_taken_values_are_those_of_their_rows(data: st.DataObject, count: int, kind: str) -> None:
    """A negative number counts from the end."""
    least = 0 if kind.startswith("u") else -count
    rows = np.array(data.draw(st.lists(st.integers(least, count - 1), max_size=30)), kind)
    assert taken(column(count), rows).tolist() == column(count)[rows].tolist()


def test_a_mask_of_another_length_is_an_error() -> None:
    with pytest.raises(IndexError):
        taken(column(5), np.ones(4, bool))
