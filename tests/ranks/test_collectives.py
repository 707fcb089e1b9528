"""Kernels are matched to collectives and their time is split, checked on real jobs and on synthetic ones."""

from collections.abc import Callable

import numpy as np
import pytest
from export_builder import ExportBuilder, global_id, trace_of
from made_ranks import REDUCE, job
from rank_generator import pipeline

from nsyswrap.base.intervals import total
from nsyswrap.events.operations import COMPUTE
from nsyswrap.hardware.kernel_names.collectives import kind_of
from nsyswrap.loop.context import TraceContext, find_context
from nsyswrap.ranks.collectives import NO_COLLECTIVES, Collectives, bus_bytes, find_collectives, names_of
from nsyswrap.report import choose_window
from nsyswrap.trace.tables import Trace

RealTrace = Callable[[str], Trace]
GATHER, SEND = "ncclDevKernel_AllGather_RING_LL", "ncclDevKernel_SendRecv"
BY_OTHERS = (
    "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 2>(vllm::RankData*, vllm::RankSignals, vllm::Signal*)",
    "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<1, __nv_bfloat16, 8>(int)",
    "void deep_ep::internode_ll::dispatch<true, false, 3, 10, 7168>(void*, float*)",
    "void (anonymous namespace)::one_shot_all_reduce_kernel<c10::BFloat16, 16, -1>(c10::BFloat16**)",
)
JOBS = ("ddp_2gpu_slow_links", "alexnet_data_parallel_2gpu")


def looped(context: TraceContext) -> dict[int, tuple[int, int]]:
    """Return exposed wait and transfer of each GPU in ns, computed with a plain loop over the n-th collectives."""
    operations = context.operations
    sent = {d: [int(r) for r in operations.on(d) if operations.kind[r] == 1] for d in operations.devices}
    found = {}
    for device, rows in sent.items():
        busy = operations.by_device[device].exclusive[COMPUTE]
        spans = list(zip(busy.start.tolist(), busy.end.tolist(), strict=True))
        wait = transfer = 0
        for number, row in enumerate(rows):
            start, end = int(operations.start[row]), int(operations.end[row])
            arrival = min(max(int(operations.start[each[number]]) for each in sent.values()), end)
            near = [span for span in spans if span[0] < end and span[1] > start]
            wait += arrival - start - sum(max(min(b, arrival) - max(a, start), 0) for a, b in near)
            transfer += end - arrival - sum(max(min(b, end) - max(a, arrival), 0) for a, b in near)
        found[device] = wait, transfer
    return found


def split(context: TraceContext, collectives: Collectives) -> dict[int, tuple[int, int]]:
    """Return exposed wait and transfer of each GPU over all operations, in ns."""
    whole = choose_window(context, "all")
    found = {}
    for device in context.operations.devices:
        _, wait, transfer, *_ = collectives.exclusive(context.operations, device, whole)
        found[device] = total(wait), total(transfer)
    return found


def collectives_of(trace: Trace) -> Collectives:
    return find_collectives(find_context(trace))


@pytest.mark.parametrize("name", JOBS)
def test_the_split_of_a_real_job_is_that_of_a_plain_loop(name: str, real_trace: RealTrace) -> None:
    context = find_context(real_trace(name))
    found = find_collectives(context)
    assert found.matched.all()
    assert split(context, found) == looped(context)


@pytest.mark.parametrize("name", [REDUCE, *BY_OTHERS])
def test_the_wait_for_a_late_rank_ends_when_it_arrives_in_the_collectives_of_any_library(name: str) -> None:
    """Rank 1 loads 400 us longer in each of 4 steps; the transfer takes 100 ns."""
    context = find_context(trace_of(job(3, 4, {1: 400_000}, reduce=name)))
    assert split(context, find_collectives(context)) == {0: (1_600_000, 400), 1: (0, 400), 2: (1_600_000, 400)}


