"""Commands with a report.json as input: `analyze` and `report` show it, the others say which file to give instead."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import paired_reports as pairs
import pytest
from commands import run
from export_builder import ExportBuilder

from nsyswrap.render import json_report

OPTIONS = {
    "--window": "all",
    "--step-range": "^it",
    "--phase": "data=^prefetch",
    "--kernel-rules": "rules.json",
}


@pytest.fixture(scope="module")
def capture(captures: Callable[[str], Path]) -> Path:
    """Return a real capture with steps."""
    return captures("cuda_graph_graph_trace")


@pytest.fixture(scope="module")
def report(capture: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.json"
    assert run("analyze", capture, "-o", path).exit_code == 0
    return path


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Return a small report.json in its own folder."""
    path = tmp_path / "run" / "report.json"
    path.parent.mkdir()
    path.write_text(json_report.render(pairs.report(pairs.lengths(4.0))), encoding="utf-8")
    return path


@pytest.mark.parametrize("form", ["text", "csv"])
def test_analyze_prints_the_same_from_a_report_json_as_from_its_capture(form: str, capture: Path, report: Path) -> None:
    """Stderr is empty. Tables without rows have their headers, too."""
    from_report = run("analyze", report, "--format", form)
    assert (from_report.exit_code, from_report.stderr) == (0, "")
    from_capture = run("analyze", capture, "--format", form).stdout
    assert from_report.stdout.replace(str(report.parent), str(capture.parent)) == from_capture


def test_report_writes_a_page_without_a_timeline(capture: Path, report: Path, tmp_path: Path) -> None:
    """The page and stderr say that the timeline is missing; the page of the capture has one."""
    pages = {"json": tmp_path / "json.html", "capture": tmp_path / "capture.html"}
    result = run("report", report, "-o", pages["json"])
    assert result.exit_code == 0
    note, wrote = result.stderr.splitlines()
    assert note.startswith("note: The page has no timeline, because report.json holds none: give the .nsys-rep or ")
    assert wrote == f"wrote {pages['json']}"
    page = pages["json"].read_text(encoding="utf-8")
    assert "This page was made from a report.json, which holds no timeline." in page
    assert 'href="#timeline"' not in page
    assert run("report", capture, "-o", pages["capture"]).stderr == f"wrote {pages['capture']}\n"
    assert 'href="#timeline"' in pages["capture"].read_text(encoding="utf-8")


def test_the_note_on_the_page_is_not_in_other_formats(small: Path) -> None:
    """Text needs no timeline."""
    assert "timeline" not in run("analyze", small).stdout


@pytest.mark.parametrize("name", ["capture.sqlite", "capture.nsys-rep"])
def test_the_capture_beside_a_report_json_is_named(name: str, small: Path, tmp_path: Path) -> None:
    """The user can copy its path from the message."""
    (small.parent / name).touch()
    assert f"give {small.parent / name} to get one" in run("report", small, "-o", tmp_path / "page.html").stderr
    exported = run("export", small, "--format", "csv", "-o", tmp_path / "tables")
    assert exported.exit_code == 2
    assert exported.stderr == (
        f"nsyswrap: {small} is a report and holds no events of the capture\nhint: give {small.parent / name} instead\n"
    )
    assert f"hint: give {small.parent / name}\n" in run("analyze", small, "--window", "all").stderr


def test_the_export_is_named_before_the_capture(small: Path) -> None:
    """It is the faster of the two to read."""
    for name in ("capture.nsys-rep", "capture.sqlite"):
        (small.parent / name).touch()
    assert "capture.sqlite" in run("analyze", small, "--window", "all").stderr


@pytest.mark.parametrize("form", ["perfetto", "parquet", "csv"])
def test_export_needs_the_capture(form: str, small: Path, tmp_path: Path) -> None:
    """A report.json holds no events; nothing is written."""
    result = run("export", small, "--format", form, "-o", tmp_path / "out")
    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        f"nsyswrap: {small} is a report and holds no events of the capture",
        "hint: give the .nsys-rep or .sqlite file that it was made from instead",
    ]
    assert not (tmp_path / "out").exists()


def test_redact_needs_the_capture(small: Path, tmp_path: Path) -> None:
    result = run("redact", small, "-o", tmp_path / "shared.sqlite")
    assert result.exit_code == 2
    assert f"{small} is a report and holds no events" in result.stderr


