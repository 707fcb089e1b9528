"""Each finding's change removes the right time from a run, on traces that can be checked by eye."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from analysis_fixtures import window
from export_builder import DEVICE_TO_HOST, HOST_TO_DEVICE, MAIN, ExportBuilder, thread, trace_of
from simulations import US, change_of, saved_us, simulate, simulate_trace

from nsyswrap.base.interval import Interval
from nsyswrap.base.intervals import Spans
from nsyswrap.events.host_record import HostRecord
from nsyswrap.loop.context import Settings, find_context
from nsyswrap.rules import CAUSES
from nsyswrap.sections.copies import beside_kernels
from nsyswrap.trace.tables import Trace
from nsyswrap.what_if.changes import fix_of
from nsyswrap.what_if.changes.blocking_waits import one_copy, reads
from nsyswrap.what_if.changes.fewer_operations import fused
from nsyswrap.what_if.changes.fused_optimizer import fused_optimizer
from nsyswrap.what_if.changes.loader_work import loader_work
from nsyswrap.what_if.dependency_graph import Change
from nsyswrap.what_if.fix import LostTime
from nsyswrap.what_if.saving import CANNOT, Saving, WhatIf, faster, predict
from nsyswrap.what_if.simulate import Simulation

WHOLE = window(0, 1_000 * US)


def turns(each: Callable[[ExportBuilder, int], object], count: int = 5) -> ExportBuilder:
    """Return turns of 100 µs and a last kernel. Each turn starts with a kernel of 5 µs, and ``each`` adds the rest."""
    builder = ExportBuilder()
    for number in range(count):
        at = number * 100 * US
        builder.kernel(at + 10 * US, at + 15 * US, launched=called(at))
        each(builder, at)
    return builder.kernel(count * 100 * US + 10 * US, count * 100 * US + 15 * US, launched=called(count * 100 * US))


def called(at: int) -> tuple[int, int]:
    """Return a call of 4 µs."""
    return at, at + 4 * US


def saved(trace: Trace, what: Callable[[Simulation], WhatIf]) -> int:
    """Return what a change saves, in µs."""
    return saved_us(simulate_trace(trace, WHOLE), what)


def spans(*pairs: tuple[int, int]) -> Spans:
    """Return spans from pairs in µs."""
    return Spans(np.array([first for first, _ in pairs]) * US, np.array([last for _, last in pairs]) * US)


@pytest.mark.parametrize(
    ("cause", "call"),
    [("allocation", "cudaMalloc"), ("module_load", "cuModuleLoadData"), ("allocation", "cudaHostAlloc")],
)
def test_time_in_calls_that_are_not_needed_is_saved(cause: str, call: str) -> None:
    """Five calls of 60 µs take 300 µs."""
    trace = trace_of(turns(lambda builder, at: builder.call(call, at + 20 * US, at + 80 * US)))
    assert saved(trace, change_of(CAUSES[cause])) == 300


def test_a_free_that_waits_for_the_gpu_hides_its_work() -> None:
    """The call lasts until the kernel of 60 µs ends. Without the call, the kernels still have to run."""

    def each(builder: ExportBuilder, at: int) -> None:
        builder.kernel(at + 30 * US, at + 90 * US, launched=called(at + 20 * US))
        builder.call("cudaFree", at + 25 * US, at + 92 * US)

    assert 0 < saved(trace_of(turns(each)), change_of(CAUSES["allocation"])) < 515 - 5 * 65


def test_waiting_for_a_lock_is_saved_on_the_thread_that_waits() -> None:
    other = thread(4712)
    trace = trace_of(
        turns(lambda builder, at: builder.os_call("pthread_mutex_lock", at + 20 * US, at + 60 * US))
        .os_call("pthread_mutex_lock", 0, 500 * US, thread=other)
        .kernel(516 * US, 517 * US, launched=(500 * US, 502 * US), thread=other)
    )
    assert saved(trace, change_of(CAUSES["lock"])) == 200


def test_a_thread_that_is_off_the_cpu_comes_back_sooner() -> None:
    """The thread has no core for 30 µs in each of five turns, 150 µs."""

    def each(builder: ExportBuilder, at: int) -> None:
        builder.scheduled(at + 20 * US, running=False).scheduled(at + 50 * US, running=True)
        builder.os_call("read", at, at + 1)

    assert saved(trace_of(turns(each)), change_of(CAUSES["off_cpu"])) == 150


class Lost(LostTime):
    """Idle time of the main thread in each turn."""

    def on_host(self, _simulation: Simulation) -> dict[int, Spans]:
        """Return the µs of each turn that the advice names, from and to."""
        first, last = map(int, self.advice.split())
        return {MAIN: spans(*((number * 100 + first, number * 100 + last) for number in range(5)))}


def saved_of_lost(trace: Trace, rule: str, first: int, last: int) -> int:
    """Return what the fix of a rule of idle time saves where the GPU is idle in these µs of each turn, in µs."""
    lost = Lost(rule, (), f"{first} {last}")
    return saved(trace, lambda simulation: fix_of(rule).change(simulation, lost))


@pytest.mark.parametrize(
    ("call", "wait", "expected"), [("recv", 40, 200), ("recv", 80, 115), ("poll", 80, 115), ("nanosleep", 80, 400)]
)
def test_a_wait_for_others_overlaps_with_the_rest_of_a_run(call: str, wait: int, expected: int) -> None:
    """Of 515 µs, five waits of 40 µs are covered by the rest; of five of 80 µs, 115 are. A sleep is left out."""
    trace = trace_of(turns(lambda builder, at: builder.os_call(call, at + 15 * US, at + (15 + wait) * US)))
    assert saved_of_lost(trace, "host/outside_wait", 15, 15 + wait) == expected


def test_tokenizing_is_saved_also_while_the_gpu_works() -> None:
    """In each turn, 40 µs of it: the GPU is idle in 10 of these."""

    def each(builder: ExportBuilder, at: int) -> None:
        builder.kernel(at + 15 * US, at + 50 * US, launched=(at + 5 * US, at + 9 * US))
        builder.range("tokenizer at train.py:8", at + 20 * US, at + 60 * US, domain=7)

    assert saved_of_lost(trace_of(turns(each).domain("nsyswrap", 7)), "host/tokenizer", 50, 60) == 200


def test_a_checkpoint_goes_with_its_copies_and_its_waits() -> None:
    """In each turn it takes 60 us. Meanwhile the GPU copies for 20, and is idle for 10. Five turns take 300 us less."""

    def each(builder: ExportBuilder, at: int) -> None:
        builder.range("torch.save at train.py:8", at + 20 * US, at + 80 * US, domain=7)
        builder.copy(at + 40 * US, at + 60 * US, DEVICE_TO_HOST, launched=(at + 30 * US, at + 62 * US))

    assert saved_of_lost(trace_of(turns(each).domain("nsyswrap", 7)), "host/checkpoint", 65, 75) == 300


def test_who_reads_the_files_prepares_the_data_as_well() -> None:
    """In each turn, 40 us of it: reading takes 10 of these, and the GPU is busy in 5."""

    def each(builder: ExportBuilder, at: int) -> None:
        builder.range("data", at + 10 * US, at + 50 * US)
        builder.os_call("read", at + 20 * US, at + 30 * US)

    assert saved_of_lost(trace_of(turns(each)), "host/file_reads", 20, 30) == 200


def test_work_has_a_pace_and_waits_in_the_operating_system_have_none() -> None:
    """Of 500 us of the host, 100 are waits: at half its pace it takes 400 us more. The last launch takes 4 more."""
    trace = trace_of(turns(lambda builder, at: builder.os_call("nanosleep", at + 20 * US, at + 40 * US)))
    simulation = simulate_trace(trace, WHOLE)
    assert simulation.length(simulation.at_pace(2.0)) - simulation.length() == 404 * US


def test_loading_and_cpu_time_are_shortened_separately() -> None:
    """In each turn the launch takes 4 µs, the data phase 36 µs and other code 60 µs; there is one launch more."""
    trace = trace_of(turns(lambda builder, at: builder.range("data", at + 4 * US, at + 40 * US)))
    host = {MAIN: spans(*((number * 100 + 40, number * 100 + 100) for number in range(5)))}
    assert saved(trace, lambda _: WhatIf(Change(host=host), "all of it")) == 300
    assert saved(trace, change_of(CAUSES["data_work"])) == 180


def test_operations_begin_at_once() -> None:
    """Only the last kernel's latency of 6 µs is not hidden by the CPU."""
    assert saved(trace_of(turns(lambda *_: None)), change_of(CAUSES["queued"])) == 6


