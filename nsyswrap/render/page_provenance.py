"""The origin of a page's numbers: command, versions, GPUs, window."""

import shlex
from collections.abc import Iterator
from typing import NamedTuple

from nsyswrap.base import units
from nsyswrap.base.version import __version__
from nsyswrap.model import Gpu, Report
from nsyswrap.render import summary_model, vocabulary
from nsyswrap.render.escape import visible


class ProvenanceRow(NamedTuple):
    """One line of the provenance: label, value, and whether the value is a command."""

    label: str
    value: str
    code: bool = False


def window(report: Report) -> str:
    """Return the label of the window and its length."""
    return f"{visible(report.window.label)}, {units.duration(report.window.length_ns)}"


def gpus(report: Report) -> str:
    """Return the kinds of GPU and the number of each."""
    return summary_model.gpus_in_words(report)


def provenance(report: Report) -> Iterator[ProvenanceRow]:
    """Yield the lines of the provenance."""
    session, window_ = report.session, report.window
    if session.command:
        yield ProvenanceRow("command", visible(shlex.join(session.command)), code=True)
    yield ProvenanceRow("capture", f"{visible(report.capture.name)}, {units.size(report.capture.bytes)}")
    if session.started_utc:
        yield ProvenanceRow("started", visible(session.started_utc))
    if session.duration_ns:
        yield ProvenanceRow("length of the capture", units.duration(session.duration_ns))
    source = vocabulary.WINDOW_SOURCES.get(window_.source, window_.source)
    place = f"{units.point(window_.start_ns)} to {units.point(window_.end_ns)}"
    yield ProvenanceRow("window", f"{window(report)}, {place} since capture start: {source}")
    for gpu in report.gpus:
        yield ProvenanceRow(f"GPU {gpu.device_id}", visible(_gpu(gpu)))
    traced = ", ".join(session.traces) + (f"; CUDA graphs by {session.graph_trace}" if session.graph_trace else "")
    versions = (
        ("nsyswrap", __version__),
        ("nsys", session.nsys_version),
        ("export schema", session.schema_version),
        ("driver", session.driver_version),
        ("CUDA", session.cuda_version),
        ("traced", traced),
    )
    yield from (ProvenanceRow(label, visible(value) or "unknown") for label, value in versions)
    if session.secrets:
        names = visible(", ".join(session.secrets))
        yield ProvenanceRow(
            "secrets", f"The capture, but not this page, holds variables that look like secrets: {names}."
        )


def _gpu(gpu: Gpu) -> str:
    parts = [gpu.name]
    if gpu.compute_capability is not None:
        parts.append("compute capability {}.{}".format(*gpu.compute_capability))
    if gpu.sm_count:
        parts.append(f"{gpu.sm_count} SMs")
    if gpu.memory_bytes:
        parts.append(units.size(gpu.memory_bytes))
    return ", ".join(parts)
