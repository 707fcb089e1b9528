"""Issues of a comparison: each is found, described in one sentence, and can be accepted by the user."""

import re
from dataclasses import replace

import paired_reports as pairs
import pandas as pd
import part_of_capture
import pytest
from paired_reports import MS

from nsyswrap.base.errors import UsageError
from nsyswrap.compare.comparability import FEWEST_STEPS, find_issues
from nsyswrap.compare.comparison import ACCEPTABLE, ComparabilityIssue, ComparisonOptions, IssueKind, Side
from nsyswrap.model import Report, Severity

MOST_DIFFERENCES = 4
BASE = pairs.report(pairs.lengths(4.0))
NEW = pairs.with_session(pairs.report(pairs.lengths(2.0, seed=2)), started_utc="2026-11-21T05:00:00Z")


def issues(base: Report, new: Report, *accept: IssueKind) -> list[ComparabilityIssue]:
    settings = ComparisonOptions(accept=frozenset(accept))
    return find_issues(pairs.side(base, "old.sqlite"), pairs.side(new, "new.sqlite"), settings)


def only(base: Report, new: Report, *accept: IssueKind) -> ComparabilityIssue:
    (found,) = issues(base, new, *accept)
    return found


def test_steps_are_needed() -> None:
    """Without enough steps there is no verdict, even if the user accepts all issues."""
    for count, words in (
        (0, "no measured steps"),
        (FEWEST_STEPS - 1, f"has {FEWEST_STEPS - 1} measured steps; a comparison needs {FEWEST_STEPS}"),
    ):
        found = issues(BASE, pairs.with_session(pairs.report([4 * MS] * count), started_utc="x"), *ACCEPTABLE)
        assert [(one.kind, one.blocks) for one in found] == [(IssueKind.STEPS, True)]
        assert words in found[0].message
        assert found[0].message.startswith("new.sqlite has")
    enough = pairs.with_session(pairs.report([4 * MS] * FEWEST_STEPS), started_utc="x")
    assert issues(BASE, enough) == []


def test_an_incomplete_capture_is_an_issue() -> None:
    found = only(pairs.with_findings(BASE, ("capture/incomplete", Severity.PROBLEM, 0)), NEW)
    assert (found.kind, found.blocks) == (IssueKind.INCOMPLETE, True)
    assert "old.sqlite is incomplete" in found.message


def test_another_gpu_is_an_issue() -> None:
    other = replace(NEW, gpus=(replace(pairs.GPU, name="NVIDIA A100", sm_count=108),))
    found = only(BASE, other)
    assert (found.kind, found.blocks) == (IssueKind.GPU, True)
    assert found.message == "Other GPU: 1 × NVIDIA A100 with 108 SMs against 1 × NVIDIA H200 with 132 SMs."


def test_another_number_of_gpus_is_an_issue() -> None:
    two = pairs.with_session(pairs.report(pairs.lengths(2.0), gpus=2), started_utc="x")
    assert only(BASE, two).message == "Other GPU: 2 × NVIDIA H200 with 132 SMs against 1 × NVIDIA H200 with 132 SMs."


def test_other_traces_are_an_issue() -> None:
    """Recording takes time, so nsys itself may cause the difference."""
    found = only(BASE, pairs.with_session(NEW, traces=("Cuda", "NvtxEvents", "Python")))
    assert (found.kind, found.blocks) == (IssueKind.TRACES, True)
    assert "only base traced OSRuntime; only new traced Python" in found.message


def test_the_granularity_of_graphs_matters_where_there_are_graphs() -> None:
    nodes = pairs.with_session(NEW, graph_trace="Node")
    assert issues(BASE, nodes) == []
    found = only(BASE, pairs.with_section(nodes, "cuda_graphs", launches=pd.DataFrame({"count": [50]})))
    assert "CUDA graphs were traced as Graph and as Node" in found.message


@pytest.mark.parametrize(
    ("key", "what"), [("counters", "GPU counters"), ("python_lines", "Python stacks"), ("device_memory", "memory")]
)
def test_data_that_only_one_side_recorded_is_an_issue(key: str, what: str) -> None:
    """The traces of nsys do not list it; a section with rows shows it."""
    assert issues(BASE, pairs.with_section(NEW, key, rows=pd.DataFrame({"total_ns": []}))) == []
    found = only(BASE, pairs.with_section(NEW, key, rows=pd.DataFrame({"total_ns": [1]})))
    assert f"only new traced {what}" in found.message


def test_another_kind_of_window_is_an_issue() -> None:
    found = only(BASE, replace(NEW, window=replace(NEW.window, source="operations", label="all of it")))
    assert (found.kind, found.blocks) == (IssueKind.WINDOW, True)
    assert found.message == "The windows differ: 60 steps in base, all of it in new."


def test_windows_by_hand_are_noted() -> None:
    base, new = (replace(one, window=replace(one.window, source="user")) for one in (BASE, NEW))
    found = only(base, new)
    assert (found.kind, found.blocks) == (IssueKind.WINDOW, False)


def test_steps_of_another_name_are_noted() -> None:
    other = pairs.with_session(pairs.report(pairs.lengths(2.0), name="step"), started_utc="x")
    found = only(BASE, other)
    assert not found.blocks
    assert "batch # and step #" in found.message


