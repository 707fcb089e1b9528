"""What came of trying changes: one outcome for each change, and the changes that together make the program faster."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nsyswrap.base.interval import Interval
from nsyswrap.base.json_codec import Codec, DamagedError, Tree, list_of, record_of
from nsyswrap.experiments.changes import experiments
from nsyswrap.experiments.loader_search import LoaderPoint
from nsyswrap.experiments.tried.experiment import MATHEMATICS, NOTHING, RANDOM, ROUNDING, Experiment, parts_of
from nsyswrap.experiments.tried.turns import CANNOT_TELL, FASTER, JOINED, SAME, SET, SLOWER

SCHEMA = "nsyswrap.try/1"
NOT_APPLICABLE, FAILED = "does not apply", "failed"
ALTERED = (NOTHING, RANDOM, ROUNDING, MATHEMATICS)
"""What a change may alter, the least first."""
VERDICTS = (FASTER, SLOWER, SAME, CANNOT_TELL, NOT_APPLICABLE, FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedChange:
    """What came of trying one change.

    Attributes:
        spec: The change, such as "compile=default"; "all" for those that were kept, together.
        verdict: One of ``VERDICTS``.
        words: Why it does not apply, how it failed, or why it cannot tell; empty otherwise.
        low: Lower end of the 95 % interval of the ratio of step times, with the change to without it; 0 if not timed.
        ratio: The ratio.
        high: Upper end of its interval.
        before_ns: Mean step without the change.
        after_ns: Mean step with it.
        start_ns: What the change costs once, such as the time to compile.
        pairs: Number of pairs of blocks, or of runs.
        kept: Whether it is one of the changes to make.
        alters: What it alters of the results.
    """

    spec: str
    verdict: str
    words: str = ""
    low: float = 0.0
    ratio: float = 0.0
    high: float = 0.0
    before_ns: float = 0.0
    after_ns: float = 0.0
    start_ns: float = 0.0
    pairs: int = 0
    kept: bool = False
    alters: str = ""

    @property
    def specs(self) -> tuple[str, ...]:
        """Return the changes of a pair, or the one; none for all together."""
        return () if self.spec == SET else tuple(self.spec.split(JOINED))

    @property
    def experiment(self) -> Experiment | None:
        """Return the experiment; None for several together."""
        return experiments().get(parts_of(self.spec)[0]) if len(self.specs) == 1 else None

    @property
    def name(self) -> str:
        """Return its name in sentences."""
        known = [(experiments().get(key), value) for key, value in map(parts_of, self.specs)]
        # One that does not apply has no value.
        names = (
            each.name.format(value=value) if value or "{" not in each.name else each.key
            for each, value in known
            if each
        )
        return " and ".join(names) or "all of them"

    @property
    def interval(self) -> Interval[float] | None:
        """Return the ratio of step times; None where it was not timed."""
        return Interval(self.low, self.ratio, self.high) if self.pairs else None

    @property
    def pays_after(self) -> int:
        """Return the number of steps after which its cost at the start is saved; 0 where there is none to save."""
        saved = self.before_ns - self.after_ns
        return round(self.start_ns / saved) if self.kept and saved > 0 else 0

    @property
    def lines(self) -> Mapping[str, str]:
        """Return the lines to write, by the library of the training loop."""
        found: dict[str, list[str]] = {}
        for key, value in map(parts_of, self.specs):
            for library, text in experiments()[key].lines.items():
                found.setdefault(library, []).append(text.format(value=value))
        return {library: "\n".join(texts) for library, texts in found.items() if len(texts) == len(self.specs)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What came of trying changes of a program.

    Attributes:
        command: The program with its arguments.
        outcomes: One for each change, in the order in which they were tried.
        points: The numbers of workers that were tried.
        notes: What a reader must know of the runs.
    """

    command: tuple[str, ...]
    outcomes: tuple[TriedChange, ...]
    points: tuple[LoaderPoint, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def kept(self) -> tuple[TriedChange, ...]:
        """Return the changes to make."""
        return kept_of(self.outcomes)

    @property
    def together(self) -> TriedChange | None:
        """Return the outcome of all changes to make; None where there is none, or where it was not measured."""
        together, alone = ([each for each in self.outcomes if (each.spec == SET) is is_set] for is_set in (True, False))
        if len(self.kept) != 1 or together:
            return together[-1] if together and self.kept else None
        # A change that replaced another one was compared with that one.
        chain = [each for each in alone if each.kept]
        low, ratio, high = (math.prod(getattr(each, end) for each in chain) for end in ("low", "ratio", "high"))
        return replace(self.kept[0], low=low, ratio=ratio, high=high, before_ns=chain[0].before_ns)

    def tree(self) -> Tree:
        """Return the trial as plain values, for try.json."""
        return {"schema": SCHEMA, **TRIAL.write(self)}


OUTCOME = record_of(TriedChange)
TRIAL: Codec = record_of(Trial, outcomes=list_of(OUTCOME))


def trial_from(tree: object) -> Trial:
    """Return the trial of a try.json.

    Raises:
        DamagedError: It holds something else, or a change that this version does not have.
    """
    found: Trial = TRIAL.read(tree, "")
    known = experiments()
    unknown = [spec for each in found.outcomes for spec in each.specs if parts_of(spec)[0] not in known]
    if unknown:
        raise DamagedError(f"there is no change {unknown[0]}")
    return found


def kept_of(outcomes: Sequence[TriedChange]) -> tuple[TriedChange, ...]:
    """Return the changes to make: of two that set the same, the later one."""
    found = dict[str, TriedChange]()
    for each in outcomes:
        for key in (parts_of(spec)[0] for spec in each.specs if each.kept):
            for replaced in (key, *experiments()[key].replaces):
                found.pop(replaced, None)
        if each.kept and each.specs:
            found[parts_of(each.spec)[0]] = each
    return tuple(found.values())


def outcomes_of(events: Sequence[Mapping[str, Any]]) -> list[TriedChange]:
    """Return the outcomes among the events of a process."""
    found = []
    for each in events:
        if each["event"] == "result":
            fields = {name: value for name, value in each.items() if name != "event"}
            made = TriedChange(**fields)
            found.append(replace(made, alters=alters_of(made.specs)))
    return found


def alters_of(specs: Sequence[str]) -> str:
    """Return what several changes alter of the results: that of the one that alters most."""
    found = [experiments()[parts_of(each)[0]].alters for each in specs]
    return max(found, key=ALTERED.index, default=NOTHING)
