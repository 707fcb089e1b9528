"""Small programs that run by the rules of the simulation, which must reproduce their exports exactly.

The machine here shares only the rules with the simulation: a launch takes ``CALL`` ns, an operation begins ``LATENCY``
ns after its launch has returned or ``GAP`` ns after the operation before it in its stream, a wait returns ``WAKE`` ns
after the operation that it waits for, and a thread that gets the work begins ``HAND`` ns later.
"""

from dataclasses import dataclass, field
from typing import Literal

from export_builder import MAIN, ExportBuilder, thread
from hypothesis import strategies as st

CALL, LATENCY, GAP, WAKE, HAND = 4, 3, 1, 2, 7
OTHER = thread(4712)
START = 1_000

Do = Literal["launch", "wait", "hand"]


@dataclass(frozen=True)
class Act:
    """The next act of a thread: its own work, then a kernel launch, a wait for all streams, or a hand-over of the work.

    Attributes:
        do: Name of the method that runs after the thread's own work.
        work: Length of the thread's own work in ns.
        length: Length of the kernel in ns.
    """

    do: Do
    work: int
    length: int = 0
    stream: int = 7


@dataclass
class Machine:
    """A GPU and a host with two threads. One thread works at a time.

    Attributes:
        builder: The export under construction.
        now: Time of the host in ns.
        free: End of the last kernel of each stream, in ns.
        asleep: Start of the wait of the thread that does not work, in ns.
        ended: End of the last operation, in ns.
    """

    builder: ExportBuilder = field(default_factory=ExportBuilder)
    now: int = START
    thread: int = MAIN
    free: dict[int, int] = field(default_factory=dict)
    asleep: int = START
    ended: int = START

    def run(self, acts: tuple[Act, ...]) -> "Machine":
        for act in acts:
            self.now += act.work
            getattr(self, act.do)(act)
        self._sleep()
        return self

    def launch(self, act: Act) -> None:
        returned = self.now + CALL
        begin = max(returned + LATENCY, self.free.get(act.stream, START - GAP) + GAP)
        self.free[act.stream] = begin + act.length
        self.builder.kernel(
            begin, begin + act.length, launched=(self.now, returned), stream=act.stream, thread=self.thread
        )
        self.now, self.ended = returned, max(self.ended, begin + act.length)

    def wait(self, _: Act) -> None:
        returned = max(self.now + CALL, max(self.free.values(), default=START - WAKE) + WAKE)
        self.builder.call("cudaDeviceSynchronize", self.now, returned, thread=self.thread)
        self.now = returned

    def hand(self, _: Act) -> None:
        """Let the other thread work, and wait for it."""
        self._sleep()
        self.asleep = self.now
        self.thread = MAIN if self.thread == OTHER else OTHER
        self.now += HAND

    def _sleep(self) -> None:
        """Record how long the thread that does not work has waited."""
        waiting = MAIN if self.thread == OTHER else OTHER
        if self.now > self.asleep:
            self.builder.os_call("pthread_cond_wait", self.asleep, self.now, thread=waiting)


acts = st.builds(
    Act,
    do=st.sampled_from(("launch", "launch", "launch", "wait", "hand")),
    work=st.integers(0, 40),
    length=st.integers(1, 90),
    stream=st.sampled_from((7, 7, 7, 8)),
)
# Each kind of event happens once on its own, so that the trace shows its duration: a launch on an idle GPU, queued
# kernels, a long wait, and a wait with nothing pending.
SAMPLES_OF_EACH = (
    *(Act("launch", 5, 60), Act("launch", 0, 60), Act("launch", 0, 60), Act("wait", 0)),
    *(Act("wait", 3), Act("launch", 200, 50, 8), Act("launch", 0, 50, 8), Act("wait", 0), Act("wait", 5)),
    *(Act("hand", 5), Act("launch", 5, 5), Act("hand", 10), Act("launch", 5, 5)),
)
programs = st.lists(acts, min_size=1, max_size=25).map(lambda each: (*SAMPLES_OF_EACH, *each, *SAMPLES_OF_EACH))
