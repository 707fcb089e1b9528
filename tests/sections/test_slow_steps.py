"""Steps that take longer than the others: how they are found, what grew in them, and the finding on them."""

import cProfile
import pstats

import pytest
from analysis_fixtures import attributions_of, run_section, window
from export_builder import ExportBuilder, global_id, trace_of
from real_captures import CAPTURE_NAMES, NO_GPU, OLD, RealContext, every_gpu_capture, of_captures
from savings import saving_of

from nsyswrap.attribution.attribution import RULES
from nsyswrap.attribution.causes import CAUSES
from nsyswrap.base.intervals import Window
from nsyswrap.loop.context import find_context
from nsyswrap.model import Finding, Section
from nsyswrap.ranks.collectives import find_collectives
from nsyswrap.report import choose_window
from nsyswrap.sections import idle, steps
from nsyswrap.sections.steps import find_outliers
from nsyswrap.trace.tables import Trace

LENGTH = 1000
SLOW = 6
# Twelve steps of 1000 ns; the seventh takes 500 ns more, and the first two are warm-up.
END = 12 * LENGTH + 500


def loop(slow: str, builder: ExportBuilder | None = None) -> ExportBuilder:
    """Return twelve steps: data 200 ns, forward 300 ns, and a kernel of 500 ns; one step has 500 ns more of something.

    ::

        host   |data|forward (launch)|            |
        GPU         |      |####kernel####|       |
                 200    500           1000
    """
    made, at = builder or ExportBuilder(), 0
    # Operating system calls were traced, so work and waiting differ in the capture.
    made.os_call("mmap", 0, 1)
    for number in range(12):
        more = 500 if number == SLOW else 0
        data = 200 + (more if slow == "data" else 0)
        forward = 300 + (more if slow == "forward" else 0)
        kernel = 500 + (more if slow == "compute" else 0)
        ready = at + data + forward
        made.range(f"batch {number}", at, at + LENGTH + more)
        made.range("data", at, at + data).range("forward", at + data, ready)
        made.kernel(ready, ready + kernel, "k", launched=(ready - 10, ready))
        at += LENGTH + more
    return made


def section(trace: Trace, chosen: Window | None = None) -> Section:
    """Return the section on steps, of the measured window by default."""
    context = find_context(trace)
    return run_section(steps, context, chosen or choose_window(context))


def only(trace: Trace) -> Finding:
    (found,) = section(trace).findings
    return found


def value(found: Section, label: str) -> object:
    fact = found.fact(label)
    return None if fact is None else fact.value


def test_two_steps_may_start_in_the_same_nanosecond() -> None:
    """A step may be empty, so that the next one starts with it. This once ended in an exception."""
    slow = SLOW * LENGTH
    found = section(trace_of(loop("data").range(f"batch {SLOW}", slow, slow)))
    assert found.tables["outliers"]["start_ns"].tolist() == [slow]
    assert value(found, "measured_steps") == 11


@pytest.mark.parametrize(
    ("slow", "part", "cause", "phase"),
    [
        ("data", "idle_ns", "data_work", "data"),
        ("forward", "idle_ns", "cpu", "forward"),
        ("compute", "compute_ns", "", "batch"),
    ],
)
def test_what_made_a_step_slow(slow: str, part: str, cause: str, phase: str) -> None:
    """Each cause takes 500 ns: data prepared by the loop, CPU code in forward, or a kernel that the host waits for."""
    (row,) = section(trace_of(loop(slow))).tables["outliers"].to_dict("records")
    assert (row["name"], row["start_ns"], row["length_ns"], row["excess_ns"]) == ("batch 6", 6000, 1500, 500)
    assert (row["device_id"], row["part"], row["part_grown_ns"]) == (0, part, 500)
    assert (row["cause"], row["cause_grown_ns"]) == (cause, 500 if cause else 0)
    assert (row["phase"], row["phase_grown_ns"]) == (phase, 500)


