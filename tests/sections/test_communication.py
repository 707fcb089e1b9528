"""Communication between GPUs: the table of collectives, the finding, and advice that fits the program."""

from collections.abc import Callable

import pytest
from analysis_fixtures import run_section, window
from export_builder import ExportBuilder, global_id, trace_of
from made_ranks import split
from real_captures import RealContext, every_gpu_capture
from savings import ends_of, saving_of

from nsyswrap.loop.context import find_context
from nsyswrap.model import Finding, Section
from nsyswrap.report import choose_window
from nsyswrap.sections import communication, ledger
from nsyswrap.sections.communication import ALL_TRANSFER, EXCHANGES_OR_WAITS, NOTHING_RECORDED
from nsyswrap.sections.communication_advice import (
    FEWER_ADVICE,
    FORWARD_ADVICE,
    MAY_WAIT,
    NEEDED_ADVICE,
    NEEDED_AT_ONCE,
    OTHER_RANKS_ADVICE,
    OVERLAP_ADVICE,
)
from nsyswrap.trace.tables import Trace

RealTrace = Callable[[str], Trace]
REDUCE, GATHER = "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "ncclDevKernel_AllGather_RING_LL"
STEP, STEPS = 1000, 6


def section(trace: Trace, start: int = 0, end: int = STEP * STEPS) -> Section:
    return run_section(communication, find_context(trace), window(start, end))


def rows(found: Section) -> list[tuple[object, ...]]:
    return list(found.tables["kernels"].itertuples(index=False, name=None))


def facts(found: Section) -> dict[str, object]:
    return {fact.label: fact.value for fact in found.facts}


def only(found: Section) -> Finding:
    (finding,) = found.findings
    return finding


def training(name: str = REDUCE, sent: tuple[int, int] = (700, 900), phase: str = "backward") -> ExportBuilder:
    """Return six steps of 1000 ns. Forward, backward and optimizer launch early, and the GPU runs the work in order.

    ::

        host         |fwd|bwd|coll|opt|------------- sync until 995 -------------|
        compute      |#####100 to 700#####|             |##900 to 990##|
        collective                        |####sent####|
    """
    built = ExportBuilder().gpu()
    for at in range(0, STEP * STEPS, STEP):
        built.range(f"step {at // STEP}", at, at + STEP)
        built.range("forward", at, at + 20).range(phase, at + 20, at + 60).range("optimizer", at + 60, at + 80)
        built.kernel(at + 100, at + 300, "fwd", launched=(at + 2, at + 8))
        built.kernel(at + 300, at + 700, "bwd", launched=(at + 22, at + 28))
        stream = 8 if sent[0] < 700 else 7
        built.kernel(at + sent[0], at + sent[1], name, launched=(at + 52, at + 58), stream=stream)
        built.kernel(at + 900, at + 990, "step", launched=(at + 62, at + 68))
        built.call("cudaDeviceSynchronize", at + 82, at + 995)
    return built


def test_a_program_without_collectives_says_so() -> None:
    found = section(trace_of(ExportBuilder().kernel(0, 900)))
    assert (found.notes, found.facts, dict(found.tables), found.findings) == ((NOTHING_RECORDED,), (), {}, ())


def test_each_kernel_has_a_row_the_most_exposed_first() -> None:
    """Two reductions of 100 ns overlap with compute for 150 of 200 ns, and a gather of 80 ns runs alone."""
    built = ExportBuilder().kernel(0, 150, "gemm").kernel(0, 100, REDUCE, stream=8).kernel(100, 200, REDUCE, stream=8)
    found = section(trace_of(built.kernel(300, 380, GATHER, stream=8)))
    assert list(found.tables["kernels"]) == ["device_id", "name", "count", "total_ns", "exposed_ns"]
    assert rows(found) == [(0, GATHER, 1, 80, 80), (0, REDUCE, 2, 200, 50)]
    assert facts(found) == {
        "communication_ns": 280,
        "exposed_ns": 130,
        "exposed_wait_ns": 0,
        "exposed_transfer_ns": 130,
    }
    assert found.notes == (ALL_TRANSFER,)


def test_each_gpu_has_its_own_rows_and_finding() -> None:
    """GPU 1 waits 300 ns for GPU 0, which joins later; GPU 2 sends nothing."""
    built = ExportBuilder()
    for device, start in ((0, 400), (1, 100)):
        built.kernel(start, 500, REDUCE, device=device, process=global_id(5000 + device))
    found = section(trace_of(built.kernel(0, 900, device=2, process=global_id(5002))), end=1000)
    assert rows(found) == [(0, REDUCE, 1, 100, 100), (1, REDUCE, 1, 400, 400)]
    assert [(each.rule, each.device_id, each.lost_ns, each.severity) for each in found.findings] == [
        ("communication/exposed", 0, 100, "warning"),
        ("communication/exposed", 1, 400, "problem"),
    ]


@pytest.mark.parametrize(("length", "severity"), [(19, None), (20, "note"), (50, "warning"), (200, "problem")])
def test_severity_follows_the_exposed_share(length: int, severity: str | None) -> None:
    """The share is of 1000 ns. Without a launch nothing is simulated, so no saving reduces the severity."""
    found = section(trace_of(ExportBuilder().kernel(10, 10 + length, REDUCE)), end=1000)
    assert [each.severity for each in found.findings] == ([severity] if severity else [])


