"""A report in a notebook cell: verdict, ledger as a bar, idle time, findings.

It has no script and no style sheet, and makes no request.
"""

from html import escape

from nsyswrap.base import units
from nsyswrap.model import Report
from nsyswrap.render import charts, report_cards, summary_model
from nsyswrap.render.escape import visible
from nsyswrap.render.vocabulary import rule_name

MOST_FINDINGS = 10
MOST_REASONS = 3
_HEIGHT = 18


def render(report: Report) -> str:
    """Return the report as a fragment of HTML."""
    parts = [
        "<div>",
        f"<p><b>{_text(report.verdict)}</b></p>",
        f"<p>{_text(report.capture.name)}, window: {_text(report.window.label)}</p>",
        *(_ledger(each) for each in summary_model.ledgers(report)),
        _findings(report),
        "</div>",
    ]
    return "\n".join(part for part in parts if part)


def _ledger(ledger: summary_model.DeviceLedger) -> str:
    """Return where the time of one GPU went: a bar, a legend, and why it was idle."""
    name = _text(f"GPU {ledger.device_id} {ledger.name}".strip())
    segments = charts.bar([amount.ns for amount in ledger.parts])
    bars = "".join(
        f'<rect x="{segment.x}%" width="{segment.width}%" height="{_HEIGHT}" fill="{amount.part.colour}">'
        f"<title>{_amount(amount)}</title></rect>"
        for amount, segment in zip(ledger.parts, segments, strict=True)
        if amount.ns
    )
    legend = ", ".join(
        f'<svg width="10" height="10" aria-hidden="true"><rect width="10" height="10" fill="{amount.part.colour}"/>'
        f"</svg> {_amount(amount)}"
        for amount in ledger.parts
        if amount.ns
    )
    svg = f'<svg width="100%" height="{_HEIGHT}" role="img" aria-label="GPU time breakdown of {name}">{bars}</svg>'
    reasons = ", ".join(f"{_text(rule_name(one.rule))} {units.duration(one.ns)}" for one in ledger.idle[:MOST_REASONS])
    idle = f"\n<p>Why the GPU was idle: {reasons}</p>" if reasons else ""
    return f"<p>{name}: {units.duration(ledger.window_ns)}</p>\n{svg}\n<p>{legend}</p>{idle}"


def _amount(amount: summary_model.LedgerAmount) -> str:
    return f"{amount.part.label} {units.share(amount.share)} ({units.duration(amount.ns)})"


def _findings(report: Report) -> str:
    if not report.findings:
        return "<p>No findings.</p>"
    cards = list(map(report_cards.written, report_cards.cards(report)))
    rows = "".join(
        f"<tr><td>{each.word}</td><td>{_text(each.headline)}</td><td>{_text(each.advice)}</td>"
        f"<td>{_text('; '.join(each.lines))}</td></tr>"
        for each in cards[:MOST_FINDINGS]
    )
    cut = f"<p>{MOST_FINDINGS} of {len(cards)} findings.</p>" if len(cards) > MOST_FINDINGS else ""
    head = "<tr><th>severity</th><th>finding</th><th>try this</th><th>step and saving</th></tr>"
    return f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>{cut}"


def _text(text: str) -> str:
    """Return a text from the profiled program, escaped for HTML."""
    return escape(visible(text))