def test_the_finding_names_the_step_and_what_grew() -> None:
    """The finding takes 500 of 10 500 ns of the window, which is 4.8 %."""
    found = only(trace_of(loop("compute")))
    assert (found.rule, found.severity, found.device_id) == ("steps/uneven", "note", 0)
    assert (found.lost_ns, saving_of(found).point) == (500, 500)
    assert found.headline == "A few slow steps cost 4.8 % of the time."
    assert found.evidence == (
        "1 of 10 measured steps of process 4711",
        "batch 6: 1.50 µs, 500 ns more than the median; grew: compute by 500 ns, phase batch by 500 ns",
        "estimated: all of the time that they take longer is saved",
    )
    assert found.saving_method == "estimated"
    assert "similar size" in found.advice


def test_what_another_finding_counts_is_not_counted_again() -> None:
    """The data phase of one step grew. The GPU starves there as in the other steps, only longer."""
    context = find_context(trace_of(loop("data")))
    chosen = choose_window(context)
    assert run_section(steps, context, chosen).findings == ()
    lost = {each.rule: each.lost_ns for each in run_section(idle, context, chosen).findings}
    assert lost["idle/data_work"] == 10 * 200 + 500


def test_cpu_time_that_only_a_long_step_has_belongs_to_uneven_steps() -> None:
    """One step has a gap of 600 us after its last launch, which is more than ten launch intervals of 50 us."""
    built = ExportBuilder().os_call("mmap", 0, 1)
    at = 0
    for number in range(12):
        more = 600_000 if number == SLOW else 0
        built.range(f"batch {number}", at, at + 50_000 + more).kernel(at + 100, at + 50_000, launched=(at, at + 50))
        at += 50_000 + more
    context = find_context(trace_of(built))
    chosen = choose_window(context)
    (found,) = run_section(steps, context, chosen).findings
    assert (found.rule, found.lost_ns, found.severity) == ("steps/uneven", 600_000, "problem")
    assert "what the host does in them" in found.advice, "a larger batch does not shorten one long step"
    assert run_section(idle, context, chosen).findings == ()


def test_a_program_without_gpu_work_still_names_the_phase() -> None:
    """The report has no device, and the data phase on the CPU grew."""
    built, at = ExportBuilder().session(duration=END), 0
    for number in range(12):
        more = 500 if number == SLOW else 0
        built.range(f"batch {number}", at, at + LENGTH + more).range("data", at, at + 200 + more)
        at += LENGTH + more
    found = section(trace_of(built))
    (row,) = found.tables["outliers"].to_dict("records")
    assert (row["device_id"], row["part"], row["cause"], row["phase"]) == (-1, "", "", "data")
    assert found.findings[0].device_id is None
    assert found.findings[0].evidence[1].endswith("grew: phase data by 500 ns")
    assert "what the host does" in found.findings[0].advice


def test_a_step_that_grew_where_nothing_is_traced_says_so() -> None:
    """Only steps are traced, in their own domain, so the phase of the step itself grew."""
    built, at = ExportBuilder().session(duration=END), 0
    for number in range(12):
        more = 500 if number == SLOW else 0
        built.range(f"batch {number}", at, at + LENGTH + more)
        at += LENGTH + more
    (row,) = section(trace_of(built)).tables["outliers"].to_dict("records")
    assert (row["phase"], row["phase_grown_ns"]) == ("batch", 500)


def test_steps_of_two_processes_are_compared_with_their_own() -> None:
    """If all steps of a second rank are twice as long, only its slow step is an outlier."""
    built, rank = loop("data"), global_id(5000, 5000)
    for number in range(6):
        built.range(f"batch {number}", number * 2000, number * 2000 + 2000, thread=rank)
    found = section(trace_of(built), window(0, 13_000))
    assert found.tables["outliers"]["name"].tolist() == ["batch 6"]


def test_outliers_outside_the_window_are_not_listed() -> None:
    """The window holds steps 8 to 11, after the slow one, and part of step 7."""
    found = section(trace_of(loop("data")), window(7000, END))
    assert (len(found.tables["outliers"]), value(found, "outlier_count"), found.findings) == (0, 0, ())