def copying(direction: int) -> Callable[[ExportBuilder, int], None]:
    """Return a function that adds a copy of 2 µs and a wait of 9 µs for it, like ``.item()`` or ``.to(device)``."""

    def each(builder: ExportBuilder, at: int) -> None:
        builder.copy(at + 30 * US, at + 32 * US, direction, launched=called(at + 20 * US))
        builder.call("cudaStreamSynchronize", at + 25 * US, at + 34 * US)

    return each


def test_a_removed_wait_lets_the_host_run_on() -> None:
    """Each of five waits lasts 9 µs: 4 µs for the call itself, as for a launch, and 5 µs of waiting."""
    assert saved(trace_of(turns(copying(DEVICE_TO_HOST))), change_of(CAUSES["synchronization"])) == 45


@pytest.mark.parametrize(("change", "mine"), [(reads, DEVICE_TO_HOST), (one_copy, HOST_TO_DEVICE)])
def test_a_removed_copy_saves_its_call_as_well(
    change: Callable[[Simulation], WhatIf],
    mine: int,
) -> None:
    """The waiting is saved, 5 µs in each of five turns, and the two calls of 4 µs."""
    assert saved(trace_of(turns(copying(mine))), change) == 65
    both = turns(copying(mine)).copy(600 * US, 602 * US, 3 - mine, launched=called(560 * US))
    simulation = simulate_trace(trace_of(both), WHOLE)
    made = change(simulation).change
    assert simulation.context.operations.start[made.operations].tolist() == [(n * 100 + 30) * US for n in range(5)]
    assert made.factor == 0


