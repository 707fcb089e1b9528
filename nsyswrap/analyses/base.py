"""What every analysis is given and gives back: a study of one trace, and sections about one window of it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from nsyswrap.analyses.annotations import PhaseRule, Phases, find_phases
from nsyswrap.analyses.operations import Operations, find_operations
from nsyswrap.analyses.training_steps import Steps, find_steps
from nsyswrap.intervals import Window
from nsyswrap.model import Section
from nsyswrap.tables import TableSpec, Trace


@dataclass(frozen=True, slots=True)
class Settings:
    """What the user may say about how a trace is read.

    Attributes:
        step_pattern: Regular expression of the ranges that are steps; empty for the usual spellings.
        phase_rules: Rules that come before the usual spellings of the phases.
    """

    step_pattern: str = ""
    phase_rules: tuple[PhaseRule, ...] = ()


@dataclass(frozen=True)
class Study:
    """A trace with what several analyses need of it, worked out once.

    Attributes:
        trace: The tables of one export.
        settings: What the user said about steps and phases.
    """

    trace: Trace
    settings: Settings = field(default_factory=Settings)

    @cached_property
    def operations(self) -> Operations:
        """Return all that ran on the GPUs, joined to the calls that launched it."""
        return find_operations(self.trace)

    @cached_property
    def steps(self) -> Steps:
        """Return the steps of the training loop."""
        return find_steps(self.trace, self.settings.step_pattern)

    @cached_property
    def phases(self) -> Phases:
        """Return the phase open on each thread at each time."""
        return find_phases(self.trace, self.steps, self.settings.phase_rules)


@dataclass(frozen=True, slots=True)
class Analysis:
    """One question and how it is answered.

    Attributes:
        key: Name of its section.
        title: Heading of its section.
        needs: Tables that must have rows; without them the analysis is skipped and the report says so.
        run: The answer for one window; pure.
        of_operations: Whether it is about what ran on the GPU, of whatever kind; left out where nothing did.
        of_calls: Whether it looks at host calls alone; it can run while operations are still being joined.
    """

    key: str
    title: str
    needs: tuple[TableSpec, ...]
    run: Callable[[Study, Window], Section]
    of_operations: bool = False
    of_calls: bool = False
