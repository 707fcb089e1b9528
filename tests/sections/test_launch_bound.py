"""The launch-bound finding: the launch interval of each phase, the rule, and no idle time that counts twice."""

import pytest
from analysis_fixtures import attributions_of, run_section, window
from export_builder import ExportBuilder, global_id, trace_of
from hypothesis import example, given
from hypothesis import strategies as st
from real_captures import RealContext, every_gpu_capture

from nsyswrap.attribution.attribution import RULES
from nsyswrap.attribution.launch_pace import Pace
from nsyswrap.loop.context import find_context
from nsyswrap.model import Finding, Section
from nsyswrap.report import choose_window
from nsyswrap.sections import idle, launches
from nsyswrap.trace.tables import Trace

RULE = "launches/launch_bound"


def paced(count: int, *, every: int, call: int, length: int, builder: ExportBuilder | None = None) -> ExportBuilder:
    """Launch kernels one after another on an idle GPU; each begins when its call returns.

    ::

        host    |call|       |call|       every `every` ns
        GPU          |#|          |#|     `length` ns
    """
    made = builder or ExportBuilder()
    for number in range(count):
        at = number * every
        made.kernel(at + call, at + call + length, f"k{number}", launched=(at, at + call))
    return made


def section(trace: Trace, end: int = 1000) -> Section:
    """Return the section on launches of the window from 0 to ``end``."""
    return run_section(launches, find_context(trace), window(0, end))


def only(trace: Trace, end: int = 1000) -> Finding | None:
    """Return the one finding, or None."""
    findings = section(trace, end).findings
    assert len(findings) <= 1
    return findings[0] if findings else None


def test_short_operations_launched_one_by_one_are_launch_bound() -> None:
    """Ten launches, one every 100 ns, of 10 ns each, all on an idle GPU."""
    found = only(trace_of(paced(10, every=100, call=20, length=10)))
    assert found is not None
    assert (found.rule, found.severity, found.device_id) == ("launches/launch_bound", "problem", 0)
    assert found.evidence[0].startswith("all: ")
    assert "100.0 % launched too late" in found.evidence[0]
    assert found.evidence[0] == (
        "all: 10 operations, 100.0 % launched too late, one every 100 ns, 10.0 ns long (medians)"
    )


@pytest.mark.parametrize(("ranges", "named"), [((), True), (("batch 0", "forward"), False)])
def test_a_fused_optimizer_is_advised_unless_the_phases_show_none(ranges: tuple[str, ...], *, named: bool) -> None:
    """A loop that marks its phases and has no optimizer is inference."""
    builder = paced(10, every=100, call=20, length=10)
    for each in ranges:
        builder.range(each, 0, 1000)
    found = only(trace_of(builder))
    assert found is not None
    assert ("optimizer" in found.advice) == named


def test_the_finding_counts_no_time_twice() -> None:
    """The idle time between launches belongs to this rule, and none of it to idle/cpu or idle/launch."""
    trace = trace_of(paced(10, every=100, call=20, length=10))
    found = only(trace)
    assert found is not None
    idle_time = run_section(idle, find_context(trace), window(0, 1000))
    attribution = idle_time.tables["attribution"]
    assert set(attribution["rule"]) == {"launches/launch_bound"}
    assert attribution.groupby("cause")["idle_ns"].sum().to_dict() == {"cpu": 700, "launch": 200}
    assert found.lost_ns == 900
    assert idle_time.findings == ()


def test_launches_that_follow_each_other_fast_can_all_be_too_late() -> None:
    """Operations begin 8 us after their calls, and the next call begins while they run. No launch is on an idle GPU.

    ::

        host   |call|  |call|  |call|      every 7.5 us
        GPU          |#|     |#|     |#|   2 us long
    """
    built = ExportBuilder()
    for number in range(20):
        at = number * 7_500
        built.kernel(at + 8_000, at + 10_000, "k", launched=(at, at + 4_000))
    found = section(trace_of(built), 160_000)
    assert found.tables["phases"]["just_in_time_share"].tolist() == [1 / 20]
    (finding,) = found.findings
    assert (finding.rule, finding.lost_ns) == ("launches/launch_bound", 160_000 - 20 * 2_000)


