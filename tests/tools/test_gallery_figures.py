"""Figures in the text of docs/results.md come from the reports, with units; missing cases leave remarks out."""

from pathlib import Path
from typing import Any

import gallery_cases
import gallery_figures
import gallery_page
import gallery_remarks
import gallery_results
import pytest

ROOT = Path(__file__).resolve().parents[2]


def result(name: str, step_ms: float, *, printed: tuple[str, ...] = ()) -> Any:  # noqa: ANN401 - a Result
    """Return a result of two steps: half kernels, a quarter idle for the CPU, a quarter idle for the loader."""
    step_ns = step_ms * 1e6
    window_ns = 2 * step_ns
    attribution = [{"cause": "cpu", "idle_ns": window_ns / 4}, {"cause": "data_wait", "idle_ns": window_ns / 4}]
    phases = [
        {"phase": "data", "host_ns": window_ns / 4, "count": 2},
        {"phase": "optimizer", "host_ns": window_ns / 8, "idle_ns": 0, "kernel_count": 24, "count": 2},
    ]
    sections: dict[str, Any] = {
        "steps": {"facts": {"measured_steps": {"value": 2}}},
        "step_breakdown": {"facts": {"mean_step_ns": {"value": step_ns}, "gpu_utilization_share": {"value": 0.5}}},
        "ledger": {"tables": {"devices": [{"device_id": 0, "window_ns": window_ns, "compute_ns": window_ns / 2}]}},
        "idle": {"tables": {"attribution": attribution}},
        "phases": {"tables": {"phases": phases}},
        "launches": {"facts": {"median_operation_ns": {"value": 2080.0}}},
        "ranges": {"tables": {"summary": [{"name": "decode", "mean_ns": 1.5e6, "median_ns": 1e6}]}},
    }
    return gallery_results.Result(gallery_cases.named(name), {"sections": sections}, printed)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{bert-fp32:step}", "8 ms"),
        ("{bert-fp32:kernels}", "4 ms"),
        ("{bert-fp32:data}", "2 ms"),
        ("{bert-fp32:decode}", "1.5 ms"),
        ("{bert-fp32:busy}", "50.0 %"),
        ("{bert-fp32:idle}", "50.0 %"),
        ("{bert-fp32:idle_for_cpu}", "25.0 %"),
        ("{bert-fp32:operation}", "2.08 us"),
        ("{bert-fp32:optimizer_kernels}", "12"),
        ("{bert-fp32:epoch}", "8.25 s"),
        ("{bert-fp32 / bert-amp:step}", "3.2"),
    ],
)
def test_a_figure_has_its_unit(text: str, expected: str) -> None:
    by_name = {
        "bert-fp32": result("bert-fp32", 8, printed=("epoch 1: loss 1, 8.25 s, data 1.0 ms a batch (median)",)),
        "bert-amp": result("bert-amp", 2.5),
    }
    assert text.format_map(gallery_figures.AllFigures(by_name)) == expected


def test_a_remark_without_its_results_is_left_out() -> None:
    """The page has each remark whose results are committed."""
    found = gallery_results.results()
    assert "The source is confirmed." in gallery_page.page(found)
    assert "The source is confirmed." not in gallery_page.page(
        [each for each in found if each.case.name != "decoding-graphs"]
    )
    by_name = {each.case.name: each for each in found}
    text = (ROOT / "docs" / "results.md").read_text().replace("\n", " ")
    for title, remark in gallery_remarks.REMARKS.items():
        filled = remark.format_map(gallery_figures.AllFigures(by_name)).replace("\n", " ")
        assert filled in text, title