def test_collectives_of_two_libraries_in_one_stream_have_a_communicator_each() -> None:
    """Ranks 0 and 1 sum up, and ranks 2 and 3; between the sums all four exchange tokens."""
    built = ExportBuilder()
    for device, late in ((0, 0), (1, 70), (2, 500_000), (3, 500_030)):
        for number in range(4):
            at = 4_000_000 * number + 1000
            process = global_id(50 + device)
            end = at + (500_900 if device > 1 else 900)
            built.kernel(at + late, end, BY_OTHERS[0], device=device, process=process)
            built.kernel(at + 1_000_000 + late, at + 2_000_000, BY_OTHERS[2], device=device, process=process)
    found = collectives_of(trace_of(built))
    assert found.matched.all()
    of_kind = {kind: found.communicator[found.kind == code] for code, kind in enumerate(found.kinds)}
    assert {kind: len(set(numbers.tolist())) for kind, numbers in of_kind.items()} == {"AllReduce": 2, "Dispatch": 1}
    sums = found.kind == found.kinds.index("AllReduce")
    waits = {
        device: int((found.arrival - found.start)[sums & (found.device_id == device)].sum()) for device in range(4)
    }
    assert waits == {0: 280, 1: 0, 2: 120, 3: 0}


def test_the_calls_of_nccl_name_no_communicator_of_other_libraries() -> None:
    """An all-reduce that is not NCCL's runs after one of NCCL's on the same thread and stream."""
    built = ExportBuilder()
    for device in range(2):
        process = global_id(50 + device)
        main = process | 1
        built.domain("NCCL", 3, thread=process)
        payload = '{"NCCL communicator ID":7,"Message size [bytes]":64}'
        for number in range(3):
            at = 10_000 * (number + 1)
            built.range("ncclAllReduce", at, at + 8, thread=main, domain=3, jsonText=payload)
            about = {"device": device, "process": process, "thread": main, "stream": 8}
            built.kernel(at + 100 + device, at + 900, REDUCE, launched=(at + 2, at + 4), **about)
            built.kernel(at + 1000 + device, at + 1900, BY_OTHERS[0], launched=(at + 20, at + 24), **about)
    found = collectives_of(trace_of(built))
    assert found.matched.all()
    of_nccl = found.bytes == 64
    assert of_nccl.sum() == 6
    assert not set(found.communicator[of_nccl].tolist()) & set(found.communicator[~of_nccl].tolist())


def test_one_rank_alone_has_no_wait() -> None:
    found = collectives_of(trace_of(job(1, 3, {})))
    assert not found.matched.any()
    assert (found.arrival == found.start).all()


def test_a_collective_that_one_rank_did_not_record_shifts_the_others() -> None:
    """Rank 1 did not record the first collective, so the second of rank 0 matches the first of rank 1."""
    built = ExportBuilder()
    for device, first in ((0, 0), (1, 1)):
        for number in range(first, 6):
            at = 1_000_000 * (number + 1)
            name = GATHER if number % 2 else REDUCE
            built.kernel(at + 100 * device, at + 5000, name, device=device, process=global_id(50 + device))
    found = collectives_of(trace_of(built))
    assert found.matched.tolist() == [False] + [True] * 10
    assert all(len(set(found.kind[found.group == group])) == 1 for group in range(5))
    assert {int(each) for each in found.arrival[found.matched] - found.start[found.matched]} == {0, 100}


def test_ranks_that_reduce_in_pairs_wait_for_their_own_partner() -> None:
    """Ranks 0 and 1 end together, and so do ranks 2 and 3, half a millisecond later."""
    built = ExportBuilder()
    for device, late in ((0, 0), (1, 70), (2, 500_000), (3, 500_030)):
        for number in range(4):
            at = 2_000_000 * number + 1000
            end = at + (500_900 if device > 1 else 900)
            built.kernel(at + late, end, REDUCE, device=device, process=global_id(50 + device))
    found = collectives_of(trace_of(built))
    assert found.matched.all()
    waits = {device: int((found.arrival - found.start)[found.device_id == device].sum()) for device in range(4)}
    assert waits == {0: 280, 1: 0, 2: 120, 3: 0}


