"""The report as one HTML page that needs no network and is readable without scripts and styles.

Everything on the page is text, a table or inline SVG. The template escapes all values; names that the profiled
program chose go through ``visible`` first. The script adds sorting, filtering and keys.
"""

import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

import jinja2
from markupsafe import Markup

from nsyswrap.base import units
from nsyswrap.model import Report, Section
from nsyswrap.render import (
    documents,
    flame_view,
    glossary,
    hues,
    key_numbers,
    page_counters,
    page_files,
    page_findings,
    page_parts,
    page_phases,
    page_provenance,
    page_ranks,
    page_steps,
    page_tensor,
    plan_view,
    rank_rows,
    step_bar,
    step_view,
    summary_model,
    timeline_view,
    vocabulary,
)
from nsyswrap.render.content_policy import policy
from nsyswrap.render.escape import elide, visible
from nsyswrap.render.kernel_operators import with_operators
from nsyswrap.render.page_parts import SectionView
from nsyswrap.render.section_heads import group_of, place_of
from nsyswrap.sections.spec import PageGroup

SLIM_STYLES = ("page.css",)
# The only table of a slim page is that of the ranks.
RANK_STYLES = ("tables.css", "ranks.css")
STYLES = (*SLIM_STYLES, *RANK_STYLES, "selection.css", "flame.css")
SCRIPTS = (
    *("copying.js", "summary_picture.js", "page.js", "tables.js", "things.js"),
    *("selection.js", "selection_rows.js", "selection_panel.js", "palette.js"),
    "flame.js",
)
SLIM_SCRIPTS = ("copying.js", "page.js")
_MOST_GAPS = 20
_SHOWN_FINDINGS = 3
_SLIM_DEVICES = 2
# GPUs whose bars are drawn, and of those the most that are all open. Ours: more fill many screens.
_MOST_GPUS, _OPEN_GPUS = 32, 8
_TITLE_WIDTH = 80
_SPECIAL = ("ledger", "idle", "ranks")
_OVER_TIME = "Over time"
_CHECK = "capture_check"


class SectionGroup(NamedTuple):
    """Sections under one heading of the table of contents."""

    title: str
    sections: tuple[SectionView, ...]

    @property
    def titles(self) -> str:
        """Return the titles of its sections."""
        return ", ".join(section.title for section in self.sections)


def render(report: Report) -> str:
    """Return the report as one self-contained HTML page."""
    page: str = _environment().get_template("page.html.j2").render(**_context(report))
    return page


def render_slim(report: Report, *, title: str = "", closing: str = "") -> str:
    """Return the first part of the page, for mail and CI artefacts: verdict, plan, breakdown and first findings.

    It has at most some 60 kB, whatever the size of the capture, and no links to the parts that it leaves out.

    Args:
        report: The report.
        title: Name of the page; empty for the program's.
        closing: Sentence at its end; empty for the one that says what is left out and which command writes it.
    """
    context = {**_slim_context(report), "closing": closing, **({"title": title} if title else {})}
    page: str = _environment(slim=True).get_template("page.html.j2").render(**context)
    return page


@functools.cache
def _environment(*, slim: bool = False) -> jinja2.Environment:
    environment = page_files.environment()
    environment.filters["visible"] = visible
    environment.filters["duration"] = units.duration
    environment.filters["share"] = units.share
    environment.filters["count"] = units.count
    environment.filters["point"] = units.point
    # The slim page has no glossary to lead to.
    environment.filters["term"] = (lambda _label: "") if slim else glossary.term_anchor
    environment.globals["slim"] = slim
    return environment


def _context(report: Report) -> dict[str, Any]:
    ledger = report.section("ledger")
    window = ledger.window if ledger is not None else report.window
    everything = list(_groups(report))
    groups = [shown for group in everything if (shown := _shown(group)).sections or group.title == PageGroup.ABOUT]
    gaps = page_parts.worst_gaps(report, _MOST_GAPS)
    timeline, ranks, step = timeline_view.view(report), page_ranks.ranks(report), step_view.typical_step(report)
    findings, over_time = page_findings.findings(report), _over_time(timeline, gaps)
    has = {name for name, part in (("ranks", ranks), ("step", step)) if part}
    return {
        **_assets(STYLES, SCRIPTS, () if timeline is None else (timeline_view.script(),)),
        "contents": list(_contents(report, groups, has, over_time)),
        "title": _title(report),
        "gpus": page_provenance.gpus(report),
        "report": report,
        "window": page_provenance.window(report),
        "ledger_window": visible(summary_model.short(window)),
        **_devices(report),
        "numbers": key_numbers.key_numbers(report),
        **_answer(report, findings),
        "gaps": gaps,
        "patterns": page_parts.patterns(report),
        "timeline": timeline,
        "over_time": over_time,
        "over_time_title": _OVER_TIME,
        "step": step,
        "step_data": step and step_view.script_data(report),
        **_charts(report),
        "ranks": ranks,
        "groups": groups,
        "missing": [one for group in everything for one in group.sections if not _is_shown(one)],
        "idle_facts": page_parts.facts(report.section("ledger")) + page_parts.facts(report.section("idle")),
        "idle_notes": _notes(report, "ledger") + _notes(report, "idle"),
        "provenance": list(page_provenance.provenance(report)),
        "vocabulary": vocabulary,
        "glossary": glossary,
        "summary": documents.render("report", "markdown", report),
    }


