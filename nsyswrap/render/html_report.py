"""The report as one HTML page: no network, no script, readable even where styles are forbidden.

Everything a reader sees is text, a table or inline SVG. The template escapes all values; what the profiled
program named itself goes through ``visible`` first.
"""

import base64
import functools
import hashlib
import shlex
from collections.abc import Iterator
from importlib import resources
from typing import Any, NamedTuple

import jinja2

from nsyswrap import units
from nsyswrap.model import Finding, Gpu, Report, Section
from nsyswrap.render import outline, page_parts, timeline_view, vocabulary
from nsyswrap.render.page_parts import SectionView
from nsyswrap.render.visible import elide, visible

_MOST_GAPS = 10
_ORDER = ("tensor_cores", "phases", "steps", "kernels", "copies", "launches", "host_calls", "os_calls", "ranges")
_LAST = ("capture_check",)
_TITLE_WIDTH = 80


class FindingView(NamedTuple):
    """A finding as it is printed; the same matter on further GPUs is one line each."""

    severity: str
    rule: str
    headline: str
    where: str
    cost: str
    cost_share: str
    gain: str
    also: tuple[tuple[str, str], ...]
    advice: str
    evidence: tuple[str, ...]


class Row(NamedTuple):
    """One line of the provenance: what, and its value."""

    label: str
    value: str
    code: bool = False


