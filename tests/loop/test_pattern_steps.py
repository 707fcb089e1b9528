"""The report finds steps and phases in exports without ranges."""

import pytest
from export_builder import DEVICE_TO_HOST, HOST_TO_DEVICE, PROCESS, ExportBuilder, global_id, thread, trace_of

from nsyswrap.base.errors import CannotTellError, UsageError
from nsyswrap.loop.context import Settings, find_context
from nsyswrap.report import build_report, check_request

AUTOGRAD = thread(4720)
US = 1_000
STEP_NS = 1_000 * US
OTHER_PID = 5000


def add_step(made: ExportBuilder, at: int, pid: int = 4711) -> None:
    """Add a step of 1 ms: a wait for data of 300 us, a copy, three kernels each forward and backward, an optimizer."""
    owner = global_id(pid)
    main, autograd = thread(pid, pid), thread(4720, pid)

    def launched(offset: int, name: str, on: int) -> None:
        begin = at + offset * US
        launch = (begin, begin + 5 * US)
        made.kernel(begin + 10 * US, begin + 40 * US, name, launched=launch, thread=on, process=owner, device=0)

    begin = at + 300 * US
    made.copy(
        begin + 5 * US,
        begin + 9 * US,
        HOST_TO_DEVICE,
        launched=(begin, begin + 10 * US),
        thread=main,
        process=owner,
        device=0,
    )
    for number, name in enumerate(("conv", "relu", "loss")):
        launched(350 + 50 * number, name, main)
        launched(550 + 50 * number, f"{name}_backward", autograd)
    launched(750, "multi_tensor_apply_adam", main)
    begin = at + 900 * US
    made.copy(
        begin + 5 * US,
        begin + 9 * US,
        DEVICE_TO_HOST,
        launched=(begin, begin + 100 * US),
        thread=main,
        process=owner,
        device=0,
    )


def loop(steps: int = 12, *pids: int) -> ExportBuilder:
    """An export of a training loop without ranges."""
    made = ExportBuilder().gpu()
    for pid in pids or (4711,):
        for number in range(steps):
            add_step(made, (number + 1) * STEP_NS, pid)
    return made


def test_steps_without_ranges_make_the_window() -> None:
    """The window consists of measured steps and names their source. The section says how they were found."""
    report = build_report(trace_of(loop()))
    assert report.window.source == "pattern"
    assert report.window.label.startswith("10 measured steps found by a pattern (step 3 to step 12")
    assert report.step.count == 10
    assert report.step.recorded_ns == STEP_NS
    section = report.section("steps")
    assert section is not None
    assert "12 steps were found by a pattern" in section.notes[0]
    assert "9 operations and waits each; 100% of the steps" in section.notes[0]


def test_steps_that_only_waits_show_are_in_doubt() -> None:
    """If a repetition copies no batch and does not train, a note says that it may be a part of a step."""
    made = ExportBuilder().gpu()
    for number in range(12):
        at = (number + 1) * STEP_NS
        for index, name in enumerate(("conv", "relu", "pool", "linear", "softmax")):
            begin = at + index * 50 * US
            made.kernel(begin + 10 * US, begin + 40 * US, name, launched=(begin, begin + 5 * US))
        made.call("cudaDeviceSynchronize", at + 300 * US, at + 310 * US)
    steps = find_context(trace_of(made)).steps
    assert len(steps.frame) == 12
    assert "each may be only a part of a step" in steps.notes[0]
    assert "only a part" not in find_context(trace_of(loop())).steps.notes[0]


def test_phases_without_ranges_are_inferred() -> None:
    """What the threads launch shows the phases, which the table marks as inferred."""
    report = build_report(trace_of(loop()))
    section = report.section("phases")
    assert section is not None
    table = section.tables["phases"].set_index("phase")
    assert table["inferred"].all()
    assert table["kernel_count"].to_dict() == {
        "data": 0,
        "copy": 0,
        "forward": 30,
        "backward": 30,
        "optimizer": 10,
        "batch": 0,
    }
    assert table.loc["data", "host_ns"] == 10 * 300 * US
    share = section.fact("kernel_share_with_phase")
    assert share is not None
    assert share.value == 1.0


