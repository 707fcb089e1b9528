"""Exports of a pipeline of two stages that trains by the 1F1B schedule, as torch.distributed.pipelining runs it.

::

    stage 0    |F0|F1|..bubble..|B0|F2|.|B1|...|B2|.bubble.|B3|adam|
    stage 1    |.|F0| B0 |F1| B1 |F2| B2 |F3| B3 |........|adam|

A stage sends the activations of a microbatch and receives the gradients of an earlier one in one kernel.
"""

from collections.abc import Sequence

from export_builder import ExportBuilder, global_id

FIRST_PID = 6000
SEND = "ncclDevKernel_SendRecv"
TRANSFER, OPTIMIZER, MARGIN = 5_000, 20_000, 2_000
LAUNCH = 1_000  # From the begin of a launch call to the begin of its kernel, where the GPU waits for it.
BLOCK = 25_000  # The forward pass of one block; its backward pass has two such kernels.


def works(stage: int, microbatches: int, blocks: int, slower: int = 1) -> list[tuple[str, int]]:
    """Return what a stage does in one step, in order: name and length in ns; a message has no length of its own."""
    length = BLOCK * slower if stage else BLOCK
    one, other = [("fwd", length)] * blocks, [("bwd", length)] * (2 * blocks)
    message = [("message", 0)]
    if stage == 0:
        return [*one, *message, *(one + message + other) * (microbatches - 1), *message, *other]
    return [*message, *(one + other + message) * microbatches]


def schedule(
    microbatches: int, blocks: Sequence[int], slower: int = 1, pace: int = 0
) -> list[list[tuple[str, int, int]]]:
    """Return name, start and end of what each of two stages does in one step, by a plain loop over both.

    A kernel begins ``pace`` ns after the one before it.
    """
    left = [works(stage, microbatches, count, slower) for stage, count in enumerate(blocks)]
    found: list[list[tuple[str, int, int]]] = [[], []]
    free = [0, 0]
    while any(left):
        for stage in range(2):
            while left[stage] and left[stage][0][0] != "message":
                name, length = left[stage].pop(0)
                found[stage].append((name, free[stage] + pace, free[stage] + pace + length))
                free[stage] += pace + length
        if all(left):
            end = max(free) + TRANSFER
            for stage in range(2):
                left[stage].pop(0)
                found[stage].append(("message", free[stage], end))
                free[stage] = end
    return found


def built(microbatches: int, blocks: Sequence[int], steps: int = 6, slower: int = 1, pace: int = 0) -> ExportBuilder:
    """Return the export of both stages; the host launches each step at its begin, or each kernel just before it.

    Args:
        microbatches: Number of microbatches in a step.
        blocks: Number of blocks of each stage.
        steps: Number of steps.
        slower: How many times as long the kernels of the second stage take.
        pace: How long a GPU waits for the launch of each kernel, in ns; 0 where the host is far ahead.
    """
    made, once = ExportBuilder(), schedule(microbatches, blocks, slower, pace)
    whole = max(each[-1][2] for each in once) + OPTIMIZER + 2 * MARGIN
    for stage, its in enumerate(once):
        process = global_id(FIRST_PID + stage)
        main = process | (FIRST_PID + stage)
        made.gpu(stage).domain("NCCL", 3, thread=process)
        payload = f'{{"NCCL communicator ID":99,"No. of ranks":2,"Rank":{stage},"CUDA device":{stage}}}'
        made.range("ncclCommInitRank", 1, 2, thread=main, domain=3, jsonText=payload)
        payload = f'{{"NCCL communicator ID":99,"Message size [bytes]":4096,"Peer rank":{1 - stage}}}'
        for number in range(steps):
            at = 10_000 + number * whole
            made.range(f"step {number}", at, at + whole - 100, thread=main)
            for place, (name, start, end) in enumerate((*its, ("adam", its[-1][2], its[-1][2] + OPTIMIZER))):
                given = {"device": stage, "process": process, "thread": main}
                begun, over = at + MARGIN + start, at + MARGIN + end
                launch = begun - LAUNCH if pace else at + 10 * place
                if name == "message":
                    made.range("ncclGroupEnd", launch, launch + 8, thread=main, domain=3, jsonText=payload)
                    made.kernel(begun, over, SEND, launched=(launch + 1, launch + 3), stream=8, **given)
                else:
                    made.kernel(begun, over, name, launched=(launch + 1, launch + 3), stream=7, **given)
            waits = launch + 20 if pace else at + 10 * len(its) + 20
            made.call("cudaDeviceSynchronize", waits, at + whole - 200, thread=main)
    return made
