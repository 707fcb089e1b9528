"""Where the time of a step goes against the peak of the GPU: a bar and its rows, the mean over GPUs."""

from collections.abc import Iterator

from nsyswrap.base import units
from nsyswrap.model import Report
from nsyswrap.operators.peak import ACCOUNTS, AGAIN, MODEL, NOT_JOINED, OTHER
from nsyswrap.render import charts, hues, summary_model, vocabulary
from nsyswrap.render.document import PAGE, Bar, Bars, Column, Deferred, DocumentSection, Table, times
from nsyswrap.rules.work_names import LEDGER_NAMES

TITLE = "Use of the peak"
# Key and fill of the accounts of kernels; those of products below the peak have one colour.
_BELOW = ("eligible", "#0398CE")
_FILLS = {
    ACCOUNTS[MODEL]: ("compute", "#0054A9"),
    ACCOUNTS[AGAIN]: ("unknown", "url(#unsure)"),
    ACCOUNTS[OTHER]: ("other", "#929292"),
    ACCOUNTS[NOT_JOINED]: ("rest", "#929292"),
}
_PARTS = {LEDGER_NAMES[part.column]: part for part in vocabulary.LEDGER_PARTS if part.column in LEDGER_NAMES}


def peak(report: Report, group: str) -> Iterator[DocumentSection]:
    """Yield the section; nothing where the capture does not show operators."""
    rows = summary_model.rows(report.section("operators"), "peak")
    if not rows:
        return
    gpus = len({row["device_id"] for row in rows})
    sums: dict[tuple[str, str], int] = {}
    for row in rows:
        # Idle time has one row for each reason, as in the bar of the step now.
        key = ("", str(row["rule"])) if row["rule"] else (str(row["account"]), "")
        sums[key] = sums.get(key, 0) + int(row["ns"])
    whole = sum(sums.values()) / gpus
    step = units.duration(round(whole))
    of = f"a step of {step}" + (f", mean of {gpus} GPUs" if gpus > 1 else "")
    yield DocumentSection("peak", TITLE, of, (Deferred(lambda: _blocks(sums, gpus, step)),), group=group, forms=PAGE)


def _blocks(sums: dict[tuple[str, str], int], gpus: int, step: str) -> Iterator[Bars | Table]:
    work = [key for key in sums if key[0]]
    idle = sorted((key for key in sums if key[1]), key=lambda key: (-sums[key], key))
    fills = [_fill(account) for account, _ in work]
    fills += [(name, f"url(#{name})") for name in hues.idle_fills(rule for _, rule in idle)]
    names = [account for account, _ in work] + [f"idle: {vocabulary.rule_name(rule)}" for _, rule in idle]
    ns = [round(sums[key] / gpus) for key in (*work, *idle)]
    parts = charts.stacked([(key, name, fill, each) for (key, fill), name, each in zip(fills, names, ns, strict=True)])
    yield Bars((Bar("", "", parts),))
    columns = (
        Column("", "colour", "picture", list(map(charts.swatch, parts))),
        Column("account", "where the time goes", "text", names),
        times("ns", "time", ns),
        Column("share", "of the step", "share", [each / max(sum(ns), 1) for each in ns]),
    )
    yield Table("operators-peak", f"Where a step of {step} goes, against the peak", columns, has_row_heads=False)


def _fill(account: str) -> tuple[str, str]:
    """Return key and fill of an account of work."""
    if part := _PARTS.get(account):
        return part.key, vocabulary.fill(part)
    return _FILLS.get(account, _BELOW)
