"""The ranks of a job in words, for all forms of the report: their order, and who waits for whom and why."""

from collections.abc import Sequence

from nsyswrap.model import Report
from nsyswrap.render import summary_model
from nsyswrap.render.escape import elide, visible
from nsyswrap.render.summary_model import DeviceLedger, Row
from nsyswrap.render.vocabulary import rule_name

WAITS = "waits"
# A table of at most this many ranks has them by number.
MOST_BY_NUMBER = 12
_NAME_WIDTH = 24


def in_order(rows: Sequence[Row], most: int = MOST_BY_NUMBER) -> list[Row]:
    """Return ranks by number; of more than ``most``, first the late ones, then those that others wait for longest."""
    if len(rows) <= most:
        return sorted(rows, key=lambda row: int(row["rank"]))
    return sorted(rows, key=lambda row: (not row["late"], -int(row["waited_for_ns"]), int(row["rank"])))


def why(row: Row) -> str:
    """Return what keeps a rank: the rule and the phase; empty where no rank waits for it."""
    if not row["rule"]:
        return ""
    phase = f" in {elide(str(row['phase']), _NAME_WIDTH)}" if row["phase"] not in ("", "none") else ""
    return visible(rule_name(str(row["rule"]))) + phase


def reason(row: Row) -> str:
    """Return why others wait for a rank; where it waits longer itself, for which rank."""
    kept = why(row) if row["waited_for_ns"] else ""
    if row["late"] or not row["wait_ns"] or int(row["waited_for_ns"]) > int(row["wait_ns"]):
        return kept
    return f"{WAITS} for rank {row['waits_for_rank']}" if int(row["waits_for_rank"]) >= 0 else kept


def said(row: Row) -> str:
    """Return the reason, after "late" or "others wait" where others wait: "late: data loader wait in data"."""
    found = reason(row)
    if not found or found.startswith(WAITS):
        return found
    return f"late: {found}" if row["late"] else f"others wait: {found}"


def first_ledgers(report: Report, ledgers: Sequence[DeviceLedger], most: int) -> tuple[DeviceLedger, ...]:
    """Return the ledgers of at most some GPUs: all of them, or those of the ranks that come first in tables."""
    ranks = {
        int(row["device_id"]): at
        for at, row in enumerate(in_order(summary_model.rows(report.section("ranks"), "ranks")))
    }
    if len(ledgers) <= most:
        return tuple(ledgers)
    ordered = sorted(ledgers, key=lambda one: ranks.get(one.device_id, len(ranks)))
    return tuple(ordered[:most])