def _answer(report: Report, findings: tuple[page_findings.FindingView, ...]) -> dict[str, Any]:
    """Return the plan and the findings, and which change of the plan gives the advice of a finding."""
    plan = plan_view.plan(report)
    return {
        "plan": plan,
        "most_actions": plan_view.MOST_ACTIONS,
        "planned": plan_view.said_by(plan, findings),
        "findings": findings[:_SHOWN_FINDINGS],
        "more_findings": findings[_SHOWN_FINDINGS:],
        "verdict_finding": page_findings.verdict_anchor(report),
    }


def _charts(report: Report) -> dict[str, Any]:
    """Return the charts of sections."""
    return {
        "tensor": page_parts.tensor_bar(report),
        "tensor_tables": page_tensor.tensor_tables(report),
        "steps": page_steps.steps(report),
        "phases": page_phases.phases(report),
        "counters": page_counters.counters(report),
        "flame": flame_view.flame(report),
    }


def _devices(report: Report) -> dict[str, Any]:
    """Return the bar of the step, the bars of GPUs, how many of them are open, and how many GPUs there are."""
    ledgers = summary_model.ledgers(report)
    devices = page_parts.devices(report, rank_rows.first_ledgers(report, ledgers, _MOST_GPUS))
    bar_now = step_bar.step_bar(report)
    return {
        "bar_now": bar_now,
        "devices": devices,
        "idle_fills": _idle_fills(bar_now, devices),
        "open_gpus": len(ledgers) if len(ledgers) <= _OPEN_GPUS else _OPEN_GPUS // 2,
        "gpu_count": len(ledgers),
    }


def _idle_fills(bar_now: step_bar.StepBar | None, devices: Sequence[page_parts.Device]) -> tuple[hues.IdleFill, ...]:
    """Return the patterns of idle time that the bars of the page use."""
    rows = chain(bar_now.parts if bar_now else (), *(device.idle for device in devices))
    return hues.patterns(row.key for row in rows if row.key.startswith("idle-"))


def _slim_context(report: Report) -> dict[str, Any]:
    """Return the values of the page without timeline, gaps and groups of sections, and without links to them."""
    whole = _context(replace(report, timeline=None))
    findings = [
        finding._replace(evidence=tuple(line._replace(span=None) for line in finding.evidence), section=None)
        for finding in whole["findings"]
    ]
    anchors = {finding.anchor for finding in findings}
    plan = whole["plan"]
    rows = tuple(row._replace(anchor=row.anchor if row.anchor in anchors else "") for row in plan.rows)
    gpus = [device._replace(attribution=page_parts.NO_TABLE) for device in whole["devices"][:_SLIM_DEVICES]]
    is_drawn = len(gpus) == 1 or not whole["ranks"]
    return {
        **whole,
        **_assets((*SLIM_STYLES, *(RANK_STYLES if whole["ranks"] else ())), SLIM_SCRIPTS, ()),
        "contents": whole["contents"][:1],
        "plan": plan._replace(rows=rows, instead=_known(plan.instead, anchors)),
        "devices": gpus,
        "idle_fills": _idle_fills(whole["bar_now"], gpus if is_drawn else ()),
        "open_gpus": _SLIM_DEVICES,
        "gpu_count": 0,
        "ranks": page_ranks.slim(report, anchors),
        "findings": findings,
        "more_findings": (),
        "verdict_finding": whole["verdict_finding"] if whole["verdict_finding"] in anchors else "",
        "over_time": {},
        "left_out": _left_out(whole),
        "groups": (),
    }


