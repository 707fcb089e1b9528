"""Totals of many captures: sums over groups are the sum over all, and neither order nor names change them."""

from hypothesis import given
from hypothesis import strategies as st
from made_sums import MS, made_sums

from nsyswrap.many.capture_sums import CaptureSums, FindingSum, KernelSum
from nsyswrap.many.totals import GROUPINGS, totals_of


def captures() -> st.SearchStrategy[list[CaptureSums]]:
    """Return captures of several steps, hosts, days and programs."""
    one = st.builds(
        lambda step, host, day, program: made_sums(step, host=host, day=day, program=program),
        st.integers(1, 50),
        st.sampled_from(["", "host-a", "host-b"]),
        st.sampled_from(["2026-11-01", "2026-11-02"]),
        st.sampled_from(["a.py", "b.py"]),
    )
    return st.lists(one, min_size=1, max_size=6)


@given(captures())
def test_groups_add_up_to_all(every: list[CaptureSums]) -> None:
    """For each grouping, the captures, the GPU time and each row of the ledger; and idle time by rule."""
    many = totals_of([(f"c{number}", sums) for number, sums in enumerate(every)])
    assert many.gpu_ns == sum(each.gpu_ns for each in every) == sum(each.gpu_ns for each in many.captures)
    assert sum(many.idle.values()) == many.ledger["idle_ns"]
    assert many.kernel_ns == sum(kernel.total_ns for each in every for kernel in each.kernels)
    for grouping in GROUPINGS:
        rows = many.groups[grouping]
        assert sum(each.captures for each in rows) == len(every)
        for part, total in many.ledger.items():
            assert sum(each.ledger[part] for each in rows) == total


def test_findings_are_counted_with_their_cost() -> None:
    """Notes come last. The share of a capture is of its own GPU time."""
    half = made_sums(10)
    less = made_sums(20, findings=(FindingSum("idle/data_wait", "warning", 50 * MS, None),))
    many = totals_of([("a", half), ("b", less), ("c", made_sums(10, findings=()))])
    first, last = many.findings
    assert (first.rule, first.severity, first.captures, first.lost_ns) == ("idle/data_wait", "problem", 2, 100 * MS)
    assert (first.saving_ns, first.most_share, first.worst, first.median_share) == (25 * MS, 0.5, "a", 0.375)
    assert last.severity == "note"


def test_kernels_of_one_name_are_one_row() -> None:
    other = made_sums(10, kernels=(KernelSum("gemm", 1, 5), KernelSum("relu", 1, 9)), other_kernels=KernelSum("", 3, 7))
    many = totals_of([("a", made_sums(10)), ("b", other)])
    assert many.kernels[0] == ("gemm", 2, 101, 50 * MS + 5)
    assert many.other_kernels == ("", 1, 3, 7)


def test_what_failed_and_what_is_repeated_is_in_no_total() -> None:
    many = totals_of([("a", made_sums(10)), ("bad", "it is empty")], [("again", "a")])
    assert [tuple(each) for each in many.failed] == [("bad", "it is empty")]
    assert (len(many.captures), many.repeated) == (1, (("again", "a"),))


def test_days_come_in_their_order_and_other_groups_by_time() -> None:
    rows = [("a", made_sums(10, day="2026-11-03", host="x")), ("b", made_sums(20, day="2026-11-01", host="y"))]
    many = totals_of(rows)
    assert [each.name for each in many.groups["day"]] == ["2026-11-01", "2026-11-03"]
    assert [each.name for each in many.groups["host"]] == ["y", "x"]


def test_a_capture_without_gpu_work_is_counted() -> None:
    empty = made_sums(10, gpus=(), ledger=dict.fromkeys(made_sums().ledger, 0), idle={}, kernels=(), findings=())
    many = totals_of([("a", empty)])
    assert (many.gpu_ns, many.without_steps, many.captures[0].gpu) == (0, 1, "none")


def test_what_loses_most_is_a_finding_of_the_program() -> None:
    """An incomplete capture is a problem of the recording."""
    findings = (FindingSum("capture/incomplete", "problem", 9 * MS, None), FindingSum("idle/cpu", "warning", MS, None))
    many = totals_of([("a", made_sums(findings=findings))])
    assert many.captures[0].rule == "idle/cpu"
    assert many.groups["program"][0].rule == "idle/cpu"
    assert [each.is_of_program for each in many.findings] == [False, True]
