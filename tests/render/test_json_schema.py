"""The JSON Schema of report.json: what it refuses, and that the reports of this version are valid."""

import json
from pathlib import Path
from typing import Any

import hand_made
import paired_reports as pairs
import pytest
from real_captures import EVERY_NAME, RealReport, of_captures, some
from valid_reports import valid_report, validator

from nsyswrap.model import Report
from nsyswrap.render import json_report

ROOT = Path(__file__).resolve().parents[2]
COMMITTED = sorted((ROOT / "reports").glob("*/*/report.json"))
FULL = hand_made.full_report()


@pytest.mark.parametrize(
    "report",
    [FULL, hand_made.two_gpu_report(), hand_made.empty_report(), pairs.report(pairs.lengths(4.0))],
    ids=["full", "two GPUs", "empty", "short"],
)
def test_reports_are_valid(report: Report) -> None:
    valid_report(report)


@of_captures(EVERY_NAME)
def test_reports_of_real_captures_are_valid(name: str, real_report: RealReport) -> None:
    valid_report(real_report(name))


@pytest.mark.parametrize("path", some(COMMITTED), ids=lambda path: path.parent.name)
def test_each_committed_report_is_valid(path: Path) -> None:
    validator().validate(json.loads(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("schema",), "nsyswrap.report/2"),
        (("step", "alone"), {"low_ns": 1, "high_ns": 2}),
        (("step", "alone_source"), "moon"),
        (("plan", 0, "step"), None),
        (("plan", 0, "source"), None),
        (("findings", 0, "saving"), 3),
        (("findings", 0, "saving", "point_ns"), 0.5),
        (("findings", 0, "severity"), "fatal"),
        (("sections", "idle", "findings", 0, "lost_ns"), None),
        (("sections", "ledger", "tables", "devices", 0, "idle_ns"), None),
        (("sections", "ledger", "tables", "devices", 0), {}),
        (("sections", "steps", "facts", "median_ns", "unit"), "moons"),
        (("sections", "odd"), {}),
        (("gpus", 0, "name"), None),
    ],
)
def test_a_damaged_report_is_refused(place: tuple[str | int, ...], value: object) -> None:
    tree: Any = json.loads(json_report.render(FULL))
    assert validator().is_valid(tree)
    *above, last = place
    inner = tree
    for key in above:
        inner = inner[key]
    inner[last] = value
    assert not validator().is_valid(tree)


def test_a_field_may_be_added() -> None:
    tree = json.loads(json_report.render(FULL))
    assert validator().is_valid({**tree, "more": 1, "step": {**tree["step"], "more": 1}})
