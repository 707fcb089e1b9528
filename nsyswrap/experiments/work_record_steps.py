"""The record of a process as steps: what happens from the end of one optimizer step to the end of the next.

A program without optimizer steps has its backward passes instead, and one without those the calls of its models.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

Values = tuple[float, ...]
ENDS = ("update", "backward", "output")
"""The event that ends a step: the first of these kinds that a process has."""


@dataclass(frozen=True, slots=True)
class WorkStep:
    """The work of one step.

    Attributes:
        work: Amounts by part and kind: operations of products by type, elements of other operators, bytes of files.
        loss: Sum of the values that its backward passes begin with, as a single value; None without any.
        rows: Number of rows of the batches that enter models.
        samples: Sum over the hashes of these rows.
        calls: The same for each call of a model, counted.
        elements: Number of elements of these batches.
        value: Sum of these elements.
        shapes: Types and sizes of a row of these batches.
        output: Sum of the outputs of models, as a single value; None without any.
        output_size: Sum of their absolute values.
        output_elements: Number of elements of these outputs.
        gradients: Sums over the gradients with random signs, by optimizer; None without an optimizer step.
        given: Which parameters have gradients other than zero, by optimizer.
        settings: Name and hyperparameters of the optimizers.
        parameters: The same over the parameters after the step.
    """

    work: Mapping[str, float]
    loss: Values | None = None
    rows: int = 0
    samples: int = 0
    calls: Counter[int] = field(default_factory=Counter)
    elements: int = 0
    value: float = 0.0
    shapes: frozenset[tuple[Any, ...]] = frozenset()
    output: Values | None = None
    output_size: float = 0.0
    output_elements: int = 0
    gradients: Values | None = None
    given: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    parameters: Values | None = None


@dataclass(frozen=True, slots=True)
class ProcessWork:
    """The work of one process that runs models.

    Attributes:
        steps: Its steps.
        end: What ends each of them: a kind of event.
        after: The work after the last one.
        shapes: Types and sizes of the parameters, by optimizer.
        events: What happened, in order.
    """

    steps: tuple[WorkStep, ...]
    end: str
    after: WorkStep
    shapes: tuple[str, ...]
    events: Sequence[Mapping[str, Any]]

    def as_one_step(self) -> "ProcessWork":
        """Return the same work as a single step: calls of a model that became others, such as a loop a batch."""
        return replace(self, steps=(_step(self.events),), after=_step([]))


def process_work(record: Mapping[str, Any]) -> ProcessWork:
    """Return the work of a process.

    The record is what ``WorkRecord.write`` wrote.
    """
    events = record["events"]
    kinds = {each["kind"] for each in events}
    end = next((kind for kind in ENDS if kind in kinds), ENDS[-1])
    *steps, after = (_step(part) for part in _parts(events, end))
    shapes = tuple(one for key in sorted(record["parameters"]) for one in record["parameters"][key])
    return ProcessWork(tuple(steps), end, after, shapes, events)


def _parts(events: Sequence[Mapping[str, Any]], end: str) -> Iterator[list[Mapping[str, Any]]]:
    """Yield the events of each step, and at last those after the last one."""
    part: list[Mapping[str, Any]] = []
    for each in events:
        part.append(each)
        if each["kind"] == end:
            yield part
            part = []
    yield part


def _step(events: Sequence[Mapping[str, Any]]) -> WorkStep:
    """Return the sums over the events of a step."""
    work: Counter[str] = Counter()
    for each in events:
        work.update(each["work"])
    by_kind = {
        kind: [each for each in events if each["kind"] == kind]
        for kind in ("backward", "model", "output", "gradients", "update")
    }
    backward, models, outputs = (by_kind[kind] for kind in ("backward", "model", "output"))
    updates, gradients = by_kind["update"], by_kind["gradients"]
    return WorkStep(
        work=dict(work),
        loss=(sum(each["value"] for each in backward),) if backward else None,
        rows=sum(each["rows"] for each in models),
        samples=sum(each["hash"] for each in models) % 2**64,
        calls=Counter(each["hash"] for each in models),
        elements=sum(each["elements"] for each in models),
        value=sum(each["value"] for each in models),
        shapes=frozenset(tuple(shape) for each in models for shape in each["shapes"]),
        output=(sum(each["value"] for each in outputs),) if outputs else None,
        output_size=sum(each["size"] for each in outputs),
        output_elements=sum(each["elements"] for each in outputs),
        gradients=tuple(value for each in gradients for value in each["values"]) if gradients else None,
        given=tuple(each["given"] for each in gradients),
        settings=tuple(f"{each['name']}: {_settings(each['settings'])}" for each in gradients),
        parameters=tuple(value for each in updates for value in each["values"]) if updates else None,
    )


def _settings(groups: Sequence[Mapping[str, Any]]) -> str:
    """Return the hyperparameters of an optimizer as words."""
    return "; ".join(", ".join(f"{name} {value}" for name, value in sorted(each.items())) for each in groups)
