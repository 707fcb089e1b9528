"""Exports of random content for the fuzzer: sound in form, with values that nsys never writes but a file may hold.

A case begins as a small training loop. Then some of its rows, cells, tables and texts are changed: times at the ends of
their type, ids that are not there, rows twice, columns left out. Each case follows from its number alone.
"""

import random
from collections.abc import Callable
from contextlib import suppress

from export_builder import DEVICE_TO_HOST, HOST_TO_DEVICE, MAIN, PROCESS, ExportBuilder, Value, global_id
from export_layouts import columns_of

# Ends of the types that a number passes through, and numbers near the limits of the reader.
EXTREMES = (
    *(0, 1, -1, 2, 7, 127, 255, 256, -128),
    *(2**15, 2**16, 2**24 - 1, 2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**32, -(2**31), -(2**31) - 1),
    *(10**6, 10**9, -(10**9), 10**12, 10**15, 10**18, -(10**18), 2**40, 2**48, 2**53, 2**56),
    *(2**60, 2**61 - 1, 2**61, 2**62, 2**63 - 1, -(2**61), -(2**62), -(2**63)),
)
TEXTS = (
    *("", " ", "step", "batch 1", "batch 2", "step 0", "forward", "backward", "data", "optimizer", "copy", "nccl"),
    *("ncclDevKernel_AllReduce_Sum_f32", "ncclAllReduce", "void gemm<float>(float*)", "ampere_sgemm_128x64_nn"),
    *("cudaMemcpyAsync", "cudaStreamSynchronize", "cudaGraphLaunch", "poll", "pthread_cond_wait", "[id 3]"),
    *("<script>alert(1)</script>", "</script>", "=1+1", "a\x00b=c", "A_TOKEN=s3cr3t", "\x1b[31m", "\u202e", "\uffff"),
    *("%s %d {0} {name}", "a" * 300, "Ω" * 40, "a\nb\r\nc", "'\"`;--", "step 99999999999999999999"),
    *("cudaLaunchKernel", "cudaMalloc", "cuModuleLoadData", "NCCL", "pt_data_worker", "CUPTI Buffer flush"),
)
BYTES = (b"\xff\xfe", b"\xc3(", b"\x80abc", b"a\x00\xff")
_RELEASES = (2025, 2025, 2025, 2023, 2022)
_THREADS = (MAIN, MAIN, global_id(4711, 4712), global_id(5000, 5000), global_id(5000, 5001))


def fuzz_case(number: int) -> ExportBuilder:
    """Return the export of a case.

    Args:
        number: Number of the case; the same number gives the same export.
    """
    drawn = random.Random(number)  # noqa: S311 - a case must be the same every time
    builder = _loop(drawn)
    for _ in range(drawn.choice((0, 1, 1, 2, 3, 6))):
        drawn.choice(CHANGES)(builder, drawn)
    return builder


