"""The agreement of kernel names with hardware counters as text, JSON or Markdown, for ``verify-tensor-cores``."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from nsyswrap.base import units
from nsyswrap.render.escape import visible
from nsyswrap.sections.tensor_cores.hardware_proof import Proof
from nsyswrap.sections.tensor_cores.name_agreement import Agreement, Checked, NameOutcome

SCHEMA = "nsyswrap.tensor_agreement/1"
SHOWN = 20
_WIDEST_NAME = 72
_COLUMNS = ("time", "outcome", "by name", "hardware", "types", "why", "kernel")
_HARDWARE: Mapping[Proof | None, str] = MappingProxyType(
    {Proof.USED: "tensor", Proof.UNUSED: "no tensor", Proof.OPEN: "unknown", None: "not measured"}
)


@dataclass(frozen=True, slots=True)
class Measured:
    """An agreement and how it was measured.

    Attributes:
        agreement: Comparison of names with hardware counters.
        gpu: Name of the GPU.
        ncu_version: Version of Nsight Compute.
        command: The program that ran.
        launches: Number of measured launches.
        counters: All counters, as the CSV that ncu wrote.
    """

    agreement: Agreement
    gpu: str
    ncu_version: str
    command: tuple[str, ...]
    launches: int
    counters: str


def text_of(measured: Measured) -> str:
    """Return a summary and the most important kernels: those that differ or were settled, then the longest."""
    agreement = measured.agreement
    lines = [f"{' '.join(measured.command)}", f"{measured.gpu}, Nsight Compute {measured.ncu_version}", ""]
    lines += [f"  {label:<34} {value}" for label, value in summary(measured)]
    rows = [list(_COLUMNS), *(_row(each) for each in _selected(agreement))]
    widths = [max(len(row[at]) for row in rows) for at in range(len(_COLUMNS) - 1)]
    lines += ["", *("  ".join([*map(str.ljust, row[:-1], widths), row[-1]]).rstrip() for row in rows)]
    hidden = len(agreement.kernels) - len(rows) + 1
    if hidden > 0:
        lines.append(f"and {hidden} more kernels; --format json lists all")
    return "\n".join(visible(line) for line in lines) + "\n"


def markdown_of(measured: Measured) -> str:
    """Return the summary and the same kernels as Markdown, for the documentation."""
    lines = ["| what | measured |", "|---|---|", *(f"| {label} | {value} |" for label, value in summary(measured)), ""]
    lines += [f"| {' | '.join(_COLUMNS)} |", f"|{'---|' * len(_COLUMNS)}"]
    for each in _selected(measured.agreement):
        row = _row(each)
        cells = [*row[:-1], f"`{row[-1]}`"]
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(visible(line) for line in lines) + "\n"


def json_of(measured: Measured) -> str:
    """Return all kernels and the summary as ``nsyswrap.tensor_agreement/1``."""
    agreement = measured.agreement
    low, high = agreement.tensor_share
    named_low, named_high = agreement.named_share
    whole = {
        "schema": SCHEMA,
        "gpu": measured.gpu,
        "ncu_version": measured.ncu_version,
        "command": list(measured.command),
        "launches": measured.launches,
        "kernel_ns": agreement.kernel_ns,
        "measured_share": agreement.measured_share,
        "tensor_share_low": low,
        "tensor_share_high": high,
        "named_share_low": named_low,
        "named_share_high": named_high,
        "shares": {str(each): agreement.share(each) for each in NameOutcome},
        "kernels": [_record(each) for each in agreement.kernels],
    }
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


FORMS: Mapping[str, Callable[[Measured], str]] = MappingProxyType(
    {"text": text_of, "json": json_of, "markdown": markdown_of}
)
"""Each form by name."""


def summary(measured: Measured) -> list[tuple[str, str]]:
    """Return the summary: labels and values."""
    agreement = measured.agreement
    shares = {each: units.share(agreement.share(each)) for each in NameOutcome}
    return [
        ("kernel time in the capture", units.duration(agreement.kernel_ns)),
        (
            "measured, share of that time",
            f"{units.share(agreement.measured_share)} ({units.counted(measured.launches, 'launch')})",
        ),
        ("tensor cores, by hardware", units.share_band(*agreement.tensor_share)),
        ("tensor cores, by name", units.share_band(*agreement.named_share)),
        ("name and hardware agree", shares[NameOutcome.AGREES]),
        ("name and hardware differ", shares[NameOutcome.DIFFERS]),
        ("unknown by name, settled", shares[NameOutcome.SETTLED]),
        ("not clear from the counters", shares[NameOutcome.OPEN]),
    ]


def _selected(agreement: Agreement) -> list[Checked]:
    """Return the kernels to show: those that differ, were settled or are open, then the longest of the rest."""
    first = [
        each
        for each in agreement.kernels
        if each.outcome in {NameOutcome.DIFFERS, NameOutcome.SETTLED, NameOutcome.OPEN}
    ]
    rest = [each for each in agreement.kernels if each not in first]
    return [*first, *rest[: max(0, SHOWN - len(first))]]


def _row(checked: Checked) -> list[str]:
    name = checked.named.name
    return [
        units.share(checked.share),
        str(checked.outcome),
        str(checked.named.verdict),
        _HARDWARE[checked.proof],
        "/".join(checked.precisions) or "-",
        checked.reason,
        name if len(name) <= _WIDEST_NAME else f"{name[: _WIDEST_NAME - 1]}…",
    ]


def _record(checked: Checked) -> dict[str, object]:
    return {
        "name": checked.named.name,
        "total_ns": checked.total_ns,
        "share": checked.share,
        "verdict": str(checked.named.verdict),
        "precision": checked.named.precision,
        "rule": checked.named.rule,
        "proof": str(checked.proof) if checked.proof is not None else None,
        "outcome": str(checked.outcome),
        "measured_precisions": list(checked.precisions),
        "launches": checked.launches,
        "pipe_active_share": checked.pipe_active,
        "reason": checked.reason,
    }