@pytest.mark.parametrize("command", ["analyze", "report"])
@pytest.mark.parametrize("option", OPTIONS)
def test_read_options_are_a_usage_error(
    option: str, command: str, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The numbers of a report.json are final. The message names the option, and nothing is written."""
    monkeypatch.chdir(tmp_path)
    Path("rules.json").write_text('{"schema": "nsyswrap.kernel_rules/1", "rules": []}', encoding="utf-8")
    before = sorted(tmp_path.iterdir())
    result = run(command, small, option, OPTIONS[option])
    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        f"nsyswrap: {small} is a finished report: {option} cannot change its numbers",
        "hint: give the .nsys-rep or .sqlite file that it was made from",
    ]
    assert sorted(tmp_path.iterdir()) == before


def test_all_read_options_are_named(small: Path) -> None:
    result = run("analyze", small, "--window", "all", "--step-range", "^it")
    assert "--window and --step-range cannot change its numbers" in result.stderr


@pytest.mark.parametrize("command", ["analyze", "report"])
@pytest.mark.parametrize("schema", ["nsyswrap.report/0", "nsyswrap.report/99"])
def test_another_version_of_report_json_is_refused(schema: str, command: str, small: Path, tmp_path: Path) -> None:
    """One message names the file and its version, and no page is written."""
    tree = json.loads(small.read_text(encoding="utf-8")) | {"schema": schema}
    small.write_text(json.dumps(tree), encoding="utf-8")
    result = run(command, small, *(["-o", tmp_path / "page.html"] if command == "report" else []))
    assert result.exit_code == 1
    message, hint = result.stderr.splitlines()
    assert message.startswith(f"nsyswrap: {small} is ")
    assert f"version {schema.rpartition('/')[2]}" in message.replace("'", "")
    assert hint.startswith("hint: ")
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize(("content", "code"), [(b"", 1), (b"{", 1), (b"[]", 1), (b"\xff", 1), (None, 1)])
@pytest.mark.parametrize("command", ["analyze", "report"])
def test_a_file_that_is_not_a_report_json_is_an_error(
    command: str, content: bytes | None, code: int, tmp_path: Path
) -> None:
    """It may be empty, cut short, of another program, binary or missing."""
    path = tmp_path / "report.json"
    if content is not None:
        path.write_bytes(content)
    result = run(command, path, *(["-o", tmp_path / "page.html"] if command == "report" else []))
    assert result.exit_code == code
    assert len(result.stderr.splitlines()) == 2
    assert str(path) in result.stderr


def test_the_slim_page_is_the_first_part(report: Path, capture: Path, tmp_path: Path) -> None:
    """A report.json gives the same page as its capture."""
    pages = []
    for path in (report, capture):
        page = tmp_path / f"{path.suffix}.html"
        assert run("report", path, "--slim", "-o", page).exit_code == 0
        pages.append(page.read_text(encoding="utf-8").replace(str(path.parent), "folder"))
    assert pages[0] == pages[1]
    assert "This is the short form." in pages[0]
    assert "timeline-ready" not in pages[0]
    assert len(pages[0].encode()) < 60_000


def test_a_gpu_that_is_never_idle_has_the_same_report_from_its_report_json(tmp_path: Path) -> None:
    """Copies follow one another without a gap, so the tables of gaps have no rows."""
    builder = ExportBuilder().gpu()
    for at in range(1, 51):
        builder.copy(at * 1000, (at + 1) * 1000, launched=(at * 1000 - 20, at * 1000 - 10))
    export, written = builder.write(tmp_path / "x.sqlite"), tmp_path / "r.json"
    assert run("analyze", export, "-o", written).exit_code == 0
    assert run("analyze", written).stdout == run("analyze", export).stdout
    assert run("report", written, "-o", tmp_path / "r.html").exit_code == 0


DAMAGE: dict[str, Callable[[dict[str, Any]], object]] = {
    "column device_id of sections.ledger.tables.devices": lambda tree: _devices(tree)[0].update(device_id=None),
    "column idle_ns of sections.ledger.tables.devices": lambda tree: _devices(tree)[0].update(idle_ns="much"),
    "tables.devices has no column window_ns": lambda tree: [row.pop("window_ns") for row in _devices(tree)],
    "window": lambda tree: tree.pop("window"),
    "count is not a whole number": lambda tree: tree["step"].update(count="many"),
    "tables.devices is not a list of rows": lambda tree: tree["sections"]["ledger"]["tables"].update(devices=None),
}


def _devices(tree: dict[str, Any]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = tree["sections"]["ledger"]["tables"]["devices"]
    return rows


@pytest.mark.parametrize("words", DAMAGE)
@pytest.mark.parametrize(
    "command",
    [
        "analyze {0}",
        "report {0} -o page.html",
        "compare {0} {0}",
        "history --db sqlite:///x.sqlite add {0}",
        "gate {0} --against {0}",
    ],
)
def test_each_command_names_the_damaged_field(
    command: str, words: str, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names the file and its field in one line, and the hint says what to do."""
    monkeypatch.chdir(small.parent)
    tree = json.loads(small.read_text(encoding="utf-8"))
    DAMAGE[words](tree)
    small.write_text(json.dumps(tree), encoding="utf-8")
    result = run(*command.format(small).split())
    # Code 1 of a gate says that a step became slower, so its errors are code 4.
    assert (result.exit_code, result.stdout) == (4 if command.startswith("gate") else 1, "")
    message, hint = result.stderr.splitlines()
    assert message.startswith(f"nsyswrap: {small} is damaged: ")
    assert words in message
    assert hint.startswith("hint: write it again from the capture")


def test_one_damaged_report_of_many_has_its_reason_in_its_row(small: Path, tmp_path: Path) -> None:
    """The others are read."""
    other = tmp_path / "other" / "report.json"
    other.parent.mkdir()
    tree = json.loads(small.read_text(encoding="utf-8"))
    _devices(tree)[0]["idle_ns"] = "much"
    other.write_text(json.dumps(tree), encoding="utf-8")
    result = run("analyze-many", small, other)
    assert "column idle_ns of sections.ledger.tables.devices" in result.stdout + result.stderr
    assert "Traceback" not in result.stdout + result.stderr
