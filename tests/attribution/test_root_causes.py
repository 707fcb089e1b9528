"""Each root cause explains its idle time, in synthetic loops of 1 ms steps. Times are in microseconds: ``US``."""

import pytest
from analysis_fixtures import run_section
from export_builder import DEVICE_TO_HOST, PAGEABLE, ExportBuilder, global_id, thread, trace_of
from made_steps import MEASURED, STEP, STEPS, US, each_step, findings_of, launched_at_once, lost_per_step, made_loop
from savings import ends_of

from nsyswrap.loop.context import find_context
from nsyswrap.report import build_report, choose_window
from nsyswrap.sections import communication


def test_memory_allocated_in_each_step_is_churn() -> None:
    """Churn lasts from the first call of a gap, at 650, to the end of the last, at 850. Other code stays CPU time."""
    built = each_step(each_step(made_loop(), "cudaFree_v3020", 650, 700), "cudaMalloc_v3020", 800, 850)
    rules = lost_per_step(trace_of(built))
    assert rules["memory/churn"] == 200
    assert rules["idle/cpu"] == 50 + 150
    assert "idle/allocation" not in rules


def test_churn_explains_no_more_idle_time_than_its_calls_last() -> None:
    """Without the call from 150 to 400, all later launches are 250 us earlier: only the first gap shrinks, by 250 us.

    ::

        GPU    ##100|.......gap.......|410###500|.gap.|550###990|.
        host        |150 malloc 400|launch   |launch|
    """
    made = each_step(made_loop(busy=100), "cudaMalloc_v3020", 150, 400)
    for number in range(STEPS):
        at = number * STEP
        launched_at_once(made, at + 401 * US, at + 410 * US, at + 500 * US)
        launched_at_once(made, at + 520 * US, at + 550 * US, at + 990 * US)
    assert lost_per_step(trace_of(made))["memory/churn"] == 250


def test_a_call_that_frees_explains_the_gap_that_its_wait_causes() -> None:
    """The call waits for the GPU from 20 to 605, so the next launch would come 585 us earlier without it.

    The call explains the 5 us inside it and the gap after it: 395 us of CPU code, 1 us of launch and 9 us queued.
    """
    made = each_step(made_loop(), "cudaFree_v3020", 20, 605)
    assert lost_per_step(trace_of(made)) == {"memory/churn": pytest.approx(5 + 395 + 10, abs=2)}


def test_memory_that_one_of_many_ranks_allocates_in_each_step_is_churn() -> None:
    """Twelve ranks run the same steps, each on a GPU of its own. The first one allocates, from 650 to 850 of each."""
    made = each_step(made_loop(), "cudaMalloc_v3020", 650, 850)
    for rank in range(1, 12):
        made.gpu(rank)
        for number in range(STEPS):
            at, process = number * STEP, global_id(5000 + rank)
            made.range(f"batch {number}", at, at + STEP, thread=global_id(5000 + rank, 5000 + rank))
            made.kernel(at + 10 * US, at + STEP, launched=(at, at + US), device=rank, process=process)
    lost = {
        each.device_id: each.lost_ns for each in build_report(trace_of(made)).findings if each.rule == "memory/churn"
    }
    assert lost == {0: MEASURED * 200 * US}


def test_memory_allocated_once_is_an_allocation() -> None:
    """An allocation in one step of ten is not churn. Its 390 us are 39 us a step."""
    at = 5 * STEP
    rules = lost_per_step(trace_of(made_loop().call("cudaMalloc_v3020", at + 600 * US, at + 990 * US)))
    assert "memory/churn" not in rules
    assert rules["idle/allocation"] == 39


def reading(until: int, *, waits: bool = True) -> ExportBuilder:
    """Return steps that read a value: a copy to the host after the kernels, then CPU code until the next launch.

    Args:
        until: When the call of the copy returns, in us of the step.
        waits: Whether the copy goes to pageable memory, so that its call blocks the host.
    """
    made = made_loop()
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