@pytest.mark.parametrize(
    ("product", "is_network"),
    [
        ("ampere_sgemm_128x64_nn", True),
        ("void implicit_convolve_sgemm<float, float, 128, 6, 7, 3, 3, 5, 1, false, false, true>", True),
        ("void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>>", True),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>", True),
        # A program's own product, and one in double precision, as solvers use it.
        ("void matrixMul<32>(float*, float*, float*, int, int)", False),
        ("volta_dgemm_128x64_nn", False),
        ("jacobi(double*, double const*, int)", False),
        ("void cub::DeviceReduceKernel<double>(double*)", False),
    ],
)
def test_only_a_network_has_a_forward_pass(product: str, *, is_network: bool) -> None:
    """A loop that launches from one thread and trains nothing is a network's if a kernel of its steps shows one."""
    made = ExportBuilder().gpu()
    for at in range(STEP_NS, 13 * STEP_NS, STEP_NS):
        begin = at + 300 * US
        made.copy(begin + 5 * US, begin + 9 * US, HOST_TO_DEVICE, launched=(begin, begin + 10 * US))
        for number, name in enumerate((product, "boundary(float*)")):
            begin = at + (400 + 100 * number) * US
            made.kernel(begin + 10 * US, begin + 40 * US, name, launched=(begin, begin + 5 * US))
        begin = at + 900 * US
        made.copy(begin + 5 * US, begin + 9 * US, DEVICE_TO_HOST, launched=(begin, begin + 90 * US))
    context = find_context(trace_of(made))
    assert len(context.steps.frame) == 12
    assert ("forward" in set(context.phases.ranges["phase"].map(context.phases.name))) == is_network


def test_a_thread_with_a_name_of_its_own_is_not_autograds() -> None:
    """A thread that prepares batches on the GPU launches no backward pass. Autograd's threads have a name of theirs."""

    def phases(made: ExportBuilder) -> set[str]:
        found = find_context(trace_of(made)).phases
        return {found.name(code) for code in found.ranges["phase"]}

    assert "backward" in phases(loop().thread_name(AUTOGRAD, "pt_autograd_0"))
    assert "backward" not in phases(loop().thread_name(AUTOGRAD, "pt_data_pin"))
    assert "backward" not in phases(loop().thread_name(thread(4799), "pt_autograd_0"))


def test_the_wait_for_the_batch_after_this_one_is_data() -> None:
    """A library may take the next batch from the loader after the copy of this one; the forward pass follows."""
    made = loop()
    for number in range(12):
        at = (number + 1) * STEP_NS
        made.os_call("recvmsg", at + 312 * US, at + 345 * US)
    found = build_report(trace_of(made)).section("phases")
    assert found is not None
    # The wait, and what the thread does between the copy and it.
    assert found.tables["phases"].set_index("phase").loc["data", "host_ns"] == 10 * (300 + 35) * US


def test_steps_by_updates_say_so() -> None:
    """If the kernels differ from step to step, the note names the updates of the weights as the pattern."""
    made = ExportBuilder().gpu()
    for number in range(12):
        at, kind = (number + 1) * STEP_NS, (3 * number) % 7
        for offset, name, on in (
            *((100 + 40 * layer, f"conv{kind}_{layer}", None) for layer in range(4 + kind % 3)),
            *((500 + 40 * layer, f"grad{kind}_{layer}", AUTOGRAD) for layer in range(4)),
            (700, "multi_tensor_apply_adam", None),
        ):
            begin = at + offset * US
            more = {} if on is None else {"thread": on}
            made.kernel(begin + 10 * US, begin + 20 * US, name, launched=(begin, begin + 5 * US), **more)
    steps = find_context(trace_of(made)).steps
    assert len(steps.frame) == 12
    assert "12 steps were found by the updates of the weights" in steps.notes[0]
    assert "9 to 11 operations and waits each" in steps.notes[0]


def test_marked_phases_are_not_mixed_with_inferred_ones() -> None:
    """A process that marks one phase has no other phases. The other process has inferred phases, in separate rows."""
    made = loop(12, 4711, OTHER_PID)
    for number in range(12):
        at = (number + 1) * STEP_NS
        made.range("forward", at + 340 * US, at + 540 * US)
    context = find_context(trace_of(made))
    ranges = context.phases.ranges
    assert set(ranges.loc[~ranges["inferred"], "process"]) == {PROCESS}
    assert set(ranges.loc[ranges["inferred"], "process"]) == {global_id(OTHER_PID)}
    section = build_report(trace_of(made)).section("phases")
    assert section is not None
    table = section.tables["phases"]
    rows = table[table["phase"] == "forward"]
    assert rows["inferred"].tolist() == [False, True]
    assert rows["kernel_count"].tolist() == [30, 30]


def test_ranges_that_name_steps_come_before_the_pattern() -> None:
    """If ranges name steps, the window consists of these steps."""
    made = loop()
    for number in range(6):
        made.range(f"batch {number}", (number + 1) * STEP_NS, (number + 2) * STEP_NS)
    report = build_report(trace_of(made))
    assert report.window.source == "steps"
    assert report.step.count == 4


