"""Phases: which ranges are phases, which phase a thread is in, and how long each takes on the CPU and the GPU."""

import re

import pytest
from analysis_fixtures import run_section, window
from export_builder import MAIN, ExportBuilder, global_id, thread, trace_of

from nsyswrap.loop.context import Settings, TraceContext, find_context
from nsyswrap.loop.phase_detection import PhaseRule
from nsyswrap.sections import phases
from nsyswrap.trace.tables import Trace

AUTOGRAD = thread(4712)
PEER = global_id(5000)
PEER_MAIN = global_id(5000, 5000)

SPELLINGS = {
    "data": [
        *("data", "Data", "dataload", "data loading", "data_loader", "load data", "get batch", "next batch", "fetch"),
        *("loading", "wait for data", "input", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"),
        *("fetch_data", "data time", "next"),
    ],
    "copy": [
        "copy",
        "h2d",
        "H2D",
        "copy to device",
        "to device",
        "to_gpu",
        "data to device",
        "host to device",
        "transfer",
    ],
    "forward": ["forward", "Forward pass", "fwd", "FORWARD", "model.forward", "loss", "forward + loss", "compute loss"],
    "backward": ["backward", "Backward pass", "bwd", "loss.backward", "backprop", "Backward"],
    "optimizer": [
        *("optimizer", "Optimizer", "opt", "optimizer.step", "optimizer step", "update", "zero_grad", "weight update"),
        *("optim", "optimizer.zero_grad"),
    ],
    "batch": ["batch 3", "step 12", "iteration 7", "train step 5", "batch"],
    "none": [
        "epoch 3",
        "Adam",
        "forwarding rules",
        "validate",
        "my phase",
        "aten::copy_",
        "database",
        "backwards compatible",
    ],
}


def context_of(trace: Trace, *rules: PhaseRule) -> TraceContext:
    """Return a context with rules of the user."""
    return find_context(trace, Settings(phase_rules=rules))


def rows_of(context: TraceContext, start: int = 0, end: int = 100) -> dict[str, tuple[int, int, int, int, int]]:
    """Return count, CPU time, GPU time, idle time and number of kernels of each phase."""
    table = run_section(phases, context, window(start, end)).tables["phases"]
    columns = [table[name] for name in ("phase", "count", "host_ns", "gpu_ns", "idle_ns", "kernel_count")]
    return {str(name): (*map(int, row),) for name, *row in zip(*columns, strict=True)}  # type: ignore[misc]


def test_the_usual_spellings_are_phases() -> None:
    """The ranges follow one another, with a kernel each."""
    built, wanted = ExportBuilder(), [(phase, text) for phase, texts in SPELLINGS.items() for text in texts]
    for at, (_, text) in enumerate(wanted):
        start = 100 * at
        built.range(text, start, start + 100).kernel(start + 20, start + 30, launched=(start + 5, start + 6))
    context = context_of(trace_of(built))
    codes = context.phases.of_operations(context.trace, context.operations).tolist()
    assert [(context.phases.name(code), text) for code, (_, text) in zip(codes, wanted, strict=True)] == wanted


def test_a_rule_of_the_user_comes_before_the_usual_spellings() -> None:
    """It may add a phase, and it may take a name from a usual phase."""
    trace = trace_of(ExportBuilder().range("forward", 0, 50).range("encode it", 50, 100))
    rules = PhaseRule("data", re.compile("^forw")), PhaseRule("encoding", re.compile("encode"))
    assert {name: row[:2] for name, row in rows_of(context_of(trace, *rules)).items()} == {
        "data": (1, 50),
        "encoding": (1, 50),
    }


@pytest.mark.parametrize("domain", ["NCCL", "cuBLAS", "cuDNN", "CCCL", "TensorRT", "GIL Trace", "my training"])
def test_ranges_of_the_program_s_own_domain_are_phases(domain: str) -> None:
    """A range "forward" in the domain of a library is not the forward pass."""
    builder = ExportBuilder().domain(domain, 5).range("forward", 0, 100, domain=5)
    assert list(rows_of(context_of(trace_of(builder)))) == ["forward"] * (domain == "my training")


def test_cpu_time_belongs_to_the_innermost_phase() -> None:
    """The time of a nested phase is not counted twice.

    ::

        [batch 1                 ]
          [data ] [forward    ]
                     [loss ]           forward too
    """
    builder = ExportBuilder().range("batch 1", 0, 100).range("data", 10, 30).range("forward", 40, 90)
    found = rows_of(context_of(trace_of(builder.range("loss", 50, 60))))
    assert {name: row[:2] for name, row in found.items()} == {"batch": (1, 30), "data": (1, 20), "forward": (2, 50)}


def test_gpu_time_belongs_to_the_phase_that_launched_the_operation() -> None:
    """This holds even if it runs in a later phase. Overlapping operations count once; copies are not kernels.

    ::

        main  [forward ][backward]
               l  l  l
        GPU          ####
                       ####   cc
    """
    builder = ExportBuilder().range("forward", 0, 40).range("backward", 40, 100).kernel(30, 50, launched=(5, 6))
    builder.kernel(40, 60, launched=(10, 11), stream=8).copy(70, 80, launched=(20, 21))
    found = rows_of(context_of(trace_of(builder)))
    assert found["forward"] == (1, 40, 40, 30, 2)
    assert found["backward"] == (1, 60, 0, 30, 0)


def test_operations_launched_outside_phases_are_shown_under_none() -> None:
    """Operations whose launch is unknown are shown there, too; the GPU is idle for 40 in no phase."""
    builder = ExportBuilder().range("forward", 0, 40).kernel(50, 60, launched=(45, 46)).kernel(70, 80)
    found = rows_of(context_of(trace_of(builder)))
    assert found["none"] == (0, 0, 20, 40, 2)
    assert found["forward"][3] == 40


def test_phases_are_clipped_to_the_window() -> None:
    builder = ExportBuilder().range("forward", 0, 40).range("data", 40, 60).kernel(10, 30, launched=(5, 6))
    assert rows_of(context_of(trace_of(builder)), 20, 40) == {"forward": (1, 20, 10, 10, 1)}


def test_idle_time_in_a_phase_is_summed_over_the_gpus_of_its_process() -> None:
    """Two GPUs, one of them busy for half of the phase."""
    builder = (
        ExportBuilder().range("data", 0, 100).kernel(0, 50, launched=(0, 1)).kernel(0, 100, launched=(2, 3), device=1)
    )
    assert rows_of(context_of(trace_of(builder)))["data"][3] == 50


def test_idle_time_of_another_process_s_gpu_is_not_ours() -> None:
    """While one of two ranks loads data, the GPU of the other rank is idle for another reason."""
    builder = ExportBuilder().range("data", 0, 100).kernel(0, 100, launched=(0, 1))
    builder.kernel(0, 20, launched=(0, 1), process=PEER, device=1).range("forward", 0, 100, thread=PEER_MAIN)
    found = rows_of(context_of(trace_of(builder)))
    assert (found["data"][3], found["forward"][3]) == (0, 80)


def facts_of(context: TraceContext) -> dict[str, object]:
    return {fact.label: fact.value for fact in run_section(phases, context, window(0, 100)).facts}


def test_the_share_that_was_joined_through_the_main_thread_is_stated() -> None:
    """The main thread launched a quarter of the kernel time, autograd half, and code outside phases a quarter."""
    builder = ExportBuilder().range("backward", 0, 60).kernel(10, 20, launched=(5, 6))
    builder.kernel(20, 40, launched=(10, 11), thread=AUTOGRAD).kernel(70, 80, launched=(65, 66))
    assert facts_of(context_of(trace_of(builder))) == {
        "kernel_share_with_phase": 0.75,
        "kernel_share_joined_through_main_thread": 0.5,
    }


def test_collectives_are_not_part_of_those_shares() -> None:
    builder = ExportBuilder().range("backward", 0, 60).kernel(10, 20, launched=(5, 6))
    builder.kernel(30, 100, "ncclDevKernel_AllReduce", launched=(65, 66))
    assert facts_of(context_of(trace_of(builder)))["kernel_share_with_phase"] == 1.0


@pytest.mark.parametrize(("first", "second"), [((MAIN, 10), (AUTOGRAD, 100)), ((AUTOGRAD, 100), (thread(4714), 10))])
def test_the_main_thread_is_the_first_one_if_it_has_phases_else_the_one_with_most(
    first: tuple[int, int], second: tuple[int, int]
) -> None:
    """The kernel is launched by a thread without phases."""
    builder = ExportBuilder().range("forward", 0, first[1], thread=first[0])
    builder.range("data", 0, second[1], thread=second[0]).kernel(50, 60, launched=(5, 6), thread=thread(4713))
    assert rows_of(context_of(trace_of(builder)))["forward"][2] == 10
