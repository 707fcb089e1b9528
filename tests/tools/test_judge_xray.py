"""tools/judge_xray.py: the operators of kernels against those of torch.profiler."""

import judge_xray
import pytest


def test_the_same_operators_are_all_of_the_time() -> None:
    """Time in another unit, and divided among operators in the same way, is the same."""
    rows = [
        {"name": "gemm", "operator": "aten::mm", "total_ns": 3000},
        {"name": "gemm", "operator": "aten::addmm", "total_ns": 1000},
    ]
    assert judge_xray.same_operator(rows, {"gemm": {"aten::mm": 6.0, "aten::addmm": 2.0}}) == pytest.approx(1)


def test_an_operator_that_pytorch_does_not_name_is_not_the_same() -> None:
    """Of a kernel that both know, only what both give one operator counts."""
    rows = [
        {"name": "gemm", "operator": "aten::mm", "total_ns": 3000},
        {"name": "add", "operator": "aten::add", "total_ns": 1000},
        {"name": "unknown to it", "operator": "aten::sum", "total_ns": 9000},
    ]
    assert judge_xray.same_operator(rows, {"gemm": {"aten::mm": 6.0}, "add": {"aten::add_": 1.0}}) == pytest.approx(
        0.75
    )


def test_without_a_kernel_in_common_nothing_is_compared() -> None:
    """Graphs have no kernels that torch.profiler links with operators."""
    assert judge_xray.same_operator([{"name": "gemm", "operator": "aten::mm", "total_ns": 3}], {}) is None