@pytest.mark.parametrize(("apart_ns", "others", "matched"), [(190, 0, 1), (210, 0, 0), (150, 3, 1), (150, 5, 0)])
def test_the_same_collectives_end_within_200_us_and_99_of_100_are_of_one_kind(
    apart_ns: int, others: int, matched: int
) -> None:
    """Of 401 collectives some are of another kind on the second rank: 0.7 or 1.2 per cent of them."""
    built = ExportBuilder()
    for device in range(2):
        for number in range(401):
            name = GATHER if device and number < others else REDUCE
            end = 2_000_000 * number + 900_000 + device * apart_ns * 1000
            built.kernel(end - 500_000, end, name, device=device, process=global_id(50 + device))
    assert collectives_of(trace_of(built)).matched.any() == bool(matched)


def test_messages_among_more_than_two_ranks_are_not_matched() -> None:
    built = ExportBuilder()
    for device in range(3):
        built.kernel(100 + device, 900, SEND, device=device, process=global_id(50 + device))
    assert not collectives_of(trace_of(built)).matched.any()


@pytest.mark.parametrize("is_late", [False, True], ids=["whole", "after the communicator was made"])
def test_messages_are_matched_where_nccl_names_the_peers(is_late: bool) -> None:  # noqa: FBT001
    """In a pipeline of three, each stage exchanges with its neighbours; the sums are those of a plain loop."""
    built, times = pipeline(5)
    if is_late:
        built.rows["NVTX_EVENTS"] = [row for row in built.rows["NVTX_EVENTS"] if row.get("text") != "ncclCommInitRank"]
    found = collectives_of(trace_of(built))
    assert found.matched.all()
    arrival = {
        (device, start): at for device, start, at in zip(found.device_id, found.start, found.arrival, strict=True)
    }
    for pair in times:
        last = max(start for _, start in pair)
        assert [arrival[device, start] for device, start in pair] == [last, last]


def test_a_part_of_a_job_may_begin_a_step_later_on_one_rank() -> None:
    """Each rank has as many collectives of a communicator that NCCL names, but not the same ones."""
    built = ExportBuilder()
    for device in range(2):
        process = global_id(50 + device)
        built.domain("NCCL", 3, thread=process)
        for number in range(device, device + 6):
            at = 1_000_000 * (number + 1)
            payload = '{"NCCL communicator ID":7,"Message size [bytes]":64}'
            built.range("ncclAllReduce", at, at + 8, thread=process | 1, domain=3, jsonText=payload)
            about = {"device": device, "process": process, "thread": process | 1, "stream": 8}
            built.kernel(at + 100 + 50 * device, at + 900, REDUCE, launched=(at + 2, at + 4), **about)
    found = collectives_of(trace_of(built))
    assert found.matched.tolist() == [False] + [True] * 10 + [False]
    assert {int(each) for each in found.arrival[found.matched] - found.start[found.matched]} == {0, 50}


def all_to_all(starts: tuple[int, ...]) -> ExportBuilder:
    """Return ranks that exchange with all others in one kernel each, twice; the kernels of a round end together."""
    built = ExportBuilder()
    for rank, late in enumerate(starts):
        process = global_id(5000 + rank)
        main = process | 1
        built.domain("NCCL", 3, thread=process)
        about = f'"No. of ranks":{len(starts)},"Rank":{rank},"CUDA device":{rank}'
        built.range("ncclCommInitRank", 1, 2, thread=main, domain=3, jsonText=f'{{"NCCL communicator ID":7,{about}}}')
        for number in range(2):
            at = 100_000 * (number + 1)
            for peer in range(len(starts)):
                payload = f'{{"NCCL communicator ID":7,"Message size [bytes]":64,"Peer rank":{peer}}}'
                for place, name in enumerate(("ncclSend", "ncclRecv")):
                    begun = at - 5000 + 200 * peer + 90 * place
                    built.range(name, begun, begun + 50, thread=main, domain=3, jsonText=payload)
            given = {"device": rank, "process": process, "thread": main, "stream": 8}
            built.kernel(at + late, at + 9000, SEND, launched=(at - 900, at - 800), **given)
    return built


