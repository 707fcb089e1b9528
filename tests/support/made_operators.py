"""Made programs of a few operators that the GPU sets the pace of, with an X-ray step.

::

    host   |launch all|==== waits for the GPU ====|launch all|====
    GPU          [ bmm ][ div ][ softmax ][ bmm ]       [ bmm ]...
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from analysis_fixtures import HasSection, run_section
from export_builder import PID, ExportBuilder
from xray_program import context_of

from nsyswrap.events.alternatives import NO_ALTERNATIVES, MeasuredAlternatives
from nsyswrap.hardware.peak_rates import NO_PRODUCT_RATES, MeasuredRates
from nsyswrap.model import Finding, Section
from nsyswrap.sections.compute import section

US = 1000
STEPS = 6
OURS = 3  # number of our domain of ranges
NVJET = "nvjet_sm90_tst_128x256_64x4_2x1_v_bz_coopA_NNT"
ALIGN1 = "void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_nn_align1>(T1::Params)"
LOOP = (
    "void at::native::vectorized_elementwise_kernel<(int)8, at::native::CUDAFunctor_add<c10::BFloat16>, "
    "std::array<char *, (unsigned long)3>>(int, T2, T3)"
)


def tensor(
    *shape: int, dtype: str = "bfloat16", storage: int | None = None, columns_first: bool = False
) -> dict[str, Any]:
    """Return a tensor as `xray.json` has it; with ``columns_first`` its last two sizes lie in memory the other way."""
    order = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2] if columns_first else list(range(len(shape)))
    strides, apart = [0] * len(shape), 1
    for at in reversed(order):
        strides[at], apart = apart, apart * shape[at]
    return {"shape": list(shape), "strides": strides, "dtype": dtype, "storage": storage}


@dataclass(frozen=True)
class Made:
    """One operator of a step, which launches one kernel.

    Attributes:
        name: Its name, without the namespace.
        inputs: What it takes: tensors, numbers.
        line: Its line in model.py.
        of: Number in the step of the forward operator whose backward pass it is part of; None for the forward pass.
        again: Whether it is computed again in that backward pass.
        stack: The frames around its line: file, line and function.
    """

    name: str
    inputs: Sequence[Any]
    outputs: Sequence[dict[str, Any]]
    us: int = 100
    kernel: str = LOOP
    module: str = "layer"
    line: int = 7
    of: int | None = None
    again: bool = False
    stack: Sequence[tuple[str, int, str]] = ()

    @property
    def full_name(self) -> str:
        """Return its name with the namespace; kernels of a compiler have none."""
        return self.name if self.name.startswith("triton_") else f"aten::{self.name}"


def findings(  # noqa: PLR0913, PLR0917 - what a program is made of, and what was measured
    operators: Sequence[Made],
    path: Path,
    of: HasSection = section,
    measured: MeasuredAlternatives = NO_ALTERNATIVES,
    memory: Sequence[Any] = (),
    rates: MeasuredRates = NO_PRODUCT_RATES,
) -> dict[str, Finding]:
    """Return the findings of a section on a program whose steps are these operators, by rule.

    Args:
        operators: The operators of a step.
        path: An empty folder.
        of: The module of the section.
        measured: What was measured of alternatives.
        memory: The memory at the bounds of modules, as `xray.json` has it.
        rates: What products were measured to reach.
    """
    return {each.rule: each for each in section_of(operators, path, of, measured, memory, rates).findings}


def section_of(  # noqa: PLR0913, PLR0917 - what a program is made of, and what was measured
    operators: Sequence[Made],
    path: Path,
    of: HasSection = section,
    measured: MeasuredAlternatives = NO_ALTERNATIVES,
    memory: Sequence[Any] = (),
    rates: MeasuredRates = NO_PRODUCT_RATES,
) -> Section:
    """Return a section on a program, as for ``findings``."""
    built = ExportBuilder().gpu(clockRate=1_980_000_000, memoryBandwidth=4_000_000_000_000)
    built.domain("nsyswrap", OURS).os_call("mmap", 0, 1)
    at = 0
    for number in range(STEPS + 1):
        at = _step(built, operators, at, number)
    context = context_of(built, path / "made.sqlite", _record(operators, memory))
    window = context.steps.measured_window()
    assert window is not None
    context = replace(context, settings=replace(context.settings, alternatives=measured, product_rates=rates))
    return run_section(of, context, window)


def _step(built: ExportBuilder, operators: Sequence[Made], begin: int, number: int) -> int:
    """Add a step, the last one as the X-ray step; return when it ends."""
    xray, running = number == STEPS, begin + 20 * US
    apart = 20 * US if xray else US
    for at, each in enumerate(operators):
        call = begin + (at + 1) * apart
        start = max(running, call + 2 * US)
        running = start + each.us * US
        built.kernel(start, running, each.kernel, launched=(call, call + US // 2), gridX=1000, blockX=128)
        for depth, text in enumerate(_ranges(operators, at) if xray else ()):
            domain = OURS if text.startswith("nsyswrap") else 0
            built.range(text, call - 900 + 50 * depth, call + 900 - 50 * depth, domain=domain)
    launched = begin + (len(operators) + 1) * apart
    built.call("cudaDeviceSynchronize", launched, max(running, launched + US))
    end = max(running, launched + US) + US
    built.range(f"step {number}", begin, end)
    if xray:
        built.range("xray", begin, end, domain=OURS)
    return end


def _ranges(operators: Sequence[Made], at: int) -> list[str]:
    """Return the texts of the ranges around the launch of an operator in the X-ray step, the outermost first."""
    each = operators[at]
    own = f"{each.full_name}, {f'seq = {at + 1000}, ' if each.of is None or each.again else ''}op_id = {at}"
    if each.of is None:
        return [f"nsyswrap xray {at}", own]
    node = len(operators) + 2 * at
    engine = f"autograd::engine::evaluate_function: Backward0, op_id = {node}"
    inner = [f"nsyswrap xray {each.of}"] if each.again else []
    return [engine, f"Backward0, seq = {each.of + 1000}, op_id = {node + 1}", *inner, own]


def _record(operators: Sequence[Made], memory: Sequence[Any]) -> dict[str, Any]:
    modules = list(dict.fromkeys(["", *(each.module for each in operators)]))
    site = {"function": "forward", "file": "/home/someone/app/model.py"}
    process = {
        "pid": PID,
        "rank": None,
        "reason": None,
        "sites": [
            {**site, "line": each.line, "module": modules.index(each.module), "stack": list(each.stack)}
            for each in operators
        ],
        "modules": [{"path": each, "class": "app.Module", "root": 0} for each in modules],
        "roots": [{"class": "app.Model"}],
        "memory": list(memory),
        "operators": [
            {
                "id": at,
                "name": each.full_name,
                "thread": 1,
                "sequence": at + 1000 if each.of is None or each.again else None,
                "inputs": list(each.inputs),
                "outputs": list(each.outputs),
            }
            for at, each in enumerate(operators)
        ],
    }
    return {"schema": "nsyswrap.xray/1", "processes": [process]}
