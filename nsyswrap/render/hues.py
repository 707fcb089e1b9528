"""The hue of each account of GPU time, of each phase and of each state of a thread, in one table for the whole page.

A hue is a variable of the style sheet, which has its values for light and dark pages. Idle time is drawn with stripes
in the hue of its family; compute, communication and copies have hues of their own; phases have shades of grey.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from nsyswrap.rules import CAUSES, RULES

_CAUSES = {cause: rule.hue for cause, rule in CAUSES.items()}
TABLE: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "gpu": {
            "compute": "compute", "communication": "communication", "communication_wait": "rank-wait", "copy": "copy",
            "memset": "neutral", "outside": "neutral",
        },
        "causes": _CAUSES,
        "rules": {key: rule.hue for key, rule in RULES.items()},
        "stream": {
            "tensor": "compute", "simt_eligible": "eligible", "not_eligible": "plain-kernel", "unknown": "plain-kernel",
            "communication": "communication", "copy": "copy", "memset": "neutral",
        },
        "phases": {
            "batch": "phase-batch", "data": "phase-data", "copy": "phase-copy", "forward": "phase-forward",
            "backward": "phase-backward", "optimizer": "phase-optimizer",
        },
        "steps": {"measured": "plain-kernel", "warm_up": "neutral"},
        "thread": {
            **_CAUSES, "lock": "waiting", "wait": "waiting", "thread_wait": "waiting", "off_cpu": "waiting",
            "untraced_wait": "waiting", "peer_wait": "waiting", "checkpoint": "idle-data", "tokenizer": "idle-data",
            "page_fault": "idle-data",
        },
        "python": {"sampled": "plain-kernel"},
        "range": {"range": "phase-data"},
    }
)  # fmt: skip
"""The hue of each class, by kind of row; ``causes`` and ``rules`` are those of idle time: a cause, or the key
of a rule."""

LIGHT: Mapping[str, str] = MappingProxyType(
    {
        "compute": "#0054A9", "communication": "#873267", "rank-wait": "#B5638F", "copy": "#604900",
        "neutral": "#808080",
        "idle-data": "#FF5F1B", "idle-cpu": "#CD8B74", "idle-launch": "#8086FC", "idle-wait": "#2724AF",
        "idle-setup": "#643076", "idle-other": "#711C2F", "plain-kernel": "#6D7F95", "waiting": "#C3CBD6",
        "eligible": "#0398CE", "phase-batch": "#EEF1F5", "phase-data": "#D3DBE5", "phase-copy": "#AEBBCB",
        "phase-forward": "#DDE3EB", "phase-backward": "#C3CEDB", "phase-optimizer": "#DDE3EB", "phase-other": "#C3CEDB",
    }
)  # fmt: skip
"""Values on a light page: the ``fill`` attributes of drawings, for where style sheets are forbidden."""


LIGHTER = "-2"
"""End of the name of a lighter fill, for the second account of a family in one bar."""


class IdleFill(NamedTuple):
    """The pattern of an account of idle time: its name, hue, colour on a light page, and opacity."""

    name: str
    hue: str
    colour: str
    tint: str


def idle_fills(rules: Iterable[str]) -> list[str]:
    """Return the name of the fill of each account of a bar: its hue, and a lighter one for others of its family."""
    own = [idle_hue(rule) for rule in rules]
    return [hue + LIGHTER * (hue in own[:at]) for at, hue in enumerate(own)]


def patterns(fills: Iterable[str]) -> tuple[IdleFill, ...]:
    """Return the patterns of fills of idle time, each once."""
    hues = {name: name.removesuffix(LIGHTER) for name in sorted(set(fills))}
    return tuple(IdleFill(name, of, LIGHT[of], ".6" if name != of else "1") for name, of in hues.items())


def idle_hue(name: str) -> str:
    """Return the hue of idle time with a rule such as ``idle/data_wait``, or with a cause such as ``data_wait``."""
    return TABLE["rules"].get(name) or TABLE["causes"].get(name, "idle-other")
