"""Short names for the rows of a table; different names stay different."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

from nsyswrap.render.escape import ELISION, elide, essential, shorten, visible

# Letters at the start, and at the first of two differences, as parts of the width. Ours: enough to see the kind.
_HEAD_SHARE, _FIRST_SHARE = 3, 4
# Letters before a difference, so that all digits of a number are there.
_BEFORE = 4


def shorten_all(texts: Sequence[str], width: int) -> list[str]:
    """Return each text in at most ``width`` characters; different texts have different short names.

    A name that would be shortened like another one shows where they differ: its start, an ellipsis, then the text from
    the difference on. Where even these are the same, a number follows.

    Args:
        texts: Names of one table or list; the same name may occur several times.
        width: Largest number of characters.
    """
    short = {text: shorten(text, width) for text in texts}
    for apart in (_at_difference, _numbered, _numbered):
        taken = defaultdict(list)
        for text, name in short.items():
            taken[name].append(text)
        for same in taken.values():
            if len(same) > 1:
                short |= apart(same, width)
    return [short[text] for text in texts]


def _at_difference(texts: Sequence[str], width: int) -> dict[str, str]:
    """Return the start of each text and the parts in which it differs from the others.

    In their order by letters, a name differs from one neighbour at one place and from the other neighbour at another.
    """
    names = {text: essential(visible(text)) for text in texts}
    if len(set(names.values())) < len(names):
        names = {text: visible(text) for text in texts}
    ordered = sorted(names, key=names.__getitem__)
    shared = [_shared(names[one], names[other]) for one, other in pairwise(ordered)]
    found = {}
    for at, text in enumerate(ordered):
        places = sorted(shared[max(at - 1, 0) : at + 1])
        name = names[text]
        head = width // _HEAD_SHARE
        first, last = (max(place - _BEFORE, 0) for place in (places[0], places[-1]))
        parts = [name[:head]]
        if first + width // _FIRST_SHARE < last and first >= head:
            parts.append(name[first : first + width // _FIRST_SHARE])
        rest = width - sum(len(part) + 1 for part in parts)
        begin = max(min(last if len(parts) > 1 else first, len(name) - rest), head)
        found[text] = ELISION.join([*parts, elide(name[begin:], rest)])
    return found


def _shared(one: str, other: str) -> int:
    """Return how many letters two names have in common at their start."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _numbered(texts: Sequence[str], width: int) -> dict[str, str]:
    """Return the start of each text with its number among those that would look the same."""
    ends = [f" ({number})" for number in range(1, len(texts) + 1)]
    return {text: elide(text, width - len(end)) + end for text, end in zip(texts, ends, strict=True)}
