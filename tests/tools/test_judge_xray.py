"""tools/judge_xray.py: the operators of kernels against those of torch.profiler."""

import lzma
import sqlite3
from contextlib import closing
from pathlib import Path

import judge_xray
import pytest
from real_captures import CAPTURES
from xray_program import LAUNCHES, context_of, program


def test_the_same_operators_are_all_of_the_time() -> None:
    """Time in another unit, and divided among operators in the same way, is the same."""
    rows = [
        {"name": "gemm", "operator": "aten::mm", "total_ns": 3000},
        {"name": "gemm", "operator": "aten::addmm", "total_ns": 1000},
    ]
    found = judge_xray.same_operator(
        rows, {"their gemm": {"aten::mm": 6.0, "aten::addmm": 2.0}}, {"gemm": "their gemm"}
    )
    assert (found["same_operator"], found["compared"]) == (pytest.approx(1), 1)


def test_an_operator_that_pytorch_does_not_name_is_not_the_same() -> None:
    """Of a kernel that both know, only what both give one operator counts."""
    rows = [
        {"name": "gemm", "operator": "aten::mm", "total_ns": 3000},
        {"name": "add", "operator": "aten::add", "total_ns": 1000},
        {"name": "unknown to it", "operator": "aten::sum", "total_ns": 9000},
    ]
    found = judge_xray.same_operator(rows, {"gemm": {"aten::mm": 6.0}, "add": {"aten::add_": 1.0}}, {})
    assert found["same_operator"] == pytest.approx(0.75)
    assert found["compared"] == pytest.approx(4 / 13)
    assert found["differing"][0][1:] == ("add", {"aten::add": 1000}, {"aten::add_": 1.0})


def test_kernels_have_the_names_that_pytorch_reads(tmp_path: Path) -> None:
    """The same mangled name reads differently in nsys; a name that is not mangled stays."""
    path = tmp_path / "capture.sqlite"
    texts = {1: "void <unnamed>::add<(int)4>(T1)", 2: "_ZN12_GLOBAL__N_13addILi4EEEvi", 3: "gemm"}
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE StringIds (id, value)")
        database.executemany("INSERT INTO StringIds VALUES (?, ?)", texts.items())
        database.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (demangledName, mangledName)")
        database.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?)", [(1, 2), (3, 3), (1, 2)])
        database.commit()
    names = judge_xray.names_by_pytorch(path)
    assert names == {texts[1]: "void (anonymous namespace)::add<4>(int)", "gemm": "gemm"}


def test_lines_of_samples_inside_of_launches_are_compared(tmp_path: Path) -> None:
    """Frames of PyTorch itself, samples outside of launches and backward passes do not count."""
    builder = program([LAUNCHES] * 5)
    right = [("forward", "/home/someone/app/model.py", 8), ("<module>", "/home/someone/app/train.py", 30)]
    wrong = [("forward", "/home/someone/app/model.py", 9), ("<module>", "/home/someone/app/train.py", 30)]
    for at, stack in ((200_500, right), (1_200_500, wrong), (2_200_900, right), (250_000, wrong), (3_400_500, wrong)):
        builder.python_sample(at, [("linear", "/usr/lib/python3/site-packages/torch/nn/functional.py", 1), *stack])
    equal, both, differing = judge_xray.same_lines(context_of(builder, tmp_path / "made.sqlite"))
    assert (equal, both) == (2, 3)
    assert differing == {("model.py:9", "model.py:8"): 1}


def test_turns_are_compared_in_pairs_and_against_the_steps_before() -> None:
    """Runs of one pair are 1 % apart, those of another 3 %: Student's t of two pairs is 12.7."""
    pairs = [
        {"--xray": (101.0, 50.0), "--no-xray": (100.0, 50.0)},
        {"--xray": (206.0, 103.0), "--no-xray": (200.0, 100.0)},
    ]
    row = judge_xray.turns_row("encoder", pairs)
    assert row == ("| encoder | 2 | 153.500 | 150.000 | +2.00% (-9.95% to +15.53%) | +0.50% (-5.66% to +7.06%) |")


def test_one_pair_has_no_interval() -> None:
    pair = {"--xray": (101.0, 50.0), "--no-xray": (100.0, 50.0)}
    assert judge_xray.turns_row("encoder", [pair]) == "| encoder | 1 | 101.000 | 100.000 |  |  |"


def test_a_kept_capture_has_a_row_without_what_pytorch_says(tmp_path: Path) -> None:
    """All has an operator and a line, nothing can be compared with torch.profiler."""
    path = tmp_path / "conv" / "capture.sqlite"
    path.parent.mkdir()
    path.write_bytes(lzma.decompress((CAPTURES / "xray" / "conv.sqlite.xz").read_bytes()))
    assert judge_xray.line(judge_xray.of_capture(path)) == (
        "| conv | 100.0% | 94.2% | 4.2% | 98.8% |  | 1.739e+11 |  |"
    )