def test_warm_up_is_no_outlier() -> None:
    built = ExportBuilder().range("batch 0", -100_000, 0).range("batch 1", 0, 1000)
    for number in range(2, 12):
        built.range(f"batch {number}", number * 1000, number * 1000 + 1000)
    found = section(trace_of(built), window(-100_000, 12_000))
    assert value(found, "outlier_count") == 0


def test_a_capture_without_steps_has_no_outliers() -> None:
    found = section(trace_of(ExportBuilder().range("forward", 0, 10).kernel(0, 10)), window(0, 100))
    assert len(found.tables["outliers"]) == 0
    assert (value(found, "spread_share"), value(found, "outlier_count")) == (None, 0)


def test_a_short_excess_is_no_finding() -> None:
    """An excess of 150 of 10 150 ns makes an outlier, but is less than 2 % of the window."""
    built, at = ExportBuilder(), 0
    for number in range(12):
        more = 150 if number == SLOW else 0
        built.range(f"batch {number}", at, at + LENGTH + more)
        at += LENGTH + more
    found = section(trace_of(built), window(2000, 12_150))
    assert (value(found, "outlier_count"), found.findings) == (1, ())


@every_gpu_capture
def test_idle_time_of_steps_is_that_of_the_idle_section(real_context: RealContext, name: str) -> None:
    """It agrees by cause and by rule, and the steps have no more idle time than the window."""
    context = real_context(name)
    chosen = choose_window(context)
    table = run_section(idle, context, chosen).tables["attribution"]
    for each in attributions_of(context, chosen):
        mine = table[table["device_id"] == each.device_id]
        by_cause = mine.groupby("cause")["idle_ns"].sum().reindex(CAUSES, fill_value=0).to_numpy()
        by_rule = mine.groupby("rule")["idle_ns"].sum().reindex(RULES, fill_value=0).to_numpy()
        assert by_rule.tolist() == each.idle_ns.tolist()
        # Ranks take their steps at the same time, so each process is checked separately.
        for rows in context.steps.frame.groupby("process").indices.values():
            assert (each.steps_by_cause[:, rows].sum(axis=1) <= by_cause).all()
            assert (each.steps_by_rule[:, rows].sum(axis=1) <= by_rule).all()
        assert each.steps_by_cause.sum(axis=0).tolist() == each.steps_by_rule.sum(axis=0).tolist()


@of_captures(name for name in CAPTURE_NAMES if name != OLD)
def test_what_grew_in_a_real_step_is_no_more_than_the_step(real_context: RealContext, name: str) -> None:
    context = real_context(name)
    chosen = choose_window(context)
    found = find_outliers(
        context, find_collectives(context), attributions_of(context, chosen) if name != NO_GPU else (), chosen
    )
    for column in ("part_grown_ns", "cause_grown_ns", "phase_grown_ns", "excess_ns"):
        assert (found[column] >= 0).all()
        assert (found[column] <= found["length_ns"]).all()


def uneven(count: int) -> ExportBuilder:
    """Return a loop of many steps in which each tenth takes longer."""
    made, at = ExportBuilder(), 0
    for number in range(count):
        more = 500 if number % 10 == 9 else 0
        made.range(f"step {number}", at, at + LENGTH + more)
        made.kernel(at + 200, at + 700, "k", launched=(at + 100, at + 150))
        at += LENGTH + more
    return made


def test_each_outlier_costs_a_bounded_amount_of_work() -> None:
    """A median over all steps for each outlier would take minutes for 100,000 steps. Here their number is counted."""

    def medians(count: int) -> tuple[int, int]:
        context = find_context(trace_of(uneven(count)))
        chosen = choose_window(context)
        arguments = context, find_collectives(context), attributions_of(context, chosen), chosen
        with cProfile.Profile() as profile:
            outliers = len(find_outliers(*arguments))
        return outliers, int(pstats.Stats(profile).get_stats_profile().func_profiles["median"].ncalls)

    (few, work), (many, more_work) = medians(100), medians(400)
    assert (few, many) == (10, 40)
    assert more_work == work > 0