def _loop(drawn: random.Random) -> ExportBuilder:
    """Return the export of a training loop of a few steps."""
    builder = ExportBuilder(drawn.choice(_RELEASES)).session(duration=drawn.choice((0, 10**6, 10**9)))
    for device in range(drawn.choice((1, 1, 1, 2))):
        builder.gpu(device)
    length, at = drawn.choice((40, 1_000, 10**6)), drawn.choice((0, 0, 100, -500, 10**10))
    for step in range(drawn.choice((0, 1, 2, 3, 5, 9))):
        took = length * drawn.choice((1, 1, 1, 1, 3))
        _add_step(builder, drawn, step, (at, at + took))
        at += took + drawn.choice((0, 0, length // 10))
    for _ in range(drawn.choice((0, 0, 1, 4))):
        # An older nsys does not have every table.
        with suppress(KeyError):
            _add_event(builder, drawn, at)
    return builder


def _add_step(builder: ExportBuilder, drawn: random.Random, step: int, span: tuple[int, int]) -> None:
    start, end = span
    part = (end - start) // 8
    named = drawn.choice(("batch", "batch", "step"))
    builder.range(f"{named} {step}", start, end, registered=drawn.random() < 0.5)
    builder.range("data", start, start + part).range("forward", start + part, start + 4 * part)
    process = drawn.choice((PROCESS, PROCESS, global_id(5000)))
    common = {"device": drawn.choice((0, 0, 0, 1)), "stream": drawn.choice((7, 7, 8)), "process": process}
    launched = (start + part, start + part + part // 4)
    builder.copy(start + 2 * part, start + 3 * part, drawn.choice((HOST_TO_DEVICE, DEVICE_TO_HOST)), launched=launched)
    for at in range(3, drawn.choice((4, 5, 7))):
        begun = start + at * part
        name = drawn.choice(("void gemm<float>(float*)", "relu", "ncclDevKernel_AllReduce_Sum_f32"))
        builder.kernel(begun, begun + part // drawn.choice((1, 2, 9)), name, launched=launched, **common)
    builder.fill(start + 7 * part, end).os_call("poll", start, start + part)
    builder.call("cudaStreamSynchronize", start + 5 * part, end - part // 2)


def _add_event(builder: ExportBuilder, drawn: random.Random, at: int) -> None:
    """Add rows of one of the rarer tables."""
    thread, later = drawn.choice(_THREADS), at + drawn.randrange(1, 1_000)
    match drawn.randrange(10):
        case 0:
            builder.graph(at, later, launched=(at, at + 1))
        case 1:
            builder.overhead("CUPTI Buffer flush", at, later, thread=thread)
        case 2:
            builder.scheduled(at, running=True, thread=thread).scheduled(later, running=False, thread=thread)
        case 3:
            builder.thread_name(thread, drawn.choice(TEXTS))
        case 4:
            builder.memory(at, 4096).memory(later, 4096, release=True)
        case 5:
            builder.metric("SMs Active [Throughput %]", [(at, 50), (later, 101)])
        case 6:
            builder.domain("Python Periodic Sampling", 1).python_sample(at, [("f", "/home/ann/x.py", 3)])
        case 7:
            builder.visible_device(0, drawn.choice((0, 1, 5)), 4711)
        case 8:
            builder.diagnostic(drawn.choice(TEXTS), drawn.randrange(4))
        case _:
            builder.range("loss", at, None, thread=thread).command("python", "train.py", drawn.choice(TEXTS))


def _cell(builder: ExportBuilder, drawn: random.Random) -> tuple[dict[str, Value], str] | None:
    """Return a row and the name of one of its columns; None where the export has no rows."""
    tables = [name for name, rows in builder.rows.items() if rows]
    if not tables:
        return None
    table = drawn.choice(tables)
    return drawn.choice(builder.rows[table]), drawn.choice(list(columns_of(table, builder.release)))


def _set_number(builder: ExportBuilder, drawn: random.Random) -> None:
    if (found := _cell(builder, drawn)) is not None:
        row, column = found
        numbers = [name for name, value in row.items() if isinstance(value, int)]
        row[drawn.choice(numbers or [column])] = drawn.choice(EXTREMES)


def _set_any(builder: ExportBuilder, drawn: random.Random) -> None:
    if (found := _cell(builder, drawn)) is not None:
        row, column = found
        row[column] = drawn.choice((None, 1.5, float("inf"), drawn.choice(TEXTS), drawn.choice(BYTES), 3))


def _set_time(builder: ExportBuilder, drawn: random.Random) -> None:
    """Set starts, ends or both of several rows of one table to far times."""
    tables = [name for name, rows in builder.rows.items() if rows and "start" in rows[0]]
    if tables:
        rows, far = builder.rows[drawn.choice(tables)], drawn.choice(EXTREMES)
        for row in drawn.sample(rows, min(len(rows), drawn.choice((1, 2, 12)))):
            for column in drawn.choice((("start",), ("end",), ("start", "end"))):
                row[column] = far


def _same_time(builder: ExportBuilder, drawn: random.Random) -> None:
    """Let rows of one table start, or start and end, with another row."""
    rows = builder.rows.get(drawn.choice(("NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME")))
    if rows:
        first, columns = drawn.choice(rows), drawn.choice((("start",), ("start", "end")))
        for row in drawn.sample(rows, min(len(rows), drawn.choice((1, 4)))):
            row.update({column: first.get(column) for column in columns})


def _repeat(builder: ExportBuilder, drawn: random.Random) -> None:
    tables = [name for name, rows in builder.rows.items() if rows]
    table = drawn.choice(tables)
    rows = builder.rows[table]
    rows.extend(dict(row) for row in drawn.choices(rows, k=drawn.choice((1, 3, 30))))


def _remove(builder: ExportBuilder, drawn: random.Random) -> None:
    """Leave out a table or a column."""
    table = drawn.choice(list(builder.rows))
    columns = list(columns_of(table, builder.release))
    builder.without(table, *drawn.choice(((), (drawn.choice(columns),))))


def _rename(builder: ExportBuilder, drawn: random.Random) -> None:
    """Add ranges and kernels of odd names."""
    text = drawn.choice((*TEXTS, drawn.choice(BYTES)))
    at = drawn.randrange(10_000)
    builder.range(text, at, at + drawn.randrange(100), registered=drawn.random() < 0.5)
    builder.kernel(at, at + 10, text, launched=(at - 5, at))


CHANGES: tuple[Callable[[ExportBuilder, random.Random], None], ...] = (
    *(_set_number, _set_number, _set_any, _set_time, _set_time, _same_time, _repeat, _remove, _rename),
)
