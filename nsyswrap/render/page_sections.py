"""The sections of a report below its answer, as a page shows them: facts, tables and charts, in groups.

A section without a chart of its own is shown by its facts and its tables, so that this module need not know it.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from nsyswrap.base import units
from nsyswrap.base.version import __version__
from nsyswrap.model import Gpu, Report, Section
from nsyswrap.render import charts, flame_view, glossary, page_modules, page_steps, summary_model, vocabulary
from nsyswrap.render.charts import stacked
from nsyswrap.render.document import (
    PAGE,
    Bar,
    Bars,
    Block,
    Column,
    Deferred,
    DocumentSection,
    Facts,
    Form,
    Lines,
    Meaning,
    Meanings,
    PagePart,
    Pictures,
    Table,
    frame_columns,
    times,
)
from nsyswrap.render.escape import elide
from nsyswrap.render.kernel_table import in_one_table
from nsyswrap.render.rows import plain
from nsyswrap.render.section_heads import caption_of, group_of, place_of
from nsyswrap.rules.work_names import TENSOR_USES, operation_name
from nsyswrap.sections.spec import PageGroup

_CHECK = "capture_check"
# Tables that are shown in another form or in another place.
_ELSEWHERE = {
    "ledger": ("devices", "over_time"),
    "idle": ("attribution", "gaps", "patterns"),
    "steps": ("steps",),
    "counters": ("over_time",),
    "operators": ("peak", "modules", "operators", "kernels"),
    "tensor_cores": ("phases",),
    "phases": ("phases",),
    "python_lines": ("stacks",),
    "ranks": ("ranks", "matrix", "steps", "segments", "collectives"),
}
# Sections with a part of their own above.
_ABOVE = ("ledger", "idle", "ranks")
# Kernel names repeat under each range and would be the largest part of a page.
_MOST_ROWS: Mapping[str, Mapping[Form, int]] = MappingProxyType({"ranges-kernels": {"html": 40}})
# Where the counter was not measured, the fact ``counter_share`` says so once for both bounds.
_LOWER_BOUND = "counter_share_low"
# Nothing to say where there is no outlier.
_OUTLIERS = "outlier_excess_ns"
_NAME_WIDTH = 40
_MOST_RULES = 2
_OF_COUNTER = "_share"
# Upper edges of a chart: a counter that stays at a few per cent gets a scale on which it is readable.
_TOPS = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
_OF_PHASES = frozenset({"phase", "host_ns", "gpu_ns", "idle_ns", "count", "kernel_count"})


class TensorPart(NamedTuple):
    """A part of kernel time: its fact, the verdict of its kernels, key and fill of its colour, label."""

    fact: str
    verdict: str
    key: str
    label: str
    fill: str


_TENSOR_PARTS = (
    TensorPart("tensor_ns", "tensor", "tensor", TENSOR_USES["tensor"], "#0054A9"),
    TensorPart("unknown_ns", "unknown", "unknown", TENSOR_USES["unknown"], "url(#unsure)"),
    TensorPart("simt_eligible_ns", "simt_eligible", "eligible", TENSOR_USES["simt_eligible"], "#0398CE"),
    TensorPart("not_eligible_ns", "not_eligible", "other", TENSOR_USES["not_eligible"], "#929292"),
)
_TENSOR_REST = TensorPart("", "", "rest", "without tensor cores", "#929292")
_SHOWN_BY_BAR = {
    "ledger": frozenset({"window_ns", "busy_share", "idle_share"}),
    "idle": frozenset({"idle_ns"}),
    "tensor_cores": frozenset({"kernel_ns", *(part.fact for part in _TENSOR_PARTS)}),
    # Of the two ends beside it.
    "steps": frozenset({"spread_share"}),
}


def sections(report: Report) -> Iterator[DocumentSection]:
    """Yield the sections in the groups of the page, then those without numbers, the provenance and the glossary."""
    missing = []
    for group in PageGroup:
        for each in sorted(report.sections, key=lambda one: place_of(one.key)):
            if group_of(each.key) is not group:
                continue
            if each.key in _ABOVE and not any(_shown(each)):
                continue
            found = section(report, each)
            if has_numbers(each) or each.key == _CHECK:
                yield found
            else:
                words = " ".join(each.notes) or "There are none in the window."
                missing.append(Meaning(each.title, words, found.key))
    yield _about("missing", "What this capture does not show", (Meanings(tuple(missing)),))
    yield _about("provenance", "Provenance", (Meanings(tuple(provenance(report))),))
    terms = tuple(
        Meanings(tuple(Meaning(one.term, one.meaning, glossary.term_anchor(one.term)) for one in some), title)
        for title, some in glossary.GLOSSARY
    )
    yield _about("glossary", "Glossary", terms)


def _about(key: str, title: str, blocks: tuple[Meanings, ...]) -> DocumentSection:
    return DocumentSection(key, title, "", blocks, group=PageGroup.ABOUT, forms=PAGE)


def has_numbers(section: Section) -> bool:
    """Return whether a section measured something; else its notes say why."""
    return any(len(table) for table in section.tables.values()) or any(
        fact.value and not units.is_missing(fact.value) for fact in section.facts
    )


def section(report: Report, its: Section) -> DocumentSection:
    """Return a section with its charts, facts, tables and notes."""
    blocks, window = Deferred(lambda: _blocks(report, its)), summary_model.short(its.window)
    return DocumentSection(f"section-{its.key}", its.title, window, (blocks,), group=group_of(its.key), forms=PAGE)


def _blocks(report: Report, its: Section) -> Iterator[Block]:
    if its.key in _BEFORE_FACTS:
        yield from _BEFORE_FACTS[its.key](report, its)
    yield Facts(facts(its) if its.key not in _ABOVE else ())
    if its.key in _BEFORE_TABLES:
        yield from _BEFORE_TABLES[its.key](report, its)
    yield from tables(in_one_table(report, its))
    yield Lines(its.notes if its.key not in _ABOVE else (), "fine")


def _shown(section: Section) -> Iterator[str]:
    """Return the names of the tables that have no form or place of their own."""
    elsewhere = _ELSEWHERE.get(section.key, ())
    return (str(name) for name, table in section.tables.items() if name not in elsewhere and not table.empty)


def tables(section: Section) -> Iterator[Table]:
    """Yield the tables of a section that have no form or place of their own."""
    for name in _shown(section):
        key, is_only = f"{section.key}-{name}", len(section.tables) == 1
        yield Table(
            key,
            section.title if is_only else caption_of(section.key, name),
            frame_columns(vocabulary.named(section.tables[name])),
            is_titled=not is_only,
            has_row_heads=False,
            most=_MOST_ROWS.get(key, {}),
        )


def facts(section: Section | None) -> tuple[tuple[str, str], ...]:
    """Return label and value of a section's facts, without those that its bar shows already."""
    if section is None:
        return ()
    shown = _SHOWN_BY_BAR.get(section.key, frozenset())
    return tuple(
        (vocabulary.fact_label(fact.label), units.text(fact.value, fact.unit))
        for fact in section.facts
        if fact.label not in shown
        and not (fact.label == _LOWER_BOUND and units.is_missing(fact.value))
        and not (fact.label == _OUTLIERS and not fact.value)
    )


