"""Whether a measured kernel launch executed matrix instructions of the tensor cores.

The best evidence is the number of executed instructions by opcode. Only ``HMMA``, ``IMMA``, ``DMMA``, ``QMMA`` and the
like, ``HGMMA`` on Hopper and ``UTCHMMA`` on Blackwell, are matrix instructions. ``HFMA2``, half-precision arithmetic,
uses the same pipe on Hopper but is another opcode. Where ncu cannot count opcodes, the counters of the pipe decide. The
result is open where they are neither clearly high nor clearly low.

::

    pipe active   0 % ------------- 3 % ---------------------- 100 %
    no MMA        not used          not used (HFMA2 alone)
    some MMA      open              used
"""

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from nsyswrap.base.errors import NsyswrapError

# Source: the instruction tables of "CUDA Binary Utilities", Volta to Blackwell.
MATRIX_OPCODE = re.compile(r"^[A-Z0-9]*MMA$")
OPCODE_METRICS = ("sass__inst_executed_per_opcode_with_modifier_all", "sass__inst_executed_per_opcode")
ACTIVE_METRICS = ("sm__pipe_tensor_cycles_active", "sm__pipe_tensor_op_hmma_cycles_active", "sm__pipe_tc_cycles_active")
MMA_METRICS = tuple(f"sm__inst_executed_pipe_tensor_op_{kind}" for kind in ("hmma", "gmma", "imma", "dmma"))
HFMA2_METRIC = "sm__inst_executed_pipe_tensor_op_hmma_type_hfma2"
# Any threshold between 2.5 and 10 % gives the same result. Source: 2600 launches of BERT and ResNet-50 on an H200.
CLEAR_ACTIVITY = 0.03
# ncu may read two counters of a kernel in two separate runs, so they may differ by some per cent.
CLEAR_PART = 0.5
_INSTANCES = re.compile(r"([^;:()]+): ([\d,.]+)")
_AGGREGATE = re.compile(r"^\s*([\d,.]+)")
# ncu prints all opcodes of a launch into one cell, which exceeds the default limit of the csv module.
_WIDEST_CELL = 1 << 26

# Modifiers of matrix instructions that name a type, and the name of that type in the kernel rules.
_TYPES: Mapping[str, str] = {
    "F16": "fp16",
    "BF16": "bf16",
    "TF32": "tf32",
    "E4M3": "fp8",
    "E5M2": "fp8",
    "S8": "int8",
    "U8": "int8",
    "S4": "int4",
    "U4": "int4",
    "E2M1": "fp4",
}


class Proof(StrEnum):
    """The result of a measurement of a kernel."""

    USED = "used"
    """The kernel executed matrix instructions."""
    UNUSED = "unused"
    """The kernel executed no matrix instruction."""
    OPEN = "open"
    """The counters do not decide it."""


