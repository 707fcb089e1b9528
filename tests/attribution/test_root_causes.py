"""What stands behind the causes of idle time: each root claims its own pieces, and no nanosecond twice.

Times are in microseconds: ``US``. Steps last 1 ms, and twelve of them are two of warm-up and ten measured ones.
"""

from collections.abc import Callable

import pytest
from analysis_fixtures import run_section
from export_builder import DEVICE_TO_HOST, PAGEABLE, ExportBuilder, global_id, thread

from nsyswrap.attribution import root_causes
from nsyswrap.attribution.root_causes import NAMES, ROOTS, claims
from nsyswrap.loop.context import find_context
from nsyswrap.model import Finding
from nsyswrap.report import build_report, choose_window
from nsyswrap.sections import idle, launches, ledger
from nsyswrap.tables import Trace

TraceOf = Callable[[ExportBuilder], Trace]
US = 1000
STEP = 1000 * US
STEPS = 12


def loop(busy: int = 600, builder: ExportBuilder | None = None) -> ExportBuilder:
    """Twelve steps, in each of which the GPU is busy for the first part and then idle.

    ::

        GPU    |######600######|....400....|######
        host   |launch|                    |launch|
    """
    made = builder or ExportBuilder().gpu()
    made.os_call("mmap", 0, 1)
    for number in range(STEPS):
        at = number * STEP
        made.range(f"batch {number}", at, at + STEP).range("forward", at, at + STEP)
        made.kernel(at + 10 * US, at + busy * US, "k", launched=(at, at + 5 * US), gridX=9000, blockX=256)
    return made


def each_step(builder: ExportBuilder, name: str, start: int, end: int, *, every: int = 1) -> ExportBuilder:
    """Add a call to each step, at these microseconds of it."""
    for number in range(0, STEPS, every):
        builder.call(name, number * STEP + start * US, number * STEP + end * US)
    return builder


def found(trace: Trace) -> dict[str, Finding]:
    """The findings of a whole report by rule."""
    return {each.rule: each for each in build_report(trace).findings}


def costs(trace: Trace) -> dict[str, int]:
    """What each finding costs a measured step, in microseconds."""
    return {rule: round(each.lost_ns / US / (STEPS - 2)) for rule, each in found(trace).items()}


def test_loading_code_takes_what_compiled_it_along(trace_of: TraceOf) -> None:
    """Host code from 600 on, a load from 900 to 950: the GPU waited for both."""
    rules = costs(trace_of(each_step(loop(), "cuLibraryLoadData", 900, 950)))
    assert rules["modules/in_window"] == 350
    assert "idle/module_load" not in rules


def test_making_an_event_is_no_compilation(trace_of: TraceOf) -> None:
    """It is filed with loading, takes a microsecond, and nothing was compiled for it."""
    rules = costs(trace_of(each_step(loop(), "cudaEventCreateWithFlags", 900, 901)))
    assert "modules/in_window" not in rules


def test_memory_asked_for_in_each_step_is_churn(trace_of: TraceOf) -> None:
    """From the first call of a gap to its last."""
    built = each_step(each_step(loop(), "cudaFree_v3020", 650, 700), "cudaMalloc_v3020", 800, 850)
    rules = costs(trace_of(built))
    assert rules["memory/churn"] == 200
    assert "idle/allocation" not in rules


def test_the_short_gaps_behind_churn_belong_to_it(trace_of: TraceOf) -> None:
    """From 100 on the GPU waits for a call that allocates, then 50 us for the launch of a second kernel."""
    made = each_step(loop(busy=100), "cudaMalloc_v3020", 150, 400)
    for number in range(STEPS):
        at = number * STEP
        made.kernel(at + 410 * US, at + 500 * US, "k", launched=(at + 401 * US, at + 405 * US), gridX=9000, blockX=256)
        made.kernel(at + 550 * US, at + 990 * US, "k", launched=(at + 520 * US, at + 540 * US), gridX=9000, blockX=256)
    assert costs(trace_of(made))["memory/churn"] == 250 + 50


def test_memory_asked_for_once_is_an_allocation(trace_of: TraceOf) -> None:
    """One step of ten is no habit."""
    at = 5 * STEP
    rules = costs(trace_of(loop().call("cudaMalloc_v3020", at + 600 * US, at + 990 * US)))
    assert "memory/churn" not in rules
    assert rules["idle/allocation"] == 39


def test_memory_of_a_pool_is_no_churn(trace_of: TraceOf) -> None:
    assert "memory/churn" not in costs(trace_of(each_step(loop(), "cudaMallocAsync_v11020", 650, 900)))


