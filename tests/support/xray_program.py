"""A made program with an X-ray step: its launches, the ranges of operators and lines, and what PyTorch said of it.

::

    step 0 | step 1 | step 2 | ...| X-ray
      each: embedding, gemm, relu on the main thread; backward gemm on autograd's thread; a step of the optimizer
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from export_builder import MAIN, PID, ExportBuilder, thread

from nsyswrap.events.xray_record import read_xray
from nsyswrap.loop.context import Settings, TraceContext, find_context
from nsyswrap.trace.load import load_export

AUTOGRAD = thread(4712)
STEP_NS = 1_000_000
# Kernel, grid and thread of each launch of a step, in order.
LAUNCHES: tuple[tuple[str, int, int], ...] = (
    ("gather", 4, MAIN),
    ("gemm", 8, MAIN),
    ("relu", 8, MAIN),
    ("gemm", 8, AUTOGRAD),
    ("adam", 2, MAIN),
)
NVJET = "nvjet_sm90_tst_128x256_64x4_2x1_v_bz_coopA_NNT"
# The frames around a line of an optimizer: it inherits its step.
OPTIMIZER = [
    ["/lib/python3.12/site-packages/torch/optim/adam.py", 623, "_multi_tensor_adam"],
    ["/lib/python3.12/site-packages/torch/optim/adam.py", 248, "Adam.step"],
    [
        "/lib/python3.12/site-packages/torch/optim/optimizer.py",
        533,
        "Optimizer.profile_hook_step.<locals>.wrapper",
    ],
    ["/home/someone/app/train.py", 30, "<module>"],
]
TENSOR = {"shape": [64, 64], "strides": [64, 1], "dtype": "bfloat16", "storage": None}


def operator(number: int, name: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - any field of a JSON object
    """Return an operator of two matrices as `xray.json` has it."""
    inputs = [{**TENSOR, "storage": 10 * number}, {**TENSOR, "storage": 10 * number + 1}]
    outputs = [{**TENSOR, "storage": 10 * number + 2}]
    return {"id": number, "name": name, "thread": 1, "inputs": inputs, "outputs": outputs, **more}


def record() -> dict[str, Any]:
    """Return the content of `xray.json`."""
    site = {"function": "forward", "stack": [["/home/someone/app/train.py", 30, "<module>"]]}
    process = {
        "pid": PID,
        "rank": None,
        "reason": None,
        "sites": [
            {"file": "/home/someone/app/model.py", "line": 7, "module": 1, **site},
            {"file": "/home/someone/app/model.py", "line": 8, "module": 2, **site},
            {"file": "/home/someone/app/train.py", "line": 30, "module": None, **site},
        ],
        "modules": [
            {"path": "", "class": "app.Model", "root": 0},
            {"path": "tokens", "class": "torch.nn.Embedding", "root": 0},
            {"path": "layers.0.linear", "class": "torch.nn.Linear", "root": 0},
        ],
        "roots": [{"class": "app.Model"}],
        "operators": [
            operator(1, "aten::embedding"),
            operator(2, "aten::mm", sequence=5),
            operator(3, "aten::relu", sequence=6),
            operator(4, "autograd::engine::evaluate_function: MmBackward0", thread=2),
            operator(5, "MmBackward0", thread=2, sequence=5, forward_thread=1),
            operator(6, "aten::mm", thread=2),
            operator(7, "aten::_fused_adamw_"),
        ],
    }
    return {"schema": "nsyswrap.xray/1", "processes": [process]}


def program(  # noqa: PLR0913 - what differs among tests
    steps: Sequence[Sequence[tuple[str, int, int]]],
    *,
    with_xray: bool = True,
    xray: Sequence[tuple[str, int, int]] = LAUNCHES,
    more: Sequence[Sequence[tuple[str, int, int]]] = (),
    first_number: int = 0,
    unmarked: Collection[int] = (),
) -> ExportBuilder:
    """Return the export of a program.

    Args:
        steps: The launches of each step.
        with_xray: Whether an X-ray step follows.
        xray: Its launches.
        more: Those of further X-ray steps.
        first_number: What is added to the numbers of operators in these.
        unmarked: Which of the steps are between steps, as an evaluation is.
    """
    builder = ExportBuilder().gpu(clockRate=1_980_000_000, memoryBandwidth=4_000_000_000_000)
    builder.thread_name(AUTOGRAD, "pt_autograd_0").domain("nsyswrap", 3)
    observed = [xray, *more] if with_xray else []
    every = [*steps, *observed]
    for number, launches in enumerate(every):
        begin = number * STEP_NS
        if number not in unmarked:
            builder.range(f"step {number}", begin, begin + STEP_NS)
        for at, (name, grid, where) in enumerate(launches):
            call = begin + 100_000 * (at + 1)
            builder.kernel(
                call + 5_000, call + 25_000, name, launched=(call, call + 2_000), thread=where, gridX=grid, blockX=128
            )
    for number in range(len(observed)):
        begin = (len(steps) + number) * STEP_NS
        builder.range("xray", begin, begin + STEP_NS, domain=3)
        _observed(builder, begin, first_number if number else 0)
    return builder


def _observed(builder: ExportBuilder, begin: int, first: int) -> None:
    """Add the ranges of operators and lines around the launches of an X-ray step; ``first`` is added to the numbers."""
    ranges = (
        (1, MAIN, ("nsyswrap xray 0", f"aten::embedding, op_id = {first + 1}, sizes = [[64, 64], [64, 64]]")),
        (2, MAIN, ("nsyswrap xray 1", f"aten::mm, seq = 5, op_id = {first + 2}, sizes = [[64, 64], [64, 64]]")),
        (3, MAIN, (f"aten::relu, seq = 6, op_id = {first + 3}, sizes = [[64, 64]]",)),
        (
            4,
            AUTOGRAD,
            (
                f"autograd::engine::evaluate_function: MmBackward0, op_id = {first + 4}",
                f"MmBackward0, seq = 5, op_id = {first + 5}",
                f"aten::mm, op_id = {first + 6}, sizes = [[64, 64], [64, 64]]",
            ),
        ),
        (5, MAIN, ("nsyswrap xray 2", f"aten::_fused_adamw_, op_id = {first + 7}")),
    )
    for at, where, texts in ranges:
        call = begin + 100_000 * at
        for depth, text in enumerate(texts):
            domain = 3 if text.startswith("nsyswrap") else 0
            builder.range(text, call - 900 + 100 * depth, call + 3_900 - 100 * depth, thread=where, domain=domain)


def with_graph(builder: ExportBuilder, steps: int) -> ExportBuilder:
    """Add a CUDA graph of two kernels to each step and to the X-ray step after them, with a range of an operator."""
    for number in range(steps + 1):
        call, launch = number * STEP_NS + 700_000, 9_000 + number
        builder.call("cudaGraphLaunch_v10000", call, call + 2_000, correlation=launch)
        for node, name in enumerate((NVJET, "not_known"), 1):
            begin = call + 10_000 * node
            builder.kernel(begin, begin + 5_000, name, graph_node=node, correlation=launch)
    builder.range("nsyswrap xray 2", call - 900, call + 3_900, domain=3)
    return builder.range("Graphed, op_id = 8", call - 800, call + 3_800)


def context_of(builder: ExportBuilder, path: Any, found: Mapping[str, Any] | None = None) -> TraceContext:  # noqa: ANN401
    """Return the context of a built program with what PyTorch said of its X-ray step."""
    trace = load_export(builder.write(path))
    return find_context(trace, Settings(xray=read_xray(record() if found is None else found)))
