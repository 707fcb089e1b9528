"""The tables of operators and modules, and the ledger of the peak."""

from pathlib import Path

import pandas as pd
import pytest
from analysis_fixtures import run_section
from xray_program import LAUNCHES, OPTIMIZER, STEP_NS, context_of, program, record, with_graph

from nsyswrap.loop.context import TraceContext
from nsyswrap.model import Section
from nsyswrap.report import report_of
from nsyswrap.sections import operators

KERNEL_NS = 20_000
STEPS = [LAUNCHES] * 5


def section_of(context: TraceContext) -> Section:
    """Return the section of the measured steps."""
    window = context.steps.measured_window()
    assert window is not None
    return run_section(operators, context, window)


def table(name: str, path: Path, steps: list[tuple[tuple[str, int, int], ...]] = STEPS) -> pd.DataFrame:
    """Return a table of the section on a made program."""
    return section_of(context_of(program(steps), path / "made.sqlite")).tables[name]


def test_operators_have_a_row_by_shapes_module_line_and_phase(tmp_path: Path) -> None:
    """Three measured steps of five kernels: the products of the forward and of the backward pass are two rows."""
    found = table("operators", tmp_path)
    products = found[found["operator"] == "aten::mm"]
    columns = ["shapes", "dtypes", "module", "line", "phase", "count", "total_ns", "operations"]
    same = ["[64, 64], [64, 64]", "bfloat16", "layers.0.linear", "model.py:8"]
    rows = sorted(products[columns].to_numpy().tolist(), key=lambda row: str(row[4]))
    assert [row[:4] for row in rows] == [same, same]
    assert [row[4] for row in rows] == ["backward", "forward"]
    assert [row[5:] for row in rows] == [[3, 3 * KERNEL_NS, 3 * 2 * 64**3]] * 2


def test_kernels_of_another_size_have_no_shapes_and_no_work(tmp_path: Path) -> None:
    """What is not joined is a row of its own."""
    other = (LAUNCHES[0], ("gemm", 99, LAUNCHES[1][2]), ("log", 1, LAUNCHES[0][2]), *LAUNCHES[2:])
    found = table("operators", tmp_path, [*STEPS[:4], other])
    (unknown,) = found[(found["operator"] == "aten::mm") & (found["shapes"] == "")].to_dict("records")
    assert (unknown["module"], unknown["dtypes"], unknown["count"]) == ("layers.0.linear", "", 1)
    assert pd.isna(unknown["operations"])
    assert found[found["operator"] == operators.NOT_JOINED][["count", "module"]].to_numpy().tolist() == [[1, ""]]


def test_modules_hold_those_in_them(tmp_path: Path) -> None:
    """`layers` has no kernel of its own. A line of no module is its own owner, and what has no line has none."""
    found = table("modules", tmp_path).set_index("module")
    line = f"{operators.OUTSIDE}train.py:30 in forward"
    others = {operators.NO_MODULE, line, operators.NO_OWNER}
    assert set(found.index) == {"layers", "layers.0", "layers.0.linear", "tokens", *others}
    assert found.loc[[*sorted(others)]]["self_ns"].tolist() == [0, 3 * KERNEL_NS, 3 * KERNEL_NS]
    assert (operators.around(line), operators.around("layers.0")) == (operators.NO_MODULE, "layers")
    whole = found.loc["layers"]
    assert (whole["total_ns"], whole["forward_ns"], whole["backward_ns"]) == tuple(
        3 * KERNEL_NS * each for each in (2, 1, 1)
    )
    assert (whole["self_ns"], found.loc["layers.0.linear"]["self_ns"]) == (0, 6 * KERNEL_NS)
    assert found.loc["layers.0.linear"]["class_name"] == "torch.nn.Linear"


def test_each_kernel_has_an_owner_and_shares_say_which(tmp_path: Path) -> None:
    """A fifth is of the optimizer, and a fifth has neither module nor line. Owners are rows of the table of modules."""
    found = record()
    found["processes"][0]["sites"][2]["stack"] = OPTIMIZER
    section = section_of(context_of(program(STEPS), tmp_path / "made.sqlite", found))
    shares = {
        label: fact.value for label in ("line", "module", "optimizer") if (fact := section.fact(f"{label}_share"))
    }
    assert shares == {"line": pytest.approx(0.8), "module": pytest.approx(0.6), "optimizer": pytest.approx(0.2)}
    owners = set(section.tables["operators"]["owner"])
    assert owners == {"tokens", "layers.0.linear", "Adam (optimizer)", operators.NO_OWNER}
    assert owners == set(section.tables["kernels"]["owner"])
    assert owners < set(section.tables["modules"]["module"])


def test_kernels_of_a_graph_are_named_by_their_operation_and_the_section_says_their_share(tmp_path: Path) -> None:
    """Two of 5 us, beside five of 20 us; a program without graphs has no such share."""
    with_it, without = (
        section_of(context_of(each, tmp_path / "made.sqlite"))
        for each in (with_graph(program(STEPS), len(STEPS)), program(STEPS))
    )
    share = with_it.fact("graph_share")
    assert share is not None
    assert share.value == pytest.approx(10 / 110)
    assert without.fact("graph_share") is None
    assert any(each.startswith("9.1 % of the kernel time is in CUDA graphs") for each in with_it.notes)
    names = {f"{each} {operators.IN_GRAPH}" for each in ("matrix products", "kernels")}
    assert names < set(with_it.tables["operators"]["operator"])


def test_the_ledger_of_the_peak_adds_up_to_a_step(tmp_path: Path) -> None:
    """Of a program whose steps take a millisecond, and its utilization is what its two products need."""
    found = section_of(context_of(program(STEPS), tmp_path / "made.sqlite"))
    peak = found.tables["peak"]
    assert peak["ns"].sum() == STEP_NS
    assert peak["share"].sum() == pytest.approx(1)
    needed = 2 * 2 * 64**3 / 989_400 / STEP_NS
    facts = {label: each.value for label in ("mfu_share", "hfu_share") if (each := found.fact(label)) is not None}
    assert facts == {"mfu_share": pytest.approx(needed), "hfu_share": pytest.approx(needed)}


def test_there_is_no_section_without_operators(tmp_path: Path) -> None:
    """A capture without an X-ray step and without ranges of operators."""
    keys = [
        {each.key for each in report_of(context_of(program(STEPS, with_xray=has), tmp_path / "made.sqlite")).sections}
        for has in (True, False)
    ]
    assert keys[0] - keys[1] == {"operators"}


def test_what_the_xray_step_lacks_is_said(tmp_path: Path) -> None:
    """The reason of the process is a note."""
    found = record()
    found["processes"][0]["reason"] = "the program uses a profiler of PyTorch"
    notes = section_of(context_of(program(STEPS), tmp_path / "made.sqlite", found)).notes
    assert any("the program uses a profiler of PyTorch" in each for each in notes)


def test_a_report_without_an_xray_step_says_why(tmp_path: Path) -> None:
    """Where the process has said it."""
    found = record()
    found["processes"][0] |= {"reason": "the program uses a profiler of PyTorch", "operators": []}
    context = context_of(program(STEPS, with_xray=False), tmp_path / "made.sqlite", found)
    assert any("the program uses a profiler of PyTorch" in each for each in report_of(context).notes)
