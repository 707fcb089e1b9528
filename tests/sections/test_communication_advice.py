"""The advice on exposed transfer: slow links, weights gathered in turn, activations that ranks sum up."""

from collections.abc import Callable
from typing import Any

import pytest
from analysis_fixtures import run_section
from export_builder import HOST_TO_DEVICE, ExportBuilder, global_id, trace_of
from real_captures import RealContext
from savings import saving_of

from nsyswrap.hardware.link_rates import NO_LINK_RATES, LinkRates
from nsyswrap.loop.context import Settings, TraceContext, find_context
from nsyswrap.model import Finding
from nsyswrap.ranks.collectives import find_collectives
from nsyswrap.ranks.links import fastest
from nsyswrap.report import choose_window, report_of
from nsyswrap.sections import communication
from nsyswrap.sections.communication_advice import (
    ACTIVATIONS_ADVICE,
    EXPERTS_ADVICE,
    EXPOSED,
    IN_TURN_ADVICE,
    LATE_GATHERS,
    LINKS_ADVICE,
    NEEDED_ADVICE,
    OF_SERVERS,
    SLOW_LINKS,
)
from nsyswrap.trace.tables import Trace

RealTrace = Callable[[str], Trace]
US = 1000
STEPS, BYTES = 6, 32_000_000
GATHER, REDUCE = "ncclDevKernel_AllGather_RING_LL", "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def job(place: Callable[[ExportBuilder, int, int], int], *, gpu: str = "NVIDIA H200") -> ExportBuilder:
    """Return a job of two ranks whose hosts wait for each step.

    Args:
        place: Adds the kernels of one step, given the GPU and the start of the step; returns the end of the last one.
        gpu: Name of the GPUs.
    """
    built = ExportBuilder()
    for device in range(2):
        process = global_id(5000 + device)
        main = process | (5000 + device)
        built.gpu(device, name=gpu).domain("NCCL", 3, thread=process)
        payload = f'{{"NCCL communicator ID":9,"No. of ranks":2,"Rank":{device},"CUDA device":{device}}}'
        built.range("ncclCommInitRank", 1, 2, thread=main, domain=3, jsonText=payload)
        at = 100 * US
        for number in range(STEPS):
            end = place(built, device, at)
            built.call("cudaDeviceSynchronize", at + 31 * US, end + US, thread=main)
            built.range(f"step {number}", at, end + 2 * US, thread=main)
            built.range("forward", at, at + 10 * US, thread=main)
            built.range("backward", at + 10 * US, at + 20 * US, thread=main)
            built.range("optimizer", at + 20 * US, at + 30 * US, thread=main)
            at = end + 3 * US
    return built


def run(  # noqa: PLR0913, PLR0917 - the parts of a launch
    built: ExportBuilder, device: int, name: str, times: tuple[int, int], launched: int, size: int = -1
) -> None:
    """Add a kernel, and NCCL's range around the launch of a collective."""
    process = global_id(5000 + device)
    main = process | (5000 + device)
    is_collective = name.startswith("nccl")
    about = {"device": device, "process": process, "thread": main, "stream": 8 if "Reduce" in name else 7}
    if is_collective and size >= 0:
        payload = f'{{"NCCL communicator ID":9,"Message size [bytes]":{size}}}'
        built.range("ncclCall", launched - 1, launched + 50, thread=main, domain=3, jsonText=payload)
    built.kernel(*times, name, launched=(launched, launched + 40), gridX=9000, blockX=256, **about)


FAST = LinkRates("NVIDIA H200", 2, {"AllReduce": ((1e6, 1e4), (16e6, 16e4))})


def exposed_of(trace: Trace) -> list[Finding]:
    made = report_of(find_context(trace), keys=("communication",))
    return [each for each in made.findings if each.rule in {EXPOSED, SLOW_LINKS, LATE_GATHERS}]


def gathers(ahead: int) -> Callable[[ExportBuilder, int, int], int]:
    """Return steps in which four layers of the forward pass are gathered, each for 100 us, before they compute.

    Args:
        ahead: By how much each gathering but the first begins before the layer before has computed, in ns.
    """

    def place(built: ExportBuilder, device: int, at: int) -> int:
        free = at + 40 * US
        for layer in range(4):
            start = free - (ahead if layer else 0)
            launched = at + 100 + layer * 200
            run(built, device, GATHER, (start, start + 100 * US), launched)
            begun = max(start + 100 * US, free)
            run(built, device, "layer", (begun, begun + 200 * US), launched + 100)
            free = begun + 200 * US
        run(built, device, "adam", (free, free + 50 * US), at + 21 * US)
        return free + 50 * US

    return place


