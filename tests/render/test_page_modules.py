"""GPU time by module on the page, and the ledger of the peak, from a made program with an X-ray step."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import hand_made
import pandas as pd
from xray_program import LAUNCHES, context_of, program

from nsyswrap.base.intervals import Window
from nsyswrap.model import Report, Section
from nsyswrap.render import page_modules, page_peak
from nsyswrap.render.document import Bars, Table, blocks_of
from nsyswrap.report import report_of


@cache
def made() -> Report:
    """Return the report of three measured steps of five kernels of 20 us."""
    with TemporaryDirectory() as folder:
        return report_of(context_of(program([LAUNCHES] * 5), Path(folder) / "made.sqlite"))


def modules() -> Table:
    section = made().section("operators")
    assert section is not None
    (table,) = page_modules.modules(made(), section)
    return table


def lines(table: Table, *names: str) -> list[tuple[Any, ...]]:
    """Return some columns of the rows on the page, in their order there; the depth of a row comes first."""
    columns = {column.name: column for column in table.columns}
    return [(table.depths[at], *(columns[name].raw[at] for name in names)) for at in table.shown("html")]


def test_modules_hold_modules_and_operators() -> None:
    """What is in no module is in its line."""
    assert lines(modules(), "module", "total_ns", "line") == [
        (0, "layers", 120_000, ""),
        (1, "layers.0", 120_000, ""),
        (2, "layers.0.linear", 120_000, ""),
        (3, "aten::mm", 120_000, "model.py:8"),
        (0, "outside modules", 60_000, ""),
        (1, "train.py:30 in forward", 60_000, ""),
        (2, "aten::_fused_adamw_", 60_000, "train.py:30"),
        (0, "owner not known", 60_000, ""),
        (1, "aten::relu", 60_000, ""),
        (0, "tokens", 60_000, ""),
        (1, "aten::embedding", 60_000, "model.py:7"),
    ]


def test_an_operator_opens_into_its_kernels() -> None:
    module, *_ = modules().columns
    kernels = {name: list(more) for name, more in zip(module.raw, module.more, strict=True)}
    assert kernels["aten::mm"] == ["60.0 µs in 3 launches of gemm"] * 2
    assert kernels["layers"] == []


def test_the_optimizer_is_no_forward_pass() -> None:
    found = {row[1]: row[2:] for row in lines(modules(), "module", "forward_ns", "backward_ns")}
    assert found["layers"] == (60_000, 60_000)
    assert found["train.py:30 in forward"] == (None, None)


def test_a_report_without_operators_has_neither_table() -> None:
    report = replace(hand_made.full_report(), sections=())
    assert list(page_modules.modules(report, Section("operators", "", report.window))) == []
    assert list(page_peak.peak(report, "")) == []


def peak_rows(*rows: tuple[int, str, str, int]) -> tuple[Bars, Table]:
    """Return the bar and the table of a ledger of the peak: GPU, account, rule and ns of each row."""
    ledger = pd.DataFrame(rows, columns=["device_id", "account", "rule", "ns"])
    section = Section("operators", "", Window(0, 1, "", "steps"), tables={"peak": ledger})
    (found,) = page_peak.peak(replace(hand_made.full_report(), sections=(section,)), "")
    bars, table = blocks_of(found.blocks, "html")
    assert isinstance(bars, Bars)
    assert isinstance(table, Table)
    return bars, table


def test_the_peak_is_the_mean_over_gpus_and_idle_time_has_a_row_for_each_reason() -> None:
    """The parts of the bar are the rows of the table."""
    bars, table = peak_rows(
        (0, "products at the peak", "", 200),
        (0, "idle: CPU outside CUDA calls", "idle/cpu", 100),
        (0, "idle: queued work", "idle/cpu", 100),
        (1, "products at the peak", "", 400),
    )
    assert [row[1:] for row in lines(table, "account", "ns", "share")] == [
        ("products at the peak", 300, 0.75),
        ("idle: CPU outside CUDA calls", 100, 0.25),
    ]
    assert [(part.label, part.share) for part in bars.bars[0].parts] == [
        ("products at the peak", "75.0 %"),
        ("idle: CPU outside CUDA calls", "25.0 %"),
    ]
