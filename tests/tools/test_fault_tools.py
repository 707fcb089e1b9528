"""The tools for the planted faults: what they need, how they cut captures, and how they judge a fault."""

import importlib
import lzma
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from export_builder import ExportBuilder, trace_of

from nsyswrap.model import Report
from nsyswrap.report import build_report
from nsyswrap.trace.load import load_export
from nsyswrap.trace.tables import CALLS, KERNELS

tools = importlib.import_module

TOOLS = Path(__file__).resolve().parents[2] / "tools"
MS = 1_000_000


def loop(step: int, wait: int, steps: int = 10, *, late: int = 0) -> ExportBuilder:
    """Return steps of ``step`` ms; in each, the GPU waits ``wait`` ms for the data loader."""
    made = ExportBuilder().gpu().os_call("read", 0, 1)
    made.call("cudaMalloc", 1, 2, correlation=900)
    for number in range(steps):
        at = (100 + number * step) * MS
        made.range(f"batch {number}", at, at + step * MS).range("data", at, at + (wait + late) * MS)
        made.os_call("poll", at, at + (wait + late) * MS)
        made.kernel(at + wait * MS, at + step * MS, "k", launched=(at + wait * MS - 9, at + wait * MS - 5), gridX=9000)
    return made


def report(builder: ExportBuilder) -> Report:
    """Return the report of a built export."""
    return build_report(trace_of(builder))


