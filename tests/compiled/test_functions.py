"""The compiled functions return what numpy and pandas do."""

import ctypes

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.db import coded_column
from nsyswrap.db.coded_column import PartCodes

IDS = st.one_of(st.integers(0, 9), st.integers(-(2**63), 2**63 - 1), st.sampled_from([-(2**63), 2**63 - 1, 1 << 32]))


@given(ids=st.lists(st.lists(IDS, max_size=30), max_size=4))
def test_codes_are_those_of_pandas(functions: ctypes.CDLL, ids: list[list[int]]) -> None:
    """The table grows from four places on."""
    places, coded_column.PLACES = coded_column.PLACES, 4
    try:
        compiled, by_pandas = (PartCodes(sum(map(len, ids)), each) for each in (functions, None))
    finally:
        coded_column.PLACES = places
    rows = 0
    for some in ids:
        for part in (compiled, by_pandas):
            part.write(rows, np.array(some, np.int64))
        rows += len(some)
    for found, wanted in zip(compiled.finish(rows), by_pandas.finish(rows), strict=True):
        assert found.dtype == wanted.dtype
        assert found.tolist() == wanted.tolist()


def test_many_ids_have_many_codes(functions: ctypes.CDLL) -> None:
    ids = np.arange(100_000, dtype=np.int64)[::-1] << 24
    part = PartCodes(len(ids), functions)
    part.write(0, ids)
    codes, order = part.finish(len(ids))
    assert np.array_equal(order[codes], ids)
