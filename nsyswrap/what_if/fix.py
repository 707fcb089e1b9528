"""What fixes a rule of idle time: the change of the run, and the time lost that it may look at."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nsyswrap.attribution.attribution import Attribution
from nsyswrap.base.intervals import Spans, merge
from nsyswrap.base.rows import taken
from nsyswrap.rules.rule import Rule
from nsyswrap.trace import tables
from nsyswrap.what_if.saving import WhatIf
from nsyswrap.what_if.simulate import Simulation


@dataclass(frozen=True)
class LostTime:
    """The idle time of one rule.

    Attributes:
        rule: Key of the rule.
        attributions: The idle time of all devices.
        advice: The advice on it.
    """

    rule: str
    attributions: tuple[Attribution, ...]
    advice: str = ""

    def on_host(self, simulation: Simulation) -> dict[int, Spans]:
        """Return the time that each launching thread would save, by thread.

        A thread would save the idle time that any thread of its process explains.
        """
        of_process: dict[int, Spans] = {}
        for process in {thread & ~tables.THREAD_MASK for thread in simulation.threads}:
            mine = [each.of_rule(self.rule) & each.pieces.is_process(process) for each in self.attributions]
            chosen = list(zip(self.attributions, mine, strict=True))
            of_process[process] = merge(
                np.concatenate([taken(each.pieces.start, rows) for each, rows in chosen]),
                np.concatenate([taken(each.pieces.end, rows) for each, rows in chosen]),
            )
        return {thread: of_process[thread & ~tables.THREAD_MASK] for thread in simulation.threads}


@dataclass(frozen=True)
class Fix:
    """The change that fixes some rules.

    Attributes:
        rules: The rules.
        change: Returns the change of the program, on all ranks and GPUs, for the time lost to one of them.
    """

    rules: tuple[Rule, ...]
    change: Callable[[Simulation, LostTime], WhatIf]