def tensor_bar(_report: Report, section: Section) -> Iterator[Block]:
    """Yield kernel time by tensor-core use according to the kernels' names; nothing where it was not analysed."""
    values = {fact.label: fact.value for fact in section.facts}
    amounts = [values.get(part.fact) for part in _TENSOR_PARTS]
    ns = [0 if value is None or isinstance(value, str) else int(value) for value in amounts]
    if any(ns):
        rows = stacked([(part.key, part.label, part.fill, its) for part, its in zip(_TENSOR_PARTS, ns, strict=True)])
        yield Bars((Bar("", "", rows),), rows, with_amounts=True)


_TensorTimes = list[tuple[TensorPart, int]]


def tensor_tables(_report: Report, section: Section) -> Iterator[Table]:
    """Yield kernel time by phase and by kernel family, largest first."""
    yield _by_use("phase", "By phase", _by_phase(section))
    yield _by_use("family", "By kernel family", _by_family(section))


def _by_phase(section: Section) -> Iterable[tuple[str, _TensorTimes]]:
    """Yield each phase: its kernel time that uses tensor cores, that is unknown, and that does not use them."""
    for row in summary_model.rows(section, "phases"):
        tensor, unknown = int(row["tensor_ns"] or 0), int(row["unknown_ns"] or 0)
        rest = int(row["kernel_ns"] or 0) - tensor - unknown
        yield str(row["phase"]), [(_TENSOR_PARTS[0], tensor), (_TENSOR_PARTS[1], unknown), (_TENSOR_REST, rest)]


def _by_family(section: Section) -> Iterable[tuple[str, _TensorTimes]]:
    """Yield each kind of operation, according to the kernel names."""
    found: dict[str, dict[str, int]] = {}
    for row in summary_model.rows(section, "kernels"):
        family = found.setdefault(str(row["op"] or "") or "unknown", {})
        family[row["verdict"]] = family.get(row["verdict"], 0) + int(row["total_ns"])
    for name, by_verdict in found.items():
        yield operation_name(name), [(part, by_verdict.get(part.verdict, 0)) for part in _TENSOR_PARTS]


