"""The record of a rule: all that is fixed about one pattern that costs time, whatever the capture."""

from dataclasses import dataclass
from enum import Enum

from nsyswrap.rules.code import CodeChange


class Group(Enum):
    """What a part of a step is spent on, with its name."""

    COMPUTE = "compute"
    COMMUNICATION = "communication"
    COPIES = "copies"
    LOADER = "data loader"
    HOST = "host"
    PROFILER = "profiler"
    UNKNOWN = "unknown cause"


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What a finding says, and the change to make.

    Attributes:
        headline: One sentence; its fields in braces are filled in by the code that finds the rule.
        advice: The change to make, in PyTorch's terms.
        code: The change as lines of Python, PyTorch's first; empty where no few lines make it.
    """

    headline: str = ""
    advice: str = ""
    code: tuple[CodeChange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Advice):
    """All that is fixed about one rule of findings.

    Each nanosecond of idle time belongs to one rule: that of its root cause, or ``idle/<cause>`` where it has none.

    Attributes:
        key: Its family and its own name, such as "idle/data_wait".
        name: A phrase, the same in every output.
        cases: What findings say where the capture shows more than the rule itself.
        fixed: End of the sentence on the time of a step with the fix.
        meaning: For a cause of idle time: what the launching thread did.
        hue: Hue of idle time that belongs to the rule.
        drawn_as: Kind of row and class that findings are about; None for idle time, whose class is the rule.
        group: What a step spends the rule's time on.
        can_save: Whether a fix can save the time; False where the capture itself is the cause.
        is_slight: Whether some of it is always there: a note below 20 % of the window if less than 5 % is sure to be
            saved, never more than a warning.
        without_gpu: Headline where the capture has no GPU work.
        keeps_rank: What keeps a late rank, in words; empty where the name and the phase say it.
        weight: How much a predicted saving counts in the order of findings. Source: ours.
        for_late_rank: Advice for a late rank, where that for one GPU does not fit.
        tried_with: The experiments of ``nsyswrap try`` that can save its time.
    """

    key: str
    name: str
    cases: tuple[Advice, ...] = ()
    fixed: str = "if fixed"
    meaning: str = ""
    hue: str = "idle-other"
    drawn_as: tuple[str, str] | None = None
    group: Group = Group.HOST
    can_save: bool = True
    is_slight: bool = False
    without_gpu: str = ""
    keeps_rank: str = ""
    weight: float = 1.0
    for_late_rank: str = ""
    tried_with: tuple[str, ...] = ()

    @property
    def row_and_class(self) -> tuple[str, str]:
        """Return the kind of row and the class that findings are about, in a picture of the step."""
        return self.drawn_as or ("gpu", self.key)

    @property
    def own_name(self) -> str:
        """Return the key without the family: for a rule ``idle/<cause>``, the cause."""
        return self.key.partition("/")[2]