def render(report: Report) -> str:
    """Return the report as one self-contained HTML page."""
    page: str = _environment().get_template("page.html.j2").render(**_context(report))
    return page


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("nsyswrap.render"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["visible"] = visible
    environment.filters["duration"] = units.duration
    environment.filters["share"] = units.share
    environment.filters["count"] = units.count
    environment.filters["point"] = units.point
    environment.filters["digest"] = _digest
    return environment


def _digest(script: str) -> str:
    """Return what a content security policy calls an inline script."""
    found = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    return f"'sha256-{found}'"


@functools.cache
def _style() -> str:
    return resources.files("nsyswrap.render").joinpath("static", "report.css").read_text(encoding="utf-8")


def _context(report: Report) -> dict[str, Any]:
    ledgers = outline.ledgers(report)
    ledger = report.section("ledger")
    window = ledger.window if ledger is not None else report.window
    sections = list(_sections(report))
    gaps = page_parts.worst_gaps(report, _MOST_GAPS)
    return {
        "style": _style(),
        "contents": list(_contents(sections, has_gaps=bool(gaps.gaps), has_timeline=report.timeline is not None)),
        "title": _title(report),
        "gpus": _gpus(report),
        "report": report,
        "window": _window(report),
        "ledger_window": visible(outline.short(window)),
        "devices": page_parts.devices(report, ledgers),
        "numbers": outline.key_numbers(report),
        "findings": [_finding(group) for group in outline.finding_groups(report)],
        "gaps": gaps,
        "timeline": timeline_view.view(report),
        "timeline_script": timeline_view.script(),
        "timeline_style": timeline_view.style(),
        "tensor": page_parts.tensor_bar(report),
        "steps": page_parts.steps(report),
        "sections": sections,
        "idle_facts": page_parts.facts(report.section("ledger")) + page_parts.facts(report.section("idle")),
        "idle_notes": _notes(report, "ledger") + _notes(report, "idle"),
        "provenance": list(_provenance(report)),
        "words": vocabulary,
    }


def _contents(sections: list[SectionView], *, has_gaps: bool, has_timeline: bool) -> Iterator[tuple[str, str]]:
    """Yield anchor and words of each part of the page that has a heading, from the ledger on."""
    yield "ledger", "Ledger"
    yield "findings", "Findings"
    if has_timeline:
        yield "timeline", "Timeline"
    if has_gaps:
        yield "gaps", "Gaps"
    yield from ((f"section-{one.key}", one.title) for one in sections)
    yield "provenance", "Provenance"
    yield "glossary", "Words"


def _title(report: Report) -> str:
    """Return what was profiled: the program of the command, or else the capture's name."""
    words = [word for word in report.session.command if not word.startswith("-")]
    scripts = [word for word in words if word.endswith(".py")]
    chosen = scripts[0] if scripts else (words[0] if words else report.capture.name)
    return elide(chosen.rsplit("/", maxsplit=1)[-1] or chosen, _TITLE_WIDTH)


def _gpus(report: Report) -> str:
    names = [gpu.name for gpu in report.gpus]
    kinds = sorted(set(names))
    counted = (f"{names.count(kind)} × {kind}" if names.count(kind) > 1 else kind for kind in kinds)  # noqa: RUF001
    return visible(", ".join(counted)) or "no GPU"


def _window(report: Report) -> str:
    return f"{visible(report.window.label)}, {units.duration(report.window.length_ns)}"


def _finding(group: tuple[Finding, ...]) -> FindingView:
    first = group[0]
    lines = [(outline.place(one), line) for one in group for line in one.evidence]
    evidence = (line if len(group) == 1 else f"{where}: {line}" for where, line in lines)
    return FindingView(
        severity=first.severity.value,
        rule=visible(first.rule),
        headline=visible(first.headline),
        where=outline.place(first),
        cost=units.duration(first.cost_ns) if first.cost_ns > 0 else "",
        cost_share=visible(outline.finding_share(first)),
        gain=units.gain(first.gain_low_ns, first.gain_high_ns),
        also=tuple((outline.place(one), visible(outline.cost_and_gain(one))) for one in group[1:]),
        advice=visible(first.advice),
        evidence=tuple(visible(line) for line in evidence),
    )


def _sections(report: Report) -> Iterator[SectionView]:
    """Yield the sections in the order of the page; those nobody knows here come before the capture check."""
    special = ("ledger", "idle")
    known = [key for key in _ORDER if report.section(key) is not None]
    unknown = [one.key for one in report.sections if one.key not in (*special, *_ORDER, *_LAST)]
    last = [key for key in _LAST if report.section(key) is not None]
    for key in (*special, *known, *unknown, *last):
        section = report.section(key)
        if section is None:
            continue
        view = page_parts.section(section)
        if key not in special or view.tables:
            yield view


def _notes(report: Report, key: str) -> tuple[str, ...]:
    section: Section | None = report.section(key)
    return () if section is None else tuple(visible(note) for note in section.notes)


def _provenance(report: Report) -> Iterator[Row]:
    session, window = report.session, report.window
    if session.command:
        yield Row("command", visible(shlex.join(session.command)), code=True)
    yield Row("capture", f"{visible(report.capture.name)}, {units.size(report.capture.bytes)}")
    if session.started_utc:
        yield Row("started", visible(session.started_utc))
    if session.duration_ns:
        yield Row("length of the capture", units.duration(session.duration_ns))
    source = vocabulary.WINDOW_SOURCES.get(window.source, window.source)
    place = f"{units.point(window.start_ns)} to {units.point(window.end_ns)}"
    yield Row("window", f"{_window(report)}, {place} since capture start: {source}")
    for gpu in report.gpus:
        yield Row(f"GPU {gpu.device_id}", visible(_gpu(gpu)))
    traced = ", ".join(session.traces) + (f"; CUDA graphs by {session.graph_trace}" if session.graph_trace else "")
    versions = (
        ("nsys", session.nsys_version),
        ("export schema", session.schema_version),
        ("driver", session.driver_version),
        ("CUDA", session.cuda_version),
        ("traced", traced),
    )
    yield from (Row(label, visible(value) or "unknown") for label, value in versions)
    if session.secrets:
        names = visible(", ".join(session.secrets))
        yield Row("secrets", f"The capture (not this page) holds variables that look like secrets: {names}.")


def _gpu(gpu: Gpu) -> str:
    parts = [gpu.name]
    if gpu.compute_capability is not None:
        parts.append("compute capability {}.{}".format(*gpu.compute_capability))
    if gpu.sm_count:
        parts.append(f"{gpu.sm_count} SMs")
    if gpu.memory_bytes:
        parts.append(units.size(gpu.memory_bytes))
    return ", ".join(parts)
