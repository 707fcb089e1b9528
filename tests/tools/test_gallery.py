"""The gallery: cases name real programs, committed results meet EXPECTS, and the pages are up to date."""

import ast
import importlib
import json
import re
import shutil
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from committed_files import committed
from packed_captures import packed

ROOT = Path(__file__).resolve().parents[2]
MEBI = 2**20
MOST_CAPTURES = 8
LARGEST_REPORT = 100_000  # bytes
SAMPLE = ROOT / "reports" / "samples" / "mnist-1-worker" / "report.json"


class Tools(NamedTuple):
    """The modules of tools/ that make the gallery."""

    cases: ModuleType
    results: ModuleType
    page: ModuleType
    cards: ModuleType
    gallery: ModuleType


NAMES = ("gallery_cases", "gallery_results", "gallery_page", "gallery_index", "gallery")
tools = Tools(*map(importlib.import_module, NAMES))


@pytest.fixture(scope="module")
def sample() -> dict[str, Any]:
    """Return an uncut report.json from a real GPU."""
    report: dict[str, Any] = json.loads(SAMPLE.read_text())
    return report


def put(report: dict[str, Any], folder: Path, name: str = "mnist-1-worker") -> Path:
    """Write a report as the result of a case and return its folder."""
    case = folder / name
    case.mkdir(parents=True)
    (case / "report.json").write_text(json.dumps(tools.results.cut(report)))
    return case


def test_each_case_has_a_name_of_its_own_and_a_program() -> None:
    names = [case.name for case in tools.cases.CASES]
    assert len(set(names)) == len(names)
    for case in tools.cases.CASES:
        assert (ROOT / "workloads" / f"{case.program}.py").is_file(), case.name
    assert sum(case.keeps_capture for case in tools.cases.CASES) <= MOST_CAPTURES
    assert {case.name for case in tools.cases.CASES} >= tools.gallery.DRAWING


def test_each_claim_names_cases_and_each_case_has_a_claim() -> None:
    claimed = {name for claim in tools.cases.CLAIMS for name in claim.cases}
    assert claimed == {case.name for case in tools.cases.CASES}


def test_the_programs_take_the_options_of_their_cases() -> None:
    """Each word that starts with a dash is an option in the program's text, or one that all programs have."""
    shared = {"--steps", "--batch-size", "--amp"}
    for case in tools.cases.CASES:
        text = (ROOT / "workloads" / f"{case.program}.py").read_text()
        words = {node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)}
        assert {each for each in case.options.split() if each.startswith("--")} <= words | shared, case.name


def test_what_programs_expect_is_about_cases() -> None:
    """An entry of EXPECTS without a case would never be checked."""
    checked = set()
    for case in tools.cases.CASES:
        nothing: dict[str, Any] = {"findings": [], "sections": {}}
        expected = tools.results.expects(case.program)
        if tools.results.broken(tools.results.Result(case, nothing), expected):
            checked.add(case.program)
    assert checked == {case.program for case in tools.cases.CASES if tools.results.expects(case.program)}


def test_committed_results_meet_the_expectations_of_their_programs() -> None:
    found = tools.results.results()
    wrong = [tools.results.broken(each, tools.results.expects(each.case.program)) for each in found]
    assert [each for each in wrong if each] == []


def test_committed_results_are_small_and_private() -> None:
    """Reports that `make profile` or `make gallery` wrote here and that are not committed do not count."""
    files = committed("reports")
    assert files
    assert sum(path.stat().st_size for path in files) <= 40 * MEBI
    gallery = [path for path in files if path.is_relative_to(ROOT / "reports" / "gallery")]
    assert len([path for path in gallery if path.suffix == ".nsys-rep"]) <= MOST_CAPTURES
    for path in (path for path in gallery if path.name == "report.json"):
        assert json.loads(path.read_text())["session"]["hostname"] == "", path
        assert path.stat().st_size < LARGEST_REPORT, path
    for path in (path for path in gallery if path.suffix in {".json", ".txt"}):
        assert not re.search(r"/(?:home|root|tmp|srv|Users)/", path.read_text()), path


def test_a_case_that_keeps_its_capture_has_it_and_links_it() -> None:
    """The index is up to date, and the card of such a case links the capture."""
    index = (ROOT / "reports" / "index.html").read_text()
    assert index == tools.cards.page(tools.results.results())
    for case in tools.cases.CASES:
        if case.keeps_capture:
            assert (tools.results.GALLERY / case.name / "capture.nsys-rep").is_file(), case.name
            assert f'href="gallery/{case.name}/capture.nsys-rep"' in index


