"""Of many ranks a few are shown in detail."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rank_generator import Job, exports

from nsyswrap.cli.inputs import ReadOptions
from nsyswrap.cli.rank_reports import report_of_ranks
from nsyswrap.ranks.many import in_detail


@pytest.mark.parametrize(("ranks", "some"), [(8, False), (9, True)])
def test_of_more_than_eight_ranks_some_are_shown_in_detail(ranks: int, tmp_path: Path, *, some: bool) -> None:
    exports(Job([[0] * 4] * ranks), tmp_path)
    ledger = report_of_ranks([tmp_path], ReadOptions()).section("ledger")
    assert ledger is not None
    assert any("All else is of" in note for note in ledger.notes) == some


def test_the_four_costliest_late_ranks_and_those_with_most_least_and_usual_waits_are_shown_in_detail() -> None:
    times: Any = [SimpleNamespace(device_id=each, ledger={"communication_wait_ns": 10 * each}) for each in range(12)]
    late: Any = [SimpleNamespace(device_id=device) for device in (5, 4, 3, 2, 8, 7)]
    many: Any = SimpleNamespace(ranks=SimpleNamespace(each=(times[1],)))
    assert list(in_detail(many, times, late)) == [0, 1, 2, 3, 4, 5, 6, 11]
