"""A capture is read to a text in any process: its sums, or why it has none, without its folder."""

import json
from pathlib import Path

import pytest
from capture_fixtures import fake_nsys
from export_builder import ExportBuilder
from made_steps import made_loop

from nsyswrap.base.privacy import neutral_host
from nsyswrap.capture.locate import Nsys
from nsyswrap.capture.recorded_run import SCHEMA
from nsyswrap.cli import capture_reader
from nsyswrap.cli.capture_reader import CaptureTask, _impersonal, read_capture
from nsyswrap.cli.inputs import ReadOptions, report_from
from nsyswrap.cli.terminal import rendered
from nsyswrap.many.capture_sums import CaptureSums, decoded

__all__ = ["fake_nsys"]


def read(path: Path, host_from: Path | None = None, options: ReadOptions | None = None) -> CaptureSums | str:
    return decoded(read_capture(CaptureTask(path, host_from, options or ReadOptions())))


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """Return a capture of ten steps, which names its host."""
    builder = made_loop(builder=ExportBuilder().gpu())
    builder.row("TARGET_INFO_SYSTEM_ENV", name="Hostname", value="node-7.example")
    (tmp_path / "run").mkdir()
    return builder.write(tmp_path / "run" / "capture.sqlite")


def test_an_export_and_its_report_have_the_same_sums(capture: Path) -> None:
    """The host is a neutral name; for a report.json it comes from the export beside it."""
    report = capture.with_name("report.json")
    report.write_text(rendered("json", report_from(capture, ReadOptions()), to_terminal=False))
    sums = read(capture)
    assert isinstance(sums, CaptureSums)
    assert (sums.step_count, sums.step_ns, sums.host) == (10, 1_000_000, neutral_host("node-7.example"))
    assert "node" not in sums.host
    assert read(report, capture) == sums


def test_the_number_of_the_machine_in_run_json_counts_as_in_the_history(capture: Path) -> None:
    """It does for the export and for its report; anything that is no number does not."""
    record = capture.with_name("run.json")
    for host, expected in (("0123456789ab", "0123456789ab"), ("my-laptop", neutral_host("node-7.example"))):
        record.write_text(json.dumps({"schema": SCHEMA, "host": host}))
        sums = read(capture)
        assert isinstance(sums, CaptureSums)
        assert sums.host == expected


def test_a_broken_file_is_a_reason_without_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    path.write_bytes(b"")
    assert read(path) == "it is empty"
    assert read(tmp_path / "gone.sqlite") == "it does not exist"
    (tmp_path / "report.json").write_text('{"schema": "other"}')
    assert read(tmp_path / "report.json") == "it is not a report of nsyswrap"


@pytest.mark.parametrize(("error", "words"), [(MemoryError(), "memory"), (KeyError("x"), "KeyError")])
def test_a_fault_is_a_reason_too(capture: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, words: str) -> None:
    def fail(_task: CaptureTask) -> CaptureSums:
        raise error

    monkeypatch.setattr(capture_reader, "_sums", fail)
    assert words in str(read(capture))


EXPORTER = """#!/bin/sh
# Stands for nsys: its export of a capture is the file itself.
if [ "$1" != export ] || [ "$2" = --help ]; then exec "{}" "$@"; fi
for word; do case "$word" in --output=*) to="${{word#--output=}}" ;; esac; last="$word"; done
exec cp "$last" "$to"
"""


def test_a_capture_of_nsys_is_exported_first(
    capture: Path, fake_nsys: Nsys, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A process that reads captures prints nothing: others show the progress."""
    tool = capture.with_name("nsys")
    tool.write_text(EXPORTER.format(fake_nsys.path))
    tool.chmod(0o700)
    monkeypatch.setenv("NSYSWRAP_NSYS", str(tool))
    whole = capture.with_name("capture.nsys-rep")
    whole.write_bytes(capture.read_bytes())
    assert read(whole) == read(capture)
    assert capfd.readouterr() == ("", "")
    monkeypatch.setenv("NSYSWRAP_NSYS", str(tool.with_name("nowhere")))
    assert "NSYSWRAP_NSYS" in str(read(whole))


def test_sums_are_of_whole_captures(capture: Path) -> None:
    """A capture that does not fit into a given amount of memory has a reason, and no sums of a part."""
    whole = read(capture)
    assert isinstance(whole, CaptureSums)
    found = read(capture, options=ReadOptions(memory=1_000))
    assert isinstance(found, str)
    assert found.startswith("reading all would take about 0.4 GB of memory")
    assert read(capture, options=ReadOptions(memory=10**9)) == whole


def test_a_message_does_not_begin_with_the_name_of_the_file() -> None:
    path = Path("runs/x.sqlite")
    assert _impersonal("x.sqlite: table A has no column b", path) == "table A has no column b"
    assert _impersonal("runs/x.sqlite is empty", path) == "it is empty"