def test_the_page_of_results_is_up_to_date() -> None:
    assert (ROOT / "docs" / "results.md").read_text() == tools.page.page(tools.results.results())


def test_a_cut_report_keeps_what_the_pages_read(sample: dict[str, Any]) -> None:
    """The cut report is far smaller; facts, findings, ledger and attribution are unchanged."""
    cut = tools.results.cut(sample)
    assert len(json.dumps(cut)) < len(json.dumps(sample)) / 8
    assert cut["findings"] == sample["findings"]
    assert cut["sections"]["idle"]["tables"]["attribution"] == sample["sections"]["idle"]["tables"]["attribution"]
    assert cut["sections"]["phases"] == sample["sections"]["phases"]
    assert {key: each["facts"] for key, each in cut["sections"].items()} == {
        key: each["facts"] for key, each in sample["sections"].items()
    }
    case = tools.cases.named("mnist-1-worker")
    assert tools.page.cells(tools.results.Result(case, cut)) == tools.page.cells(tools.results.Result(case, sample))


def test_the_expected_finding_must_be_the_first(sample: dict[str, Any]) -> None:
    result = tools.results.Result(tools.cases.named("mnist-1-worker"), sample)
    assert tools.results.broken(result, {"": ("idle/data_wait", "idle/cpu")}) == ""
    assert tools.results.broken(result, {"--workers 7": ("idle/lock",)}) == ""
    assert tools.results.broken(result, {"": ("idle/lock or idle/data_wait", "idle/cpu or idle/lock")}) == ""
    assert "not the first" in tools.results.broken(result, {"": ("idle/cpu",)})
    assert "no idle/lock" in tools.results.broken(result, {"": ("idle/data_wait", "idle/lock")})
    assert "not the first" in tools.results.broken(result, {"--epochs 1": ("idle/lock",)})


def test_the_page_shows_the_figures_of_a_report(sample: dict[str, Any], tmp_path: Path) -> None:
    put(sample, tmp_path)
    found = tools.results.results(tmp_path)
    assert [each.case.name for each in found] == ["mnist-1-worker"]
    text = tools.page.page(found)
    row = next(line for line in text.splitlines() if "mnist-1-worker" in line and "5.4 %" in line)
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[1:8] == ["5.7", "-", "3.39", "0.382", "6.7 %", "20.5 %", "5.4 %"]
    assert cells[8:] == ["data loader wait", "data loader wait"]
    assert "NVIDIA H200, driver 580.159.04" in text
    assert "Not captured: `mnist-8-workers`." in text
    assert all(f"## {claim.title}" in text and claim.source in text for claim in tools.cases.CLAIMS)


def test_the_page_shows_the_step_without_nsys(sample: dict[str, Any], tmp_path: Path) -> None:
    facts = {"": 0.741, "low_": 0.575, "high_": 0.988}
    costs = {f"without_profiler_{name}share": {"value": value, "unit": "share"} for name, value in facts.items()}
    section = {"title": "", "facts": costs, "tables": {}}
    put({**sample, "sections": {**sample["sections"], "profiler_cost": section}}, tmp_path)
    assert "| 74 % (57 to 99 %) |" in tools.page.page(tools.results.results(tmp_path))


def test_alexnet_has_its_longest_activities(sample: dict[str, Any], tmp_path: Path) -> None:
    """Kernels have the names of their functions; copies count as well."""
    put(sample, tmp_path, "alexnet-8")
    text = tools.page.page(tools.results.results(tmp_path))
    row = next(line for line in text.splitlines() if line.startswith("| alexnet-8 | `"))
    found = [each.split("` ") for each in row.split("|")[2].strip().split("; ")]
    assert len(found) == tools.page.TOP
    times = [float(time) for _, time in found]
    assert times == sorted(times, reverse=True)
    assert "`copy Host-to-Device" in [name for name, _ in found]


def test_convolutions_have_the_times_of_their_programs(sample: dict[str, Any], tmp_path: Path) -> None:
    (put(sample, tmp_path, "convolution-own-100") / "output.txt").write_text("user 1 s\n\n")
    assert "    convolution-own-100: user 1 s\n" in tools.page.page(tools.results.results(tmp_path))