def test_weights_gathered_in_turn_should_be_gathered_ahead() -> None:
    """Three of four gatherings of 100 us fit beside the layer before; the first one of a step needs the new weights."""
    found = exposed_of(trace_of(job(gathers(0))))
    assert [each.device_id for each in found] == [0, 1]
    assert all(each.advice == IN_TURN_ADVICE for each in found)
    assert "fit beside the layer before" in found[0].evidence[1]
    assert saving_of(found[0]).point == pytest.approx(found[0].lost_ns * 3 / 4, rel=0.03)


def test_weights_gathered_ahead_are_not_gathered_in_turn() -> None:
    """Only the first gathering of a step is exposed, and nothing before it can run beside it."""
    found = exposed_of(trace_of(job(gathers(100 * US))))
    assert {each.advice for each in found} == {NEEDED_ADVICE}
    assert found[0].saving is None


def split_layers(
    sizes: tuple[int, int], kernels: tuple[str, str] = (REDUCE, REDUCE)
) -> Callable[[ExportBuilder, int, int], int]:
    """Return steps with a reduction of 150 us in the middle of each pass, of these sizes."""

    def place(built: ExportBuilder, device: int, at: int) -> int:
        free = at + 40 * US
        for number, size in enumerate(sizes):
            launched = at + number * 10 * US
            for part in range(2):
                run(built, device, "layer", (free, free + 200 * US), launched + 100 + 200 * part)
                free += 200 * US
                if not part:
                    run(built, device, kernels[number], (free, free + 150 * US), launched + 200, size)
                    free += 150 * US
        run(built, device, "adam", (free, free + 50 * US), at + 21 * US)
        return free + 50 * US

    return place


@pytest.mark.parametrize(
    ("kernels", "advice"),
    [
        (
            ("void deep_ep::internode_ll::dispatch<1>(int)", "void deep_ep::internode_ll::combine<1>(int)"),
            EXPERTS_ADVICE,
        ),
        (("void vllm::cross_device_reduce_1stage<half, 2>(int)",) * 2, OF_SERVERS),
    ],
)
def test_experts_and_engines_get_advice_of_their_own(kernels: tuple[str, str], advice: str) -> None:
    """Neither exchange has gradients that could be sent beside a backward pass."""
    found = exposed_of(trace_of(job(split_layers((-1, -1), kernels))))
    assert [each.device_id for each in found] == [0, 1]
    assert {each.advice for each in found} == {advice}


@pytest.mark.parametrize("kernels", [(REDUCE, REDUCE), (REDUCE.replace("f32", "bf16"), REDUCE)])
def test_sums_of_activations_are_needed_at_once(kernels: tuple[str, str]) -> None:
    """Both passes reduce as many numbers, as with tensor parallelism; in mixed precision those of one are smaller."""
    sizes = (4096 if "bf16" in kernels[0] else 8192, 8192)
    found = exposed_of(trace_of(job(split_layers(sizes, kernels))))
    assert {each.advice for each in found} == {ACTIVATIONS_ADVICE}
    assert found[0].saving is None


def test_reductions_of_other_sizes_are_those_of_gradients() -> None:
    """A small reduction of the forward pass, as of statistics, does not make the others needed at once."""
    found = exposed_of(trace_of(job(split_layers((64, 8192)))))
    assert found
    assert ACTIVATIONS_ADVICE not in {each.advice for each in found}


def linked(rate: float, size: int = BYTES) -> Callable[[ExportBuilder, int, int], int]:
    """Return steps that copy at 50 bytes a ns from pinned memory, and reduce gradients at a rate on each link."""

    def place(built: ExportBuilder, device: int, at: int) -> int:
        process = global_id(5000 + device)
        about: dict[str, Any] = {"device": device, "process": process, "thread": process | (5000 + device)}
        times = at + 31 * US, at + 131 * US
        built.copy(*times, HOST_TO_DEVICE, bytes=5_000 * US, launched=(at + 50, at + 60), **about)
        run(built, device, "layer", (at + 140 * US, at + 400 * US), at + 11 * US)
        start, length = at + 400 * US, round(size / rate)
        run(built, device, REDUCE, (start, start + length), at + 12 * US, size)
        run(built, device, "adam", (start + length, start + length + 50 * US), at + 21 * US)
        return start + length + 50 * US

    return place