def test_a_read_explains_the_gap_until_the_next_launch() -> None:
    """The read blocks the host for 595 us, until 605. The GPU is idle for 409 us, from 601 to 10 us of the next step.

    The window begins with the last 10 us of such a gap. Their read lies before the window, so 1 us a step is missing.
    """
    assert lost_per_step(trace_of(reading(605))) == {"synchronization/in_step": 408}


def sampled_reading(*moments: tuple[int, int]) -> ExportBuilder:
    """Return the same steps with a sample of Python at each of these microseconds and lines."""
    made = reading(605).domain("Python Periodic Sampling", 1)
    for number in range(STEPS):
        for at, line in moments:
            made.python_sample(number * STEP + at * US, [("main", "train.py", line)])
    return made


def test_the_line_of_a_read_is_that_of_the_read_and_not_of_the_code_after_it() -> None:
    """The GPU is idle from 601 on. The read returns at 605, and other code runs for longer after it."""
    moments = [(603, 37), (700, 33), (800, 33), (900, 33)]
    evidence = findings_of(trace_of(sampled_reading(*moments)))["synchronization/in_step"].evidence
    assert [each for each in evidence if "samples" in each] == ["most samples: train.py:37 in main, 10 of 10"]


def test_where_no_sample_lies_in_the_read_the_line_is_that_of_the_code_after_it() -> None:
    evidence = findings_of(trace_of(sampled_reading((700, 33))))["synchronization/in_step"].evidence
    assert [each for each in evidence if "samples" in each] == ["most samples: train.py:33 in main, 10 of 10"]


def test_a_copy_that_does_not_hold_the_host_is_no_read() -> None:
    assert "synchronization/in_step" not in lost_per_step(trace_of(reading(605, waits=False)))


def test_a_short_wait_does_not_explain_a_long_gap() -> None:
    """The host waits for 5 us, with an idle GPU for 3 us, and then runs other code for 397 us."""
    rules = lost_per_step(trace_of(each_step(made_loop(), "cudaStreamSynchronize", 598, 603)))
    assert "synchronization/in_step" not in rules
    assert rules["idle/cpu"] == 397


