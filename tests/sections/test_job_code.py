"""Findings on how a job is written, on made jobs of two ranks: what is planted is found, and what the fix saves."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from export_builder import DEVICE_TO_HOST, HOST_TO_DEVICE, ExportBuilder, global_id, trace_of
from real_captures import RealContext, of_captures
from savings import saving_of

from nsyswrap.loop.context import find_context
from nsyswrap.model import Finding
from nsyswrap.report import report_of
from nsyswrap.rules import communication
from nsyswrap.rules.rule import Rule

US, MB = 1000, 1 << 20
STEPS, LAYER, LAUNCH = 8, 200 * US, 5 * US
SUM, COUNT, SEND = (f"ncclDevKernel_{each}_RING_LL" for each in ("AllReduce_Sum_f32", "AllReduce_Sum_u32", "Broadcast"))
ON_DEVICE = 8
NEW = {each.key for each in vars(communication).values() if isinstance(each, Rule)}


class Rank:
    """A rank that launches what its step says; its GPU runs it as soon as it can.

    All ranks of a made job do the same at the same times.
    """

    def __init__(self, built: ExportBuilder, device: int) -> None:
        self.built, self.device = built, device
        self.process = global_id(5000 + device)
        self.main = self.process | (5000 + device)
        built.gpu(device, name="NVIDIA L40S").domain("NCCL", 3, thread=self.process)
        payload = f'{{"NCCL communicator ID":9,"No. of ranks":2,"Rank":{device},"CUDA device":{device}}}'
        built.range("ncclCommInitRank", 1, 2, thread=self.main, domain=3, jsonText=payload)
        self.at = 100 * US
        self.free = {7: 0, 8: 0}

    def work(self, ns: int) -> None:
        """Let the host work."""
        self.at += ns

    def _place(self, stream: int, length: int) -> tuple[int, int]:
        # A collective needs what was computed before it.
        ready = max(self.free[stream], self.free[7] if stream == 8 else 0, self.at + LAUNCH)
        self.free[stream] = ready + length
        return ready, ready + length

    def kernel(self, name: str = "layer", length: int = LAYER) -> None:
        about = {"device": self.device, "process": self.process, "thread": self.main, "stream": 7}
        times = self._place(7, length)
        self.built.kernel(*times, name, launched=(self.at, self.at + LAUNCH), gridX=length // 20, blockX=256, **about)
        self.at += LAUNCH

    def copy(self, kind: int, size: int, length: int = 2 * US) -> None:
        about: dict[str, Any] = {"device": self.device, "process": self.process, "thread": self.main, "stream": 7}
        self.built.copy(*self._place(7, length), kind, bytes=size, launched=(self.at, self.at + LAUNCH), **about)
        self.at += LAUNCH

    def collective(self, name: str, size: int, length: int) -> None:
        """Launch a collective, which takes as long on all ranks."""
        about = {"device": self.device, "process": self.process, "thread": self.main, "stream": 8}
        payload = f'{{"NCCL communicator ID":9,"Message size [bytes]":{size}}}'
        self.built.range("ncclCall", self.at - 1, self.at + LAUNCH, thread=self.main, domain=3, jsonText=payload)
        self.built.kernel(*self._place(8, length), name, launched=(self.at, self.at + LAUNCH), gridX=24, **about)
        self.at += LAUNCH

    def phase(self, name: str, launch: Callable[["Rank"], None]) -> None:
        """Launch something inside a phase."""
        began = self.at
        self.work(US)
        launch(self)
        self.work(US)
        self.built.range(name, began, self.at, thread=self.main)
        self.work(US)

    def join(self) -> None:
        """Let kernels wait for the collectives launched so far."""
        self.free[7] = max(self.free.values())


def found(step: Callable[[Rank], None]) -> dict[str, Finding]:
    """Return the findings of a job by rule; each step ends with its optimizer and a wait of the host."""
    built = ExportBuilder()
    for device in range(2):
        rank = Rank(built, device)
        for number in range(STEPS):
            began = rank.at
            step(rank)
            rank.join()
            rank.phase("optimizer", lambda rank: rank.kernel("adam", 50 * US))
            end = max(rank.free.values()) + US
            built.call("cudaDeviceSynchronize", rank.at, end, thread=rank.main)
            rank.at = end + US
            built.range(f"step {number}", began, rank.at, thread=rank.main)
            rank.work(US)
    report = report_of(find_context(trace_of(built)), keys=("communication",))
    each = {finding.rule: finding for finding in report.findings if finding.rule in NEW}
    return {rule: finding for rule, finding in each.items() if rule != "communication/exposed"}


def saved_us(finding: Finding) -> float:
    """Return what a finding saves of a step, in us: the first two of eight steps are warm-up."""
    return saving_of(finding).point / (STEPS - 2) / US


def forward(rank: Rank) -> None:
    """Launch two layers."""
    for _ in range(2):
        rank.kernel()


def backward(*sizes: int, length: int = 400 * US) -> Callable[[Rank], None]:
    """Return a backward pass of two layers for each bucket, which is summed when they have been computed."""

    def launch(rank: Rank) -> None:
        for size in sizes:
            forward(rank)
            rank.collective(SUM, size, length)

    return launch


def passes(synced: int, length: int = 400 * US) -> Callable[[Rank], None]:
    """Return a step of three microbatches, whose last ones are summed."""

    def step(rank: Rank) -> None:
        for number in range(3):
            rank.phase("forward", forward)
            sums = backward(30 * MB, 28 * MB, length=length) if number >= 3 - synced else forward
            rank.phase("backward", sums)
            rank.join()

    return step


def test_gradients_are_summed_once_for_all_microbatches() -> None:
    """Each sum of a pass but its last runs beside layers; of two passes, the last sum of 400 us each is saved."""
    made = found(passes(3))
    assert set(made) == {"communication/each_microbatch"}
    finding = made["communication/each_microbatch"]
    assert finding.headline == "Ranks sum their gradients after each of 3 microbatches of a step; once is enough."
    assert saved_us(finding) == pytest.approx(2 * 400, rel=0.05)


@pytest.mark.parametrize("synced", [1, 0])
def test_one_sum_for_all_microbatches_is_right(synced: int) -> None:
    assert not found(passes(synced))


def test_layers_split_over_ranks_sum_in_each_pass() -> None:
    """Their activations have the same size in the forward and the backward pass."""

    def step(rank: Rank) -> None:
        for _ in range(2):
            for phase in ("forward", "backward"):
                rank.phase(phase, backward(30 * MB))
                rank.join()

    assert not found(step)


def with_map(read_back: int = 0) -> Callable[[Rank], None]:
    """Return a step that sums a map of 300 used parameters; some parameters are unused where it is read back."""

    def step(rank: Rank) -> None:
        def end(rank: Rank) -> None:
            backward(30 * MB)(rank)
            rank.copy(HOST_TO_DEVICE, 1200)
            rank.collective(COUNT, 1200, 60 * US)
            if read_back:
                rank.join()
                rank.copy(DEVICE_TO_HOST, read_back)

        rank.phase("forward", forward)
        rank.phase("backward", end)

    return step


def test_the_search_for_unused_parameters_is_not_needed_where_no_map_is_read_back() -> None:
    """The map is summed after the gradients, and nothing runs beside it."""
    made = found(with_map())
    assert set(made) == {"communication/unused_parameters"}
    assert saved_us(made["communication/unused_parameters"]) == pytest.approx(60, abs=8)
    assert set(found(with_map(read_back=4))) == {"communication/unused_parameters"}


def test_a_rank_with_unused_parameters_needs_the_search() -> None:
    assert not found(with_map(read_back=1200))


def broadcasting(copies: int) -> Callable[[Rank], None]:
    """Return a step whose forward pass begins with a broadcast, and copies of what was sent."""

    def step(rank: Rank) -> None:
        def begin(rank: Rank) -> None:
            rank.kernel("void at::native::CatArrayBatchedCopy<float>", 5 * US)
            rank.collective(SEND, 4096, 50 * US)
            rank.join()
            for _ in range(copies):
                rank.copy(ON_DEVICE, 64)
            forward(rank)

        rank.phase("forward", begin)
        rank.phase("backward", backward(30 * MB))

    return step


def test_buffers_need_not_be_broadcast_in_each_forward_pass() -> None:
    """A kernel of 5 us, a broadcast of 50 us and ten copies of 2 us are saved."""
    made = found(broadcasting(10))
    assert set(made) == {"communication/buffers"}
    assert saved_us(made["communication/buffers"]) == pytest.approx(5 + 50 + 10 * 2, rel=0.1)


def test_a_broadcast_of_data_is_no_broadcast_of_buffers() -> None:
    assert not found(broadcasting(0))


@pytest.mark.parametrize(
    ("sizes", "latency", "is_small"),
    [
        ([1 + number % 2 for number in range(20)], 30, True),
        ([3, 6, 6, 6, 6], 300, True),
        ([3, 6, 6], 300, False),
        ([3, 7, 7, 7, 7], 300, False),
    ],
)
def test_small_buckets_are_joined(sizes: list[int], latency: int, *, is_small: bool) -> None:
    """A bucket takes some us and 10 us a MiB; one of 25 MiB has one latency.

    They are small where there are more than twice as many as needed, and most have less than a quarter of 25 MiB.
    """

    def step(rank: Rank) -> None:
        def passed(rank: Rank) -> None:
            for size in sizes:
                rank.kernel("layer", 10 * US)
                rank.collective(SUM, size * MB, latency * US + size * 10 * US)

        rank.phase("forward", forward)
        rank.phase("backward", passed)

    made = found(step)
    assert set(made) == ({"communication/small_buckets"} if is_small else set())
    if len(sizes) == 20:
        assert "in 20 small buckets a pass" in made["communication/small_buckets"].headline
        # All is computed after 200 us; then one sum of 30 MiB follows, instead of what is left of twenty.
        assert 100 < saved_us(made["communication/small_buckets"]) < 600


@pytest.mark.parametrize(("size", "rules"), [(50 * MB, {"communication/large_buckets"}), (49 * MB, set())])
def test_a_bucket_of_twice_the_default_is_large(size: int, rules: set[str]) -> None:
    """All is sent after the pass; in two parts, the first one is sent beside the second half of the pass."""

    def step(rank: Rank) -> None:
        rank.phase("forward", forward)
        rank.phase("backward", backward(size, length=800 * US))

    made = found(step)
    assert set(made) == rules
    if made:
        assert saved_us(made["communication/large_buckets"]) == pytest.approx(200, rel=0.1)


def compute(length: int, rank: Rank) -> None:
    """Launch a kernel of its own kind for each length."""
    rank.kernel(f"layer_of_{length}", length)


def until(ends: int, rank: Rank) -> None:
    """Launch a sum that ends at some time."""
    rank.collective(SUM, 30 * MB, ends - max(rank.free[7], rank.at + LAUNCH))


def uneven(longer: Callable[[int], int], steps: int = 20) -> dict[str, Finding]:
    """Return the findings of a job of two ranks: in each step one computes for 400 us, the other for 200.

    Args:
        longer: Returns the rank that computes longer, given the number of the step.
        steps: Number of steps; two are warm-up.
    """
    built = ExportBuilder()
    made = [Rank(built, device) for device in range(2)]
    for number in range(steps):
        began, lengths = made[0].at, [LAYER, LAYER]
        lengths[longer(number)] *= 2
        for rank, length in zip(made, lengths, strict=True):
            rank.phase("forward", partial(compute, length))
        ends = max(rank.free[7] for rank in made) + 30 * US
        for rank in made:
            rank.phase("backward", partial(until, ends))
            rank.join()
            rank.phase("optimizer", lambda rank: rank.kernel("adam", 20 * US))
            built.call("cudaDeviceSynchronize", rank.at, rank.free[7] + US, thread=rank.main)
            rank.at = rank.free[7] + 2 * US
            built.range(f"step {number}", began, rank.at, thread=rank.main)
            rank.work(US)
    report = report_of(find_context(trace_of(built)), keys=("communication",))
    return {each.rule: each for each in report.findings if each.rule.startswith("ranks/")}


def test_work_that_is_uneven_in_turn_costs_what_each_step_is_longer_than_the_mean() -> None:
    """Each step takes 400 us of compute; with equal work 300."""
    made = uneven(lambda number: number % 2)
    assert set(made) == {"ranks/in_turn"}
    assert saving_of(made["ranks/in_turn"]).point / 18 / US == pytest.approx(100, rel=0.1)


@pytest.mark.parametrize(("steps", "of_ten", "in_turn"), [(7, 5, True), (6, 5, False), (22, 6, True), (22, 7, False)])
def test_work_in_turn_needs_five_steps_and_no_rank_with_two_thirds_of_it(
    steps: int, of_ten: int, *, in_turn: bool
) -> None:
    """In each ten steps, rank 1 computes longer in some of them."""
    assert ("ranks/in_turn" in uneven(lambda number: int(number * 7 % 10 < of_ten), steps)) == in_turn


def test_uneven_work_of_a_real_job_in_turn(real_context: RealContext) -> None:
    """A rank that was late still computes for 0.1 ms after the last collective; then the other one is late.

    Equal lengths took 3.2 ms a step less.
    """
    report = report_of(real_context("ranks/uneven_in_turn"), keys=("communication",))
    finding = next(each for each in report.findings if each.rule == "ranks/in_turn")
    assert saving_of(finding).point / 1e6 / (report.step.count or 1) == pytest.approx(3.2, rel=0.6)
    assert all(each.rule != "ranks/late" for each in report.findings)


def test_a_rank_that_always_has_more_to_compute_is_late() -> None:
    assert set(uneven(lambda _: 1)) == {"ranks/late"}


def test_a_real_job_in_one_process_needs_a_process_for_each_gpu(real_context: RealContext) -> None:
    """It takes 32 ms a step; DistributedDataParallel took 8.1 ms for the same batch, on GPUs of the same kind."""
    report = report_of(real_context("alexnet_data_parallel_2gpu"), keys=("communication",))
    finding = next(each for each in report.findings if each.rule == "communication/data_parallel")
    assert "One process drives 2 GPUs" in finding.headline
    left = (report.window.length_ns - saving_of(finding).point) / (report.step.count or 1)
    assert left / 1e6 == pytest.approx(8.1, rel=0.5)


@of_captures(
    ["ranks/balanced", "ranks/loader", "ranks/pipeline_uneven", "jobs/late_of_four"],
    few={"ranks/balanced", "ranks/loader"},
)
def test_jobs_that_are_written_well_have_no_such_finding(name: str, real_context: RealContext) -> None:
    report = report_of(real_context(name), keys=("communication",))
    assert {each.rule for each in report.findings} & NEW <= {"communication/exposed"}


def test_many_large_buckets_are_sent_beside_the_pass() -> None:
    """Large parameters make large buckets: of four, three are sent while the next layers compute."""

    def step(rank: Rank) -> None:
        rank.phase("forward", forward)
        rank.phase("backward", backward(*[90 * MB] * 4))

    assert not found(step)
