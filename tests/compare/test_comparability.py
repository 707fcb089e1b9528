"""What stands in the way of a comparison: found, said in one sentence, and where it is meant, let through."""

from dataclasses import replace

import numpy as np
import paired_reports as pairs
import pandas as pd
import pytest
from paired_reports import MS

from nsyswrap.compare import ACCEPTABLE, ComparabilityIssue, ComparisonOptions, IssueKind, Side
from nsyswrap.compare.comparability import FEWEST_STEPS, find_issues
from nsyswrap.errors import UsageError
from nsyswrap.model import Report, Severity

BASE = pairs.report(pairs.lengths(4.0))
NEW = pairs.with_session(pairs.report(pairs.lengths(2.0, seed=2)), started_utc="2026-11-21T05:00:00Z")


def issues(base: Report, new: Report, *accept: IssueKind) -> list[ComparabilityIssue]:
    """What stands between two reports."""
    settings = ComparisonOptions(accept=frozenset(accept))
    return find_issues(pairs.side(base, "old.sqlite"), pairs.side(new, "new.sqlite"), settings)


def only(base: Report, new: Report, *accept: IssueKind) -> ComparabilityIssue:
    """The one thing that stands between two reports."""
    (found,) = issues(base, new, *accept)
    return found


def test_nothing_stands_between_two_runs_of_one_program() -> None:
    assert issues(BASE, NEW) == []


def test_steps_are_needed() -> None:
    """None, or too few; nobody can accept that away."""
    for count, words in ((0, "no measured steps"), (FEWEST_STEPS - 1, f"too few measured steps, {FEWEST_STEPS - 1}")):
        found = issues(BASE, pairs.with_session(pairs.report([4 * MS] * count), started_utc="x"), *ACCEPTABLE)
        assert [(one.kind, one.blocks) for one in found] == [(IssueKind.STEPS, True)]
        assert words in found[0].words
        assert found[0].words.startswith("new.sqlite has")
    enough = pairs.with_session(pairs.report([4 * MS] * FEWEST_STEPS), started_utc="x")
    assert issues(BASE, enough) == []


def test_an_incomplete_capture_is_said() -> None:
    found = only(pairs.with_findings(BASE, ("capture/incomplete", Severity.PROBLEM, 0)), NEW)
    assert (found.kind, found.blocks) == (IssueKind.INCOMPLETE, True)
    assert "old.sqlite is incomplete" in found.words


def test_another_gpu_is_said() -> None:
    other = replace(NEW, gpus=(replace(pairs.GPU, name="NVIDIA A100", sm_count=108),))
    found = only(BASE, other)
    assert (found.kind, found.blocks) == (IssueKind.GPU, True)
    assert found.words == "The GPUs differ: 1 x NVIDIA H200 with 132 SMs and 1 x NVIDIA A100 with 108 SMs."


def test_a_slice_of_the_same_gpu_is_another_gpu() -> None:
    assert only(BASE, replace(NEW, gpus=(replace(pairs.GPU, sm_count=16),))).kind is IssueKind.GPU


def test_another_number_of_gpus_is_said() -> None:
    two = pairs.with_session(pairs.report(pairs.lengths(2.0), gpus=2), started_utc="x")
    assert "1 x NVIDIA H200 with 132 SMs and 2 x NVIDIA H200" in only(BASE, two).words


def test_other_traces_are_said() -> None:
    """Recording takes time, so the difference may be nsys's own."""
    found = only(BASE, pairs.with_session(NEW, traces=("Cuda", "NvtxEvents", "Python")))
    assert (found.kind, found.blocks) == (IssueKind.TRACES, True)
    assert "only base traced OSRuntime; only new traced Python" in found.words


def test_the_granularity_of_graphs_matters_where_there_are_graphs() -> None:
    nodes = pairs.with_session(NEW, graph_trace="Node")
    assert issues(BASE, nodes) == []
    found = only(BASE, pairs.with_section(nodes, "cuda_graphs", launches=pd.DataFrame({"count": [50]})))
    assert "CUDA graphs were traced as Graph and as Node" in found.words


@pytest.mark.parametrize(
    ("key", "what"), [("counters", "GPU counters"), ("python_lines", "Python stacks"), ("device_memory", "memory")]
)
def test_what_was_recorded_besides_is_said(key: str, what: str) -> None:
    """Among its traces nsys lists none of it; a section with rows shows it."""
    assert issues(BASE, pairs.with_section(NEW, key, rows=pd.DataFrame({"total_ns": []}))) == []
    found = only(BASE, pairs.with_section(NEW, key, rows=pd.DataFrame({"total_ns": [1]})))
    assert f"only new traced {what}" in found.words


def test_another_kind_of_window_is_said() -> None:
    found = only(BASE, replace(NEW, window=replace(NEW.window, source="operations", label="all of it")))
    assert (found.kind, found.blocks) == (IssueKind.WINDOW, True)
    assert found.words == "The windows differ: 60 steps in base, all of it in new."


def test_windows_by_hand_are_noted() -> None:
    base, new = (replace(one, window=replace(one.window, source="user")) for one in (BASE, NEW))
    found = only(base, new)
    assert (found.kind, found.blocks) == (IssueKind.WINDOW, False)


