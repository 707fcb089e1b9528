"""The tables of the section on idle time agree with each other, with the ledger and with the attribution."""

from collections.abc import Hashable

import pandas as pd
import pytest
from analysis_fixtures import attributions_of, idle_section, run_section, window
from export_builder import ExportBuilder, trace_of
from hypothesis import given
from made_steps import MEASURED, US, each_step, made_loop
from random_traces import LONGEST, Sketch, context_of, same_examples, several, sketches
from real_captures import RealContext, RealReport, every_gpu_capture, more

from nsyswrap.attribution.attribution import RULES
from nsyswrap.attribution.causes import CAUSES
from nsyswrap.base.intervals import Window
from nsyswrap.loop.context import TraceContext, find_context
from nsyswrap.model import Section
from nsyswrap.report import choose_window
from nsyswrap.sections import idle, ledger

ACCOUNT = ["device_id", "cause", "rule", "phase"]
PATTERN = ["device_id", "rule", "phase"]


def summed(table: pd.DataFrame, keys: list[str], lengths: "pd.Series[int]") -> dict[Hashable, int]:
    """Return the sum of lengths by some columns, without sums of 0."""
    found = lengths.groupby([table[key] for key in keys], observed=True).sum()
    return {key: int(total) for key, total in found.items() if total}


def checked(context: TraceContext, chosen: Window) -> Section:
    """Check that all tables agree on the idle time, and return the section."""
    section = run_section(idle, context, chosen)
    check_tables(section)
    check_against_ledger(context, section, run_section(ledger, context, chosen))
    return section


def check_tables(section: Section) -> None:
    """Check that all tables agree on the idle time."""
    accounts, gaps, patterns = (section.tables[name] for name in ("attribution", "gaps", "patterns"))
    length = gaps["end_ns"] - gaps["start_ns"]
    assert (length > 0).all()
    assert summed(gaps, ACCOUNT, length) == summed(accounts, ACCOUNT, accounts["idle_ns"])
    assert summed(gaps, PATTERN, length) == summed(patterns, PATTERN, patterns["idle_ns"])
    assert not accounts.duplicated(ACCOUNT).any()
    assert not patterns.duplicated(PATTERN).any()
    assert set(accounts["rule"]) <= set(RULES)
    assert set(accounts["cause"]) <= set(CAUSES)
    for each in (accounts, patterns):
        for _, mine in each.groupby("device_id"):
            assert mine["idle_ns"].is_monotonic_decreasing


def check_against_ledger(context: TraceContext, section: Section, busy: Section) -> None:
    """Check that the idle time equals the ledger's for each device, and the attribution's for each rule."""
    devices = busy.tables["devices"].set_index("device_id")
    accounts, fact = section.tables["attribution"], section.fact("idle_ns")
    assert fact is not None
    assert fact.value == devices["idle_ns"].sum()
    for each in attributions_of(context, section.window):
        mine = accounts[accounts["device_id"] == each.device_id]
        assert mine["idle_ns"].sum() == devices["idle_ns"][each.device_id] == each.idle_ns.sum()
        by_rule = mine.groupby("rule")["idle_ns"].sum().reindex(RULES, fill_value=0)
        assert by_rule.tolist() == each.idle_ns.tolist()


def check_findings(section: Section) -> None:
    """Check that each finding loses exactly the idle time of its rule, and that it is above the threshold."""
    accounts = section.tables["attribution"]
    by_rule = accounts.groupby(["device_id", "rule"])["idle_ns"].sum()
    for each in section.findings:
        assert each.device_id is not None
        assert each.lost_ns == by_rule[each.device_id, each.rule] >= 0.02 * section.window.length_ns


@every_gpu_capture
@pytest.mark.parametrize("wanted", ["", *more("all")])
def test_the_tables_of_a_real_capture_agree(
    real_context: RealContext, real_report: RealReport, name: str, wanted: str
) -> None:
    report = real_report(name, wanted)
    section, busy = report.section("idle"), report.section("ledger")
    assert section
    assert busy
    check_tables(section)
    check_findings(section)
    check_against_ledger(real_context(name), section, busy)


@pytest.mark.slow
@several
@same_examples
@given(sketches)
def test_the_tables_of_random_traces_agree(sketch: Sketch) -> None:
    check_findings(checked(context_of(sketch), window(-10, LONGEST + 20)))


def gap_in_three() -> ExportBuilder:
    """Return a gap of 100 ns in forward and backward, and one of 40 ns, in a window of 1000 ns.

    ::

        host      forward        | backward |launch|            |launch|
        GPU   ####|..40..|..20...|....20....|..20..|######.40.#######
             0   100    140     160        180    200    400  440    1000
    """
    built = ExportBuilder().gpu().os_call("mmap", 0, 1).range("forward", 0, 160).range("backward", 160, 1000)
    built.kernel(0, 100, launched=(0, 9)).call("cudaStreamSynchronize", 60, 140)
    return built.kernel(200, 400, launched=(180, 200)).kernel(440, 1000, launched=(201, 209))