def test_other_versions_are_noted() -> None:
    found = issues(BASE, pairs.with_session(NEW, nsys_version="2023.4.4.54", schema_version="3.7.2", driver_version=""))
    assert {(one.kind, one.blocks) for one in found} == {(IssueKind.VERSIONS, False)}
    assert [one.message for one in found] == [
        "Other driver: unknown against 580.159.04.",
        "Other nsys: 2023.4.4.54 against 2025.3.2.0.",
        "Other export schema: 3.7.2 against 3.20.3.",
    ]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("python", "train.py", "--workers", "8"), "--workers 8 against --workers 1"),
        (("python", "train.py"), "nothing against --workers 1"),
        (("python", "train.py", "--workers", "1", "--amp"), "--amp against nothing"),
        (("python", "other file.py", "--workers", "1"), "'other file.py' against train.py"),
        ((), "nothing against python train.py --workers 1"),
    ],
)
def test_another_command_is_noted_with_what_differs(command: tuple[str, ...], words: str) -> None:
    found = only(BASE, pairs.with_session(NEW, command=command))
    assert (found.kind, found.blocks) == (IssueKind.COMMAND, False)
    assert found.message == f"Other arguments: {words}."


def test_a_long_command_is_cut() -> None:
    """A program may have a thousand arguments: four differences are listed and the rest is counted."""
    many = tuple(f"--option-{at}={at % 7}" for at in range(1_000))
    message = only(pairs.with_session(BASE, command=many), pairs.with_session(NEW, command=many[::2])).message
    listed, _, rest = message.removeprefix("Other arguments: ").rpartition("; ")
    assert len(listed.split("; ")) == MOST_DIFFERENCES
    assert re.fullmatch(r"\d+ more\.", rest)
    assert "--option-199" not in message  # the 200 arguments that are compared begin with the first
    assert len(message) < 1_500


def test_a_step_that_copies_other_amounts_is_noted() -> None:
    """Other amounts are other work, for example a batch of twice the size."""
    copies = [
        pd.DataFrame(
            {"kind": ["Host-to-Device", "Memset"], "bytes": [60 * size, 7], "total_ns": [1, 1], "count": [60, 1]}
        )
        for size in (1 << 20, 1 << 21)
    ]
    base, new = (pairs.with_section(one, "copies", summary=each) for one, each in zip((BASE, NEW), copies, strict=True))
    found = only(base, new)
    assert (found.kind, found.blocks) == (IssueKind.WORK, False)
    assert found.message == "Other data: a step copies 2.00 MiB to the GPU against 1.00 MiB."
    assert issues(base, pairs.with_section(NEW, "copies", summary=copies[0])) == []


def test_an_accepted_issue_is_listed_but_does_not_block() -> None:
    other = replace(NEW, gpus=(replace(pairs.GPU, name="NVIDIA A100"),))
    found = only(BASE, other, IssueKind.GPU)
    assert not found.blocks
    assert found.message.endswith("You accepted this.")


def test_blocking_issues_come_first() -> None:
    other = pairs.with_session(NEW, command=("x",), traces=("Cuda",))
    assert [one.blocks for one in issues(BASE, other)] == [True, False]


@pytest.mark.parametrize("find", [-0.01, 0.0, 10.1, float("nan")])
def test_the_change_to_find_must_be_in_range(find: float) -> None:
    with pytest.raises(UsageError, match="out of range"):
        ComparisonOptions(find=find)
    assert ComparisonOptions(find=10.0).find == 10.0


def test_values_that_differ_from_run_to_run_are_no_other_arguments() -> None:
    one, two = (
        pairs.with_session(whole, command=("python", "train.py", "--seed", str(at), "--out", f"runs/{at}"))
        for at, whole in enumerate((BASE, NEW))
    )
    assert issues(one, two) == []


def several(*reports: Report) -> Side:
    return Side.of("old", reports)


def test_runs_of_one_side_must_be_comparable_themselves() -> None:
    other = replace(NEW, gpus=(replace(pairs.GPU, name="NVIDIA A100"),))
    found = find_issues(several(BASE, other), pairs.side(BASE), ComparisonOptions())
    blocking = [one.message for one in found if one.kind is IssueKind.GPU and one.blocks]
    assert blocking[-1].startswith("Among the runs of old: other GPU: ")


def test_a_run_counts_once() -> None:
    found = find_issues(
        several(BASE, NEW, BASE), pairs.side(pairs.with_session(NEW, started_utc="z")), ComparisonOptions()
    )
    assert [(one.kind, one.blocks) for one in found] == [(IssueKind.SAME, True)]
    assert found[0].message == "One capture is given twice as a run of old."


def test_every_run_needs_steps() -> None:
    short = pairs.with_session(pairs.report([4 * MS] * 5), started_utc="x")
    found = find_issues(several(BASE, short), pairs.side(NEW), ComparisonOptions())
    assert [one.message for one in found] == [f"a run of old has 5 measured steps; a comparison needs {FEWEST_STEPS}."]


def test_a_capture_that_was_read_in_part_is_named() -> None:
    """Its steps can be compared; the sentence says which they are."""
    whole = next(each for each in part_of_capture.part_report().sections if each.key == "whole_capture")
    part = replace(NEW, sections=(*NEW.sections, whole))
    found = only(BASE, part)
    assert found.message == (
        "The capture of new.sqlite was read in part: 4,000 of 90,000 GPU operations, measured steps 100 to 117 of 220."
    )
    assert (found.kind, found.blocks, found.hint) == (IssueKind.WINDOW, False, "give both the same --memory")