def test_reductions_after_the_backward_pass_can_overlap_with_it() -> None:
    """Reductions take 200 of 1000 ns in each step, or wait for a rank that the capture does not show.

    All 200 ns are saved less the time to average the gradients, 2/7 of the optimizer's 90 ns: a step gets 174.3 ns
    shorter, or no shorter at all.
    """
    found = only(section(trace_of(training())))
    assert (found.rule, found.severity, found.device_id, found.lost_ns) == ("communication/exposed", "problem", 0, 1200)
    assert found.headline == EXCHANGES_OR_WAITS.format(share="20.0 %")
    assert found.advice == OTHER_RANKS_ADVICE + OVERLAP_ADVICE
    assert found.evidence[0] == f"1.20 µs of 1.20 µs in 6 launches of {REDUCE}"
    assert found.evidence[1].startswith("simulated: collectives run")
    assert found.saving_method == "simulated"
    assert saving_of(found).low == 0
    assert saving_of(found).point == pytest.approx(6 * (200 - 90 * 2 / 7), abs=6)


def test_reductions_that_overlap_already_can_only_send_less() -> None:
    """The reductions run from 350, during the backward pass, to 900, and 200 ns of them are exposed."""
    found = only(section(trace_of(training(sent=(350, 900)))))
    assert (found.lost_ns, found.advice) == (6 * 200, OTHER_RANKS_ADVICE + FEWER_ADVICE)
    assert found.evidence[0] == f"1.20 µs of 3.30 µs in 6 launches of {REDUCE}"
    assert any("half the bytes" in line for line in found.evidence)


def test_what_the_next_layer_needs_has_no_predicted_saving() -> None:
    """A gather of weights is not a reduction of gradients."""
    found = only(section(trace_of(training(GATHER))))
    assert (found.advice, *ends_of(found)) == (OTHER_RANKS_ADVICE + NEEDED_ADVICE, None, None)
    assert found.evidence[-1:] == NEEDED_AT_ONCE.evidence
    assert found.severity == "problem", "an unknown saving does not soften it"


@pytest.mark.parametrize(("reduced", "advice"), [(99, NEEDED_ADVICE), (100, OVERLAP_ADVICE)])
def test_the_advice_is_on_what_takes_most(reduced: int, advice: str) -> None:
    """Reductions take a part of 200 ns in each step, and gathers the rest. Half is enough for the advice."""
    built = training(sent=(700, 700 + reduced))
    for at in range(0, STEP * STEPS, STEP):
        built.kernel(at + 700 + reduced, at + 900, GATHER, launched=(at + 58, at + 59), stream=8)
    assert only(section(trace_of(built))).advice == OTHER_RANKS_ADVICE + advice


def test_a_program_that_trains_nothing_has_no_backward_pass() -> None:
    """Tensor-parallel inference has reductions, but forward is its only phase."""
    built = ExportBuilder().gpu()
    for at in range(0, STEP * STEPS, STEP):
        built.range("forward", at, at + 900)
        built.kernel(at + 100, at + 600, "fwd", launched=(at + 2, at + 8))
        built.kernel(at + 600, at + 900, REDUCE, launched=(at + 52, at + 58), stream=8)
    found = only(section(trace_of(built)))
    assert (found.advice, *ends_of(found)) == (
        OTHER_RANKS_ADVICE + FORWARD_ADVICE,
        None,
        None,
    )


def test_without_phases_reductions_count_as_those_of_gradients() -> None:
    """Without phases, the capture does not show whether the program trains."""
    built = ExportBuilder().kernel(0, 500, "k", launched=(0, 1)).kernel(600, 900, REDUCE, launched=(2, 3))
    assert only(section(trace_of(built), end=1000)).advice == OTHER_RANKS_ADVICE + OVERLAP_ADVICE


@every_gpu_capture
def test_exposed_time_of_a_real_capture_is_that_of_the_ledger(real_context: RealContext, name: str) -> None:
    """The collectives of each GPU run one after another, so their exposed times add up to the ledger's."""
    context = real_context(name)
    chosen = choose_window(context)
    found, devices = run_section(communication, context, chosen), run_section(ledger, context, chosen).tables["devices"]
    transfer, wait = (
        devices.set_index("device_id")[f"communication_{part}_ns"].to_dict() for part in ("transfer", "wait")
    )
    if not found.tables:
        assert not any(transfer.values())
        return
    table = found.tables["kernels"]
    assert (table["exposed_ns"] <= table["total_ns"]).all()
    both = {device: transfer[device] + wait[device] for device in transfer}
    assert table.groupby("device_id")["exposed_ns"].sum().to_dict() == both
    waits = found.tables["waits"].groupby("waiting_rank")["wait_ns"].sum().to_dict()
    assert waits == {device: ns for device, ns in wait.items() if ns}
    collectives = found.tables["collectives"]
    assert collectives["exposed_transfer_ns"].sum() == sum(transfer.values())
    assert collectives["exposed_wait_ns"].sum() == sum(wait.values())
    assert {each.device_id: each.lost_ns for each in found.findings if each.device_id is not None} == transfer


def test_a_rank_alone_may_wait_for_another(real_trace: RealTrace) -> None:
    """Rank 0 waits for the loader of rank 1, which its own capture does not show: then nothing is saved."""
    context = find_context(split(real_trace("ranks/loader"), [0, 0])[0].trace)
    found = only(run_section(communication, context, choose_window(context)))
    assert "or waits for a rank whose work the capture does not show, and computes nothing" in found.headline
    assert found.advice.startswith(OTHER_RANKS_ADVICE)
    assert saving_of(found).low == 0
    assert saving_of(found).high > 0
    assert MAY_WAIT in found.evidence
