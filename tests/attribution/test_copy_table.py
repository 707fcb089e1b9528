"""Which copies hold the host."""

import pandas as pd
import pytest

from nsyswrap.attribution.copy_table import staged_of


@pytest.mark.parametrize(
    ("kind", "size", "is_staged"),
    [
        ("Device-to-Host", 40_000, False),
        ("Device-to-Host", 65_535, False),
        ("Device-to-Host", 65_536, True),
        ("Host-to-Device", 4, True),
        ("Device-to-Device", 1 << 20, False),
    ],
)
def test_uploads_and_downloads_of_64_kb_are_staged(kind: str, size: int, *, is_staged: bool) -> None:
    copies = pd.DataFrame({"kind": [kind], "bytes": [size], "pageable": [True], "blocking": [True]})
    assert staged_of(copies).tolist() == [is_staged]
    for each in ("pageable", "blocking"):
        assert not staged_of(copies.assign(**{each: False})).any()