def test_ranks_that_all_exchange_with_one_another_wait_for_the_last() -> None:
    """PyTorch's all_to_all is a group of sends and receives, to the rank itself as well."""
    found = collectives_of(trace_of(all_to_all((0, 300, 4000))))
    assert found.kinds == ("AllToAll",)
    assert found.matched.all()
    waits = {rank: int((found.arrival - found.start)[found.device_id == rank].sum()) for rank in range(3)}
    assert waits == {0: 8000, 1: 7400, 2: 0}


def test_a_message_with_several_peers_is_not_matched() -> None:
    built, _ = pipeline(5)
    for row in built.rows["NVTX_EVENTS"]:
        payload = str(row.get("jsonText") or "")
        if '"Peer rank":2' in payload:
            # The second stage receives from both neighbours in one kernel.
            row["jsonText"] = payload.replace('"Peer rank":2', '"Peer rank":0')
    assert not collectives_of(trace_of(built)).matched.all()


def test_collectives_at_once_wait_only_while_none_transfers() -> None:
    """On GPU 0, one waits from 100 to 400 while another one transfers from 200 to 300."""
    built, calls = ExportBuilder().domain("NCCL", 3), ((7, "a", 100, 400, 500), (8, "b", 200, 200, 300))
    for device, process in ((0, global_id(50)), (1, global_id(51))):
        built.domain("NCCL", 3, thread=process)
        for stream, _, start, arrival, end in calls:
            begin = arrival if device else start
            built.range(
                *("ncclAllReduce", 10 * stream, 10 * stream + 8),
                thread=process | 1,
                domain=3,
                jsonText=f'{{"NCCL communicator ID":{stream},"Message size [bytes]":64}}',
            )
            about = {"device": device, "process": process, "thread": process | 1, "stream": stream}
            built.kernel(begin, end, REDUCE, launched=(10 * stream + 2, 10 * stream + 4), **about)
    context = find_context(trace_of(built))
    found = find_collectives(context)
    assert sorted(set(found.communicator.tolist())) == [0, 1]
    assert set(found.bytes.tolist()) == {64}
    assert split(context, found)[0] == (100 + 100, 100 + 100)


def test_without_collectives_all_communication_is_transfer() -> None:
    context = find_context(trace_of(job(2, 2, {0: 1000})))
    assert split(context, NO_COLLECTIVES)[1] == (0, sum(split(context, find_collectives(context))[1]))


def test_when_the_transfer_of_operations_began() -> None:
    context = find_context(trace_of(job(2, 2, {0: 1000})))
    found, rows = find_collectives(context), np.arange(len(context.operations.start))
    begun = found.begun(context.operations, rows)
    assert (begun[found.row] == found.arrival).all()
    others = np.setdiff1d(rows, found.row)
    assert (begun[others] == context.operations.start[others]).all()


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "AllReduce"),
        ("ncclKernel_ReduceScatter_RING_LL_Sum_half(ncclWorkElem)", "ReduceScatter"),
        ("ncclAllGatherRingLLKernel_copy_i8(ncclColl)", "AllGather"),
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "SendRecv"),
        ("ncclSomethingElse", "ncclSomethingElse"),
    ],
)
def test_the_kind_is_in_the_name(name: str, kind: str) -> None:
    assert kind_of(name) == kind


@pytest.mark.parametrize(
    ("kind", "ranks", "expected"),
    [("AllReduce", 4, 1500), ("AllGather", 4, 3000), ("Broadcast", 4, 1000), ("Unknown", 4, None)],
)
def test_bytes_on_each_link(kind: str, ranks: int, expected: float | None) -> None:
    assert bus_bytes(kind, 1000, ranks) == expected
    assert bus_bytes(kind, -1, ranks) is None


def test_ranks_in_words() -> None:
    assert [names_of(each) for each in ([0], [0, 2], [0, 1, 3])] == ["rank 0", "ranks 0 and 2", "ranks 0, 1 and 3"]


@pytest.mark.parametrize(("count", "words"), [(8, "ranks 0, 1, 2, 3, 4, 5, 6 and 7"), (9, "9 ranks")])
def test_up_to_eight_ranks_are_named_one_by_one(count: int, words: str) -> None:
    assert names_of(range(count)) == words