def reading(until: int, *, waits: bool = True) -> ExportBuilder:
    """A step that reads a value: a copy to the host behind the kernel, and host code until the next launch."""
    made = loop()
    for number in range(STEPS):
        at = number * STEP
        call = (at + 10 * US, at + until * US) if waits else (at + 10 * US, at + 12 * US)
        made.copy(
            at + 600 * US,
            at + 601 * US,
            DEVICE_TO_HOST,
            launched=call,
            bytes=4,
            dstKind=PAGEABLE if waits else 1,
        )
    return made


def test_after_a_read_the_host_has_to_launch_anew(trace_of: TraceOf) -> None:
    """The read holds the host until 605, and the GPU has nothing until the next step: 399 us for 595 us of waiting."""
    rules = costs(trace_of(reading(605)))
    assert set(rules) == {"synchronization/in_step"}
    assert rules["synchronization/in_step"] == pytest.approx(400, abs=10)


def sampled_reading(*moments: tuple[int, int]) -> ExportBuilder:
    """The same, sampled in each step at these microseconds, in these lines."""
    made = reading(605).domain("Python Periodic Sampling", 1)
    for number in range(STEPS):
        for at, line in moments:
            made.python_sample(number * STEP + at * US, [("main", "train.py", line)])
    return made


def test_the_line_of_a_read_is_that_of_the_read_and_not_of_what_comes_behind(trace_of: TraceOf) -> None:
    """Idle from 601 on: the read returns at 605, and then the host launches anew for longer."""
    moments = [(603, 37), (700, 33), (800, 33), (900, 33)]
    told = found(trace_of(sampled_reading(*moments)))["synchronization/in_step"].evidence
    assert [each for each in told if "samples" in each] == ["most samples: train.py:37 in main, 10 of 10"]


def test_where_no_sample_lies_in_the_read_others_tell(trace_of: TraceOf) -> None:
    told = found(trace_of(sampled_reading((700, 33))))["synchronization/in_step"].evidence
    assert [each for each in told if "samples" in each] == ["most samples: train.py:33 in main, 10 of 10"]


def test_a_copy_that_holds_nobody_is_no_read(trace_of: TraceOf) -> None:
    assert "synchronization/in_step" not in costs(trace_of(reading(605, waits=False)))


def test_a_short_wait_does_not_explain_a_long_gap(trace_of: TraceOf) -> None:
    """The host stood in a wait for 5 us, then did something else for 390."""
    rules = costs(trace_of(each_step(loop(), "cudaStreamSynchronize", 598, 603)))
    assert "synchronization/in_step" not in rules
    assert rules["idle/cpu"] == pytest.approx(400, abs=15)


