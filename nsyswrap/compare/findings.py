"""Findings of two reports beside each other: solved, new, and left."""

from nsyswrap.compare.comparison import Basis, FindingPair, Side
from nsyswrap.model import Finding

Key = tuple[str, int | None]


def pair_findings(base: Side, new: Side, basis: Basis) -> tuple[tuple[FindingPair, ...], ...]:
    """Return findings that are solved, those that are new and those that are left, the gravest and dearest first.

    A finding is the same where its rule and its GPU are.
    """
    before, now = (_by_key(side) for side in (base, new))
    pairs = [
        _pair(key, (before.get(key, []), now.get(key, [])), (base, new), basis)
        for key in dict.fromkeys([*before, *now])
    ]
    pairs.sort(key=_order)
    return (
        tuple(pair for pair in pairs if pair.new is None),
        tuple(pair for pair in pairs if pair.base is None),
        tuple(pair for pair in pairs if pair.base is not None and pair.new is not None),
    )


def _by_key(side: Side) -> dict[Key, list[Finding]]:
    found: dict[Key, list[Finding]] = {}
    for finding in side.report.findings:
        found.setdefault((finding.rule, finding.device_id), []).append(finding)
    return found


def _pair(
    key: Key, findings: tuple[list[Finding], list[Finding]], sides: tuple[Side, Side], basis: Basis
) -> FindingPair:
    base, new = (found[0] if found else None for found in findings)
    costs = (
        sum(finding.lost_ns for finding in found)
        / (side.step_count if basis == "step" else side.report.window.length_ns)
        for found, side in zip(findings, sides, strict=True)
    )
    return FindingPair(*key, base, new, *costs)


def _order(pair: FindingPair) -> tuple[int, float, str, int]:
    """Return the sort key: the gravest of both sides first, then the dearest."""
    ranks = [finding.severity.rank for finding in (pair.base, pair.new) if finding is not None]
    device = -1 if pair.device_id is None else pair.device_id
    return (min(ranks), -max(pair.base_cost, pair.new_cost), pair.rule, device)