def test_a_gap_has_a_row_for_each_cause_and_phase() -> None:
    """The gap has a wait until 140, CPU code until 180, cut at the phase, and a launch call until 200.

    Another gap of 40 ns is between two queued kernels. The wait lasts 80 ns, 40 of them idle, and delays the launch by
    that time. So the 40 ns of CPU code after it belong to the wait, too.
    """
    context = find_context(trace_of(gap_in_three()))
    table = checked(context, window(0, 1000)).tables["gaps"]
    columns = ["start_ns", "end_ns", "cause", "phase"]
    assert list(table[columns].itertuples(index=False, name=None)) == [
        (100, 140, "synchronization", "forward"),
        (140, 160, "cpu", "forward"),
        (160, 180, "cpu", "backward"),
        (180, 200, "launch", "backward"),
        (400, 440, "queued", "backward"),
    ]
    assert table["rule"].tolist()[:3] == ["synchronization/in_step"] * 3
    assert table["rule"].tolist()[4] == "gpu/between_operations"


def test_a_gap_counts_once_in_each_row_of_the_attribution() -> None:
    """In the first gap, CPU code of forward and of backward are two rows with one gap each."""
    table = idle_section(trace_of(gap_in_three()), 0, 1000).tables["attribution"]
    counted = table.set_index(["cause", "phase"])["gap_count"].to_dict()
    assert counted == {
        ("synchronization", "forward"): 1,
        ("cpu", "forward"): 1,
        ("cpu", "backward"): 1,
        ("launch", "backward"): 1,
        ("queued", "backward"): 1,
    }


def test_the_idle_time_of_a_gap_with_one_rule_and_phase_is_one_of_a_pattern() -> None:
    """Wait and CPU code of forward are one gap of 60 ns; without steps there is no number in a step."""
    table = idle_section(trace_of(gap_in_three()), 0, 1000).tables["patterns"]
    assert list(table) == ["device_id", "rule", "phase", "count", "median_ns", "idle_ns", "per_step"]
    forward = table[table["phase"] == "forward"]
    assert forward[["rule", "count", "median_ns", "idle_ns"]].to_dict("records") == [
        {"rule": "synchronization/in_step", "count": 1, "median_ns": 60.0, "idle_ns": 60}
    ]
    assert table["per_step"].isna().all()


def test_patterns_count_gaps_in_a_step() -> None:
    """Each of ten steps has a gap from 600 us to 10 us of the next step: 400 of CPU code, 1 of launch, 9 queued."""
    context = find_context(trace_of(made_loop()))
    chosen = choose_window(context)
    assert chosen.source == "steps"
    table = checked(context, chosen).tables["patterns"]
    (cpu,) = table[table["rule"] == "idle/cpu"].to_dict("records")
    assert (cpu["phase"], cpu["count"], cpu["per_step"]) == ("forward", MEASURED, 1.0)
    assert (cpu["median_ns"], cpu["idle_ns"]) == (400 * US, MEASURED * 400 * US)
    (queued,) = table[table["rule"] == "idle/queued"].to_dict("records")
    assert (queued["median_ns"], queued["count"], queued["per_step"]) == (9 * US, MEASURED, 1.0)


def test_a_pattern_of_one_step_has_a_tenth_in_a_step() -> None:
    """Only the last step has a module load. The CPU code before it, from 600 to 950 us, belongs to it, too."""
    built = made_loop().call("cuLibraryLoadData", 11_900 * US, 11_950 * US)
    context = find_context(trace_of(built))
    table = checked(context, choose_window(context)).tables["patterns"]
    (load,) = table[table["rule"] == "modules/in_window"].to_dict("records")
    assert (load["count"], load["per_step"], load["idle_ns"]) == (1, 1 / MEASURED, 350 * US)


def test_the_median_is_that_of_gaps_and_not_of_pieces() -> None:
    """Two loads in a gap, each with the CPU code before it, count as one gap of 250 us, from 600 to 850 us."""
    built = each_step(each_step(made_loop(), "cuLibraryLoadData", 650, 700), "cuLibraryLoadData", 800, 850)
    context = find_context(trace_of(built))
    section = checked(context, choose_window(context))
    (load,) = section.tables["patterns"].query("rule == 'modules/in_window'").to_dict("records")
    assert (load["count"], load["median_ns"]) == (MEASURED, 250 * US)
    gaps = section.tables["gaps"]
    assert (gaps["rule"] == "modules/in_window").sum() == 4 * MEASURED


def test_a_busy_gpu_has_empty_tables() -> None:
    section = checked(find_context(trace_of(ExportBuilder().kernel(0, 100, launched=(0, 1)))), window(0, 100))
    assert [len(section.tables[name]) for name in ("attribution", "gaps", "patterns")] == [0, 0, 0]
    assert [fact.value for fact in section.facts] == [0, 1.0]
    assert section.findings == ()


def test_the_explained_share_leaves_out_what_the_capture_cannot_show() -> None:
    """The launch of the kernel after the first gap of 200 ns was lost; the 100 ns of the second gap are known."""
    built = ExportBuilder().os_call("mmap", 0, 1).kernel(0, 100, launched=(0, 1)).kernel(300, 400)
    section = idle_section(trace_of(built.kernel(500, 1000, launched=(480, 490))), 0, 1000)
    table = section.tables["attribution"]
    assert table[table["cause"] == "not_traced"]["idle_ns"].sum() == 200
    share = section.fact("explained_share")
    assert share is not None
    assert share.value == pytest.approx(1 / 3)