def starting(name: str, *, epochs: int) -> ExportBuilder:
    """Return steps with a data phase of 350 us. At the start of each epoch, the data phase starts two processes."""
    made = ExportBuilder().gpu().os_call("mmap", 0, 1)
    for number in range(STEPS):
        at = number * STEP
        made.range(f"batch {number}", at, at + STEP).range("data", at, at + 350 * US)
        launched_at_once(made, at + 352 * US, at + 360 * US, at + STEP)
        if number % (STEPS // epochs) == 0:
            for worker in range(2):
                made.os_call(name, at + (10 + 100 * worker) * US, at + (90 + 100 * worker) * US)
    return made


@pytest.mark.parametrize("name", ["fork", "vfork", "clone"])
def test_loader_processes_started_in_each_epoch(name: str) -> None:
    """Starting loader processes explains the gaps in which it happens: 350 us in three of the ten measured steps."""
    rules = lost_per_step(trace_of(starting(name, epochs=4)))
    assert rules["data/worker_start"] == pytest.approx(105, abs=2)
    assert rules["idle/data_work"] == pytest.approx(245, abs=2)


@pytest.mark.parametrize(("name", "epochs"), [("fork", 1), ("waitpid", 4), ("read", 4)])
def test_other_calls_and_starts_of_the_first_epoch_are_no_restart_of_loaders(name: str, epochs: int) -> None:
    """Starts of the first epoch belong to the warm-up; other calls start no process."""
    assert "data/worker_start" not in lost_per_step(trace_of(starting(name, epochs=epochs)))


def test_many_ranges_are_overhead_of_the_capture() -> None:
    """Recording 200 ranges in 400 us of CPU code, a start or an end each microsecond, may cost all the idle time."""
    made = made_loop()
    for number in range(STEPS):
        for piece in range(200):
            at = number * STEP + (600 + 2 * piece) * US
            made.range("piece", at, at + US)
    rules = lost_per_step(trace_of(made))
    assert rules["capture/overhead"] == pytest.approx(400, abs=15)
    assert "idle/cpu" not in rules


def test_the_ranges_of_steps_and_phases_are_no_overhead() -> None:
    assert "capture/overhead" not in lost_per_step(trace_of(made_loop()))


def one_by_one(kernels: int, phase: str = "optimizer") -> ExportBuilder:
    """Return steps with kernels until 600, then many kernels of 1 us that are launched every 3 us."""
    made = made_loop(busy=600)
    for number in range(STEPS):
        at = number * STEP + 600 * US
        made.range(phase, at, at + 3 * kernels * US)
        for kernel in range(kernels):
            begun = at + 3 * kernel * US
            made.kernel(begun + 2 * US, begun + 3 * US, "adam", launched=(begun, begun + US), gridX=9000, blockX=256)
    return made


def test_an_optimizer_of_many_kernels() -> None:
    """An optimizer of 120 kernels of 1 us, 2 us apart, is found."""
    finding = findings_of(trace_of(one_by_one(120)))["optimizer/many_kernels"]
    assert finding.lost_ns == pytest.approx(MEASURED * 360 * US, rel=0.02)
    assert "fused=True" in finding.advice
    assert finding.evidence[0] == "120 kernels a step in phase optimizer"


@pytest.mark.parametrize(("kernels", "phase"), [(40, "optimizer"), (120, "backward")])
def test_few_kernels_or_those_of_another_phase_are_no_optimizer_of_many(kernels: int, phase: str) -> None:
    assert "optimizer/many_kernels" not in findings_of(trace_of(one_by_one(kernels, phase)))


@pytest.mark.parametrize("window", ["0.004:0.006", "0.0045:0.0065", "all"])
def test_the_optimizers_kernels_are_counted_in_whole_steps_of_the_window(window: str) -> None:
    """The windows hold two steps of 120, one step and two halves, and all steps. The warm-up is not counted."""
    rules = findings_of(trace_of(one_by_one(120)), window)
    assert rules["optimizer/many_kernels"].evidence[0] == "120 kernels a step in phase optimizer"


def test_without_a_whole_step_in_the_window_the_optimizers_kernels_are_not_counted() -> None:
    report = build_report(trace_of(one_by_one(120)), "0.0061:0.0069")
    assert "optimizer/many_kernels" not in {each.rule for each in report.findings}


def test_steps_of_another_rank_are_used_for_a_process_without_steps() -> None:
    """Only the first rank marks its steps, and the optimizer of the other rank is still found."""
    made, rank = one_by_one(40), thread(5000, 5000)
    made.gpu(1)
    for number in range(STEPS):
        at = number * STEP + 600 * US
        made.range("optimizer", at, at + 360 * US, thread=rank)
        for begun in range(at, at + 360 * US, 3 * US):
            launched, ran = (begun, begun + US), (begun + 2 * US, begun + 3 * US)
            made.kernel(*ran, "adam", launched=launched, device=1, process=global_id(5000), thread=rank)
    finding = findings_of(trace_of(made))["optimizer/many_kernels"]
    assert (finding.device_id, finding.evidence[0]) == (1, "120 kernels a step in phase optimizer")


def test_the_optimizers_saving_needs_a_simulation() -> None:
    """An operation without a known launch makes the simulation fail, so no saving is predicted."""
    made = one_by_one(120).kernel(5 * STEP + 990 * US, 5 * STEP + 991 * US, "adam")
    finding = findings_of(trace_of(made))["optimizer/many_kernels"]
    assert ends_of(finding) == (None, None)
    assert finding.evidence[-1].startswith("no saving is predicted")


def test_short_gaps_between_queued_operations_are_a_note() -> None:
    """50 kernels are launched at once and have gaps of 2 us. The 49 gaps of a step are never more than a note."""
    made = ExportBuilder().gpu().os_call("mmap", 0, 1)
    for number in range(STEPS):
        at = number * STEP
        made.range(f"batch {number}", at, at + STEP)
        for kernel in range(50):
            begun = at + (100 + 18 * kernel) * US
            made.kernel(begun, begun + 16 * US, "k", launched=(at + kernel, at + kernel + 1), gridX=9000, blockX=256)
    finding = findings_of(trace_of(made))["gpu/between_operations"]
    assert finding.severity == "note"
    assert finding.lost_ns == 10 * 49 * 2 * US


def test_communication_that_no_kernel_overlaps() -> None:
    """The last 100 us of a collective of 300 us come after the last kernel. The host waits for them in each step."""
    made = each_step(made_loop(busy=890), "cudaDeviceSynchronize", 20, 992)
    for number in range(STEPS):
        at = number * STEP
        made.kernel(at + 690 * US, at + 990 * US, "ncclDevKernel_AllReduce", stream=8, launched=(at, at + US))
        made.range("backward", at + US, at + 5 * US)
    context = find_context(trace_of(made))
    (finding,) = run_section(communication, context, choose_window(context)).findings
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
def test_communication_without_a_backward_pass_gets_advice_of_its_own(ranges: tuple[str, ...], advised: str) -> None:
    """The other advice needs known phases without a backward pass. No saving is predicted then."""
    made = ExportBuilder().gpu()
    for number in range(STEPS):
        at = number * STEP
        made.range(f"batch {number}", at, at + STEP)
        for name in ranges:
            made.range(name, at, at + 5 * US)
        made.kernel(at + 10 * US, at + 600 * US, "k", launched=(at, at + US), gridX=9000, blockX=256)
        made.kernel(at + 600 * US, at + 700 * US, "ncclDevKernel_AllReduce", launched=(at + 2 * US, at + 3 * US))
    finding = findings_of(trace_of(made))["communication/exposed"]
    assert advised in finding.advice
    assert (finding.saving is None) == (advised == "no backward pass")


TURN = "void cudnn::engines_precompiled::nchwToNhwcKernel<__half, __half, float, false, true, 0>(int)"
CAT = "void at::native::(anonymous namespace)::CatArrayBatchedCopy_contig<float, unsigned int, 2, 128, 1>(float *)"
TRANSPOSE = "void deep_gemm::transpose_fp32<512, 64>(const float *, float *)"
CONVOLUTION = "sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckcrs_nhwc_tilesize128x128x32_stage4_warpsize2x2x1_g1"
PRODUCT = "nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_TNT"


def turning(moving: str, computing: str) -> ExportBuilder:
    """Return steps of a product or convolution of 880 us and a copy kernel of 100 us; the host waits for both."""
    made = ExportBuilder().gpu()
    for number in range(STEPS):
        at = number * STEP
        made.range(f"batch {number}", at, at + STEP)
        made.kernel(at + 10 * US, at + 890 * US, computing, launched=(at, at + 5 * US), gridX=9000, blockX=256)
        made.kernel(at + 890 * US, at + 990 * US, moving, launched=(at + 6 * US, at + 7 * US), gridX=9000, blockX=256)
        made.call("cudaDeviceSynchronize", at + 8 * US, at + 992 * US)
    return made


def test_kernels_that_only_change_the_layout_of_tensors() -> None:
    """The host waits for the GPU in each step, so all of their time can be saved: a warning and no note."""
    finding = findings_of(trace_of(turning(TURN, CONVOLUTION)))["tensor_cores/layout"]
    assert (finding.lost_ns, finding.severity) == (10 * 100 * US, "warning")
    assert "channels_last" in finding.advice


@pytest.mark.parametrize(
    ("moving", "computing"), [(CAT, PRODUCT), (CAT, CONVOLUTION), (TURN, PRODUCT), (TRANSPOSE, CONVOLUTION)]
)
def test_kernels_that_channels_last_would_not_remove(moving: str, computing: str) -> None:
    """Kernels of torch.cat and of transposes for products move values too. No convolution means no images."""
    assert "tensor_cores/layout" not in findings_of(trace_of(turning(moving, computing)))
