"""The totals of many captures: what they have in common, findings, outliers, groups, kernels, and each capture."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from nsyswrap.base import units
from nsyswrap.base.json_codec import Tree
from nsyswrap.many.outliers import FEWEST, LEAST_SHARE
from nsyswrap.many.totals import GroupRow, ManyCaptures
from nsyswrap.render.charts import LegendRow, stacked
from nsyswrap.render.document import (
    PAGE,
    WRITTEN,
    Bar,
    Bars,
    Document,
    DocumentSection,
    Form,
    Hero,
    Lines,
    table_section,
)
from nsyswrap.render.escape import elide
from nsyswrap.render.vocabulary import LEDGER_PARTS, fill, rule_name

SCHEMA = "nsyswrap.many/1"
# So many groups have a bar; the table has all. Ours: more fill several screens.
_MOST_BARS = 16
_NAME_WIDTH = 40
_ALWAYS_SHOWN = frozenset({"compute", "idle"})
_ONLY_PAGE: Mapping[Form, int] = MappingProxyType({"text": 0, "markdown": 0})
# What the groups are of, in headings.
_GROUP_TITLES = MappingProxyType({"program": "Programs", "gpu": "GPUs", "host": "Hosts", "day": "Days"})
_PART_NAMES = MappingProxyType({part.column: part.label for part in LEDGER_PARTS})
# Headings of columns that are not those of a report.
_LABELS: Mapping[str, str] = MappingProxyType(
    {
        "gpu": "GPUs",
        "gpu_ns": "GPU time",
        "lost_share": "of all GPU time",
        "median_share": "of a capture that has it, median",
        "most_share": "largest",
        "saving_ns": "predicted saving",
        "total_share": "of all kernel time",
        "step_ns": "median step",
        "usual_ns": "usual step",
        "usual_ratio": "step / usual step",
        "text": "why",
        "part": "what changed most",
        "part_ns": "by, in a step",
        "rule": "loses most",
        "rule_share": "of its GPU time",
        "lost_ns": "time lost",
        "worst": "where",
    }
)


def document(many: ManyCaptures) -> Document:
    """Return the totals as a document."""
    about = [
        (_GROUP_TITLES[grouping], group_name(grouping, rows[0].name) if len(rows) == 1 else units.count(len(rows)))
        for grouping, rows in many.groups.items()
    ]
    ledger = Bars((Bar("", "", bar := _bar(many.ledger)),), bar, with_amounts=True, forms=WRITTEN)
    hero = (Hero((Bar("GPU time", units.duration(many.gpu_ns), bar),)),) if many.gpu_ns else ()
    return Document(
        command="analyze-many",
        title=units.counted(len(many.captures), "capture"),
        about=tuple(about),
        verdict=verdict(many),
        lead=(*hero, Lines(tuple(notes(many)), "notes")),
        sections=(
            DocumentSection(
                "ledger", "Where GPU time went", f"{units.duration(many.gpu_ns)} in all windows", (ledger,), "GPU time"
            ),
            *_sections(many),
        ),
    )


def _bar(ledger: Mapping[str, int]) -> tuple[LegendRow, ...]:
    """Return GPU time as a bar; its parts add up to the whole."""
    shown = [part for part in LEDGER_PARTS if ledger[part.column] or part.key in _ALWAYS_SHOWN]
    return stacked([(part.key, part.label, fill(part), ledger[part.column]) for part in shown])


def verdict(many: ManyCaptures) -> str:
    """Return what the captures have in common, in some sentences."""
    count, hold = units.counted(len(many.captures), "capture"), "holds" if len(many.captures) == 1 else "hold"
    if not many.gpu_ns:
        return f"{count} {hold} no record of GPU work."
    compute, idle = (units.share_of(many.ledger[part], many.gpu_ns) for part in ("compute_ns", "idle_ns"))
    sentences = [f"{count} {hold} {units.duration(many.gpu_ns)} of GPU time: {compute} compute, {idle} idle."]
    most = next((each for each in many.findings if each.is_of_program and each.lost_ns), None)
    if most is not None:
        name = rule_name(most.rule)
        where = f"in {most.captures} of {count}" if len(many.captures) > 1 else "in it"
        cost = units.share_of(most.lost_ns, many.gpu_ns)
        sentences.append(f"The costliest finding is {name}: {cost} of all GPU time, {where}.")
    return " ".join(sentences)


def notes(many: ManyCaptures) -> Iterator[str]:
    """Yield what the totals do not hold."""
    if many.failed:
        yield f"{units.counted(len(many.failed), 'capture')} could not be read and {_count(many.failed)} in no total."
    for name, other in many.repeated[:3]:
        yield f"{name} is the same as {other}, and counts once."
    if len(many.repeated) > 3:  # noqa: PLR2004 - as above
        yield f"{len(many.repeated) - 3} more captures are the same as another one, and count once."
    if many.without_steps:
        yield f"{units.counted(many.without_steps, 'capture')} without steps or GPU work cannot be compared by step."
    if many.other_kernels.launches:
        share = units.share_of(many.other_kernels.total_ns, many.kernel_ns)
        yield f"Kernels below the largest of their capture take {share} of the kernel time and have no row."


def _count(rows: Sequence[object]) -> str:
    return "is" if len(rows) == 1 else "are"


def _sections(many: ManyCaptures) -> Iterator[DocumentSection]:
    """Yield the parts of the page in their order."""
    yield _findings(many)
    yield _idle(many)
    yield _outliers(many)
    for grouping in many.groups:
        yield _group_section(grouping, many)
    yield _kernels(many)
    yield _list(many)
    failed = [{"capture": each.name, "text": each.error} for each in many.failed]
    yield table_section("failed", "Not read", "", failed, _LABELS, most={"html": 1000})


def _findings(many: ManyCaptures) -> DocumentSection:
    rows = [
        {
            "finding": rule_name(each.rule),
            "severity": each.severity,
            "captures": each.captures,
            "lost_ns": each.lost_ns,
            "lost_share": _ratio(each.lost_ns, many.gpu_ns),
            "median_share": each.median_share,
            "most_share": each.most_share,
            "worst": each.worst,
            "saving_ns": each.saving_ns,
        }
        for each in many.findings
    ]
    about = "largest loss first, notes last; times of several findings can be the same time"
    brief = ("finding", "captures", "lost_ns", "lost_share", "most_share")
    return table_section("findings", "Findings", about, rows, _LABELS, brief=brief, most={"text": 8})


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _idle(many: ManyCaptures) -> DocumentSection:
    rows = [
        {"why": rule_name(rule), "idle_ns": idle, "lost_share": _ratio(idle, many.gpu_ns)}
        for rule, idle in many.idle.items()
        if idle
    ]
    return table_section("idle_time", "Why the GPUs were idle", "adds up to the idle time", rows, _LABELS)


def _outliers(many: ManyCaptures) -> DocumentSection:
    rows = [
        {
            "capture": each.name,
            "program": each.program,
            "step_ns": each.step_ns,
            "usual_ns": round(each.usual_ns),
            "usual_ratio": each.share,
            "part": (_PART_NAMES.get(each.part) or (rule_name(each.part) if each.part else "")),
            "part_ns": each.part_ns,
            "among": each.among,
        }
        for each in many.outliers
    ]
    about = (
        f"step far from the median of the captures of one command on one host and like GPUs, by at least "
        f"{units.percent(LEAST_SHARE)}; of {FEWEST} or more captures"
    )
    brief = ("capture", "step_ns", "usual_ns", "part", "part_ns")
    return table_section("outliers", "Outliers", about, rows, _LABELS, brief=brief)


def group_name(grouping: str, name: str) -> str:
    """Return the name of a group as it is shown: GPUs have the sign of multiplication for the letter of the files."""
    return name.replace(" x ", f" {units.TIMES} ") if grouping == "gpu" else name


def _group_section(grouping: str, many: ManyCaptures) -> DocumentSection:
    """Return the groups as bars and as a table; a single group, which is all that there is, has a folded table."""
    rows = [
        {
            grouping: group_name(grouping, each.name),
            "captures": each.captures,
            "gpu_ns": each.gpu_ns,
            **{f"{part.label}_share": _ratio(each.ledger[part.column], each.gpu_ns) for part in LEDGER_PARTS},
            "usual_ratio": each.usual_share,
            "rule": rule_name(each.rule) if each.rule else "",
            "rule_share": _ratio(each.lost_ns, each.gpu_ns),
        }
        for each in many.groups[grouping]
    ]
    parts = {f"{part.label}_share" for part in LEDGER_PARTS if part.key not in _ALWAYS_SHOWN}
    unused = {name for name in parts if not any(row[name] for row in rows)}
    is_day, drawn = grouping == "day", [each for each in many.groups[grouping] if each.gpu_ns]
    return table_section(
        grouping,
        _GROUP_TITLES[grouping],
        "parts as shares of its GPU time",
        [{name: value for name, value in row.items() if name not in unused} for row in rows],
        _LABELS,
        Bars(
            tuple(
                Bar(elide(group_name(grouping, each.name), _NAME_WIDTH), units.duration(each.gpu_ns), _bar(each.ledger))
                for each in (drawn[-_MOST_BARS:] if is_day else drawn[:_MOST_BARS])
                if len(drawn) > 1
            )
        ),
        brief=(grouping, "captures", "gpu_ns", "idle_share", "usual_ratio", "rule"),
        most={"html": 400} if is_day else {},
        folded=PAGE if len(rows) == 1 else frozenset(),
        keeps_last=is_day,
    )


def _kernels(many: ManyCaptures) -> DocumentSection:
    whole = many.kernel_ns
    rows = [{**each._asdict(), "total_share": _ratio(each.total_ns, whole)} for each in many.kernels]
    brief = ("name", "captures", "total_ns", "total_share")
    return table_section(
        "kernels", "Kernels", "the most time over all captures first", rows, _LABELS, brief=brief, of_programs=True
    )


def _list(many: ManyCaptures) -> DocumentSection:
    rows = [
        {
            "capture": each.name,
            "program": each.program,
            "gpu": group_name("gpu", each.gpu),
            "host": each.host,
            "day": each.day,
            "gpu_ns": each.gpu_ns,
            "idle_share": _ratio(each.idle_ns, each.gpu_ns),
            "step_ns": each.step_ns,
            "usual_ratio": each.usual_share,
            "rule": rule_name(each.rule) if each.rule else "",
            "rule_share": _ratio(each.lost_ns, each.gpu_ns),
        }
        for each in many.captures
    ]
    return table_section(
        "captures", "Captures", "in the order of their names", rows, _LABELS,
        most={**_ONLY_PAGE, "html": 2000}, folded=PAGE, of_programs=True,
    )  # fmt: skip


def tree(many: ManyCaptures) -> Tree:
    """Return the totals as nested dictionaries and lists of plain Python values."""
    return {
        "schema": SCHEMA,
        "capture_count": len(many.captures),
        "failed_count": len(many.failed),
        "gpu_ns": many.gpu_ns,
        "ledger": dict(many.ledger),
        "idle": [{"rule": rule, "idle_ns": idle} for rule, idle in many.idle.items()],
        "findings": [each._asdict() for each in many.findings],
        "kernel_ns": many.kernel_ns,
        "kernels": [each._asdict() for each in many.kernels],
        "other_kernels": many.other_kernels._asdict(),
        "outliers": [each._asdict() for each in many.outliers],
        "without_steps_count": many.without_steps,
        "groups": {grouping: [_group(each) for each in rows] for grouping, rows in many.groups.items()},
        "captures": [each._asdict() for each in many.captures],
        "failed": [each._asdict() for each in many.failed],
        "repeated": [{"name": name, "same_as": other} for name, other in many.repeated],
    }


def _group(row: GroupRow) -> Mapping[str, object]:
    """Return a group with a column for each row of the ledger."""
    found = row._asdict()
    found.pop("ledger")
    return {**found, **row.ledger}