def test_bert_has_a_table_of_the_optimizer(sample: dict[str, Any], tmp_path: Path) -> None:
    """A case without that phase is left out of the table."""
    without = json.loads(json.dumps(sample))
    phases = without["sections"]["phases"]["tables"]
    phases["phases"] = [row for row in phases["phases"] if row["phase"] != "optimizer"]
    put(sample, tmp_path, "bert-amp")
    put(without, tmp_path, "bert-fp32")
    text = tools.page.page(tools.results.results(tmp_path))
    after = text.split("The optimizer in a mean step:")[1].split("\n\n")[1].splitlines()[2:]
    assert [[cell.strip() for cell in line.strip("|").split("|")] for line in after] == [
        ["bert-amp", "0.432", "0.113", "0.319", "7"]  # 58 steps: 25.06, 6.54 and 18.5 ms, 406 kernels
    ]


def test_a_card_shows_verdict_ledger_and_links(sample: dict[str, Any], tmp_path: Path) -> None:
    first = {**sample["findings"][0], "headline": "It <waits>."}
    folder = put({**sample, "findings": [first, *sample["findings"][1:]]}, tmp_path)
    (folder / "report.html").write_text("x")
    text = tools.cards.page(tools.results.results(tmp_path), tmp_path)
    assert "It &lt;waits&gt;." in text
    assert "compute 6.7%, copies 0.7%, memsets 0.0%, idle 92.5%" in text
    assert 'href="gallery/mnist-1-worker/report.html"' in text
    assert 'href="gallery/mnist-1-worker/report.json"' in text
    assert ".nsys-rep" not in text
    figures = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", text)
    assert figures == [
        ("mean step", "5.7 ms"),
        ("kernels", "0.382 ms"),
        ("GPU busy", "6.7 %"),
        ("tensor cores", "5.4 %"),
    ]
    folded, unfolded = text.split("</summary>")
    assert folded.endswith("<details><summary>data loader wait")
    assert "It &lt;waits&gt;." in unfolded
    assert "<span>mnist.py</span> <span>--epochs</span> <span>1</span>" in text
    assert "Captured on: NVIDIA H200, driver" in text
    assert "http" not in text
    assert "No results yet" in tools.cards.page([], tmp_path)


def chosen(tmp_path: Path, seconds: float) -> Namespace:
    """Return the arguments that `gallery.main` passes on."""
    return Namespace(gallery=tmp_path / "gallery", data=tmp_path, option=[], end=time.monotonic() + seconds)


def test_a_failed_profile_is_reported_and_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools.gallery, "NSYSWRAP", [sys.executable, "-c", "import sys; sys.exit('it broke')"])
    errors = tools.gallery.record_all([tools.cases.named("decoding")], chosen(tmp_path, 100))
    assert len(errors) == 1
    assert errors[0].startswith("decoding: exit code 1")
    assert "it broke" in errors[0]
    assert not (tmp_path / "gallery").exists()


def test_a_case_is_timed_on_the_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its output is kept. A case that was not profiled, fails or starts too late is reported."""
    case = tools.cases.named("convolution-cudnn-100")
    assert "not timed" in tools.gallery.time_on_cpu(case, chosen(tmp_path, 100))
    folder = tmp_path / "gallery" / case.name
    folder.mkdir(parents=True)
    assert "not timed" in tools.gallery.time_on_cpu(case, chosen(tmp_path, 1))
    monkeypatch.setattr(tools.gallery, "program", lambda *_: [sys.executable, "-c", "print('user 1 s')"])
    assert tools.gallery.time_on_cpu(case, chosen(tmp_path, 100)) == ""
    assert (folder / "output-cpu.txt").read_text() == "user 1 s\n"
    monkeypatch.setattr(tools.gallery, "program", lambda *_: [sys.executable, "-c", "raise SystemExit(1)"])
    assert "exit status 1" in tools.gallery.time_on_cpu(case, chosen(tmp_path, 100))


def test_paths_and_variables_of_the_machine_are_left_out_of_a_run() -> None:
    """Paths of data and Python are replaced, names of variables dropped; the output of a program stays."""
    run = {"command": [sys.executable, "a.py", "/x/data/b"], "environment": {"names": ["SECRET"], "values": {"A": "0"}}}
    kept = json.loads(tools.results.plain(json.dumps(run), Path("/x/data")))
    assert kept == {"command": ["python", "a.py", "data/b"], "environment": {"values": {"A": "0"}}}
    assert tools.results.plain("/x/data/b: loss 1\n", Path("/x/data")) == "data/b: loss 1\n"


def test_private_variables_are_found_in_each_process(tmp_path: Path) -> None:
    for number, held in (("1", b"PATH=/bin\0TOKEN=x\0"), ("22", b"HOME=/h\0OTHER=\xff\0"), ("self", b"NOT=1\0")):
        (tmp_path / number).mkdir()
        (tmp_path / number / "environ").write_bytes(held)
    (tmp_path / "3").mkdir()
    assert tools.results.private_variables(tmp_path) == ["OTHER", "TOKEN"]
    assert tools.results.private_variables(tmp_path / "3") == []


def test_a_capture_is_kept_only_if_no_process_has_private_variables(
    sample: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reports are kept in both cases."""
    made = tmp_path / "result"
    made.mkdir()
    (made / "whole.json").write_text(json.dumps(sample))
    (made / "run.json").write_text('{"command": [], "environment": {}}')
    (made / "capture.nsys-rep").write_bytes(packed(b"HOME=/srv"))
    (tmp_path / "output.txt").write_text("loss 1\n")
    monkeypatch.setattr(tools.gallery, "NSYSWRAP", [sys.executable, "-c", "pass"])
    case = tools.cases.named("decoding")
    left_out = tools.gallery.keep(case, made, Namespace(private=["TOKEN"], **vars(chosen(tmp_path, 100))))
    folder = tmp_path / "gallery" / "decoding"
    assert "TOKEN" in left_out
    assert sorted(path.name for path in folder.iterdir()) == ["output.txt", "report.json", "run.json"]
    assert tools.gallery.keep(case, made, Namespace(private=[], **vars(chosen(tmp_path, 100)))) == ""
    assert (folder / "capture.nsys-rep").read_bytes() == packed(b"HOME=/srv")


