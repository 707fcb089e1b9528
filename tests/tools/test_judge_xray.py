"""tools/judge_xray.py: the operators of kernels against those of torch.profiler."""

import judge_xray
import pytest


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


def test_a_fused_kernel_has_the_operators_of_its_name() -> None:
    """torch.profiler has the name of the kernel as its operator, and what the profiler itself does beside it."""
    rows = [{"name": "triton_poi_fused_add_mul_0", "operator": "add + mul", "total_ns": 3000}]
    theirs = {"triton_poi_fused_add_mul_0": {"triton_poi_fused_add_mul_0": 3.0, "Activity Buffer Request": 1.0}}
    assert judge_xray.same_operator(rows, theirs, {})["same_operator"] == pytest.approx(1)


def test_without_a_kernel_in_common_nothing_is_compared() -> None:
    """Graphs have no kernels that torch.profiler links with operators."""
    found = judge_xray.same_operator([{"name": "gemm", "operator": "aten::mm", "total_ns": 3}], {}, {})
    assert found["same_operator"] is None