def _known(
    instead: tuple[str, plan_view.Action] | None, anchors: Collection[str]
) -> tuple[str, plan_view.Action] | None:
    """Return the advice of the first finding, with its anchor only where the page has it."""
    return instead and (instead[0] if instead[0] in anchors else "", instead[1])


def _left_out(whole: Mapping[str, Any]) -> str:
    """Return what the slim page does not have."""
    findings, sections = len(whole["more_findings"]), sum(len(group.sections) for group in whole["groups"])
    gpus = whole["gpu_count"] - _SLIM_DEVICES
    more = [f"{findings} more finding{'s' * (findings > 1)}"] if findings else []
    more += [f"{gpus} more GPU{'s' * (gpus > 1)}"] if gpus > 0 else []
    return ", ".join([*more, "the timeline", "the longest gaps"]) + f" and {sections} more sections"


def _assets(style_names: tuple[str, ...], scripts: tuple[str, ...], late_scripts: tuple[str, ...]) -> dict[str, Any]:
    """Return styles and scripts, and the policy that allows them and nothing else.

    Args:
        style_names: Names of the style sheets.
        scripts: Names of the scripts at the top of the page.
        late_scripts: Scripts that read the page when they start, so they come after it.
    """
    styles = [page_files.static(name) for name in style_names] + ([timeline_view.style()] if late_scripts else [])
    loaded = [page_files.static(name) for name in scripts]
    return {
        "policy": policy(styles, [*loaded, *late_scripts]),
        # These are our own files, and the policy holds their hashes; everything else in the page is escaped.
        "styles": [Markup(text) for text in styles],  # noqa: S704
        "scripts": [Markup(text) for text in loaded],  # noqa: S704
        "late_scripts": [Markup(text) for text in late_scripts],  # noqa: S704
    }


def _over_time(timeline: timeline_view.TimelineView | None, gaps: page_parts.GapsView) -> dict[str, str]:
    """Return the titles of the parts that show single moments, by anchor."""
    parts = (("timeline", "Timeline", timeline), ("gaps", "Gaps", gaps.gaps))
    return {anchor: label for anchor, label, part in parts if part}


def _contents(
    report: Report, groups: list[SectionGroup], has: Collection[str], over_time: Mapping[str, str]
) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield each group of the table of contents: its title, then anchor and label of its entries."""
    planned = [("plan", "Plan")] if report.plan.changes else []
    first = [
        *[("verdict", "Verdict"), *planned, ("step", "Typical step"), ("ranks", "Ranks"), ("ledger", "Breakdown")],
        ("findings", "Findings"),
    ]
    optional = {"step", "ranks"}
    yield "Answer", [(anchor, label) for anchor, label in first if anchor not in optional or anchor in has]
    if over_time:
        yield _OVER_TIME, list(over_time.items())
    for group in groups[:-1]:
        yield group.title, [(f"section-{one.key}", one.title) for one in group.sections]
    last = [(f"section-{one.key}", one.title) for one in groups[-1].sections]
    yield groups[-1].title, [*last, ("provenance", "Provenance"), ("glossary", "Glossary")]


def _title(report: Report) -> str:
    """Return what was profiled: the script of the command, else its program, else the capture's name."""
    words = [word for word in report.session.command if not word.startswith("-")]
    scripts = [word for word in words if word.endswith(".py")]
    chosen = scripts[0] if scripts else (words[0] if words else report.capture.name)
    return elide(chosen.rsplit("/", maxsplit=1)[-1] or chosen, _TITLE_WIDTH)


def _groups(report: Report) -> Iterator[SectionGroup]:
    """Yield the sections by group, in the order of the page."""
    in_order = sorted((section.key for section in report.sections), key=place_of)
    for group in PageGroup:
        yield SectionGroup(group, tuple(_views(report, [key for key in in_order if group_of(key) is group])))


def _shown(group: SectionGroup) -> SectionGroup:
    return group._replace(sections=tuple(one for one in group.sections if _is_shown(one)))


def _is_shown(section: SectionView) -> bool:
    return section.measured or section.key == _CHECK


def _views(report: Report, keys: Sequence[str]) -> Iterator[SectionView]:
    for key in keys:
        section = report.section(key)
        if section is None:
            continue
        view = page_parts.section(with_operators(report, section))
        # Ledger and idle time have a place of their own; only their other tables are shown here.
        if key not in _SPECIAL or view.tables:
            yield view


def _notes(report: Report, key: str) -> tuple[str, ...]:
    section: Section | None = report.section(key)
    return () if section is None else tuple(visible(note) for note in section.notes)