def test_steps_of_another_name_are_noted() -> None:
    other = pairs.with_session(pairs.report(pairs.lengths(2.0), name="step"), started_utc="x")
    found = only(BASE, other)
    assert not found.blocks
    assert "batch # and step #" in found.words


def test_other_versions_are_noted() -> None:
    found = only(BASE, pairs.with_session(NEW, nsys_version="2023.4.4.54", schema_version="3.7.2", driver_version=""))
    assert (found.kind, found.blocks) == (IssueKind.VERSIONS, False)
    assert found.words == (
        "Versions differ: nsys 2025.3.2.0 and 2023.4.4.54; export schema 3.20.3 and 3.7.2; "
        "driver 580.159.04 and unknown."
    )


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("python", "train.py", "--workers", "8"), "--workers 1 in base, --workers 8 in new"),
        (("python", "train.py"), "--workers 1 in base, nothing in new"),
        (("python", "train.py", "--workers", "1", "--amp"), "nothing in base, --amp in new"),
        (("python", "other file.py", "--workers", "1"), "train.py in base, 'other file.py' in new"),
        ((), "python train.py --workers 1 in base, nothing in new"),
    ],
)
def test_another_command_is_noted_with_what_differs(command: tuple[str, ...], words: str) -> None:
    found = only(BASE, pairs.with_session(NEW, command=command))
    assert (found.kind, found.blocks) == (IssueKind.COMMAND, False)
    assert found.words == f"The commands differ: {words}. Check that a step does the same work."


def test_a_long_command_is_cut() -> None:
    """A program may be given a thousand words, and a prompt as one of them."""
    many = tuple(f"--option-{at}={at % 7}" for at in range(1_000))
    words = only(pairs.with_session(BASE, command=many), pairs.with_session(NEW, command=many[::2])).words
    assert "; 195 more" in words or " more" in words
    assert len(words) < 1_500


def test_a_step_that_copies_other_amounts_is_noted() -> None:
    """A batch of twice the size is not the same work."""
    copies = [
        pd.DataFrame(
            {"kind": ["Host-to-Device", "Memset"], "bytes": [60 * size, 7], "total_ns": [1, 1], "count": [60, 1]}
        )
        for size in (1 << 20, 1 << 21)
    ]
    base, new = (pairs.with_section(one, "copies", summary=each) for one, each in zip((BASE, NEW), copies, strict=True))
    found = only(base, new)
    assert (found.kind, found.blocks) == (IssueKind.WORK, False)
    assert "1.00 MiB to the GPU in base and 2.00 MiB in new" in found.words
    assert issues(base, pairs.with_section(NEW, "copies", summary=copies[0])) == []


def test_the_same_capture_twice_is_noted() -> None:
    found = only(BASE, BASE)
    assert (found.kind, found.blocks) == (IssueKind.SAME, False)


def test_what_is_accepted_blocks_no_more_and_is_still_said() -> None:
    other = replace(NEW, gpus=(replace(pairs.GPU, name="NVIDIA A100"),))
    found = only(BASE, other, IssueKind.GPU)
    assert not found.blocks
    assert found.words.endswith("This was accepted.")


def test_what_blocks_comes_first() -> None:
    other = pairs.with_session(NEW, command=("x",), traces=("Cuda",))
    assert [one.blocks for one in issues(BASE, other)] == [True, False]


@pytest.mark.parametrize("margin", [-0.01, 1.0, float("nan")])
def test_a_margin_must_say_something(margin: float) -> None:
    with pytest.raises(UsageError, match="says nothing"):
        ComparisonOptions(margin=margin)


def test_equal_words_are_said_once() -> None:
    """A report against itself has one name, and what it lacks is lacking on both sides."""
    short = pairs.report(np.full(3, 4 * MS))
    words = [one.words for one in find_issues(pairs.side(short), pairs.side(short), ComparisonOptions())]
    assert len(words) == len(set(words))


def several(*reports: Report) -> Side:
    """Several runs as one side."""
    return Side.of("old", reports)


def test_runs_of_one_side_must_be_comparable_themselves() -> None:
    other = replace(NEW, gpus=(replace(pairs.GPU, name="NVIDIA A100"),))
    found = find_issues(several(BASE, other), pairs.side(BASE), ComparisonOptions())
    blocking = [one.words for one in found if one.kind is IssueKind.GPU and one.blocks]
    assert blocking[-1].startswith("Among the runs of old, the first as base and another as new: The GPUs differ: ")


def test_a_run_counts_once() -> None:
    found = find_issues(
        several(BASE, NEW, BASE), pairs.side(pairs.with_session(NEW, started_utc="z")), ComparisonOptions()
    )
    assert [(one.kind, one.blocks) for one in found] == [(IssueKind.SAME, True)]
    assert found[0].words == "A capture is given twice as a run of old."


def test_every_run_needs_steps() -> None:
    short = pairs.with_session(pairs.report([4 * MS] * 5), started_utc="x")
    found = find_issues(several(BASE, short), pairs.side(NEW), ComparisonOptions())
    assert [one.words for one in found] == [f"a run of old has too few measured steps, 5: it takes {FEWEST_STEPS}."]
