"""Short names of which no two are the same, so that a reader can tell rows apart."""

from collections import defaultdict
from collections.abc import Sequence
from os.path import commonprefix

from nsyswrap.render.escape import ELISION, elide, shorten, visible

# Letters before the part in which names differ, of the width: enough to see the kind of a kernel. Ours.
_HEAD_SHARE = 3


def shorten_all(texts: Sequence[str], width: int) -> list[str]:
    """Return each text in at most ``width`` characters; different texts have different short names.

    A name that would be shortened like another one shows the part in which they differ: its start, an ellipsis, then the
    text from the first difference on. Where even these are the same, a number follows.

    Args:
        texts: Names of one table or list; the same name may occur several times.
        width: Largest number of characters.
    """
    short = {text: shorten(text, width) for text in texts}
    for apart in (_from_first_difference, _numbered, _numbered):
        taken = defaultdict(list)
        for text, name in short.items():
            taken[name].append(text)
        for same in taken.values():
            if len(same) > 1:
                short |= apart(same, width)
    return [short[text] for text in texts]


def _from_first_difference(texts: Sequence[str], width: int) -> dict[str, str]:
    """Return the start of each text and its part from the first letter on in which it differs from another one."""
    shown = sorted((visible(text).removeprefix("void "), text) for text in texts)
    names = [name for name, _ in shown]
    head = width // _HEAD_SHARE
    found = {}
    for at, (name, text) in enumerate(shown):
        near = [*names[max(at - 1, 0) : at], *names[at + 1 : at + 2]]
        first = min(len(commonprefix([name, other])) for other in near)
        part = name[max(first - 2, head) :]
        found[text] = name[:head] + ELISION + elide(part, width - head - 1)
    return found


def _numbered(texts: Sequence[str], width: int) -> dict[str, str]:
    """Return the start of each text with its number among those that would look the same."""
    ends = [f" ({number})" for number in range(1, len(texts) + 1)]
    return {text: elide(text, width - len(end)) + end for text, end in zip(texts, ends, strict=True)}