def _by_use(head: str, title: str, rows: Iterable[tuple[str, _TensorTimes]]) -> Table:
    """Return rows of kernel time, costliest first; the bars of all rows together fill a cell."""
    summed = ((name, parts, sum(ns for _, ns in parts)) for name, parts in rows)
    ranked = sorted((row for row in summed if row[2] > 0), key=lambda row: (-row[2], row[0]))
    every = sum(whole for *_, whole in ranked)
    bars = []
    for _, parts, whole in ranked:
        titles = [f"{part.label}: {units.duration(ns)}" for part, ns in parts]
        fills = [(part.key, part.fill) for part, _ in parts]
        bars.append(charts.cell_bar([*fills, ("", "")], [*(ns for _, ns in parts), every - whole], [*titles, ""]))
    tensor, unknown = ([parts[at][1] for _, parts, _ in ranked] for at in (0, 1))
    lows = [parts[0][1] / whole for _, parts, whole in ranked]
    bands = [
        units.share_band(low, low + parts[1][1] / whole) for low, (_, parts, whole) in zip(lows, ranked, strict=True)
    ]
    columns = (
        Column(head, head, "text", [elide(name, _NAME_WIDTH) for name, *_ in ranked]),
        Column("", "colours as above", "picture", bars),
        times("kernel_ns", "kernel time", [whole for *_, whole in ranked]),
        times("tensor_ns", "on tensor cores", tensor),
        times("unknown_ns", "unknown", unknown),
        Column("share_low", "tensor-core share", "number", lows, bands),
    )
    return Table(f"tensor_cores-{head}", title, columns, is_titled=True)


def counters(_report: Report, section: Section) -> Iterator[Block]:
    """Yield the counters of each GPU over time, one small chart for each that was sampled."""
    if "over_time" not in section.tables:
        return
    table = section.tables["over_time"]
    means = {
        (_letters(row["name"]), row["device_id"]): row["mean_share"] for row in summary_model.rows(section, "window")
    }
    for device in sorted(set(table["device_id"].tolist())):
        mine = table[table["device_id"] == device].sort_values("start_ns")
        starts, ends = mine["start_ns"].tolist(), mine["end_ns"].tolist()
        interval = units.duration((ends[-1] - starts[0]) / len(starts))
        words = f"GPU {device}: share of the hardware maximum over the window, in intervals of {interval}"
        yield Lines((f"{words}; the upper edges differ.",), "fine")
        drawn = []
        for name in (str(name) for name in mine.columns if str(name).endswith(_OF_COUNTER)):
            shares = plain(mine[name])
            most = max((one for one in shares if one is not None), default=None)
            if most is None:
                continue
            top = next((one for one in _TOPS if most <= one), 1.0)
            path = charts.busy_area(starts, ends, [None if one is None else one / top for one in shares])
            mean = units.text(means.get((_letters(name.removesuffix(_OF_COUNTER)), device)), "share")
            label, words = vocabulary.column_label(name), f"mean {mean}, highest {units.share(most)}"
            picture = charts.area(path, 44, f"{label} of GPU {device} over the window: {words}")
            drawn.append(picture._replace(title=label, caption=words, edges=(units.share(top), "")))
        yield Pictures(tuple(drawn))


def _letters(name: str) -> str:
    """Return the letters and digits of a counter's name, by which it is matched to its column: ``smactive``."""
    return re.sub(r"[\W_]", "", name.replace("SMs", "SM")).lower()