def test_operations_longer_than_their_launches_lie_apart_are_not_launch_bound() -> None:
    """Of two launches 5 ns apart every 200 ns, the first is on an idle GPU. That is half, but the host is far ahead.

    ::

        host    |||                  |||
        GPU      |########140#|#30#|   |########
    """
    built = ExportBuilder()
    for at in range(0, 1000, 200):
        built.kernel(at + 10, at + 150, "long", launched=(at, at + 4))
        built.kernel(at + 150, at + 180, "short", launched=(at + 5, at + 9))
    found = section(trace_of(built))
    assert found.tables["phases"]["just_in_time_share"].tolist() == [0.5]
    assert found.findings == ()


@pytest.mark.parametrize(("pause", "lost"), [(1000, 9 * 90 + 20 + 1000), (1001, 9 * 90 + 20)])
def test_a_gap_of_more_than_ten_launch_intervals_is_no_matter_of_pace(pause: int, lost: int) -> None:
    """Launches are 100 ns apart, so a gap of up to 1000 ns belongs to the rule. A longer gap is other CPU work.

    ::

        host    |call|   ten of them   |call|                 |call|
        GPU          |#|                    |#|.....pause.....     |#|
    """
    last = 9 * 100 + 30
    built = paced(10, every=100, call=20, length=10)
    built.kernel(last + pause, last + pause + 10, "late", launched=(last + pause - 20, last + pause))
    found = only(trace_of(built), end=last + pause + 10)
    assert found is not None
    assert found.lost_ns == lost


def test_short_gaps_are_no_finding() -> None:
    """The launches are the same, but their idle time is less than 2 % of the window."""
    built = paced(3, every=100, call=20, length=10).kernel(400, 100_000, "long", launched=(300, 320))
    assert only(trace_of(built), end=100_000) is None


def test_each_phase_has_its_pace() -> None:
    """In forward the GPU waits for launches, and in the optimizer the CPU runs ahead.

    ::

        forward      0 to 300     three launches, 100 ns apart, 10 ns long
        optimizer  300 to 400     three launches, 10 ns apart, 50 ns long, the first on an idle GPU
    """
    built = paced(3, every=100, call=20, length=10)
    for number in range(3):
        at = 300 + number * 10
        built.kernel(320 + number * 50, 370 + number * 50, "step", launched=(at, at + 5))
    built.range("forward", 0, 300).range("optimizer", 300, 400).range("batch 1", 0, 470)
    table = section(trace_of(built)).tables["phases"]
    assert table.to_dict("records") == [
        {
            "phase": "forward",
            "count": 3,
            "just_in_time_share": 1.0,
            "median_launch_interval_ns": 100.0,
            "median_operation_ns": 10.0,
        },
        {
            "phase": "optimizer",
            "count": 3,
            "just_in_time_share": pytest.approx(1 / 3),
            "median_launch_interval_ns": 10.0,
            "median_operation_ns": 50.0,
        },
    ]


def test_only_phases_that_are_bound_are_named() -> None:
    built = paced(8, every=100, call=20, length=10).range("forward", 0, 800)
    built.kernel(820, 970, "long", launched=(800, 805)).kernel(970, 990, "long", launched=(806, 809))
    found = only(trace_of(built.range("backward", 800, 990)))
    assert found is not None
    assert [line.partition(":")[0] for line in found.evidence[:-1]] == ["all", "phase forward"]


def test_operations_of_one_call_are_one_launch() -> None:
    """A graph of three kernels is launched twice. There is one interval, from call to call."""
    built = ExportBuilder()
    for at in (0, 500):
        built.call("cudaGraphLaunch_v10000", at, at + 20, correlation=at + 1)
        for node in range(3):
            built.kernel(at + 30 + node * 10, at + 40 + node * 10, "k", correlation=at + 1, graph_node=node + 1)
    table = section(trace_of(built)).tables["phases"]
    assert table["median_launch_interval_ns"].tolist() == [500.0]


