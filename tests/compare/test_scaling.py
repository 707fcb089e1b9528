"""Two runs on different numbers of GPUs: the parts of a step add up to the difference."""

import json

import paired_reports as pairs
import pytest
from export_builder import trace_of
from hypothesis import given
from hypothesis import strategies as st
from made_ranks import job

from nsyswrap.compare.changes import basis_of
from nsyswrap.compare.comparison import Side
from nsyswrap.compare.scaling import KEY, PARTS, STEP, scaling_table
from nsyswrap.render import documents
from nsyswrap.report import build_report

US = 1000


def test_a_late_rank_is_what_two_gpus_add() -> None:
    """Rank 1 loads 400 us longer: half of that is waiting, half idle, in the mean over both GPUs."""
    one, two = (build_report(trace_of(job(count, 12, late))) for count, late in ((1, {}), (2, {1: 400 * US})))
    comparison = pairs.compared(one, two)
    table = comparison.table(KEY)
    assert table is not None
    assert table.title == "Scaling from 1 to 2 GPUs"
    added = {change.name: round(change.delta) for change in table.changes}
    assert added[STEP] == 400 * US
    assert sum(added[name] for name in PARTS) == added[STEP]
    assert added["communication_wait_ns"] == 200 * US
    assert added["idle_ns"] == 200 * US
    assert added["compute_ns"] == 0


lengths = st.lists(st.integers(2_000_000, 9_000_000), min_size=10, max_size=20)


@given(lengths, lengths, st.integers(1, 4), st.integers(5, 8))
def test_the_parts_close_to_zero(base: list[int], new: list[int], few: int, many: int) -> None:
    """This holds for any steps and numbers of GPUs, to less than a picosecond."""
    sides = Side.of("base", [pairs.report(base, gpus=few)]), Side.of("new", [pairs.report(new, gpus=many)])
    table = scaling_table(*sides, basis_of(*sides))
    assert table is not None
    *parts, step = table.changes
    assert sum(part.delta for part in parts) == pytest.approx(step.delta, abs=1e-6)


def test_equal_numbers_of_gpus_have_no_table() -> None:
    report = pairs.report(pairs.lengths(4.0))
    assert pairs.compared(report, pairs.report(pairs.lengths(2.0, seed=2))).table(KEY) is None


@pytest.mark.parametrize("form", ["text", "markdown", "html", "json"])
def test_each_form_shows_the_parts(form: str) -> None:
    one, two = pairs.report(pairs.lengths(4.0)), pairs.report(pairs.lengths(3.0, seed=2), gpus=2)
    text = documents.render("comparison", form, pairs.compared(one, two))
    if form == "json":
        assert json.loads(text)["tables"][KEY]["rows"][-1]["name"] == STEP
    else:
        assert "scaling from 1 to 2 gpus" in text.lower()
        assert "whole step" in text