def starting(name: str, *, epochs: int) -> ExportBuilder:
    """Loops in which every few steps processes are started, in the data phase of 350 us that keeps the GPU waiting."""
    made = ExportBuilder().gpu().os_call("mmap", 0, 1)
    for number in range(STEPS):
        at = number * STEP
        made.range(f"batch {number}", at, at + STEP).range("data", at, at + 350 * US)
        made.kernel(at + 360 * US, at + STEP, "k", launched=(at + 352 * US, at + 355 * US), gridX=9000, blockX=256)
        if number % (STEPS // epochs) == 0:
            for worker in range(2):
                made.os_call(name, at + (10 + 100 * worker) * US, at + (90 + 100 * worker) * US)
    return made


@pytest.mark.parametrize("name", ["fork", "vfork", "clone"])
def test_loader_processes_started_in_each_epoch(trace_of: TraceOf, name: str) -> None:
    """The gaps in which it happens: three of the measured ten steps."""
    rules = costs(trace_of(starting(name, epochs=4)))
    assert rules["data/worker_start"] == pytest.approx(105, abs=2)
    assert rules["idle/data_work"] == pytest.approx(245, abs=2)


@pytest.mark.parametrize(("name", "epochs"), [("fork", 1), ("waitpid", 4), ("read", 4)])
def test_what_is_no_start_of_loader_processes(trace_of: TraceOf, name: str, epochs: int) -> None:
    """Those of the first epoch belong to the warm-up; other calls start nothing."""
    assert "data/worker_start" not in costs(trace_of(starting(name, epochs=epochs)))


def test_many_ranges_are_the_profilers_own_cost(trace_of: TraceOf) -> None:
    """Two hundred in 400 us of host code: 120 us or more of it go into writing them down."""
    made = loop()
    for number in range(STEPS):
        for piece in range(200):
            at = number * STEP + (600 + 2 * piece) * US
            made.range("piece", at, at + US)
    rules = costs(trace_of(made))
    assert rules["capture/overhead"] == pytest.approx(400, abs=15)
    assert "idle/cpu" not in rules


def test_few_ranges_cost_nothing_to_speak_of(trace_of: TraceOf) -> None:
    assert "capture/overhead" not in costs(trace_of(loop()))


def one_by_one(kernels: int, phase: str = "optimizer") -> ExportBuilder:
    """A step of one long kernel, and then of many that last 1 us and are launched every 3."""
    made = loop(busy=600)
    for number in range(STEPS):
        at = number * STEP + 600 * US
        made.range(phase, at, at + 3 * kernels * US)
        for kernel in range(kernels):
            begun = at + 3 * kernel * US
            made.kernel(begun + 2 * US, begun + 3 * US, "adam", launched=(begun, begun + US), gridX=9000, blockX=256)
    return made


def test_an_optimizer_of_many_kernels(trace_of: TraceOf) -> None:
    """120 kernels of 1 us, 2 us apart."""
    finding = found(trace_of(one_by_one(120)))["optimizer/many_kernels"]
    assert finding.lost_ns == pytest.approx((STEPS - 2) * 360 * US, rel=0.02)
    assert "fused=True" in finding.advice
    assert finding.evidence[0] == "120 kernels a step in phase optimizer"


@pytest.mark.parametrize(("kernels", "phase"), [(40, "optimizer"), (120, "backward")])
def test_few_kernels_or_those_of_another_phase_are_not_the_optimizers(
    trace_of: TraceOf, kernels: int, phase: str
) -> None:
    assert "optimizer/many_kernels" not in found(trace_of(one_by_one(kernels, phase)))


@pytest.mark.parametrize("window", ["0.004:0.006", "0.0045:0.0065", "all"])
def test_the_optimizers_kernels_are_counted_in_whole_steps_of_the_window(trace_of: TraceOf, window: str) -> None:
    """Two steps of 120; one step and two halves; and with the warm-up, which is not counted either."""
    rules = {each.rule: each for each in build_report(trace_of(one_by_one(120)), window).findings}
    assert rules["optimizer/many_kernels"].evidence[0] == "120 kernels a step in phase optimizer"


def test_without_a_whole_step_in_the_window_the_optimizers_kernels_are_not_counted(trace_of: TraceOf) -> None:
    report = build_report(trace_of(one_by_one(120)), "0.0061:0.0069")
    assert "optimizer/many_kernels" not in {each.rule for each in report.findings}


def test_steps_of_another_rank_stand_in_for_a_process_without(trace_of: TraceOf) -> None:
    """Only the first rank marks its steps; the other one's optimizer is seen all the same."""
    made, rank = one_by_one(40), thread(5000, 5000)
    made.gpu(1)
    for number in range(STEPS):
        at = number * STEP + 600 * US
        made.range("optimizer", at, at + 360 * US, thread=rank)
        for begun in range(at, at + 360 * US, 3 * US):
            launched, ran = (begun, begun + US), (begun + 2 * US, begun + 3 * US)
            made.kernel(*ran, "adam", launched=launched, device=1, process=global_id(5000), thread=rank)
    finding = found(trace_of(made))["optimizer/many_kernels"]
    assert (finding.device_id, finding.evidence[0]) == (1, "120 kernels a step in phase optimizer")


def test_the_optimizers_gain_needs_a_replay(trace_of: TraceOf) -> None:
    """An operation without a launch, and the replay cannot say how the run came about."""
    made = one_by_one(120).kernel(5 * STEP + 990 * US, 5 * STEP + 991 * US, "adam")
    finding = found(trace_of(made))["optimizer/many_kernels"]
    assert (finding.saving_low_ns, finding.saving_high_ns) == (None, None)
    assert finding.evidence[-1].startswith("no gain is given")


def test_from_one_operation_to_the_next_the_gpu_takes_its_time(trace_of: TraceOf) -> None:
    """Launched in one go, 2 us apart: never more than a note."""
    made = ExportBuilder().gpu().os_call("mmap", 0, 1)
    for number in range(STEPS):
        at = number * STEP
        made.range(f"batch {number}", at, at + STEP)
        for kernel in range(50):
            begun = at + (100 + 18 * kernel) * US
            made.kernel(begun, begun + 16 * US, "k", launched=(at + kernel, at + kernel + 1), gridX=9000, blockX=256)
    finding = found(trace_of(made))["gpu/between_operations"]
    assert finding.severity == "note"
    assert finding.lost_ns == pytest.approx(10 * 49 * 2 * US, rel=0.05)


def test_communication_that_nothing_hides(trace_of: TraceOf) -> None:
    """Of 300 us of a collective, 100 lie behind the last kernel."""
    made = loop()
    for number in range(STEPS):
        at = number * STEP
        made.kernel(at + 400 * US, at + 700 * US, "ncclDevKernel_AllReduce", stream=8, launched=(at, at + US))
        made.range("backward", at + US, at + 5 * US)
    context = find_context(trace_of(made))
    (finding,) = run_section(ledger, context, choose_window(context)).findings
    assert (finding.rule, finding.lost_ns, finding.severity) == ("communication/exposed", 10 * 100 * US, "warning")
    assert finding.evidence[0] == "1.00 ms of 3.00 ms in 10 launches of ncclDevKernel_AllReduce"
    assert "DistributedDataParallel" in finding.advice


@pytest.mark.parametrize(
    ("ranges", "advised"),
    [
        ((), "DistributedDataParallel"),
        (("forward",), "no backward pass"),
        (("forward", "optimizer"), "DistributedDataParallel"),
        (("forward", "backward"), "DistributedDataParallel"),
    ],
)
def test_communication_of_a_program_that_trains_nothing_has_no_backward_pass_to_hide_in(
    trace_of: TraceOf, ranges: tuple[str, ...], advised: str
) -> None:
    """That is said only where the phases are known; and then no gain is promised."""
    made = ExportBuilder().gpu()
    for number in range(STEPS):
        at = number * STEP
        made.range(f"batch {number}", at, at + STEP)
        for name in ranges:
            made.range(name, at, at + 5 * US)
        made.kernel(at + 10 * US, at + 600 * US, "k", launched=(at, at + US), gridX=9000, blockX=256)
        made.kernel(at + 600 * US, at + 700 * US, "ncclDevKernel_AllReduce", launched=(at + 2 * US, at + 3 * US))
    finding = found(trace_of(made))["communication/exposed"]
    assert advised in finding.advice
    assert (finding.saving_high_ns is None) == (advised == "no backward pass")


TURN = "void cudnn::engines_precompiled::nchwToNhwcKernel<__half, __half, float, false, true, 0>(int)"
CAT = "void at::native::(anonymous namespace)::CatArrayBatchedCopy_contig<float, unsigned int, 2, 128, 1>(float *)"
TRANSPOSE = "void deep_gemm::transpose_fp32<512, 64>(const float *, float *)"
CONVOLUTION = "sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckcrs_nhwc_tilesize128x128x32_stage4_warpsize2x2x1_g1"
PRODUCT = "nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_TNT"


def turning(moving: str, computing: str) -> ExportBuilder:
    """A step of two kernels: 590 us of a product or a convolution, and 100 us of one that moves values."""
    made = ExportBuilder().gpu()
    for number in range(STEPS):
        at = number * STEP
        made.range(f"batch {number}", at, at + STEP)
        made.kernel(at + 10 * US, at + 600 * US, computing, launched=(at, at + 5 * US), gridX=9000, blockX=256)
        made.kernel(at + 600 * US, at + 700 * US, moving, launched=(at + 6 * US, at + 7 * US), gridX=9000, blockX=256)
    return made


def test_kernels_that_only_turn_tensors(trace_of: TraceOf) -> None:
    finding = found(trace_of(turning(TURN, CONVOLUTION)))["tensor_cores/layout"]
    assert (finding.lost_ns, finding.severity) == (10 * 100 * US, "warning")
    assert "channels_last" in finding.advice


@pytest.mark.parametrize(
    ("moving", "computing"), [(CAT, PRODUCT), (CAT, CONVOLUTION), (TURN, PRODUCT), (TRANSPOSE, CONVOLUTION)]
)
def test_kernels_that_no_layout_of_images_would_spare(trace_of: TraceOf, moving: str, computing: str) -> None:
    """torch.cat and transposes for products move values too; and without a convolution there are no images."""
    assert "tensor_cores/layout" not in found(trace_of(turning(moving, computing)))


def test_roots_do_not_change_the_causes(trace_of: TraceOf) -> None:
    """The table keeps every nanosecond under its cause; only who advises on it differs."""
    context = find_context(trace_of(reading(605)))
    chosen = choose_window(context)
    table = run_section(idle, context, chosen).tables["causes"]
    assert set(table["cause"]) <= set(NAMES) - set(ROOTS)
    assert claims(context, 0, chosen).total.sum() == table["idle_ns"].sum()


def test_claims_are_worked_out_once(trace_of: TraceOf, monkeypatch: pytest.MonkeyPatch) -> None:
    context = find_context(trace_of(loop()))
    chosen = choose_window(context)
    run_section(idle, context, chosen)
    monkeypatch.setattr(root_causes, "explain", None)
    assert run_section(launches, context, chosen).key == "launches"


def test_another_thread_s_calls_are_not_this_one_s(trace_of: TraceOf) -> None:
    """A library loaded by a thread that feeds no GPU explains nothing."""
    made = loop()
    for number in range(STEPS):
        at = number * STEP
        made.call("cuLibraryLoadData", at + 900 * US, at + 950 * US, thread=thread(4999))
    assert "modules/in_window" not in costs(trace_of(made))