def test_each_gpu_has_its_own_finding() -> None:
    """Two processes have one GPU each, and the launches of one do not count for the other."""
    built = paced(10, every=100, call=20, length=10)
    rank = global_id(5000)
    built.kernel(0, 1000, "busy", launched=(0, 1), device=1, process=rank)
    assert [each.device_id for each in section(trace_of(built)).findings] == [0]


@pytest.mark.parametrize("device", [0, 1])
def test_ranks_side_by_side_have_the_pace_of_each(device: int) -> None:
    """Two processes launch every 100 ns, 30 ns apart, on one GPU or on two. The interval is 100, not 30 and 70."""
    built = paced(10, every=100, call=20, length=10)
    for start in range(30, 1000, 100):
        built.kernel(start + 20, start + 30, launched=(start, start + 20), device=device, process=global_id(5000))
    found = section(trace_of(built))
    assert found.tables["phases"]["median_launch_interval_ns"].tolist() == [100]
    assert {fact.label: fact.value for fact in found.facts}["median_launch_interval_ns"] == 100


def test_a_window_without_launches_has_no_phases() -> None:
    context = find_context(trace_of(paced(2, every=100, call=20, length=10)))
    found = run_section(launches, context, window(5000, 6000))
    assert (len(found.tables["phases"]), found.findings) == (0, ())


@example(0.49, 1e5, 1e4)
@example(0.51, 1e5, 1e4)
@given(st.floats(0, 1), st.one_of(st.none(), st.floats(0, 1e6)), st.floats(0, 1e6))
def test_the_rule(share: float, interval: float | None, operation: float) -> None:
    """Half of the launches are late; their interval is longer than operations, and no longer than a launch takes."""
    expected = share >= 0.5 and interval is not None and operation < interval <= 200_000
    assert Pace(10, share / 2, share, interval, operation).is_bound == expected


@every_gpu_capture
def test_rules_of_a_real_capture_share_its_idle_time(real_context: RealContext, name: str) -> None:
    """Each idle nanosecond belongs to one rule, and a finding counts exactly those of its rule."""
    context = real_context(name)
    chosen = choose_window(context)
    idle_time = run_section(idle, context, chosen).tables["attribution"].groupby("device_id")["idle_ns"].sum()
    lost = {
        each.device_id: each.lost_ns for each in run_section(launches, context, chosen).findings if each.rule == RULE
    }
    for each in attributions_of(context, chosen):
        assert len(each.idle_ns) == len(RULES)
        assert each.idle_ns.sum() == idle_time[each.device_id]
        assert lost.get(each.device_id, each.idle_of(RULE)) == each.idle_of(RULE)


@every_gpu_capture
def test_phases_of_a_real_capture_hold_every_launch(real_context: RealContext, name: str) -> None:
    context = real_context(name)
    found = run_section(launches, context, choose_window(context))
    fact = found.fact("launches")
    assert fact is not None
    assert found.tables["phases"]["count"].sum() == fact.value


@pytest.mark.parametrize(
    ("name", "bound"),
    [
        ("cnn_amp", True),
        ("cnn_amp_autograd_ranges", True),
        ("bench_source", False),
        ("alexnet_data_parallel_2gpu", False),
    ],
)
def test_the_rule_on_captures_of_known_runs(
    real_context: RealContext,
    name: str,
    bound: bool,  # noqa: FBT001
) -> None:
    """A small network is bound by launches; BERT in fp32 keeps the GPU busy, and AlexNet waits for its data."""
    context = real_context(name)
    found = run_section(launches, context, choose_window(context)).findings
    rules = [each.rule for each in found]
    assert ("launches/launch_bound" in rules) == bound
    assert ("optimizer/many_kernels" in rules) == (name == "bench_source")
