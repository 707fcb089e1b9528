"""What page and terminal show of many captures: a verdict of some sentences, notes, and tables with headings."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import pandas as pd

from nsyswrap import units
from nsyswrap.many.outliers import FEWEST, LEAST_SHARE
from nsyswrap.many.totals import FindingRow, ManyCaptures
from nsyswrap.model import Severity
from nsyswrap.render.vocabulary import LEDGER_PARTS, rule_name

# What the groups are of, in headings.
GROUP_TITLES = MappingProxyType({"program": "Programs", "gpu": "GPUs", "host": "Hosts", "day": "Days"})
_PART_NAMES = MappingProxyType({part.column: part.label for part in LEDGER_PARTS})
# Headings of columns that are not those of a report.
LABELS: Mapping[str, str] = MappingProxyType(
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
        "rule": "costs most",
        "rule_share": "of its GPU time",
        "lost_ns": "time lost",
        "idle_share": "idle",
        "worst": "where",
    }
)


class Table(NamedTuple):
    """A table: its key, its heading, what its numbers are about, and its rows."""

    key: str
    title: str
    of: str
    frame: pd.DataFrame


def verdict(many: ManyCaptures) -> str:
    """Return what the captures have in common, in some sentences."""
    count, hold = captures(len(many.captures)), "holds" if len(many.captures) == 1 else "hold"
    if not many.gpu_ns:
        return f"{count} {hold} no record of GPU work."
    compute, idle = (units.share_of(many.ledger[part], many.gpu_ns) for part in ("compute_ns", "idle_ns"))
    sentences = [f"{count} {hold} {units.duration(many.gpu_ns)} of GPU time: {compute} compute, {idle} idle."]
    most = next((each for each in many.findings if each.severity != Severity.NOTE.value and each.lost_ns), None)
    if most is not None:
        name = rule_name(most.rule)
        where = f"in {most.captures} of {count}" if len(many.captures) > 1 else "in it"
        cost = units.share_of(most.lost_ns, many.gpu_ns)
        sentences.append(f"The costliest finding is {name}: {cost} of all GPU time, {where}.")
    return " ".join(sentences)


def captures(number: int) -> str:
    """Return a number of captures in words: ``1 capture``."""
    return f"{units.count(number)} capture{'' if number == 1 else 's'}"


def notes(many: ManyCaptures) -> Iterator[str]:
    """Yield what the totals do not hold."""
    if many.failed:
        yield f"{captures(len(many.failed))} could not be read and {_count(many.failed)} in no total."
    for name, other in many.repeated[:3]:
        yield f"{name} is the same as {other}, and counts once."
    if len(many.repeated) > 3:  # noqa: PLR2004 - as above
        yield f"{len(many.repeated) - 3} more captures are the same as another one, and count once."
    if many.without_steps:
        yield f"{captures(many.without_steps)} without steps or GPU work cannot be compared by step."
    if many.other_kernels.launches:
        share = units.share_of(many.other_kernels.total_ns, many.kernel_ns)
        yield f"Kernels below the largest of their capture take {share} of the kernel time and have no row."


def _count(rows: Sequence[object]) -> str:
    return "is" if len(rows) == 1 else "are"


def tables(many: ManyCaptures) -> Iterator[Table]:
    """Yield the tables that have rows, in the order of the page."""
    every = (_findings(many), _idle(many), _outliers(many), *_groups(many), _kernels(many), _list(many), _failed(many))
    yield from (each for each in every if len(each.frame))


def _frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return rows as a table; a missing number does not make a column of floats."""
    frame = pd.DataFrame(list(rows))
    for name in frame.columns:
        if name.endswith("_ns") and frame[name].isna().any():
            frame[name] = pd.array([None if pd.isna(one) else int(one) for one in frame[name]], dtype="Int64")
    return frame


def _findings(many: ManyCaptures) -> Table:
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
    return Table("findings", "Findings", about, _frame(rows))


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _idle(many: ManyCaptures) -> Table:
    rows = [
        {"why": rule_name(rule), "idle_ns": idle, "lost_share": _ratio(idle, many.gpu_ns)}
        for rule, idle in many.idle.items()
        if idle
    ]
    return Table("idle", "Why the GPUs were idle", "adds up to the idle time", _frame(rows))


def _outliers(many: ManyCaptures) -> Table:
    rows = [
        {
            "capture": each.name,
            "program": each.program,
            "step_ns": each.step_ns,
            "usual_ns": round(each.usual_ns),
            "usual_ratio": each.share,
            "part": part_name(each.part),
            "part_ns": each.part_ns,
            "arguments": "others" if each.other_arguments else "the usual ones",
            "among": each.among,
        }
        for each in many.outliers
    ]
    about = (
        f"step far from the median of the captures of one program on the same GPUs, by at least "
        f"{units.share(LEAST_SHARE)}; of {FEWEST} or more captures"
    )
    return Table("outliers", "Outliers", about, _frame(rows))


def part_name(part: str) -> str:
    """Return the name of a row of the ledger, or of a rule of idle time; empty for none."""
    return _PART_NAMES.get(part) or (rule_name(part) if part else "")


def group_name(grouping: str, name: str) -> str:
    """Return the name of a group as it is shown: GPUs have the sign of multiplication for the letter of the files."""
    return name.replace(" x ", f" {units.TIMES} ") if grouping == "gpu" else name


def _groups(many: ManyCaptures) -> Iterator[Table]:
    for grouping, rows in many.groups.items():
        frame = _frame([
            {
                grouping: group_name(grouping, each.name),
                "captures": each.captures,
                "gpu_ns": each.gpu_ns,
                **{f"{part.label}_share": _ratio(each.ledger[part.column], each.gpu_ns) for part in LEDGER_PARTS},
                "usual_ratio": each.usual_share,
                "rule": rule_name(each.rule) if each.rule else "",
                "rule_share": _ratio(each.lost_ns, each.gpu_ns),
            }
            for each in rows
        ])  # fmt: skip
        yield Table(grouping, GROUP_TITLES[grouping], "parts as shares of its GPU time", _used(frame))


def _used(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table of groups without the parts that no group has."""
    parts = [f"{part.label}_share" for part in LEDGER_PARTS if part.key not in {"compute", "idle"}]
    empty = [name for name in parts if name in frame and not frame[name].any()]
    return frame.drop(columns=empty)


def _kernels(many: ManyCaptures) -> Table:
    whole = many.kernel_ns
    rows = [
        {
            "name": each.name,
            "captures": each.captures,
            "launches": each.launches,
            "total_ns": each.total_ns,
            "total_share": _ratio(each.total_ns, whole),
        }
        for each in many.kernels
    ]
    return Table("kernels", "Kernels", "the most time over all captures first", _frame(rows))


def _list(many: ManyCaptures) -> Table:
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
    return Table("captures", "Captures", "in the order of their names", _frame(rows))


def _failed(many: ManyCaptures) -> Table:
    rows = [{"capture": each.name, "text": each.error} for each in many.failed]
    return Table("failed", "Not read", "", _frame(rows))


def top_findings(many: ManyCaptures, most: int) -> tuple[FindingRow, ...]:
    """Return the findings that lose most, without notes."""
    return tuple(each for each in many.findings if each.severity != Severity.NOTE.value)[:most]