@dataclass(frozen=True, slots=True)
class NcuLaunch:
    """One kernel launch that ncu measured.

    Attributes:
        name: The kernel's name as ncu writes it.
        opcodes: Executed warp instructions by opcode with modifiers; empty where ncu counted none.
        values: ncu's numeric metrics by name, in ncu's base units.
        texts: The other cells of ncu's row, such as ``Block Size``.
    """

    name: str
    opcodes: Mapping[str, int]
    values: Mapping[str, float]
    texts: Mapping[str, str]

    @property
    def proof(self) -> Proof:
        """Return whether the launch executed matrix instructions."""
        if self.opcodes:
            return Proof.USED if self.matrix_opcodes else Proof.UNUSED
        active, mma = self.pipe_active, self._mma()
        total = sum(self._value(name) or 0 for name in MMA_METRICS)
        if active is None or not any(self._value(name) is not None for name in MMA_METRICS):
            return Proof.OPEN
        if mma <= (1 - CLEAR_PART) * total:
            return Proof.UNUSED
        return Proof.USED if active >= CLEAR_ACTIVITY else Proof.OPEN

    @property
    def matrix_opcodes(self) -> dict[str, int]:
        """Return the executed matrix instructions, by opcode with modifiers."""
        return {
            opcode: count
            for opcode, count in self.opcodes.items()
            if count and MATRIX_OPCODE.match(opcode.partition(".")[0])
        }

    @property
    def pipe_active(self) -> float | None:
        """Return the share of the kernel's cycles in which the tensor pipe was active; None if not counted."""
        found = [self._value(name) for name in ACTIVE_METRICS]
        known = [each for each in found if each is not None]
        return max(known) / 100 if known else None

    @property
    def precisions(self) -> tuple[str, ...]:
        """Return the types of the operands, most executed first; empty where the opcodes do not name them."""
        counts: dict[str, int] = {}
        for opcode, count in self.matrix_opcodes.items():
            found = type_of(opcode)
            if found:
                counts[found] = counts.get(found, 0) + count
        return tuple(sorted(counts, key=lambda each: (-counts[each], each)))

    @property
    def reason(self) -> str:
        """Return the reason for the proof in a few words, with the numbers."""
        if self.matrix_opcodes:
            best = max(self.matrix_opcodes, key=lambda each: (self.matrix_opcodes[each], each))
            return f"{sum(self.matrix_opcodes.values()):,} matrix instructions, most {best}"
        if self.opcodes:
            half = sum(count for opcode, count in self.opcodes.items() if opcode.startswith("HFMA2"))
            return "no matrix instruction" + (f", {half:,} HFMA2" if half else "")
        active = self.pipe_active
        if active is None:
            return "nothing counted"
        return f"tensor pipe {active:.1%} active, {self._mma():,.0f} instructions but HFMA2"

    def _mma(self) -> float:
        """Return the instructions of the pipe without half-precision arithmetic, which some counters include."""
        total = sum(self._value(name) or 0 for name in MMA_METRICS)
        return max(0.0, total - (self._value(HFMA2_METRIC) or 0))

    def _value(self, metric: str) -> float | None:
        suffixes = ("", ".sum", ".avg.pct_of_peak_sustained_active")
        return next((self.values[metric + each] for each in suffixes if metric + each in self.values), None)


def type_of(opcode: str) -> str:
    """Return the type of the operands of a matrix instruction; empty where the opcode does not name it."""
    if opcode.startswith("DMMA"):
        return "fp64"
    parts = opcode.split(".")[1:]
    if opcode.startswith(("HMMA", "HGMMA", "UTCHMMA")):
        # Without a type among the modifiers the operands are half precision: HMMA.16816.F32 multiplies FP16.
        return next((_TYPES[part] for part in parts if part in {"BF16", "TF32"}), "fp16")
    return next((_TYPES[part] for part in parts if part in _TYPES and _TYPES[part] not in {"fp16", "bf16"}), "")


def launches_in(text: str) -> list[NcuLaunch]:
    """Return the launches in one or several raw pages of ncu as CSV, without the program's output before them.

    Raises:
        NsyswrapError: The text contains no such table.
    """
    before = csv.field_size_limit(_WIDEST_CELL)
    try:
        start = text.find('"ID",')
        rows = list(csv.reader(io.StringIO(text[start:]))) if start >= 0 else []
    finally:
        csv.field_size_limit(before)
    if not rows or "Kernel Name" not in rows[0]:
        raise NsyswrapError("ncu printed no table of kernels", hint="Run 'ncu --version'; 2022 or newer is needed")
    header, found = rows[0], []
    for row in rows:
        if row[:1] == ["ID"]:
            header = row
        elif len(row) == len(header) and row[0].isdigit():
            found.append(_launch(header, row))
    return found


def opcodes_in(cell: str) -> dict[str, int]:
    """Return the counts in a cell such as ``1,536 (FADD: 512; HMMA.16816.F32: 1,024)``; empty for a bare sum."""
    return {name.strip(): int(_number(count)) for name, count in _INSTANCES.findall(cell)}


def worst(launches: Iterable[NcuLaunch]) -> Proof:
    """Return the proof of a kernel from its launches: used if any is used, else open if any is open, else unused."""
    found = {launch.proof for launch in launches}
    return next((each for each in (Proof.USED, Proof.OPEN, Proof.UNUSED) if each in found), Proof.OPEN)


def _launch(header: Sequence[str], row: Sequence[str]) -> NcuLaunch:
    cells = dict(zip(header, row, strict=True))
    opcodes = next((found for name in OPCODE_METRICS if (found := opcodes_in(cells.get(name, "")))), {})
    values = {}
    for name, cell in cells.items():
        match = _AGGREGATE.match(cell) if "__" in name else None
        if match and re.search(r"\d", match[1]):
            values[name] = _number(match[1])
    texts = {name: cell for name, cell in cells.items() if "__" not in name}
    return NcuLaunch(cells["Kernel Name"], opcodes, values, texts)


def _number(text: str) -> float:
    return float(text.replace(",", ""))
