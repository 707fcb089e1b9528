"""Order and sums of rows: what pandas gives, with the types of the columns also where there are no rows."""

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.base.row_sums import largest_first, sums_by_text, typed_table

texts = st.sampled_from(["", "gemm", "relu", "Ärger"])
rows = st.lists(st.tuples(texts, texts, st.integers(0, 3), st.integers(0, 3)), max_size=12)


@given(rows)
def test_the_largest_number_is_first_and_then_the_first_text(given_rows: list[tuple[str, str, int, int]]) -> None:
    frame = pd.DataFrame(given_rows, columns=["name", "op", "total_ns", "count"])
    order = largest_first(frame["total_ns"].to_numpy(np.int64), frame["name"].tolist())
    assert order.tolist() == frame.sort_values(["total_ns", "name"], ascending=[False, True]).index.tolist()


@given(rows)
def test_sums_are_those_of_pandas(given_rows: list[tuple[str, str, int, int]]) -> None:
    frame = pd.DataFrame(given_rows, columns=["name", "op", "total_ns", "count"])
    frame = frame.astype({"total_ns": "int64", "count": "int64"})
    found = sums_by_text(
        ("name", "op"),
        [row[:2] for row in given_rows],
        1,
        total_ns=frame["total_ns"].to_numpy(),
        count=frame["count"].to_numpy(),
    )
    expected = frame.groupby(["name", "op"], as_index=False, sort=False).sum()
    expected = expected.sort_values(["total_ns", "name"], ascending=[False, True], ignore_index=True)
    pd.testing.assert_frame_equal(found, expected, check_dtype=bool(given_rows))


def test_a_table_without_rows_has_the_types_of_its_columns() -> None:
    found = typed_table([], {"name": str, "total_ns": np.int64, "share": np.float64})
    assert [str(each) for each in found.dtypes] == ["object", "int64", "float64"]
    assert typed_table([("gemm", 7)], {"name": str, "total_ns": np.int64}).to_dict("list") == {
        "name": ["gemm"],
        "total_ns": [7],
    }
