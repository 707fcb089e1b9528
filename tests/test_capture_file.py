"""A capture on disk: its export, and what `profile` recorded beside it, for commands and `nsyswrap.open` alike."""

import json
from pathlib import Path

import pytest
from export_builder import ExportBuilder
from host_records import recorded

import nsyswrap
from nsyswrap.capture_file import exported, with_recorded
from nsyswrap.cli.inputs import ReadOptions, trace_context
from nsyswrap.db.load import load_export
from nsyswrap.loop.context import NO_SETTINGS

RATE = {"low_bytes_per_second": 2e10, "high_bytes_per_second": 3e10}


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """Return a capture as `profile` leaves it: with the rates of copies and the samples of the host."""
    run = {"schema": "nsyswrap.run/1", "pinned_copy_rates": {"Host-to-Device": RATE}}
    (tmp_path / "run.json").write_text(json.dumps(run))
    (tmp_path / "host.json").write_text(json.dumps(recorded([0, 50])))
    return ExportBuilder().session().gpu().kernel(10, 20).write(tmp_path / "capture.sqlite")


def test_what_profile_recorded_is_read(capture: Path) -> None:
    trace, settings = with_recorded(load_export(capture), capture, NO_SETTINGS)
    assert trace.capture.name == "capture.sqlite"
    assert settings.copy_rates["Host-to-Device"].low == RATE["low_bytes_per_second"]
    assert settings.host.times.tolist() == [0, 50]


def test_a_command_and_the_python_interface_read_the_same(capture: Path) -> None:
    context, run = trace_context(capture, ReadOptions()), nsyswrap.open(capture)
    assert run.trace.capture == context.trace.capture
    assert run.report.section("machine") is not None
    assert context.settings.host.times.tolist() == [0, 50]


def test_an_export_is_taken_as_it_is(capture: Path) -> None:
    with exported(capture) as export:
        assert export == capture