@pytest.mark.slow
def test_a_report_uses_what_the_profile_measured_beside_its_capture(
    captures: Callable[[str], Path], tmp_path: Path
) -> None:
    """The profiler's own cost and the rates of copies are in run.json; without it the report knows neither."""
    made = tmp_path / "result"
    made.mkdir()
    shutil.copyfile(captures("cnn_amp"), made / "capture.sqlite")
    cost = {"calls": {"launch": {"low_ns": 2000, "usual_ns": 3000, "high_ns": 5000, "alone_ns": 4000}}}
    record = {"schema": "nsyswrap.run/1", "command": [], "environment": {"names": ["TOKEN"]}, "profiler_cost": cost}
    (made / "run.json").write_text(json.dumps(record))
    (tmp_path / "output.txt").write_text("loss 1\n")
    case = tools.cases.Case("mnist-1-worker", "mnist", keeps_page=True)
    assert tools.gallery.keep(case, made, Namespace(private=[], **vars(chosen(tmp_path, 100)))) == ""
    folder = tmp_path / "gallery" / "mnist-1-worker"
    report = json.loads((folder / "report.json").read_text())
    assert 0 < report["step"]["alone"]["point_ns"] < report["step"]["recorded_ns"]
    assert "without the profiler" in (folder / "report.html").read_text()


def test_no_report_is_written_before_all_programs_have_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report written earlier would take the cores of a running program."""
    calls: list[str] = []

    def recorded(what: str) -> Callable[..., str]:
        def work(case: Namespace, *_: object) -> str:
            calls.append(f"{what} {case.name}")
            return "it broke" if case.name == "bert-amp" else ""

        return work

    monkeypatch.setattr(tools.gallery, "profile", recorded("profile"))
    monkeypatch.setattr(tools.gallery, "keep", recorded("keep"))
    monkeypatch.setattr(tools.gallery, "draw", lambda *_: None)
    cases = [tools.cases.named(name) for name in ("bert-amp", "decoding", "decoding-graphs")]
    assert tools.gallery.record_all(cases, chosen(tmp_path, 100)) == ["bert-amp: it broke"]
    assert calls[:3] == ["profile bert-amp", "profile decoding", "profile decoding-graphs"]
    assert sorted(calls[3:]) == ["keep decoding", "keep decoding-graphs"]


def test_no_profile_starts_when_time_is_up(tmp_path: Path) -> None:
    assert tools.gallery.record_all([tools.cases.named("decoding")], chosen(tmp_path, 1)) == ["decoding: no time left"]


def test_without_a_gpu_nothing_is_profiled(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "tools" / "gallery.py"), "--gallery", str(tmp_path / "gallery")]
    environment = {"PATH": "", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "--again" in done.stderr
    assert not (tmp_path / "gallery").exists()
