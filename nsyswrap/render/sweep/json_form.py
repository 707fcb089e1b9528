"""A sweep as JSON, schema ``nsyswrap.sweep/1``: the TOML and all runs, which are read back, and what follows."""

from typing import Any

from nsyswrap.render.json_report import Tree, format_document
from nsyswrap.render.sweep import summary_model
from nsyswrap.sweep.advice import advice, best_of
from nsyswrap.sweep.document import measured_tree
from nsyswrap.sweep.limits import Limit, groups_of, limit_changes, limit_of
from nsyswrap.sweep.results import CellResult, Sweep
from nsyswrap.sweep.scaling import STRONG, WEAK, ScalingRow, scaling


def render(sweep: Sweep) -> str:
    """Return the sweep as JSON text that ends in a line break."""
    return format_document(tree(sweep))


def tree(sweep: Sweep) -> Tree:
    """Return the sweep as nested dictionaries and lists of plain Python values."""
    best = best_of(sweep)
    changes = [
        {
            "axis": each.axis,
            "others": dict(each.others),
            "before": each.before,
            "after": each.after,
            "limit_before": _limit(each.limit_before),
            "limit_after": _limit(each.limit_after),
        }
        for each in limit_changes(sweep)
    ]
    return {
        **measured_tree(sweep),
        "verdict": summary_model.verdict(sweep),
        "advice": list(advice(sweep)),
        "best": None if best is None else best.result.cell.key,
        "as_good": [] if best is None else [each.cell.key for each in best.equal],
        "cells": [_cell(each) for each in sweep.cells],
        "limit_changes": changes,
        "scaling": {kind: [_scaling(each) for each in scaling(sweep, kind)] for kind in (STRONG, WEAK)},
    }


def _cell(result: CellResult) -> dict[str, Any]:
    step, failed = result.step, result.failed
    return {
        "cell": result.cell.key,
        "values": dict(result.cell.values),
        "same_as": result.cell.same_as,
        "ending": summary_model.ending_of(result),
        "reason": failed.reason if failed else "",
        "step": None if step is None else {**step._asdict(), "median_ns": result.median_ns},
        "samples_per_s": result.samples_per_s,
        "limit": _limit(limit_of(result)),
        "groups_ns": {group.name.lower(): value for group, value in groups_of(result).items()},
    }


def _limit(limit: Limit | None) -> dict[str, Any] | None:
    return None if limit is None else {"group": limit.group.name.lower(), "share": limit.share, "rule": limit.rule}


def _scaling(row: ScalingRow) -> dict[str, Any]:
    found = row._asdict()
    return {
        **found,
        "others": dict(row.others),
        "groups_ns": {group.name.lower(): value for group, value in row.groups_ns.items()},
    }