def test_without_a_gpu_only_faults_of_the_host_are_profiled(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """The others are named as left out, and the exit code says that something is missing.

    The page ends with the plans, which tests/tools/test_plans.py judges.
    """
    judge = tools("judge_faults")
    profiled: list[str] = []

    def record(names: list[str], _: object) -> list[str]:
        profiled.extend(names)
        return []

    monkeypatch.setattr(judge, "gpu_count", lambda: 0)
    monkeypatch.setattr(judge, "record_all", record)
    monkeypatch.setattr(judge.plan_table, "section", lambda captures: [f"The plans of {captures.name}."])
    written = ["--page", str(tmp_path / "page.md"), "--results", str(tmp_path / "faults.json")]
    assert judge.main(["--captures", str(tmp_path / "c"), *written]) == 1
    said = capsys.readouterr().err
    assert "no NVIDIA GPU" in said
    assert "launch_bound: left out, it needs 1 GPUs" in said
    assert "The plans of plans." in (tmp_path / "page.md").read_text()
    host = {name for name, gpus in judge.faults().items() if gpus == 0}
    assert set(profiled) == host
    assert {"memory_mapped", "part_of_a_core"} < host


def test_the_samples_of_the_host_lie_beside_a_capture_of_its_faults(tmp_path: Path) -> None:
    """They explain what the capture alone does not show, so the table reads them."""
    judge = tools("judge_faults")
    chosen = SimpleNamespace(whole=tmp_path / "whole", captures=tmp_path / "cut")
    for folder in (chosen.whole, chosen.captures):
        folder.mkdir()
    folder = tmp_path / "profile"
    folder.mkdir()
    loop(20, 10).write(folder / "capture.sqlite")
    (folder / "host.json").write_text("{}")
    for name in ("memory_mapped-fixed", "launch_bound", "shared_core"):
        assert judge.pack(name, folder, chosen) == ""
    kept = [path.name for path in sorted(chosen.captures.glob("*.json"))]
    assert kept == ["memory_mapped-fixed.json", "shared_core.json"]
    assert (chosen.whole / "memory_mapped-fixed.json").exists()


def test_gpus_are_counted_as_nvidia_smi_lists_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judge = tools("judge_faults")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert judge.gpu_count() == 0
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'GPU 0: NVIDIA H200'\necho 'GPU 1: NVIDIA H200'\n")
    program.chmod(0o755)
    assert judge.gpu_count() == 2


def test_programs_say_how_many_gpus_they_need() -> None:
    needs = tools("judge_faults").faults()
    assert {name for name, count in needs.items() if count == 2} == {
        *("exposed_communication", "one_bucket", "one_shard"),
    }
    assert set(needs.values()) == {0, 1, 2}


def test_each_root_cause_has_three_programs_and_a_librarys_loop() -> None:
    module = tools("fault_programs")
    assert module.shortages(module.find_programs(TOOLS.parent / "workloads" / "faults")) == []


def test_missing_programs_are_named(tmp_path: Path) -> None:
    """Two programs of one shape count once, and a program with its own loop does not count as a library's loop."""
    module = tools("fault_programs")
    for name, shape in (("first", "a loop"), ("second", "a loop"), ("third", "a graph")):
        (tmp_path / f"{name}.py").write_text(
            f'SHAPE = "{shape}"\nLIBRARY = ""\nEXPECTS = {{"": ("memory/churn",), "--fixed": ()}}\n'
        )
    (tmp_path / "shared.py").write_text("LIMIT = 1\n")
    programs = module.find_programs(tmp_path)
    assert [each.name for each in programs] == ["first", "second", "third"]
    missing = [each for each in module.shortages(programs) if each.startswith("memory/churn")]
    assert missing == [
        "memory/churn: 2 programs of different shape, 3 are needed",
        "memory/churn: no program runs a library's training loop",
    ]
    assert len(module.shortages([])) == 2 * len(module.ROOT_CAUSES)


def test_programs_are_listed_by_root_cause() -> None:
    """Programs are in the order of the root causes; rules that are not root causes come last."""
    module = tools("fault_programs")
    made = [module.Program(f"p{number}", rule, "s", "", 1) for number, rule in enumerate(reversed(module.ROOT_CAUSES))]
    other = module.Program("a", "occupancy/low", "s", "", 1)
    assert module.by_root_cause([other, *made]) == [*reversed(made), other]


def test_a_cut_capture_says_the_same(tmp_path: Path) -> None:
    """Events before the first step are removed; the steps and findings stay."""
    captures = tools("fault_captures")
    export = loop(20, 12).write(tmp_path / "whole.sqlite")
    assert captures.pack(export, tmp_path / "small.sqlite.xz") == 10
    whole, small = load_export(export), load_export(captures.unpack(tmp_path / "small.sqlite.xz", tmp_path))
    assert (len(whole[CALLS]), len(small[CALLS])) == (11, 10)
    assert [each.rule for each in build_report(small).findings] == [each.rule for each in build_report(whole).findings]


def test_a_capture_that_is_too_large_keeps_its_first_steps(tmp_path: Path) -> None:
    captures = tools("fault_captures")
    export = loop(20, 12, steps=60).write(tmp_path / "whole.sqlite")
    captures.pack(export, tmp_path / "all.sqlite.xz")
    whole = (tmp_path / "all.sqlite.xz").stat().st_size
    kept = captures.pack(export, tmp_path / "small.sqlite.xz", whole - 400)
    assert 4 <= kept < 60
    assert (tmp_path / "small.sqlite.xz").stat().st_size <= whole - 400
    assert len(load_export(captures.unpack(tmp_path / "small.sqlite.xz", tmp_path))[KERNELS]) == kept
    with pytest.raises(ValueError, match="no four steps"):
        captures.pack(export, tmp_path / "none.sqlite.xz", 100)


def test_texts_that_nothing_refers_to_are_dropped(tmp_path: Path) -> None:
    captures = tools("fault_captures")
    export = loop(20, 12).kernel(1, 2, "before the first step", launched=(0, 1)).write(tmp_path / "whole.sqlite")
    captures.pack(export, tmp_path / "small.sqlite.xz")
    assert b"before the first step" in export.read_bytes()
    assert b"before the first step" not in lzma.decompress((tmp_path / "small.sqlite.xz").read_bytes())


def test_counts_that_nsys_wrote_down_are_those_that_are_left(tmp_path: Path) -> None:
    captures = tools("fault_captures")
    builder = loop(20, 12).row("DIAGNOSTIC_EVENT", severity=1, text="Number of CUDA events collected: \t21.")
    export = builder.write(tmp_path / "whole.sqlite")
    captures.pack(export, tmp_path / "small.sqlite.xz")
    with closing(sqlite3.connect(captures.unpack(tmp_path / "small.sqlite.xz", tmp_path))) as database:
        (text,) = database.execute("SELECT text FROM DIAGNOSTIC_EVENT").fetchone()
    assert text == "Number of CUDA events collected: \t20."


def test_a_fault_is_judged_by_both_reports() -> None:
    """Steps of 20 ms become steps of 8 ms, so each of the eight measured steps saves a wait of 12 ms."""
    table = tools("fault_table")
    faulty, fixed = report(loop(20, 12)), report(loop(8, 0))
    verdict = table.judge("few", "idle/data_wait", faulty, fixed)
    assert verdict.is_first
    assert (verdict.steps, verdict.measured_ns, verdict.faulty_ns) == (8, 96 * MS, 160 * MS)
    assert verdict.is_near
    assert verdict.fixed == ()


def test_what_was_expected_and_is_not_found_has_no_prediction() -> None:
    table = tools("fault_table")
    faulty = report(loop(20, 12))
    verdict = table.judge("few", "copies/exposed", faulty, faulty)
    assert (verdict.is_first, verdict.high_ns, verdict.is_near) == (False, None, False)
    assert "idle/data_wait" in verdict.others


@pytest.mark.parametrize(("point", "near"), [(74, False), (75, True), (100, True), (125, True), (126, False)])
def test_a_prediction_is_near_within_a_quarter(
    point: int,
    near: bool,  # noqa: FBT001
) -> None:
    table = tools("fault_table")
    verdict = table.judge("few", "idle/data_wait", *[report(loop(20, 12))] * 2)
    assert replace(verdict, point_ns=point, measured_ns=100).is_near == near


def test_the_page_counts_what_was_not_captured(tmp_path: Path) -> None:
    """Programs without captures are counted, and the table holds the others, also after a file."""
    table, module = tools("fault_table"), tools("fault_programs")
    folder, captures = tmp_path / "programs", tmp_path / "captures"
    folder.mkdir()
    captures.mkdir()
    for name in ("few", "none"):
        (folder / f"{name}.py").write_text('SHAPE = "a loop"\nEXPECTS = {"": ("idle/data_wait",), "--fixed": ()}\n')
    for form, builder in (("", loop(20, 12)), ("-fixed", loop(8, 0))):
        export = builder.write(tmp_path / f"few{form}.sqlite")
        (captures / f"few{form}.sqlite.xz").write_bytes(lzma.compress(export.read_bytes()))
    programs = module.find_programs(folder)
    assert table.read(tmp_path / "faults.json") == []
    table.write(tmp_path / "faults.json", list(table.judged([tmp_path / "whole", captures], programs)))
    page = table.page(table.read(tmp_path / "faults.json"), programs)
    assert "| `idle/data_wait` | `few` |  |  |" in page
    assert "cut short: 1." in page
    assert "Programs not captured: 1." in page
    assert "cut short: 1" not in table.page(list(table.judged([captures], programs)), programs)


def test_the_committed_page_is_that_of_the_committed_results() -> None:
    """The plans on it are compared by tests/tools/test_plans.py."""
    table, root = tools("fault_table"), TOOLS.parent
    programs = tools("fault_programs").find_programs(root / "workloads" / "faults")
    head, tail = table.page(table.read(root / "reports" / "faults.json"), programs, ["PLANS"]).split("PLANS")
    text = (root / "docs" / "faults.md").read_text()
    assert text.startswith(head)
    assert text.endswith(tail)
