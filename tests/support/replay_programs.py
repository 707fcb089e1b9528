"""Small programs that are run by the rules of the model: an export of one replays exactly, or the model is wrong.

The simulator shares nothing with the model but its rules: launches take ``CALL`` ns, operations begin ``LATENCY`` ns
after the call has returned or ``GAP`` ns after the one before in their stream, a wait returns ``WAKE`` ns after what it
waits for, and a thread that is handed the work begins ``HAND`` ns later.
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
    """What a thread does next: works for ``work`` ns, then launches, waits for all streams, or hands over.

    Attributes:
        do: What it does.
        work: ns of its own before.
        length: Length of what is launched.
        stream: Stream of what is launched.
    """

    do: Do
    work: int
    length: int = 0
    stream: int = 7


@dataclass
class Machine:
    """A host of two threads of which one works at a time, and a GPU.

    Attributes:
        builder: The export under construction.
        now: Time of the host in ns.
        thread: The thread that works.
        free: When each stream has done all it was given.
        asleep: Since when the other thread waits.
        ended: When the last operation ended.
    """

    builder: ExportBuilder = field(default_factory=ExportBuilder)
    now: int = START
    thread: int = MAIN
    free: dict[int, int] = field(default_factory=dict)
    asleep: int = START
    ended: int = START

    def run(self, acts: tuple[Act, ...]) -> "Machine":
        """Do all that a program does."""
        for act in acts:
            self.now += act.work
            getattr(self, act.do)(act)
        self._sleep()
        return self

    def launch(self, act: Act) -> None:
        """Launch a kernel."""
        returned = self.now + CALL
        begin = max(returned + LATENCY, self.free.get(act.stream, START - GAP) + GAP)
        self.free[act.stream] = begin + act.length
        self.builder.kernel(
            begin, begin + act.length, launched=(self.now, returned), stream=act.stream, thread=self.thread
        )
        self.now, self.ended = returned, max(self.ended, begin + act.length)

    def wait(self, _: Act) -> None:
        """Wait for all streams."""
        returned = max(self.now + CALL, max(self.free.values(), default=START - WAKE) + WAKE)
        self.builder.call("cudaDeviceSynchronize", self.now, returned, thread=self.thread)
        self.now = returned

    def hand(self, _: Act) -> None:
        """Let the other thread go on, and wait for it."""
        self._sleep()
        self.asleep = self.now
        self.thread = MAIN if self.thread == OTHER else OTHER
        self.now += HAND

    def _sleep(self) -> None:
        """Write down how long the thread that does not work has waited."""
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
# Each kind of thing happens once on its own, so that the trace says how long it takes: a launch on an idle GPU, two in
# line, a wait that is long and one for nothing.
TEACHING = (
    *(Act("launch", 5, 60), Act("launch", 0, 60), Act("launch", 0, 60), Act("wait", 0)),
    *(Act("wait", 3), Act("launch", 200, 50, 8), Act("launch", 0, 50, 8), Act("wait", 0), Act("wait", 5)),
    *(Act("hand", 5), Act("launch", 5, 5), Act("hand", 10), Act("launch", 5, 5)),
)
programs = st.lists(acts, min_size=1, max_size=25).map(lambda each: (*TEACHING, *each, *TEACHING))
