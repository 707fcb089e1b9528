"""What must agree for two runs to have done the same work, each as one check with one sentence.

Counts, types and settings must be equal. Values may differ by rounding. How much rounding may change them is measured:
BASE runs once more with a random rounding error in each sum, as ``WorkRecord`` has it, and the values of this run show
how far such errors grow, step by step.

Less work than BASE does is other work. More is not: it only takes longer, and a note says so.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest
from typing import NamedTuple

from nsyswrap.base import units
from nsyswrap.experiments.verify_runs import WorkRun
from nsyswrap.experiments.work_record_steps import ProcessWork, Values, WorkStep, process_work

# A random error may hide by chance in one value: three of four are larger than a quarter of their standard deviation.
_MARGIN = 4.0
# Values that rounding may change by more than this prove nothing.
_WIDEST = 0.1
# Files of logs hold times and differ a little in length; a file that is missing or cut does not.
_LEAST_WRITTEN = 0.9
_ENDS = {"update": "optimizer step", "backward": "backward pass", "output": "call of a model"}
_ELSEWHERE = " in another thread"


class WorkOutcome(StrEnum):
    """Whether two programs did the same work."""

    SAME = "same work"
    OTHER = "other work"
    CANNOT_TELL = "cannot tell"


class WorkCheck(NamedTuple):
    """One thing that must agree.

    Attributes:
        name: What is compared.
        base: What BASE has, in words.
        new: What NEW has, in words.
        outcome: Whether they agree.
        words: What differs, or how they agree; one sentence.
        is_value: Whether it compares values, which differ for a program that does not repeat itself.
    """

    name: str
    base: str
    new: str
    outcome: WorkOutcome
    words: str
    is_value: bool = False


@dataclass(frozen=True, slots=True)
class RoundingGrowth:
    """How far rounding may change values.

    Attributes:
        roundoff: The relative error of a rounded result.
        run: The run in which each sum has such errors.
    """

    roundoff: float
    run: WorkRun


def growth_of(roundoff: float, run: WorkRun) -> RoundingGrowth | None:
    """Return what a run with rounding errors shows; None where it failed."""
    failed = run.code or any(each["problem"] for each in run.processes)
    return None if failed else RoundingGrowth(roundoff, run)


def checks(base: WorkRun, new: WorkRun, growth: RoundingGrowth | None = None) -> tuple[WorkCheck, ...]:
    """Return the checks of two runs.

    Without the growth of rounding errors in BASE, values must be equal.
    """
    ended = _ends(base, new)
    if ended is not None:
        return (ended,)
    pairs = list(zip_longest(_training(base), _training(new)))
    if any(one is None or other is None for one, other in pairs) or not pairs:
        counts = [len(_training(each)) for each in (base, new)]
        words = (
            "No process of BASE runs a model with PyTorch, so there is no work to compare."
            if not counts[0]
            else f"NEW runs models in {units.counted(counts[1], 'process', 'processes')}, BASE in {counts[0]}."
        )
        outcome = WorkOutcome.OTHER if counts[0] else WorkOutcome.CANNOT_TELL
        return (WorkCheck("processes", str(counts[0]), str(counts[1]), outcome, words),)
    grown = _training(growth.run) if growth is not None else []
    found: list[WorkCheck] = []
    for number, (one, other) in enumerate(pairs):
        assert one is not None and other is not None  # noqa: PT018, S101 - checked above
        third = grown[number] if number < len(grown) else None
        found += _of_process(one, other, third, growth.roundoff if growth is not None else 0.0)
    sides = [_Places(each) for each in (base, new)]
    found += [*_products(*sides), _kinds(*sides), _read(*sides), _written(base, new)]
    by_name: dict[str, WorkCheck] = {}
    for each in found:
        kept = by_name.setdefault(each.name, each)
        if kept.outcome is WorkOutcome.SAME:
            by_name[each.name] = each
    return tuple(by_name.values())


def _ends(base: WorkRun, new: WorkRun) -> WorkCheck | None:
    """Return the check that fails where a program fails or does not use PyTorch."""
    if new.code or base.code:
        side, run = ("NEW", new) if new.code else ("BASE", base)
        words = f"{side} ends with exit code {run.code}: {run.last_lines[-1] if run.last_lines else 'no message'}."
        outcome = WorkOutcome.CANNOT_TELL if base.code else WorkOutcome.OTHER
        return WorkCheck("end", f"exit code {base.code}", f"exit code {new.code}", outcome, words)
    for side, run in (("BASE", base), ("NEW", new)):
        problem = next((each["problem"] for each in run.processes if each["problem"]), "")
        if problem:
            words = f"The work of {side} cannot be recorded: {problem}."
            return WorkCheck("record", "", "", WorkOutcome.CANNOT_TELL, words)
    return None


def _training(run: WorkRun) -> list[ProcessWork]:
    """Return the processes that run models or train, by their numbers."""
    return [
        process_work(each)
        for each in sorted(run.processes, key=lambda one: int(one["pid"]))
        if any(event["kind"] != "end" for event in each["events"])
    ]


def _of_process(base: ProcessWork, new: ProcessWork, grown: ProcessWork | None, roundoff: float) -> Iterator[WorkCheck]:
    """Yield the checks of a process that trains."""
    yield _steps(base, new)
    if base.end == new.end == "output" and len(base.steps) != len(new.steps):
        base, new = base.as_one_step(), new.as_one_step()
        grown = grown and grown.as_one_step()
    yield _parameters(base, new)
    yield _updates(base, new)
    yield _gradients(base, new)
    values = _Values(base, new, grown, roundoff)
    yield _samples(values)
    yield values.check("losses", lambda step: step.loss)
    yield values.check("values of gradients", lambda step: step.gradients)
    yield values.check("values of parameters", lambda step: step.parameters)
    yield values.check("outputs", lambda step: step.output, size=lambda step: step.output_size)
    counts = [sum(step.output_elements for step in (*each.steps, each.after)) for each in (base, new)]
    shown = [f"{count:,}" for count in counts]
    words = f"Models of NEW compute {shown[1]} outputs, those of BASE {shown[0]}."
    yield _exact("number of outputs", shown, words, same=counts[1] >= counts[0])


def _steps(base: ProcessWork, new: ProcessWork) -> WorkCheck:
    counts = [len(each.steps) for each in (base, new)]
    noun = _ENDS[base.end]
    shown = [f"{count} {_plural(_ENDS[each.end], count)}" for count, each in zip(counts, (base, new), strict=True)]
    same = counts[0] == counts[1] and base.end == new.end
    words = f"Both make {shown[0]}." if same else f"NEW makes {shown[1]}, BASE {shown[0]}."
    if base.end == new.end == "output":  # a loop may become a batch
        same = True
        words = f"Models are called {counts[1]} times, in BASE {counts[0]}."
    return _exact(f"{noun.split()[0]} steps" if noun != _ENDS["output"] else "calls", shown, words, same=same)


def _plural(noun: str, count: int) -> str:
    if count == 1:
        return noun
    return {"call of a model": "calls of a model", "backward pass": "backward passes"}.get(noun, f"{noun}s")


def _exact(name: str, shown: Sequence[str], words: str, *, same: bool) -> WorkCheck:
    """Return a check of what must be equal."""
    return WorkCheck(name, shown[0], shown[1], WorkOutcome.SAME if same else WorkOutcome.OTHER, words)


def _parameters(base: ProcessWork, new: ProcessWork) -> WorkCheck:
    shown = [units.counted(len(each.shapes), "parameter") for each in (base, new)]
    lost, added = Counter(base.shapes) - Counter(new.shapes), Counter(new.shapes) - Counter(base.shapes)
    if lost or added:
        first = ", ".join([*(f"without {one}" for one in list(lost)[:2]), *(f"with {one}" for one in list(added)[:2])])
        words = f"NEW updates {shown[1]}, BASE {shown[0]}: {first}."
        return _exact("parameters", shown, words, same=False)
    return _exact("parameters", shown, "Number, sizes and types of the updated parameters are equal.", same=True)


def _updates(base: ProcessWork, new: ProcessWork) -> WorkCheck:
    for number, (one, other) in enumerate(zip(base.steps, new.steps, strict=False)):
        if one.settings != other.settings:
            left, right = _differing(" | ".join(one.settings), " | ".join(other.settings))
            return _exact(
                "optimizer", (left, right), f"In step {number}, NEW updates with {right}, BASE with {left}.", same=False
            )
    shown = base.steps[0].settings if base.steps else ()
    name = shown[0].partition(":")[0] if shown else "none"
    return _exact("optimizer", (name, name), "Optimizers and their settings are equal in each step.", same=True)


def _differing(base: str, new: str) -> tuple[str, str]:
    """Return the settings that differ."""
    if base.partition(":")[0] != new.partition(":")[0]:
        return base.partition(":")[0] or "no optimizer", new.partition(":")[0] or "no optimizer"
    pairs = list(
        zip_longest(base.partition(":")[2].split(", "), new.partition(":")[2].split(", "), fillvalue="nothing")
    )
    found = next((one, other) for one, other in pairs if one != other)
    return found[0].strip(), found[1].strip()


def _gradients(base: ProcessWork, new: ProcessWork) -> WorkCheck:
    counts = [sum(mask.count("1") for step in each.steps[:1] for mask in step.given) for each in (base, new)]
    for number, (one, other) in enumerate(zip(base.steps, new.steps, strict=False)):
        if one.given != other.given:
            left, right = ("".join(each.given).count("1") for each in (one, other))
            words = f"In step {number}, {units.counted(right, 'parameter')} of NEW get gradients, {left} of BASE."
            return _exact("gradients", (str(left), str(right)), words, same=False)
    words = "The same parameters get gradients in each step."
    return _exact("gradients", list(map(str, counts)), words, same=True)


@dataclass(frozen=True, slots=True)
class _Values:
    """The values of two processes, and of BASE with rounding errors."""

    base: ProcessWork
    new: ProcessWork
    grown: ProcessWork | None
    roundoff: float

    def check(
        self, name: str, values: Callable[[WorkStep], Values | None], size: Callable[[WorkStep], float] | None = None
    ) -> WorkCheck:
        """Return the check of some values a step.

        ``size`` returns what a rounding error is relative to; their norm if None.
        """
        known = [
            (number, one, other)
            for number, (one, other) in enumerate(zip(self.base.steps, self.new.steps, strict=False))
            if values(one) is not None and other.output_elements <= one.output_elements
        ]
        if not known:
            return WorkCheck(name, "none", "none", WorkOutcome.SAME, "There are none to compare.")
        shown = [_shown(values(each)) for each in known[-1][1:]]
        if all(repr(values(one)) == repr(values(other)) for _, one, other in known):  # what is no number, too
            return WorkCheck(name, shown[0], shown[1], WorkOutcome.SAME, "Equal in each step, to the last bit.")
        reach, worst, compared = 0.0, 0.0, 0
        for number, one, other in known:
            before, after = values(one) or (), values(other) or ()
            scale = _norm(before) if size is None else size(one)
            # What is computed from the parameters differs at least as much as they do.
            reach = max(
                reach, self.growth(number, values), self._parameters_grown(number) * scale, self.roundoff * scale
            )
            if _MARGIN * reach > _WIDEST * scale and scale:
                break
            compared += 1
            apart = _distance(before, after)
            if not apart <= _MARGIN * reach:  # also where one is not a number
                return self._differs(name, number, shown=(before, after), reach=_MARGIN * reach)
            worst = max(worst, apart / scale if scale else 0.0)
        if self.grown is None or not compared:
            words = f"Rounding alone changes them by more than {100 * _WIDEST:g} %, so they prove nothing."
            return WorkCheck(name, shown[0], shown[1], WorkOutcome.CANNOT_TELL, words, is_value=True)
        of = "each step" if compared == len(known) else f"the first {compared} of {len(known)} steps"
        words = f"Within rounding in {of}: they differ by at most {worst:.2g} of their size."
        return WorkCheck(name, shown[0], shown[1], WorkOutcome.SAME, words, is_value=True)

    def growth(self, number: int, values: Callable[[WorkStep], Values | None]) -> float:
        """Return how far rounding errors have changed the values of a step."""
        if self.grown is None or number >= len(self.grown.steps):
            return 0.0
        one, other = values(self.base.steps[number]), values(self.grown.steps[number])
        return _distance(one, other) if one is not None and other is not None else 0.0

    def _parameters_grown(self, number: int) -> float:
        """Return how far rounding errors have changed the parameters before a step, relative to their size."""
        size = _norm(self.base.steps[number - 1].parameters or ()) if number else 0.0
        return self.growth(number - 1, lambda step: step.parameters) / size if size else 0.0

    def _differs(self, name: str, number: int, shown: tuple[Values, Values], reach: float) -> WorkCheck:
        before, after = map(_shown, shown)
        words = f"NEW has {after}, BASE {before}"
        if before == after:
            words = f"NEW differs by {_distance(*shown):.2g} from {before}"
        explained = f"; rounding explains {reach:.2g}" if self.grown is not None else ""
        words = f"In step {number}, {words}{explained}."
        return WorkCheck(name, before, after, WorkOutcome.OTHER, words, is_value=True)


def _norm(values: Values) -> float:
    return math.hypot(*values)


def _distance(one: Values, other: Values) -> float:
    """Return the distance of two lists of values; infinite for other numbers of them."""
    if len(one) != len(other):
        return math.inf
    return math.hypot(*(left - right for left, right in zip(one, other, strict=True) if repr(left) != repr(right)))


def _shown(values: Values | None) -> str:
    """Return a single value, or the norm of several."""
    if not values:
        return "none"
    return f"{values[0]:.6g}" if len(values) == 1 else f"size {_norm(values):.4g}"


def _samples(values: _Values) -> WorkCheck:
    """Return the check of the batches that enter models: the same rows in each step, in any order."""
    base, new = ([*each.steps, each.after] for each in (values.base, values.new))
    rows = [sum(step.rows for step in each) for each in (base, new)]
    shown = [units.counted(each, "row") for each in rows]
    for number, (one, other) in enumerate(zip(base, new, strict=False)):
        if one.elements > other.elements or not _types(one) <= _types(other):
            left, right = (f"{units.counted(step.rows, 'row')} of {_shapes(step)}" for step in (one, other))
            return _exact("batches", shown, f"In step {number}, {right} enter the model, in BASE {left}.", same=False)
        if one.samples == other.samples or one.calls <= other.calls:
            continue
        # What models computed, such as the input of a discriminator, may enter another model.
        reach = max(values.roundoff, 2.0**-52 * max(one.elements, 1)) * max(abs(one.value), 1.0) * _MARGIN
        # Rounding errors alone may change the batches of a step.
        has_grown = values.growth(number, lambda step: (float(step.samples),)) > 0
        if not (has_grown or one.rows != other.rows) or abs(one.value - other.value) > reach:
            words = f"In step {number}, other samples enter the model than in BASE."
            return WorkCheck("batches", shown[0], shown[1], WorkOutcome.OTHER, words, is_value=True)
    words = "The same samples enter the model in each step." if rows[0] else "No batch enters a model of PyTorch."
    return _exact("batches", shown, words, same=True)


def _types(step: WorkStep) -> frozenset[object]:
    return frozenset(shape[0] for shape in step.shapes)


def _shapes(step: WorkStep) -> str:
    found = [f"{name} {'x'.join(map(str, sizes)) or '1'}" for name, *sizes in sorted(step.shapes, key=str)]
    return ", ".join(found[:2]) or "nothing"


def _products(base: "_Places", new: "_Places") -> Iterator[WorkCheck]:
    """Yield the checks of the operations of matrix products, by type and by place."""
    types = [Counter({name: each.total("products", dtype=name) for name in each.types}) for each in (base, new)]
    shown = [", ".join(f"{name} {_count(amount)}" for name, amount in sorted(each.items())) or "none" for each in types]
    lost = {name: amount for name, amount in types[0].items() if types[1][name] < amount}
    added = [name for name, amount in types[1].items() if amount > types[0][name]]
    others = [name for name in added if name not in types[0]]
    if lost and others:
        words = f"NEW multiplies matrices of {_listed(others)} instead of {_listed(lost)}."
        yield _exact("types of products", shown, words, same=False)
        return
    totals = [each.total("products") for each in (base, new)]
    words = "Types of matrix products are equal."
    yield _exact("types of products", [", ".join(sorted(each)) or "none" for each in types], words, same=True)
    shown = [_count(each) for each in totals]
    if totals[1] < totals[0]:
        less = _share(totals[1], totals[0])
        part = max(
            ("forward", "backward", "optimizer", "loading"),
            key=lambda name: base.total("products", part=name) - new.total("products", part=name),
        )
        words = f"NEW computes {less} fewer operations of matrix products, most of them in {_PARTS[part]}."
        yield _exact("matrix products", shown, words, same=False)
        return
    moved = new.moved_from(base) if len(base.rest) == len(new.rest) else ""
    words = moved or (
        "Operations of matrix products are equal."
        if totals[0] == totals[1]
        else f"NEW computes {_share(totals[0], totals[1])} more operations of matrix products than it needs."
    )
    yield _exact("matrix products", shown, words, same=not moved)


_PARTS = {
    "forward": "the forward pass or evaluation",
    "backward": "the backward pass",
    "optimizer": "the optimizer",
    "loading": "data loading",
}


class _Places:
    """Where a run does its work."""

    def __init__(self, run: WorkRun) -> None:
        own = _training(run)
        self.first = [step.work for each in own for step in each.steps[:1]]
        self.rest = [step.work for each in own for step in each.steps[1:]]
        self.after = [each.after.work for each in own]
        self.loaders = [
            event["work"]
            for each in run.processes
            if all(event["kind"] == "end" for event in each["events"])
            for event in each["events"]
        ]
        self.works = (*self.first, *self.rest, *self.after, *self.loaders)
        names = {name for work in self.works for name in work}
        self.kinds = {name.split("|")[1] for name in names}
        self.types = {
            name.split("|")[2] for name in names if "|products|" in name and not name.startswith("recomputed")
        }

    def total(self, kind: str, *, part: str = "", dtype: str = "") -> float:
        """Return an amount of the whole run."""
        return sum(_amount(work, kind, part=part, dtype=dtype) for work in self.works)

    def moved_from(self, base: "_Places") -> str:
        """Return what moved out of the steps, compared with another run, in a sentence; empty for nothing."""
        before, now = (_in_loop(each.rest) for each in (base, self))
        if now >= before:
            return ""
        where = "into other threads or processes"
        if _in_loop(self.first) > _in_loop(base.first):
            where = "before the end of the first step"
        elif _in_loop(self.after) > _in_loop(base.after):
            where = "behind the last step"
        return f"NEW moves {_share(now, before)} of the operations of matrix products out of the steps, {where}."


def _in_loop(works: Sequence[Mapping[str, float]]) -> float:
    """Return the operations of products in the thread of the loop, without those of data loading."""
    return sum(
        amount
        for work in works
        for name, amount in work.items()
        if "|products|" in name and _ELSEWHERE not in name and not name.startswith(("loading", "recomputed"))
    )


def _amount(work: Mapping[str, float], kind: str, *, part: str = "", dtype: str = "") -> float:
    """Return an amount of a kind, without what is computed again; of a part or a type, if one is given."""
    found = 0.0
    for name, amount in work.items():
        where, what, *of = name.split("|")
        if what != kind or where == "recomputed" or (dtype and of != [dtype]):
            continue
        if not part or where.removesuffix(_ELSEWHERE) == part:
            found += amount
    return found


def _kinds(base: _Places, new: _Places) -> WorkCheck:
    """Return the check of operators that no fix computes in another way."""
    names = (base.kinds | new.kinds) - {"products", "read"}
    if base.total("products"):
        names -= {"other"}
    for name in sorted(names):
        before, now = base.total(name), new.total(name)
        least = before / 2 if name == "other" else before
        if now < least:
            what = "elements in other operators" if name == "other" else f"elements in {name}"
            words = f"NEW computes {_share(now, before)} fewer {what}."
            return _exact("other operators", (_count(before), _count(now)), words, same=False)
    listed = _listed(sorted(names - {"other"})) or "no sorting, random numbers or scans"
    shown = [_count(sum(each.total(name) for name in names)) for each in (base, new)]
    return _exact("other operators", shown, f"NEW computes as much as BASE: {listed}.", same=True)


def _read(base: _Places, new: _Places) -> WorkCheck:
    """Return the check of the bytes of the files that are opened."""
    before, now = base.total("read"), new.total("read")
    shown = [units.size(round(each)) for each in (before, now)]
    if now < before:
        words = f"NEW reads {_share(now, before)} fewer bytes from files."
        return _exact("files read", shown, words, same=False)
    inside = [sum(_amount(work, "read") for work in (*each.rest, *each.loaders)) for each in (base, new)]
    if inside[1] < inside[0] / 2 and len(base.rest) == len(new.rest):
        words = f"NEW reads {_share(inside[1], inside[0])} of the bytes of files outside of the steps."
        return _exact("files read", shown, words, same=False)
    return _exact("files read", shown, "NEW reads as many bytes from files as BASE.", same=True)


def _written(base: WorkRun, new: WorkRun) -> WorkCheck:
    """Return the check of the files that are written: their number and their bytes, since names may differ."""
    counts, sizes = zip(*((len(each.written), sum(each.written.values())) for each in (base, new)), strict=True)
    shown = [f"{units.counted(count, 'file')}, {units.size(size)}" for count, size in zip(counts, sizes, strict=True)]
    same = counts[1] >= counts[0] and sizes[1] >= _LEAST_WRITTEN * sizes[0]
    words = "NEW writes as many files as BASE." if same else f"NEW writes {shown[1]}, BASE {shown[0]}."
    return _exact("files written", shown, words, same=same)


def _count(amount: float) -> str:
    """Return a number of operations or elements, shortened."""
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if amount >= size:
            return f"{amount / size:.4g} {letter}"
    return f"{amount:g}"


def _share(part: float, whole: float) -> str:
    """Return by how much a part is smaller than the whole."""
    return units.share(1 - part / whole) if whole else "0 %"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
