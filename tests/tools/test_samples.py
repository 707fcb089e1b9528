"""The committed samples follow from their captures, show the expected result and hold nothing private."""

import ast
import json
import lzma
import re
from pathlib import Path
from typing import Any

import pytest

from nsyswrap.render import render
from nsyswrap.report import build_report
from nsyswrap.trace.load import load_export

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "reports" / "samples"
ONE, EIGHT = SAMPLES / "mnist-1-worker", SAMPLES / "mnist-8-workers"
BOTH = pytest.mark.parametrize("sample", [ONE, EIGHT], ids=lambda sample: sample.name)

FILES = ("capture.nsys-rep", "capture.sqlite.xz", "report.html", "report.json", "run.json")
# The variables of the machine on which the samples were made.
HARMLESS = {b"PATH", b"HOME", b"LANG", b"PWD", b"LD_LIBRARY_PATH", b"PYTHONPATH", b"TMPDIR", b"LD_PRELOAD"}


def report(sample: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((sample / "report.json").read_text())
    return found


def unpacked(sample: Path, folder: Path) -> Path:
    """Return the redacted export of a sample, unpacked."""
    export = folder / "capture.sqlite"
    export.write_bytes(lzma.decompress((sample / "capture.sqlite.xz").read_bytes()))
    return export


def phase(sample: Path, name: str) -> dict[str, Any]:
    """Return one row of the table of phases."""
    rows = report(sample)["sections"]["phases"]["tables"]["phases"]
    found: dict[str, Any] = next(row for row in rows if row["phase"] == name)
    return found


@BOTH
def test_a_sample_has_all_its_files(sample: Path) -> None:
    assert sorted(path.name for path in sample.iterdir()) == sorted(FILES)


def test_the_samples_stay_small() -> None:
    assert sum(path.stat().st_size for path in SAMPLES.rglob("*") if path.is_file()) < 10e6


@BOTH
def test_the_reports_are_up_to_date(sample: Path, tmp_path: Path) -> None:
    """`make reports` would change nothing: page and JSON are rendered from the committed export."""
    found = build_report(load_export(unpacked(sample, tmp_path)), with_timeline=True)
    assert render("json", found) == (sample / "report.json").read_text()
    assert render("html", found) == (sample / "report.html").read_text()


def test_one_worker_starves_the_gpu() -> None:
    """The first finding is the data loader wait, as EXPECTS of the workload says."""
    tree = ast.parse((ROOT / "workloads" / "mnist.py").read_text())
    expects = next(
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "EXPECTS"
    )
    assert [report(ONE)["findings"][0]["rule"]] == list(expects[""])


def test_eight_workers_feed_it() -> None:
    """Data time for a batch falls by at least ten times, and the verdict changes."""
    one, eight = phase(ONE, "data"), phase(EIGHT, "data")
    assert one["host_ns"] / one["count"] >= 10 * eight["host_ns"] / eight["count"]
    assert "waits for data" in report(ONE)["verdict"]
    assert "waits for data" not in report(EIGHT)["verdict"]
    assert report(EIGHT)["findings"][0]["rule"] != report(ONE)["findings"][0]["rule"]


@BOTH
@pytest.mark.parametrize("file", FILES)
def test_a_sample_holds_nothing_private(sample: Path, file: str) -> None:
    """A sample holds no home folder and no secret; its only variables are harmless ones of the machine that made it."""
    content = (sample / file).read_bytes()
    if file.endswith(".xz"):
        content = lzma.decompress(content)
    assert re.findall(rb"/(?:home|Users)/\w+|/root/", content) == []
    assert re.findall(rb"(?i)(?:token|secret|password|api_?key)=", content) == []
    blocks = re.findall(rb"\x00([A-Z][A-Z0-9_]{3,40})=(?=[/\w])", content)
    own = {name for name in blocks if not name.startswith((b"NSYS_", b"QUADD_", b"CUDA_", b"CUBLAS_", b"NVTX_"))}
    assert own <= HARMLESS | {b"TRACE_START_IMMEDIATELY", b"OLDPWD", b"SHLVL"}
