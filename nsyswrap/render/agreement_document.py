"""The agreement of kernel names with hardware counters, for ``verify-tensor-cores``."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from nsyswrap.base import units
from nsyswrap.base.json_codec import Tree
from nsyswrap.render.document import Column, Document, DocumentSection, Table
from nsyswrap.sections.tensor_cores.hardware_proof import Proof
from nsyswrap.sections.tensor_cores.name_agreement import Agreement, Checked, NameOutcome

SCHEMA = "nsyswrap.tensor_agreement/1"
SHOWN = 20
_FIRST = frozenset({NameOutcome.DIFFERS, NameOutcome.SETTLED, NameOutcome.OPEN})
_HARDWARE: Mapping[Proof | None, str] = MappingProxyType(
    {Proof.USED: "tensor", Proof.UNUSED: "no tensor", Proof.OPEN: "unknown", None: "not measured"}
)


@dataclass(frozen=True, slots=True)
class Measured:
    """An agreement and how it was measured.

    Attributes:
        counters: All counters, as the CSV that ncu wrote.
    """

    agreement: Agreement
    gpu: str
    ncu_version: str
    command: tuple[str, ...]
    launches: int
    counters: str


def document(measured: Measured) -> Document:
    """Return a summary and the most important kernels: those that differ or were settled, then the longest."""
    agreement = measured.agreement
    labels, values = zip(*_summary(measured), strict=True)
    # Kernels are in order of their time.
    kernels = sorted(agreement.kernels, key=lambda each: each.outcome not in _FIRST)
    most = max(SHOWN, sum(each.outcome in _FIRST for each in kernels))
    shown = {
        "outcome": [str(each.outcome) for each in kernels],
        "by name": [str(each.named.verdict) for each in kernels],
        "hardware": [_HARDWARE[each.proof] for each in kernels],
        "types": ["/".join(each.precisions) or "-" for each in kernels],
        "why": [each.reason for each in kernels],
    }
    columns = (
        Column("name", "kernel", "text", [each.named.name for each in kernels]),
        Column("share", "time", "share", [each.share for each in kernels]),
        *(Column(label, label, "text", texts) for label, texts in shown.items()),
    )
    return Document(
        command="verify-tensor-cores",
        title=" ".join(measured.command),
        about=(("GPU", f"{measured.gpu}, Nsight Compute {measured.ncu_version}"),),
        verdict=f"Name and hardware agree for {units.share(agreement.share(NameOutcome.AGREES))} of kernel time, and "
        f"differ for {units.share(agreement.share(NameOutcome.DIFFERS))}.",
        sections=(
            DocumentSection("summary", "Summary", "", (
                Table("summary", "Summary", (
                    Column("what", "what", "text", labels), Column("value_text", "measured", "text", values),
                ), most={"text": len(labels)}),
            )),
            DocumentSection("kernels", "Kernels", "", (
                Table("kernels", "Kernels", columns, most={"text": most, "markdown": most}, noun="kernels",
                      cut="--format json lists all" if len(kernels) > most else "", of_programs=True),
            )),
        ),
    )  # fmt: skip


def tree(measured: Measured) -> Tree:
    """Return all kernels and the summary as ``nsyswrap.tensor_agreement/1``."""
    agreement = measured.agreement
    shares = {"tensor": agreement.tensor_share, "named": agreement.named_share}
    return {
        "schema": SCHEMA,
        **{name: getattr(measured, name) for name in ("gpu", "ncu_version")},
        "command": list(measured.command),
        "launches": measured.launches,
        "kernel_ns": agreement.kernel_ns,
        "measured_share": agreement.measured_share,
        **{
            f"{name}_share_{end}": each
            for name, ends in shares.items()
            for end, each in zip(("low", "high"), ends, strict=True)
        },
        "shares": {str(each): agreement.share(each) for each in NameOutcome},
        "kernels": [_record(each) for each in agreement.kernels],
    }


def _summary(measured: Measured) -> list[tuple[str, str]]:
    """Return labels and values."""
    agreement = measured.agreement
    share, launches = units.share(agreement.measured_share), units.counted(measured.launches, "launch")
    words = {NameOutcome.AGREES: "name and hardware agree", NameOutcome.DIFFERS: "name and hardware differ"}
    words |= {NameOutcome.SETTLED: "unknown by name, settled", NameOutcome.OPEN: "not clear from the counters"}
    return [
        ("kernel time in the capture", units.duration(agreement.kernel_ns)),
        ("measured, share of that time", f"{share} ({launches})"),
        ("tensor cores, by hardware", units.share_band(*agreement.tensor_share)),
        ("tensor cores, by name", units.share_band(*agreement.named_share)),
        *((label, units.share(agreement.share(outcome))) for outcome, label in words.items()),
    ]


def _record(checked: Checked) -> Tree:
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