def updated_by_hand(steps: int, *, on_cpu: bool) -> ExportBuilder:
    """Return a loop without an optimizer: forward, backward on autograd's thread, and an update of each weight.

    The update is a product and a sum for each weight, or the copy of its gradient to the host and of the weight back.
    """
    made, at = ExportBuilder().gpu(), STEP_NS
    for _ in range(steps):
        for name in ("sgemm", "relu", "sgemm", "relu", "mse"):
            made.kernel(at + 10 * US, at + 30 * US, name, launched=(at, at + 5 * US))
            at += 40 * US
        for name in ("mse_backward", "sgemm_nt", "relu_backward", "sgemm_nt"):
            made.kernel(at + 10 * US, at + 30 * US, name, launched=(at, at + 5 * US), thread=AUTOGRAD)
            at += 40 * US
        for _ in range(6):
            if on_cpu:
                made.copy(at + 5 * US, at + 15 * US, DEVICE_TO_HOST, launched=(at, at + 20 * US))
                made.copy(at + 305 * US, at + 315 * US, HOST_TO_DEVICE, launched=(at + 300 * US, at + 320 * US))
                at += 340 * US
            else:
                for name in ("mul", "add"):
                    made.kernel(at + 10 * US, at + 15 * US, name, launched=(at, at + 5 * US))
                    at += 20 * US
    return made


@pytest.mark.parametrize("on_cpu", [False, True])
@pytest.mark.parametrize("marks", [False, True])
def test_weights_updated_by_hand_end_a_step(*, on_cpu: bool, marks: bool) -> None:
    """No optimizer ends the first step that nsyswrap marks, so it lasts until the program ends."""
    made = updated_by_hand(40, on_cpu=on_cpu)
    if marks:
        made.domain("nsyswrap", 9).range("step 0", STEP_NS - US, 200 * STEP_NS, domain=9)
    report = build_report(trace_of(made))
    assert report.window.source == "pattern"
    assert report.step.count is not None
    assert report.step.count >= 36


def test_one_marked_step_stays_where_nothing_repeats() -> None:
    """There is no step time then, and the verdict says how to get one."""
    made = ExportBuilder().gpu().domain("nsyswrap", 9).range("step 0", 0, 900 * US, domain=9)
    for name in ("sgemm", "relu"):
        made.kernel(10 * US, 400 * US, name, launched=(0, 5 * US))
    report = build_report(trace_of(made))
    assert report.step.count == 1
    assert "Only one step was recorded" in report.verdict
    assert report.plan.step_ns is None


def test_lost_ranges_do_not_put_inferred_phases_in_doubt() -> None:
    """If nsys counted ranges and the export has none, the verdict uses the recorded work alone."""
    made = loop().diagnostic("Number of NVTX events collected: 100.")
    report = build_report(trace_of(made))
    assert not report.verdict.startswith("Cannot tell")


def test_each_process_has_its_own_pattern() -> None:
    """The steps of two ranks are found in each rank and counted once."""
    context = find_context(trace_of(loop(12, 4711, OTHER_PID)))
    assert context.steps.frame.groupby("process").size().tolist() == [12, 12]
    assert context.steps.measured_count == 10


def test_the_user_names_the_kernel_that_begins_a_step() -> None:
    """Each launch of the kernel starts a step. The last launch only ends the step before it."""
    settings = Settings(step_kernel="^conv$")
    context = find_context(trace_of(loop()), settings)
    assert context.steps.frame["start"].tolist() == [(number + 1) * STEP_NS + 350 * US for number in range(11)]
    assert context.steps.frame["end"].tolist() == [(number + 2) * STEP_NS + 350 * US for number in range(11)]
    assert "--step-kernel ^conv$" in context.steps.notes[0]


def test_a_kernel_that_is_not_there_is_said() -> None:
    """A note says that no kernel matches. A window of steps is an error then."""
    settings = Settings(step_kernel="nosuch")
    report = build_report(trace_of(loop()), settings=settings)
    assert report.notes[0] == "--step-kernel nosuch: fewer than two kernels match, so there are no steps."
    with pytest.raises(CannotTellError, match="fewer than two kernels match --step-kernel nosuch"):
        build_report(trace_of(loop()), "steps", settings)


def test_a_pattern_of_kernels_that_cannot_be_read_is_an_error() -> None:
    """The error comes before any work is done."""
    with pytest.raises(UsageError, match="--step-kernel"):
        check_request("", Settings(step_kernel="("))


def test_operations_without_a_launch_call_are_placed_by_the_gpu() -> None:
    """If calls were lost, steps are as long as on the GPU, and nothing is reported that needs calls."""
    made = ExportBuilder().gpu()
    for number in range(12):
        at = (number + 1) * STEP_NS
        made.copy(at, at + 5 * US, HOST_TO_DEVICE)
        for index, name in enumerate(("conv", "relu", "pool", "linear", "loss")):
            made.kernel(at + (index + 1) * 50 * US, at + (index + 1) * 50 * US + 30 * US, name)
    context = find_context(trace_of(made))
    assert (context.steps.measured["end"] - context.steps.measured["start"]).median() == pytest.approx(STEP_NS)