def phases(report: Report, section: Section) -> Iterator[Table]:
    """Yield the phases in the order of the section; the bars of all phases together fill a cell."""
    rows = [row for row in summary_model.rows(section, "phases") if row.keys() >= _OF_PHASES]
    whole, reasons = int(sum(row["gpu_ns"] + row["idle_ns"] for row in rows)) or 1, _reasons(report)
    keys = [str(row["phase"]) for row in rows]
    bars = []
    for row in rows:
        busy, idle = int(row["gpu_ns"]), int(row["idle_ns"])
        colours = (("compute", "#0054A9"), ("idle", "url(#idle)"))
        bars.append(charts.cell_bar((*colours, ("", "")), (busy, idle, whole - busy - idle)))
    host, gpu, idle_time = ([int(row[name]) for row in rows] for name in ("host_ns", "gpu_ns", "idle_ns"))
    counts, kernels = ([int(row[name]) for row in rows] for name in ("count", "kernel_count"))
    columns = (
        Column("phase", "phase", "text", [
            elide(f"{key} (inferred)" if row.get("inferred") else key, _NAME_WIDTH)
            for key, row in zip(keys, rows, strict=True)
        ]),
        Column("", "busy, idle", "picture", bars),
        Column("count", "count", "count", counts),
        times("host_ns", "CPU time", host),
        times("gpu_ns", "GPU busy", gpu),
        times("idle_ns", "idle", idle_time),
        Column("kernel_count", "kernels", "count", kernels),
        Column("reasons", "why idle", "text", [_why(reasons.get(key, [])) for key in keys]),
    )  # fmt: skip
    attributes = tuple({"data-phase": key} for key in keys)
    yield Table(
        "phases-phases", "GPU time by phase", columns, most={"html": max(len(rows), 1)}, row_attributes=attributes
    )


def _why(reasons: list[tuple[str, int]]) -> str:
    """Return the largest rules of a phase with their times, and how many more there are."""
    shown = [f"{vocabulary.rule_name(rule)} {units.duration(ns)}" for rule, ns in reasons[:_MOST_RULES]]
    more = [f"{len(reasons) - _MOST_RULES} more"] if len(reasons) > _MOST_RULES else []
    return ", ".join(shown + more)


def _reasons(report: Report) -> dict[str, list[tuple[str, int]]]:
    """Return the rules that the idle time of each phase belongs to, with their ns over all GPUs, largest first."""
    found: dict[str, dict[str, int]] = {}
    for one in summary_model.idle_by_phase(report):
        mine = found.setdefault(one.phase, {})
        mine[one.rule] = mine.get(one.rule, 0) + one.ns
    return {phase: sorted(mine.items(), key=lambda pair: (-pair[1], pair[0])) for phase, mine in found.items()}


def _flame(report: Report, _section: Section) -> Iterator[Block]:
    yield PagePart("flame", flame_view.flame(report))


# What a section has beside its facts and tables: before its facts, and before its tables.
_Blocks = Callable[[Report, Section], Iterable[Block]]
_BEFORE_FACTS: Mapping[str, _Blocks] = MappingProxyType(
    {"tensor_cores": tensor_bar, "steps": page_steps.chart_of, "counters": counters}
)
_BEFORE_TABLES: Mapping[str, _Blocks] = MappingProxyType(
    {
        "tensor_cores": tensor_tables,
        "operators": page_modules.modules,
        "python_lines": _flame,
        "phases": phases,
        "steps": page_steps.slowest_of,
    }
)


def provenance(report: Report) -> Iterator[Meaning]:
    """Yield the origin of a page's numbers: command, versions, GPUs, window."""
    session, window = report.session, report.window
    if session.command:
        yield Meaning("command", shlex.join(session.command), is_code=True)
    yield Meaning("capture", f"{report.capture.name}, {units.size(report.capture.bytes)}")
    if session.started_utc:
        yield Meaning("started", session.started_utc)
    if session.duration_ns:
        yield Meaning("length of the capture", units.duration(session.duration_ns))
    source = vocabulary.WINDOW_SOURCES.get(window.source, window.source)
    place = f"{units.point(window.start_ns)} to {units.point(window.end_ns)}"
    length = units.duration(window.length_ns)
    yield Meaning("window", f"{window.label}, {length}, {place} since capture start: {source}")
    for gpu in report.gpus:
        yield Meaning(f"GPU {gpu.device_id}", _gpu(gpu))
    traced = ", ".join(session.traces) + (f"; CUDA graphs by {session.graph_trace}" if session.graph_trace else "")
    versions = (
        ("nsyswrap", __version__),
        ("nsys", session.nsys_version),
        ("export schema", session.schema_version),
        ("driver", session.driver_version),
        ("CUDA", session.cuda_version),
        ("traced", traced),
    )
    yield from (Meaning(label, value or "unknown") for label, value in versions)
    if session.secrets:
        names = ", ".join(session.secrets)
        yield Meaning("secrets", f"The capture, but not this page, holds variables that look like secrets: {names}.")


def _gpu(gpu: Gpu) -> str:
    parts = [gpu.name]
    if gpu.compute_capability is not None:
        parts.append("compute capability {}.{}".format(*gpu.compute_capability))
    if gpu.sm_count:
        parts.append(f"{gpu.sm_count} SMs")
    if gpu.memory_bytes:
        parts.append(units.size(gpu.memory_bytes))
    return ", ".join(parts)
