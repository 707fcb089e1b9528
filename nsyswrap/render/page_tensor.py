"""Kernel time by use of tensor cores: in total, by phase and by kernel family, with bounds."""

from collections.abc import Iterable
from typing import NamedTuple

from nsyswrap.base import units
from nsyswrap.model import Report
from nsyswrap.render import charts, summary_model
from nsyswrap.render.escape import elide
from nsyswrap.rules.work_names import TENSOR_USES, operation_name

_MOST_ROWS = 100
_NAME_WIDTH = 40


class TensorPart(NamedTuple):
    """A part of kernel time: its fact, the verdict of its kernels, key and fill of its colour, label."""

    fact: str
    verdict: str
    key: str
    label: str
    fill: str


PARTS = (
    TensorPart("tensor_ns", "tensor", "tensor", TENSOR_USES["tensor"], "#0054A9"),
    TensorPart("unknown_ns", "unknown", "unknown", TENSOR_USES["unknown"], "url(#unsure)"),
    TensorPart("simt_eligible_ns", "simt_eligible", "eligible", TENSOR_USES["simt_eligible"], "#0398CE"),
    TensorPart("not_eligible_ns", "not_eligible", "other", TENSOR_USES["not_eligible"], "#929292"),
)
_REST = TensorPart("", "", "rest", "without tensor cores", "#929292")


class BarPiece(NamedTuple):
    """A part of a bar: key of its colour, fill, label, position and width in per cent of the time of all rows."""

    key: str
    fill: str
    label: str
    x: str
    width: str


class KernelBar(NamedTuple):
    """One row of kernel time.

    Attributes:
        label: What it is about.
        pieces: Its parts.
        times: Kernel time, its part that is known to use tensor cores, and its unknown part: as text and in ns.
        band: The tensor-core share with its bounds.
        low: Its lower bound.
    """

    label: str
    pieces: tuple[BarPiece, ...]
    times: tuple[tuple[str, int], ...]
    band: str
    low: float


class KernelBars(NamedTuple):
    """Rows of one kind, and the number of smaller rows that are left out."""

    title: str
    head: str
    rows: tuple[KernelBar, ...]
    left_out: int


def tensor_bars(report: Report) -> tuple[KernelBars, ...]:
    """Return kernel time by phase and by kernel family, largest first; empty where it was not analysed."""
    phases = KernelBars("By phase", "phase", *_bars(_by_phase(report)))
    families = KernelBars("By kernel family", "family", *_bars(_by_family(report)))
    return tuple(one for one in (phases, families) if one.rows)


Parts = list[tuple[TensorPart, int]]


def _by_phase(report: Report) -> Iterable[tuple[str, Parts]]:
    """Yield each phase: its kernel time that uses tensor cores, that is unknown, and that does not use them."""
    for row in summary_model.rows(report.section("tensor_cores"), "phases"):
        tensor, unknown = int(row["tensor_ns"] or 0), int(row["unknown_ns"] or 0)
        rest = int(row["kernel_ns"] or 0) - tensor - unknown
        yield str(row["phase"]), [(PARTS[0], tensor), (PARTS[1], unknown), (_REST, rest)]


def _by_family(report: Report) -> Iterable[tuple[str, Parts]]:
    """Yield each kind of operation, according to the kernel names."""
    found: dict[str, dict[str, int]] = {}
    for row in summary_model.rows(report.section("tensor_cores"), "kernels"):
        family = found.setdefault(str(row["op"] or "") or "unknown", {})
        family[row["verdict"]] = family.get(row["verdict"], 0) + int(row["total_ns"])
    for name, times in found.items():
        yield operation_name(name), [(part, times.get(part.verdict, 0)) for part in PARTS]


def _bars(rows: Iterable[tuple[str, Parts]]) -> tuple[tuple[KernelBar, ...], int]:
    ranked = sorted(rows, key=lambda row: (-_whole(row[1]), row[0]))
    ranked = [row for row in ranked if _whole(row[1]) > 0]
    every = sum(_whole(parts) for _, parts in ranked)
    return tuple(_bar(name, parts, every) for name, parts in ranked[:_MOST_ROWS]), max(len(ranked) - _MOST_ROWS, 0)


def _bar(name: str, parts: Parts, every: int) -> KernelBar:
    whole = _whole(parts)
    low, high = parts[0][1] / whole, (parts[0][1] + parts[1][1]) / whole
    segments = charts.bar([*(ns for _, ns in parts), every - whole])[:-1]
    pieces = tuple(
        BarPiece(part.key, part.fill, f"{part.label}: {units.duration(ns)}", segment.x, segment.width)
        for (part, ns), segment in zip(parts, segments, strict=True)
        if ns
    )
    times = tuple((units.duration(ns), ns) for ns in (whole, parts[0][1], parts[1][1]))
    return KernelBar(elide(name, _NAME_WIDTH), pieces, times, units.share_band(low, high), low)


def _whole(parts: Parts) -> int:
    return sum(ns for _, ns in parts)