@pytest.mark.parametrize(
    ("rate", "gpu", "rule"),
    [(110, "NVIDIA H200", SLOW_LINKS), (10, "NVIDIA L40S", EXPOSED), (115, "NVIDIA H200", EXPOSED)],
)
def test_links_are_slow_below_half_of_what_the_gpus_can(rate: int, gpu: str, rule: str) -> None:
    """Half of the 450 GB/s of the data sheet count as what they can; without NVLink nothing is known."""
    found = exposed_of(trace_of(job(linked(rate), gpu=gpu)))
    assert [each.rule for each in found] == [rule] * 2
    if rule == SLOW_LINKS:
        assert found[0].advice == LINKS_ADVICE
        said = "the fastest large collective moves 102 GiB/s on each link; these GPUs can 210 GiB/s "
        assert f"{said}(half of what the data sheet says)" in found[0].evidence
        assert saving_of(found[0]).point == pytest.approx(found[0].lost_ns * (1 - 110 / 225), rel=0.03)


@pytest.mark.parametrize(("measured", "rule"), [(21, SLOW_LINKS), (19, EXPOSED)])
def test_measured_links_count_instead_of_the_data_sheet(measured: int, rule: str) -> None:
    """Collectives move 10 bytes a ns; the links of this machine move more, or not twice as many."""
    times = {"AllReduce": ((1e6, 1e6 / measured), (16e6, 16e6 / measured))}
    settings = Settings(link_rates=LinkRates("NVIDIA L40S", 2, times))
    context = find_context(trace_of(job(linked(10), gpu="NVIDIA L40S")), settings)
    made = report_of(context, keys=("communication",))
    assert [each.rule for each in made.findings] == [rule] * 2
    table = made.section("communication").tables["collectives"]  # type: ignore[union-attr]
    assert table["link_bandwidth"].tolist() == pytest.approx([measured * 1e9])
    if rule == SLOW_LINKS:
        assert any("(measured on this machine)" in each for each in made.findings[0].evidence)


@pytest.mark.parametrize(
    ("rates", "mebibytes", "judged"),
    [(FAST, 3.9, False), (FAST, 4, True), (NO_LINK_RATES, 15.9, False), (NO_LINK_RATES, 16, True)],
)
def test_small_messages_say_nothing_of_the_links(rates: LinkRates, mebibytes: float, *, judged: bool) -> None:
    """Below 4 MiB latency counts; the data sheet holds from 16 MiB on."""
    context = find_context(trace_of(job(linked(10, int(mebibytes * 2**20)))), Settings(link_rates=rates))
    collectives = find_collectives(context)
    assert (fastest(context, collectives, collectives.row) is not None) == judged


def test_links_of_several_hosts_are_not_judged() -> None:
    context = find_context(trace_of(job(linked(10))), Settings(clock_errors={1: 100}))
    collectives = find_collectives(context)
    assert fastest(context, collectives, collectives.row) is None


def of_real(context: TraceContext) -> list[tuple[str, str]]:
    """Return rule and advice of the findings on exposed transfer, each once."""
    found = run_section(communication, context, choose_window(context)).findings
    return list(
        dict.fromkeys((each.rule, each.advice) for each in found if each.rule in {EXPOSED, SLOW_LINKS, LATE_GATHERS})
    )


def test_sockets_between_gpus_with_nvlink_are_slow_links(real_trace: RealTrace) -> None:
    """The ranks of this job talk through the network's loopback device."""
    assert of_real(find_context(real_trace("ranks/sockets"))) == [(SLOW_LINKS, LINKS_ADVICE)]


def test_real_layers_split_over_ranks_need_their_sums_at_once(real_context: RealContext) -> None:
    """The forward pass sums bfloat16, the backward pass float32."""
    assert of_real(real_context("ranks/tensor_parallel")) == [(EXPOSED, ACTIVATIONS_ADVICE)]


def test_real_weights_are_gathered_in_turn(real_context: RealContext) -> None:
    """It is so on rank 1; the host of rank 0 launches too late for most gatherings to begin earlier."""
    assert (LATE_GATHERS, IN_TURN_ADVICE) in of_real(real_context("ranks/sharded_in_turn"))
