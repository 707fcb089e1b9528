"""A capture on disk: its export, and what `profile` recorded beside it, for commands and `nsyswrap.open` alike."""

import json
from pathlib import Path

import pytest
from capture_fixtures import fake_tree
from export_builder import ExportBuilder
from host_records import recorded
from xray_program import LAUNCHES, program, record

import nsyswrap
from nsyswrap.base.errors import ExportError
from nsyswrap.capture_file import exported, folder_of, shared_xray, with_recorded, xray_of
from nsyswrap.cli.inputs import ReadOptions, report_from, trace_context
from nsyswrap.loop.context import NO_SETTINGS
from nsyswrap.trace.load import load_export
from nsyswrap.trace.redact import redact

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


def test_the_folder_of_a_capture_is_named_as_in_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A private one elsewhere is not named."""
    monkeypatch.chdir(tmp_path)
    assert folder_of(tmp_path / "reports" / "base" / "capture.sqlite") == "reports/base"
    assert folder_of(Path("capture.sqlite")) == "."
    assert folder_of(Path("/scratch/base/capture.sqlite")) == "/scratch/base"
    assert folder_of(Path("/home/someone/base/capture.sqlite")) == "."


def test_an_export_is_taken_as_it_is(capture: Path) -> None:
    with exported(capture) as export:
        assert export == capture


@pytest.mark.parametrize(
    ("beside", "hint"),
    [
        ("capture.sqlite", "Its export needs no nsys: give {folder}/capture.sqlite. "),
        (
            "capture.sqlite.xz",
            "Its export needs no nsys: run 'xz -dk {folder}/capture.sqlite.xz' and give {folder}/capture.sqlite. ",
        ),
        ("report.json", "Its finished report is {folder}/report.json. "),
        ("capture.txt", ""),
    ],
)
@pytest.mark.parametrize("kind", ["none", "older"])
def test_without_its_nsys_what_lies_beside_a_capture_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, beside: str, hint: str
) -> None:
    """An export or a report of the capture needs no nsys."""
    tool = fake_tree(tmp_path / "fake")
    monkeypatch.setenv("NSYSWRAP_NSYS", str(tool if kind == "older" else tmp_path / "nowhere"))
    monkeypatch.setenv("FAKE_NSYS_FAILURE", "export-fails")
    capture = tmp_path / "capture.nsys-rep"
    capture.write_bytes(b"NVIDIA Tegra Profiler Report 2026@1@1@54-234v0.\n")
    (tmp_path / beside).touch()
    with pytest.raises(ExportError) as caught, exported(capture):
        pass
    assert caught.value.hint.startswith(hint.format(folder=tmp_path))
    assert "NSYSWRAP_NSYS" in caught.value.hint
    assert kind == "none" or "was recorded by nsys 2026.1.1" in caught.value.message


def committed_captures() -> list[Path]:
    """Return the captures of nsys that a fresh clone has."""
    reports = Path(__file__).resolve().parent.parent / "reports"
    return sorted(reports.glob("*/*/capture.nsys-rep"))


@pytest.mark.parametrize("capture", committed_captures(), ids=lambda path: path.parent.name)
def test_a_committed_capture_can_be_read_without_its_nsys(capture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names a file of the same folder that can be read."""
    monkeypatch.setenv("NSYSWRAP_NSYS", "/nowhere")
    with pytest.raises(ExportError) as caught, exported(capture):
        pass
    assert f"Its finished report is {capture.parent / 'report.json'}" in caught.value.hint
    assert report_from(capture.parent / "report.json", ReadOptions()).findings


def test_a_redacted_export_holds_the_xray_step_without_folders(tmp_path: Path) -> None:
    """Operators, modules and lines are the same; files have their names alone."""
    capture, shared = program([LAUNCHES] * 3).write(tmp_path / "capture.sqlite"), tmp_path / "shared.sqlite"
    (tmp_path / "xray.json").write_text(json.dumps(record()), encoding="utf-8")
    redact(capture, shared, more=lambda cleaner: shared_xray(capture, cleaner))
    (found,), (original,) = xray_of(shared), xray_of(capture)
    assert (found.operators, found.modules) == (original.operators, original.modules)
    assert [each.file for each in found.sites] == ["model.py", "model.py", "train.py"]
    assert b"someone" not in shared.read_bytes()
