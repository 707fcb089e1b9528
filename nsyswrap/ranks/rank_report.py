"""The report of one rank, and the reports of several ranks as one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from nsyswrap.events.host_record import NO_RECORD, HostRecord
from nsyswrap.events.xray_record import XrayRecord
from nsyswrap.hardware.profiler_cost import ProfilerCost
from nsyswrap.hardware.steps_alone import NO_STEPS_ALONE, StepsAlone
from nsyswrap.loop.context import Settings
from nsyswrap.ranks.clocks import Clock
from nsyswrap.trace.tables import Trace


@dataclass(frozen=True)
class RankReport:
    """The report of one rank.

    Attributes:
        name: Its file, for messages.
        trace: Its tables.
        rank: Its number, as its launcher, its folder or its file says; None if unknown.
        world_size: The number of ranks, as its launcher says; None if unknown.
        host: What was sampled of its host, by its own clock.
        profiler_cost: What nsys adds to each call there; None if unknown.
        steps_alone: The steps that were timed without recording.
        xray: Reads what PyTorch said of its X-ray step.
    """

    name: str
    trace: Trace
    rank: int | None = None
    world_size: int | None = None
    host: HostRecord = NO_RECORD
    profiler_cost: ProfilerCost | None = None
    steps_alone: StepsAlone = NO_STEPS_ALONE
    xray: Callable[[], XrayRecord] = tuple


@dataclass(frozen=True)
class Joined:
    """The reports of several ranks as one.

    Attributes:
        trace: All tables, in the clock of the first report.
        clocks: The clock of each report.
        launched_as: Rank of each process, by global id.
        clock_errors: How wrong the times of each process can be, in ns, by global id; ``UNKNOWN_NS`` where unknown.
        notes: What the reader must know: missing ranks, and how exact the clock is.
        host: What was sampled of the hosts.
        profiler_cost: What nsys adds to each call; None if unknown.
        steps_alone: The steps of all ranks that were timed without recording.
        xray: Reads what PyTorch said of the X-ray step of each report.
    """

    trace: Trace
    clocks: tuple[Clock, ...]
    launched_as: Mapping[int, int]
    clock_errors: Mapping[int, int]
    notes: tuple[str, ...]
    host: HostRecord = NO_RECORD
    profiler_cost: ProfilerCost | None = None
    steps_alone: StepsAlone = NO_STEPS_ALONE
    xray: tuple[Callable[[], XrayRecord], ...] = ()

    def settings(self, given: Settings) -> Settings:
        """Return the user's settings with what the reports say.

        Args:
            given: The user's settings.
        """
        return replace(
            given,
            launched_as=self.launched_as,
            clock_errors=self.clock_errors,
            host=self.host,
            profiler_cost=self.profiler_cost,
            steps_alone=self.steps_alone,
            xray=tuple(replace(each, report=number) for number, read in enumerate(self.xray) for each in read()),
        )
