"""What the first screen of a report says: its numbers agree, and each is a result."""

import html
import re
from collections.abc import Iterator

from nsyswrap.model import Report
from nsyswrap.render import report_cards, report_hero
from nsyswrap.render.document import Effect, Entry, Hero
from nsyswrap.render.step_scale import UNKNOWN
from nsyswrap.render.summary_model import finding_groups

MOST_SENTENCES, MOST_WORDS = 2, 20
WIDEST = 3
_UNITS = {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9}
_TIME = re.compile(r"<?([\d,]+(?:\.\d+)?) (ns|µs|ms|s)\b")
# What is never shown as a result.
_NO_RESULTS = re.compile(r"(?<![\d.,])0(?:\.0+)? (?:ns|µs|ms|s)\b|(?<![\d.,])1\.00 times|-0\.0 %|nan|None|inf\b")
_HEADLINE = re.compile(r"A step takes ([\d.,]+ (?:ns|µs|ms|s)).*?(?:; about ([\d.,]+)(?: (ns|µs|ms|s))?)?(?: |\.$|$)")


# What no page and no text of a terminal says. Numbers in words.md's list of what is never shown, then its phrases.
_NEVER = re.compile(
    r"(?<![\d.,])0(?:\.0+)? (?:ns|µs|ms|s)\b|(?<![\d.,])-0(?:\.0+)? ?%|(?<![\d.,])1\.00 times"
    r"|\d(?:\.\d+)?e[+-]\d\d|\bnan\b|was not sampled:|with those before it|no saving predicted|placed by time lost"
    r"|[Bb]ounded by the|--(?:then|run) FOLDER|\bbeyond the median"
)


def never_shown(text: str) -> list[str]:
    """Return what a page or a text shows that is never shown, each with what is before it."""
    seen = re.sub(r"<(script|style|template)\b.*?</\1>", "", text, flags=re.DOTALL)
    words = html.unescape(re.sub(r"<[^>]+>", " ", seen)) if seen.startswith("<!") else seen
    return [" ".join(words[max(found.start() - 60, 0) : found.end()].split()) for found in _NEVER.finditer(words)]


def ns_of(text: str) -> float:
    """Return the time of a text in ns.

    Raises:
        AssertionError: It is no time.
    """
    found = _TIME.fullmatch(text)
    assert found is not None, text
    return float(found[1].replace(",", "")) * _UNITS[found[2]]


def decimals_of(text: str) -> float:
    """Return the size of the last digit of a time, in ns."""
    number, _, unit = text.removeprefix("<").rpartition(" ")
    return float(10 ** -len(number.partition(".")[2])) * _UNITS[unit]


def contradictions(report: Report) -> Iterator[str]:
    """Yield what on the first screen contradicts something else on it, or says nothing."""
    hero, cards = report_hero.hero(report), report_cards.cards(report)
    texts = [report.verdict, *(text for card in cards for text in _texts(card))]
    if hero is not None:
        texts += [hero.sure[0], *(text for bar in hero.bars for text in (bar.name, bar.amount, bar.range))]
    yield from (f"says nothing: {text}" for text in texts if _NO_RESULTS.search(text))
    yield from _sentences(report.verdict)
    if hero is not None:
        yield from _of_hero(hero)
        yield from _of_cards(report, hero, cards)


def _texts(card: Entry) -> Iterator[str]:
    yield card.headline
    yield from (value for _, value in (*card.cost, *card.also))
    if card.effect is not None:
        yield from (card.effect.after, card.effect.saving, card.effect.range, card.measured)


def _sentences(verdict: str) -> Iterator[str]:
    found = re.split(r"(?<=[.!?]) (?=[A-Z])", verdict)
    if len(found) > MOST_SENTENCES and "Cannot tell" not in verdict and "recorded" not in found[0]:
        yield f"{len(found)} sentences: {verdict}"
    for sentence in found:
        words = [one for one in sentence.split() if re.search(r"\w", one) and one not in _UNITS]
        if len(words) > MOST_WORDS:
            yield f"{len(words)} words: {sentence}"


def _of_hero(hero: Hero) -> Iterator[str]:
    now = hero.bars[0]
    last = decimals_of(now.amount)
    parts, time = [ns_of(part.time) for part in now.parts], ns_of(now.amount)
    if abs(sum(parts) - time) > (len(parts) + 1) * last:
        yield f"the parts {parts} do not add up to {now.amount}"
    if abs(sum(float(part.width) for part in now.parts) - 100) > 0.01:
        yield "the parts do not fill the bar"
    for bar in hero.bars[1:]:
        low, high = map(float, bar.ends)
        width = float(bar.parts[0].width)
        if ns_of(bar.amount) > time:
            yield f"{bar.name} {bar.amount} is longer than a step now"
        if (
            abs(width - 100 * ns_of(bar.amount) / time) > 100 * last / time + 0.01
            or not low - 0.01 <= width <= high + 0.01
        ):
            yield f"the bar of {bar.name} is {width} % wide, {low} to {high}"
        if high > WIDEST * low + 0.1:
            yield f"{bar.name} is {bar.range}"


def _of_cards(report: Report, hero: Hero, cards: tuple[Entry, ...]) -> Iterator[str]:
    now, planned = hero.bars[0].amount, {each.rule: each for each in report.plan.changes}
    before, last, effects = now, now, dict[str, Effect]()
    for finding, card in zip((group[0] for group in finding_groups(report)), cards, strict=True):
        effect = card.effect
        if effect is None:
            continue
        is_planned = finding.rule in planned and finding.rule not in effects
        effects.setdefault(finding.rule, effect)
        if effect.after == UNKNOWN:
            if effect.saving or effect.bar or not effect.why:
                yield f"{card.rule} has a saving, but its step is unknown"
            if is_planned:
                before = f"{planned[finding.rule].step.point} raw"
            continue
        start = before if is_planned else now
        saved, after = ns_of(effect.saving.removeprefix("saves ")), ns_of(effect.after)
        if after > ns_of(now) or saved <= 0:
            yield f"{card.rule}: {effect.after} after {now}"
        if (
            not start.endswith(" raw")
            and abs(ns_of(start) - after - saved) > 1e-6 * ns_of(now)
            and "<" not in effect.after
        ):
            yield f"{card.rule} saves {effect.saving} of {start}, and then takes {effect.after}"
        if is_planned:
            before = last = effect.after
    named = [bar for bar in hero.bars if bar.name == "after the plan"]
    if named and last not in (named[0].amount, now) and not before.endswith(" raw"):
        yield f"the plan ends at {named[0].amount}, its last card at {last}"
    yield from _of_headline(report, hero, cards)


def _of_headline(report: Report, hero: Hero, cards: tuple[Entry, ...]) -> Iterator[str]:
    found = _HEADLINE.search(report.verdict)
    if found is None:
        return
    now = hero.bars[0].amount
    if found[1] != now:
        yield f"the verdict says {found[1]}, the bar {now}"
    effect = next((card.effect for card in cards if card.anchor == report_cards.verdict_anchor(report)), None)
    if found[2] and effect is not None and effect.after != UNKNOWN and "help only together" not in report.verdict:
        about = float(found[2].replace(",", "")) * _UNITS[found[3] or now.rpartition(" ")[2]]
        after = ns_of(effect.after)
        if abs(about - after) > 0.051 * after + decimals_of(effect.after):
            yield f"the verdict says about {found[2]}, the card {effect.after}"
        yield from (
            f"the verdict says about {found[2]}, the bar {bar.name} {bar.amount}"
            for bar in hero.bars[1:]
            if ns_of(bar.amount) > 1.051 * about + decimals_of(bar.amount)
        )
