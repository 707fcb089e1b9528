"""The findings of two reports matched by rule and GPU: gone, smaller, same, larger or new.

A finding is listed only if its time exceeds a display threshold. So a rule without a finding on one side may still lose
time there: that time is read from the attribution of idle time. Idle time may also change its rule from one run to the
next, while cause and phase stay the same. Such time counts as moved, not as saved.
"""

from collections.abc import Mapping

from nsyswrap.compare.comparison import Basis, FindingChange, FindingPair, MovedTime, Side
from nsyswrap.compare.scaling import gpu_count
from nsyswrap.model import Finding

Key = tuple[str, int | None]
# Idle time a step, or as a share of the window, by rule and by where it occurs: its cause and phase.
Attribution = Mapping[str, Mapping[tuple[str, str], float]]

# Amounts that differ by less than this share of the larger one are the same. If less than this share is left, the
# finding is gone.
SAME_SHARE = 0.10
# Less than this share of the window is too little for a finding to be called smaller or larger.
NEGLIGIBLE_SHARE = 0.005


def pair_findings(base: Side, new: Side, basis: Basis) -> tuple[FindingPair, ...]:
    """Return the findings of both sides by rule and GPU; in order of their change, then of time lost."""
    sides = (base, new)
    keys = dict.fromkeys((each.rule, each.device_id) for side in sides for each in side.report.findings)
    pairs = [_pair(key, sides, basis) for key in keys]
    order = list(FindingChange)
    return tuple(
        sorted(
            pairs,
            key=lambda pair: (
                order.index(pair.change),
                -max(pair.base_lost, pair.new_lost),
                pair.rule,
                -1 if pair.device_id is None else pair.device_id,
            ),
        )
    )


def _pair(key: Key, sides: tuple[Side, Side], basis: Basis) -> FindingPair:
    rule, device = key
    findings = [[each for each in side.report.findings if (each.rule, each.device_id) == key] for side in sides]
    attributions = [_attribution(side, device, basis) for side in sides]
    lost = [
        _lost(rule, found, attribution, side, basis)
        for found, attribution, side in zip(findings, attributions, sides, strict=True)
    ]
    base, new = (found[0] if found else None for found in findings)
    moved = _moved(rule, attributions[0], attributions[1])
    least = NEGLIGIBLE_SHARE * max(_window(side, basis) for side in sides)
    moved = tuple(one for one in moved if one.amount >= max(SAME_SHARE * max(lost), least))
    # Time that only changed its rule counts on both sides.
    before = lost[0] + sum(one.amount for one in moved if not one.to_other)
    now = lost[1] + sum(one.amount for one in moved if one.to_other)
    if max(lost) > 0:
        change = _change(before, now, least)
    elif base is not None and new is not None:
        change = FindingChange.SAME
    else:
        change = FindingChange.GONE if new is None else FindingChange.NEW
    return FindingPair(rule, device, base, new, lost[0], lost[1], change, moved)


def _lost(rule: str, found: list[Finding], attribution: Attribution, side: Side, basis: Basis) -> float:
    """Return the time lost to a rule on one side: that of its findings, else what is attributed to it."""
    if found:
        return sum(finding.lost_ns for finding in found) / _divisor(side, basis)
    return sum(attribution.get(rule, {}).values())


def _change(before: float, now: float, least: float) -> FindingChange:
    larger, smaller = max(before, now), min(before, now)
    if smaller < SAME_SHARE * larger or smaller < least <= larger:
        return FindingChange.GONE if now < before else FindingChange.NEW
    if larger - smaller <= SAME_SHARE * larger:
        return FindingChange.SAME
    return FindingChange.SMALLER if now < before else FindingChange.LARGER


def _moved(rule: str, before: Attribution, now: Attribution) -> tuple[MovedTime, ...]:
    """Return the time that moved between a rule and other rules, in the same cause and phase.

    Time moves, within one cause and phase, from rules that have less in new to rules that have more. The smaller of
    both sums is the time that moved. It is divided among several rules in proportion to their changes.
    """
    found: dict[tuple[str, bool], float] = {}
    rules = {*before, *now}
    for place in {place for side in (before, now) for cells in side.values() for place in cells}:
        deltas = {each: now.get(each, {}).get(place, 0.0) - before.get(each, {}).get(place, 0.0) for each in rules}
        own = deltas.pop(rule, 0.0)
        opposite = {each: abs(delta) for each, delta in deltas.items() if delta * own < 0}
        same = abs(own) + sum(abs(delta) for delta in deltas.values() if delta * own > 0)
        whole = sum(opposite.values())
        for other, amount in opposite.items():
            part = min(same, whole) * (abs(own) / same) * (amount / whole)
            found[other, own < 0] = found.get((other, own < 0), 0.0) + part
    ranked = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    return tuple(MovedTime(other, amount, to_other) for (other, to_other), amount in ranked)


def _attribution(side: Side, device: int | None, basis: Basis) -> dict[str, dict[tuple[str, str], float]]:
    """Return the idle time of a GPU by rule, cause and phase; the mean over GPUs for the whole capture."""
    table = side.report.rows("idle", "attribution")
    if table is None:
        return {}
    divisor = _divisor(side, basis)
    if device is None:
        divisor *= max(gpu_count(side), 1)
    else:
        table = table[table["device_id"] == device]
    found: dict[str, dict[tuple[str, str], float]] = {}
    columns = (table[name].tolist() for name in ("rule", "cause", "phase", "idle_ns"))
    for rule, cause, phase, ns in zip(*columns, strict=True):
        cells = found.setdefault(str(rule), {})
        cells[str(cause), str(phase)] = cells.get((str(cause), str(phase)), 0.0) + float(ns) / divisor
    return found


def _divisor(side: Side, basis: Basis) -> float:
    """Return the number of steps, or the length of the window in ns."""
    return float(side.step_count if basis == "step" else side.report.window.length_ns)


def _window(side: Side, basis: Basis) -> float:
    """Return the whole that amounts are parts of: the time of a step in ns, or 1."""
    if basis != "step":
        return 1.0
    # A short report has the number of steps without their times.
    return float(side.steps.period.mean()) if side.steps.count else side.report.window.length_ns / side.step_count
