"""The section of a report on the changes that were tried: what was predicted for each, and what was measured."""

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from nsyswrap.base import units
from nsyswrap.base.interval import Interval
from nsyswrap.experiments.outcome import Trial, TriedChange
from nsyswrap.model import Fact, Finding, Report, Section
from nsyswrap.rules import rule_of
from nsyswrap.sections.spec import Kind, SectionHead
from nsyswrap.what_if.fixed_step import RUNS_DIFFER, typical

SECTION = SectionHead(
    key="tried",
    title="Changes that were tried",
    place=165,
    on_page_only=False,
    columns={
        "changes": "change verdict predicted_low_share predicted_high_share measured_low_share measured_share "
        "measured_high_share note"
    },
    kinds={Kind.TEXT: "change verdict note"},
    captions={"changes": "Predicted and measured, as a share of a step that is saved"},
    headings={
        "change": "change",
        "predicted_low_share": "predicted, at least",
        "predicted_high_share": "predicted, at most",
        "measured_low_share": "measured, at least",
        "measured_share": "measured",
        "measured_high_share": "measured, at most",
    },
    facts={
        "speed_ratio": "times as fast with all changes that help",
        "changes_tried": "changes tried",
        "predictions_checked": "predictions that were measured",
        "predictions_held": "predictions that hold",
    },
)


def tried_section(report: Report, trial: Trial, verdict: str) -> Section:
    """Return what was predicted in a report for changes that were tried later, and what was measured.

    A prediction holds where the range of the measured saving meets that of the predicted one, or lies beside it by less
    than two runs of one program differ.
    """
    timed = [each for each in trial.outcomes if each.pairs]
    predicted = [(each, _predicted(report, each)) for each in timed]
    checked = [(each, saving) for each, saving in predicted if saving is not None]
    held = [each for each, saving in checked if _holds(each, saving)]
    rows = [{**_row(each), **_ends("predicted", saving)} for each, saving in predicted]
    rows += [_row(each) for each in trial.outcomes if not each.pairs]
    best = trial.together
    facts = (
        Fact("speed_ratio", 1 / best.ratio if best is not None and best.ratio else None, "count"),
        Fact("changes_tried", len(timed), "count"),
        Fact("predictions_checked", len(checked), "count"),
        Fact("predictions_held", len(held), "count"),
    )
    names = SECTION.columns["changes"].split()
    notes = (verdict, *_score(len(held), len(checked)), *trial.notes)
    return SECTION.made(report.window, facts, {"changes": pd.DataFrame(rows, columns=names)}, notes=notes)


def with_measured(report: Report, trial: Trial) -> Report:
    """Return a report whose findings have the measured saving where the change for them was tried and helps."""
    step, measured = typical(report.step, report.window), dict[str, Interval[float]]()
    for each in trial.outcomes:
        finding, ratio = _finding_of(report, each), each.interval
        if finding is not None and ratio is not None and each.kept:
            measured.setdefault(finding.rule, ratio)
    if step is None or not measured:
        return report
    whole = step.window_ns

    def with_saving(finding: Finding) -> Finding:
        ratio = measured.get(finding.rule)
        if ratio is None:
            return finding
        saving = ratio.map(lambda share: round((1 - share) * whole))
        return replace(finding, saving=saving, saving_method="measured")

    return replace(report, findings=tuple(map(with_saving, report.findings)))


def planned_order(report: Report, keys: Sequence[str]) -> tuple[str, ...]:
    """Return experiments in the order of a report's plan, then in that of its findings, then in their own."""
    rules = dict.fromkeys((*(each.rule for each in report.plan.changes), *(each.rule for each in report.findings)))
    places: dict[str, int] = {}
    for place, rule in enumerate(rules):
        for key in rule_of(rule).tried_with:
            places.setdefault(key, place)
    return tuple(sorted(keys, key=lambda key: places.get(key, len(rules))))


def _finding_of(report: Report, each: TriedChange) -> Finding | None:
    """Return the first finding whose time a change can save; None where there is none."""
    change = each.experiment
    found = (one for one in report.findings if change is not None and change.key in rule_of(one.rule).tried_with)
    return next(found, None)


def _row(each: TriedChange) -> dict[str, object]:
    found = each.interval
    measured = found.map(lambda ratio: 1 - ratio) if found is not None else None
    point = {} if measured is None else {"measured_share": measured.point}
    return {"change": each.name, "verdict": each.verdict, "note": each.words, **_ends("measured", measured), **point}


def _ends(what: str, share: Interval[float] | None) -> dict[str, object]:
    return {} if share is None else {f"{what}_low_share": share.low, f"{what}_high_share": share.high}


def _predicted(report: Report, each: TriedChange) -> Interval[float] | None:
    """Return the share of a step that the finding predicts that a change is about; None without a prediction."""
    step, finding = typical(report.step, report.window), _finding_of(report, each)
    if step is None or finding is None or finding.saving is None or finding.saving_method == "measured":
        return None
    rule = rule_of(finding.rule)
    if not (rule.headline or rule.code):  # it says what limits the kernels, and proposes no change
        return None
    return finding.saving.map(lambda ns: ns / step.window_ns)


def _holds(each: TriedChange, predicted: Interval[float]) -> bool:
    low, high = 1 - each.high, 1 - each.low
    return low <= predicted.high + RUNS_DIFFER and high >= predicted.low - RUNS_DIFFER


def _score(held: int, checked: int) -> tuple[str, ...]:
    if not checked:
        return ()
    return (f"{held} of {units.counted(checked, 'prediction')} hold within the ranges of both.",)
