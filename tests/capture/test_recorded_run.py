"""What is read from the files beside a capture."""

import json
from pathlib import Path

import pytest

from nsyswrap.capture.recorded_run import COPY_RATES, SCHEMA, recorded_value

RATES = {"Host-to-Device": {"low_bytes_per_second": 20e9, "high_bytes_per_second": 25e9}}


def write_record(folder: Path, text: str) -> None:
    """Write the run.json of a folder."""
    (folder / "run.json").write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("capture.sqlite", RATES),
        ("capture.nsys-rep", RATES),
        ("other.sqlite", None),
        ("capture-2.sqlite", None),
        ("my.capture.sqlite", None),
    ],
)
def test_only_the_capture_that_profile_wrote_has_the_rates_beside_it(tmp_path: Path, name: str, found: object) -> None:
    """Other files in the folder may come from another machine, so they have no rates."""
    write_record(tmp_path, json.dumps({"schema": SCHEMA, "pinned_copy_rates": RATES}))
    assert recorded_value(tmp_path / name, COPY_RATES) == found


@pytest.mark.parametrize(
    "text",
    [
        None,
        "\xff",
        "",
        "{",
        "[]",
        "7",
        json.dumps({"pinned_copy_rates": RATES}),
        json.dumps({"schema": "someone.else/1", "pinned_copy_rates": RATES}),
        json.dumps({"schema": SCHEMA}),
    ],
)
def test_a_missing_damaged_or_foreign_record_has_no_rates(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "run.json").write_text(text, encoding="latin-1")
    assert recorded_value(tmp_path / "capture.sqlite", COPY_RATES) is None