def test_one_copy_removes_only_the_waits_right_behind_copies() -> None:
    """A wait after a kernel launch stays, and so does a wait after a copy of another thread."""

    def each(builder: ExportBuilder, at: int) -> None:
        copying(HOST_TO_DEVICE)(builder, at)
        builder.kernel(at + 50 * US, at + 55 * US, launched=called(at + 40 * US))
        builder.call("cudaStreamSynchronize", at + 45 * US, at + 57 * US)
        builder.copy(at + 66 * US, at + 67 * US, launched=called(at + 60 * US), thread=thread(4712))
        builder.call("cudaStreamSynchronize", at + 65 * US, at + 69 * US)

    simulation = simulate_trace(trace_of(turns(each, 1)), WHOLE)
    calls = simulation.context.trace.frames["calls"].iloc[one_copy(simulation).change.waits]
    assert (calls["start"] // US).tolist() == [20, 25, 60]


def test_exposed_copies_are_hidden() -> None:
    """Exposed copies of 60 µs, one before each of five kernels, are overlapped.

    All work is launched ahead. Without the copies, the first kernel is launched at 9, has a latency of 6 and ends at
    45. Four more follow, 31 µs each. The run takes 169 µs instead of 469 µs.
    """
    builder, free = ExportBuilder(), 10 * US
    for number in range(5):
        at = number * 10 * US
        builder.copy(free, free + 60 * US, launched=called(at))
        builder.kernel(free + 61 * US, free + 91 * US, launched=called(at + 5 * US))
        free += 92 * US
    trace = trace_of(builder)
    assert saved(trace, beside_kernels) == 300


QUEUED = [(10, 40), (42, 46), (48, 78), (80, 84), (86, 116)]


def test_fused_operations_lose_their_gaps_and_short_ones_their_time() -> None:
    """Kernels of 30 µs and of 4 µs alternate, with gaps of 2 µs, all launched ahead.

    Four gaps of 2 µs and two kernels of 4 µs are saved. Nothing changes on another GPU.
    """
    builder = ExportBuilder()
    for number, (start, end) in enumerate(QUEUED):
        builder.kernel(start * US, end * US, launched=(number * 2 * US, (number * 2 + 1) * US))
    gaps = spans((40, 42), (46, 48), (78, 80), (84, 86))
    trace = trace_of(builder)
    assert saved(trace, partial(fused, {0: gaps})) == 16
    assert saved(trace, partial(fused, {1: gaps})) == 0


def test_fused_operations_change_only_behind_the_given_gaps() -> None:
    """The first gap ends with a kernel of 4 µs, the second with one of 30 µs, which gets 2 µs shorter."""
    builder = ExportBuilder()
    for number, (start, end) in enumerate(QUEUED):
        builder.kernel(start * US, end * US, launched=(number * 2 * US, (number * 2 + 1) * US))
    change = fused({0: spans((40, 42), (46, 48))}, simulate_trace(trace_of(builder), WHOLE)).change
    assert change.operations.tolist() == [1, 2]
    assert change.factor == pytest.approx([0, 28 / 30])


@pytest.mark.parametrize("name", ["ampere_sgemm_128x64_tn", "triton_poi_fused_add_0"])
def test_a_short_kernel_that_no_compiler_fuses_keeps_its_time(name: str) -> None:
    """A product is a library's kernel, and one of a compiler is fused already: the gaps of 2 µs are saved."""
    builder = ExportBuilder()
    for number, (start, end) in enumerate(QUEUED):
        short = name if end - start == 4 else "k"
        builder.kernel(start * US, end * US, short, launched=(number * 2 * US, (number * 2 + 1) * US))
    trace = trace_of(builder)
    assert saved(trace, partial(fused, {0: spans((40, 42), (46, 48), (78, 80), (84, 86))})) == 8


def test_the_launch_of_a_short_fused_operation_is_saved_as_well() -> None:
    """The host time for the short kernel, from the end of one launch call at 4 to that of its own at 14, is saved.

    The last kernel waits for the host, so it begins 10 µs earlier.
    """
    builder = ExportBuilder().kernel(10 * US, 40 * US, launched=called(0))
    builder.kernel(42 * US, 46 * US, launched=called(10 * US)).kernel(48 * US, 78 * US, launched=called(20 * US))
    builder.kernel(210 * US, 240 * US, launched=called(200 * US))
    trace = trace_of(builder)
    assert saved(trace, partial(fused, {0: spans((40, 42), (46, 48))})) == 10


def test_a_fused_optimizer_saves_the_host_time_of_its_phase() -> None:
    """The optimizer takes 60 µs of CPU time in each turn and runs one short kernel."""

    def each(builder: ExportBuilder, at: int) -> None:
        builder.range("optimizer", at + 20 * US, at + 80 * US)
        builder.kernel(at + 50 * US, at + 55 * US, launched=called(at + 40 * US))

    assert saved(trace_of(turns(each)), fused_optimizer) == 300


def test_a_fused_optimizer_moves_less_memory_and_has_no_short_kernels() -> None:
    """Two kernels of 180 µs take 7/18 of that, 70 µs, and a short one is removed: 6 + 70 + 1 + 70 instead of 377 µs.

    A kernel of another phase stays.
    """
    builder = ExportBuilder().range("optimizer", 0, 30 * US).range("forward", 30 * US, 40 * US)
    builder.kernel(10 * US, 190 * US, launched=called(0)).kernel(191 * US, 371 * US, launched=called(10 * US))
    builder.kernel(372 * US, 377 * US, launched=called(20 * US))
    assert saved(trace_of(builder), fused_optimizer) == 230
    forward = builder.kernel(378 * US, 478 * US, launched=called(32 * US))
    change = fused_optimizer(simulate_trace(trace_of(forward), WHOLE)).change
    assert change.operations.tolist() == [0, 1, 2]
    assert change.factor == pytest.approx([7 / 18, 7 / 18, 0])


def test_beside_a_fused_optimizer_only_short_kernels_and_their_launches_go() -> None:
    """The fused kernel of 180 µs stays, and so does a long one; two short ones and 10 µs before each launch go."""
    builder = ExportBuilder().range("optimizer", 0, 40 * US)
    builder.kernel(10 * US, 190 * US, "FusedAdamMathFunctor<float>", launched=called(0))
    builder.kernel(191 * US, 221 * US, launched=called(10 * US))
    builder.kernel(222 * US, 227 * US, launched=called(20 * US)).kernel(228 * US, 233 * US, launched=called(30 * US))
    change = fused_optimizer(simulate_trace(trace_of(builder), WHOLE)).change
    assert change.operations.tolist() == [2, 3]
    assert change.factor == pytest.approx([0, 0])
    assert saved(trace_of(builder), fused_optimizer) == 12


def test_a_run_that_cannot_be_simulated_has_no_predicted_saving() -> None:
    """The kernel has no known launch, so the change is not simulated at all."""

    def never(_: Simulation) -> WhatIf:
        raise AssertionError

    found = predict(simulate_trace(trace_of(ExportBuilder().kernel(0, 10)), WHOLE), never)
    assert found == Saving(None, None, (CANNOT,))


def test_a_change_that_makes_a_run_longer_saves_nothing() -> None:
    """Kernels that take twice as long save 0 ns, and never a negative time."""
    simulation = simulate_trace(trace_of(turns(lambda *_: None)), WHOLE)
    found = predict(simulation, lambda each: faster(each.operations, 2.0, "slower kernels"))
    assert found == Saving(Interval(0, 0, 0), "simulated", ("simulated: slower kernels",))


@pytest.mark.parametrize(("cores", "left"), [({}, 98), ({"allowed": 2}, 200), ({"allowed": 100}, 98)])
def test_all_cores_prepare_what_the_training_process_no_longer_does(cores: dict[str, int], left: int) -> None:
    """In each of five turns it prepares data for 80 µs. Two cores take 200 µs for all of it, and 98 µs stay."""
    builder = ExportBuilder().domain("nsyswrap", 7)
    for number in range(5):
        at = number * 100 * US
        builder.range("data", at + 5 * US, at + 85 * US, domain=7)
        builder.kernel(at + 95 * US, at + 98 * US, launched=(at + 90 * US, at + 94 * US))
    trace = trace_of(builder)
    context = find_context(trace, Settings(host=HostRecord(cores=cores)))
    simulation = simulate(context, window(0, 500 * US))
    assert simulation.length(loader_work(simulation).change) == left * US
