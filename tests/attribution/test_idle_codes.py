"""Codes and sums that are made block by block are those of all rows at once."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.attribution.idle_accounts import numbered, sums_by_gap
from nsyswrap.attribution.pieces import Pieces
from nsyswrap.trace import tables

SMALL_BLOCK = 3
keys = st.lists(st.integers(0, 4), max_size=20)


@pytest.mark.parametrize("limit", [5, tables.DENSE_IDS + 1])
@given(keys=keys)
def test_keys_are_numbered_as_they_first_occur(limit: int, keys: list[int]) -> None:
    key = np.array(keys, np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "BLOCK", SMALL_BLOCK)
        codes, unique = numbered(lambda some: key[some], len(key), limit)
    assert (codes.tolist(), unique.tolist()) == tuple(each.tolist() for each in pd.factorize(key))


@given(rows=st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.integers(1, 9)), max_size=20))
def test_pieces_of_one_code_in_one_gap_count_together(rows: list[tuple[int, bool, int]]) -> None:
    frame = pd.DataFrame(rows, columns=["code", "opens", "length"]).astype({"length": "int64"})
    gap = frame["opens"].cumsum().to_numpy(np.int32)
    end = frame["length"].cumsum().to_numpy(np.int64)
    none = np.zeros(len(rows), np.int8)
    pieces = Pieces(end - frame["length"].to_numpy(), end, gap, none, none, none, gap, np.zeros(1, np.int64))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "BLOCK", SMALL_BLOCK)
        parts = list(sums_by_gap(frame["code"].to_numpy(np.uint8), pieces))
    found = [pair for code, length in parts for pair in zip(code.tolist(), length.tolist(), strict=True)]
    wanted = frame.groupby([gap, frame["code"]], as_index=False)["length"].sum()
    assert sorted(found) == sorted(zip(wanted["code"].tolist(), wanted["length"].tolist(), strict=True))
