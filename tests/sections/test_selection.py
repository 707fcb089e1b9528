"""Some sections instead of all: the same numbers, from fewer tables."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from commands import run
from real_captures import RealReport, RealTrace

from nsyswrap.base.errors import UsageError
from nsyswrap.loop.context import find_context
from nsyswrap.render.json_report import section_tree
from nsyswrap.report import NO_VERDICT, report_of
from nsyswrap.sections import SECTIONS, checked_keys, unread_tables
from nsyswrap.trace.load import load_export
from nsyswrap.trace.tables import OS_CALLS, SPECS, Trace

KEYS = tuple(spec.key for spec in SECTIONS)
NAMES = ("mnist_counters_python", "ddp_2gpu_slow_links", "cnn_amp", "cuda_graph_node_trace")


def without(trace: Trace, left_out: frozenset[str]) -> Trace:
    """Return a trace with some tables empty, as ``load_export`` leaves them."""
    return replace(trace, frames={s.name: s.empty() if s.name in left_out else trace[s] for s in SPECS})


@pytest.mark.parametrize("name", NAMES)
def test_each_section_has_the_same_numbers_without_the_tables_that_it_does_not_need(
    name: str, real_trace: RealTrace, real_report: RealReport
) -> None:
    """Sections that leave out the same tables are made together; those that leave out none are made as always."""
    whole = {section.key: section for section in real_report(name).sections}
    groups = {left_out: {key for key in KEYS if unread_tables([key]) == left_out} for left_out in map(_of_one, KEYS)}
    compared = 0
    for left_out, keys in groups.items():
        if left_out:
            part = report_of(find_context(without(real_trace(name), left_out)), keys=keys)
            assert [section.key for section in part.sections] == [key for key in whole if key in keys]
            for section in part.sections:
                assert section_tree(section) == section_tree(whole[section.key])
                compared += 1
    assert compared >= 6


def _of_one(key: str) -> frozenset[str]:
    return unread_tables([key])


def test_a_part_of_a_report_has_no_verdict_and_no_plan(real_trace: RealTrace) -> None:
    """What limits the run may be in a section that was not made."""
    part = report_of(find_context(real_trace("cuda_graph_node_trace")), keys=["ledger"])
    assert (part.verdict, part.verdict_rule, part.plan.changes) == (NO_VERDICT, None, ())


def test_tables_that_are_left_out_are_not_read(captures: Callable[[str], Path]) -> None:
    path = captures("cnn_amp")
    whole, part = load_export(path), load_export(path, unread=frozenset({OS_CALLS.name}))
    assert len(whole[OS_CALLS]) > 0
    assert len(part[OS_CALLS]) == 0
    assert all(part[spec].equals(whole[spec]) for spec in SPECS if spec is not OS_CALLS)


def test_the_more_is_wanted_the_more_is_read() -> None:
    assert unread_tables([]) == unread_tables(KEYS) == unread_tables(["idle"]) == frozenset()
    assert unread_tables(["ledger", "os_calls"]) == unread_tables(["ledger"]) - {OS_CALLS.name}


def test_analyze_makes_the_sections_that_are_named(captures: Callable[[str], Path]) -> None:
    """In the order of the report, also with spaces and twice the same name."""
    result = run(
        "analyze", captures("cuda_graph_node_trace"), "--sections", "kernels, ledger,ledger", "--format", "json"
    )
    assert list(json.loads(result.stdout)["sections"]) == ["ledger", "kernels"]


@pytest.mark.parametrize("form", ["text", "markdown", "csv"])
def test_every_format_shows_a_part(form: str, captures: Callable[[str], Path]) -> None:
    result = run("analyze", captures("cuda_graph_node_trace"), "--sections", "cuda_graphs", "--format", form)
    assert result.exit_code == 0


@pytest.mark.parametrize(("text", "said"), [("kernls", "no section 'kernls'"), (" ,", "no section is named")])
def test_an_unknown_section_is_an_error_that_names_all(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        checked_keys(text)
    assert all(key in str(caught.value.hint) for key in KEYS)
    assert run("analyze", "missing.sqlite", "--sections", text).exit_code == 2


def test_a_view_and_a_finished_report_take_no_sections(captures: Callable[[str], Path], tmp_path: Path) -> None:
    result = run("analyze", captures("cuda_graph_node_trace"), "--sections", "kernels", "--view", "nvprof")
    assert (result.exit_code, "leave out --sections" in result.stderr) == (2, True)
    (tmp_path / "report.json").write_text("{}")
    result = run("analyze", tmp_path / "report.json", "--sections", "kernels")
    assert (result.exit_code, "is a finished report" in result.stderr) == (2, True)
