"""The gallery: cases name real programs, committed results meet EXPECTS, and the pages are up to date."""

import ast
import json
import re
import sys
from pathlib import Path
from typing import Any

import gallery_cases
import gallery_index
import gallery_page
import gallery_results
import pytest
from committed_files import committed

ROOT = Path(__file__).resolve().parents[2]
MEBI = 2**20
MOST_CAPTURES = 8
LARGEST_REPORT = 100_000  # bytes
SAMPLE = ROOT / "reports" / "samples" / "mnist-1-worker" / "report.json"


@pytest.fixture(scope="module")
def sample() -> dict[str, Any]:
    """Return an uncut report.json from a real GPU."""
    report: dict[str, Any] = json.loads(SAMPLE.read_text())
    return report


def test_each_claim_names_cases_and_each_case_has_a_claim() -> None:
    claimed = {name for claim in gallery_cases.CLAIMS for name in claim.cases}
    assert claimed == {case.name for case in gallery_cases.CASES}


def test_the_programs_take_the_options_of_their_cases() -> None:
    """Each word that starts with a dash is an option in the program's text, or one that all programs have."""
    shared = {"--steps", "--batch-size", "--amp"}
    for case in gallery_cases.CASES:
        text = (ROOT / "workloads" / f"{case.program}.py").read_text()
        words = {node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)}
        assert {each for each in case.options.split() if each.startswith("--")} <= words | shared, case.name


def test_what_programs_expect_is_about_cases() -> None:
    """An entry of EXPECTS without a case would never be checked."""
    checked = set()
    for case in gallery_cases.CASES:
        nothing: dict[str, Any] = {"findings": [], "sections": {}}
        expected = gallery_results.expects(case.program)
        if gallery_results.broken(gallery_results.Result(case, nothing), expected):
            checked.add(case.program)
    assert checked == {case.program for case in gallery_cases.CASES if gallery_results.expects(case.program)}


def test_committed_results_meet_the_expectations_of_their_programs() -> None:
    found = gallery_results.results()
    wrong = [gallery_results.broken(each, gallery_results.expects(each.case.program)) for each in found]
    assert [each for each in wrong if each] == []


def test_committed_results_are_small_and_private() -> None:
    """Reports that `make profile` or `make gallery` wrote here and that are not committed do not count."""
    files = committed("reports")
    assert files
    assert sum(path.stat().st_size for path in files) <= 76 * MEBI
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
    assert index == gallery_index.page(gallery_results.results())
    for case in gallery_cases.CASES:
        if case.keeps_capture:
            assert (gallery_results.GALLERY / case.name / "capture.nsys-rep").is_file(), case.name
            assert f'href="gallery/{case.name}/capture.nsys-rep"' in index


def test_the_page_of_results_is_up_to_date() -> None:
    assert (ROOT / "docs" / "results.md").read_text() == gallery_page.page(gallery_results.results())


def test_a_cut_report_keeps_what_the_pages_read(sample: dict[str, Any]) -> None:
    """The cut report is far smaller; facts, findings, ledger and attribution are unchanged."""
    cut = gallery_results.cut(sample)
    assert len(json.dumps(cut)) < len(json.dumps(sample)) / 8
    assert cut["findings"] == sample["findings"]
    assert cut["sections"]["idle"]["tables"]["attribution"] == sample["sections"]["idle"]["tables"]["attribution"]
    assert cut["sections"]["phases"] == sample["sections"]["phases"]
    assert {key: each["facts"] for key, each in cut["sections"].items()} == {
        key: each["facts"] for key, each in sample["sections"].items()
    }
    case = gallery_cases.named("mnist-1-worker")
    assert gallery_page.cells(gallery_results.Result(case, cut)) == gallery_page.cells(
        gallery_results.Result(case, sample)
    )


def test_paths_and_variables_of_the_machine_are_left_out_of_a_run() -> None:
    """Paths of data and Python are replaced, names of variables dropped; the output of a program stays."""
    run = {"command": [sys.executable, "a.py", "/x/data/b"], "environment": {"names": ["SECRET"], "values": {"A": "0"}}}
    kept = json.loads(gallery_results.plain(json.dumps(run), Path("/x/data")))
    assert kept == {"command": ["python", "a.py", "data/b"], "environment": {"values": {"A": "0"}}}
    assert gallery_results.plain("/x/data/b: loss 1\n", Path("/x/data")) == "data/b: loss 1\n"


def test_private_variables_are_found_in_each_process(tmp_path: Path) -> None:
    for number, held in (("1", b"PATH=/bin\0TOKEN=x\0"), ("22", b"HOME=/h\0OTHER=\xff\0"), ("self", b"NOT=1\0")):
        (tmp_path / number).mkdir()
        (tmp_path / number / "environ").write_bytes(held)
    (tmp_path / "3").mkdir()
    assert gallery_results.private_variables(tmp_path) == ["OTHER", "TOKEN"]
    assert gallery_results.private_variables(tmp_path / "3") == []
