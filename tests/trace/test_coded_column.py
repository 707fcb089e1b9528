"""Columns of ids that repeat, as codes of parts that are joined."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.trace.read_table import PartCodes, joined

IDS = st.integers(np.iinfo(np.int64).min, np.iinfo(np.int64).max)


@given(st.lists(st.lists(st.lists(IDS | st.sampled_from([7, 9]), max_size=5), max_size=3), max_size=4))
def test_the_ids_of_all_parts_come_back(parts: list[list[list[int]]]) -> None:
    """Each part is written some rows at a time, and has room for more."""
    written = []
    for batches in parts:
        count = sum(map(len, batches))
        codes, first = PartCodes(count + 3), 0
        for batch in batches:
            codes.write(first, np.array(batch, np.int64))
            first += len(batch)
        written.append(codes.finish(count))
    found = joined(written)
    every = [each for batches in parts for batch in batches for each in batch]
    assert found.tolist() == every
    assert found.categories.tolist() == sorted(set(every))


@pytest.mark.parametrize(("count", "kind"), [(1, np.int8), (100, np.int8), (200, np.int16), (40_000, np.int32)])
def test_codes_take_as_few_bytes_as_they_need(count: int, kind: type[np.signedinteger]) -> None:
    codes = PartCodes(count)
    codes.write(0, np.arange(count))
    found = joined([codes.finish(count)])
    assert found.codes.dtype == kind
    assert found.tolist() == list(range(count))
