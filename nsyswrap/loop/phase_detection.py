"""The phases of the program, from NVTX ranges: which phase is open on a thread at a time."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.base.intervals import NOTHING, LabelledSpans, Times, fill, innermost, label_at
from nsyswrap.base.memo import memo
from nsyswrap.base.patterns import time_limit
from nsyswrap.base.rows import taken
from nsyswrap.events.host_record import injected
from nsyswrap.events.operations import Operations
from nsyswrap.loop.inferred_phases import StepSpans, infer_phases
from nsyswrap.loop.injected_ranges import injected_steps, repeated
from nsyswrap.loop.step_detection import PATTERN, Steps
from nsyswrap.loop.work_pattern import LEAST_REPETITIONS
from nsyswrap.loop.work_sequence import WorkSequence
from nsyswrap.trace import tables
from nsyswrap.trace.tables import CodedIds, Trace, array, blocks, coded

NO_PHASE = -1
NONE = "none"
BATCH, DATA, COPY, OPTIMIZER = "batch", "data", "copy", "optimizer"

Sequences = tuple[WorkSequence, ...]

_NOTHING_OPEN = LabelledSpans(NOTHING, np.empty(0, np.int32))


@dataclass(frozen=True, slots=True)
class PhaseRule:
    """A rule for which ranges are a phase."""

    phase: str
    pattern: re.Pattern[str]


# Usual spellings. They match the whole text in lower case, where runs of punctuation and digits become one blank.
_BATCH_WORDS = r"(?:(?:the |next |train(?:ing)? )?(?:data|inputs?|batch))"
_DEVICE = r"(?: (?:data |batch |inputs? )?to (?:the )?(?:device|gpu|cuda))"
USUAL = {
    DATA: rf"(?:get|fetch|load(?:ing)?|next|read(?:ing)?|wait(?:ing)? for) {_BATCH_WORDS}|(?:data|inputs?)"
    r"(?: ?load(?:ing|er)?| fetch(?:ing)?| wait(?:ing)?| time| pipeline| next)?|load(?:ing|er)?|fetch(?:ing)?|next"
    r"|enumerate dataloader.*",
    COPY: rf"cop(?:y|ies)(?:{_DEVICE})?|(?:move|send|transfer|put){_DEVICE}|(?:batch|data|inputs?)?{_DEVICE}"
    r"|to (?:the )?(?:device|gpu|cuda)|(?:data )?transfers?|host to device|h ?2 ?d|h ?to ?d|h d|memcpy",
    "forward": r"(?:model )?(?:forward|fwd|f ?prop)(?: (?:pass|prop(?:agation)?))?(?: (?:(?:and|plus) )?loss)?"
    r"|(?:compute )?loss|inference",
    "backward": r"(?:loss )?(?:backwards?|bwd|b ?prop|back ?prop(?:agation)?)(?: pass)?",
    "optimizer": r"(?:run )?(?:optimi[sz]er|optim|opt)(?: (?:step|update|zero ?grad))*"
    r"|(?:(?:weights?|param(?:eter)?s?) )?update|update (?:weights?|param(?:eter)?s?)|zero ?grad|step optimi[sz]er",
    BATCH: r"(?:train(?:ing)? )?(?:batch|step|iter(?:ation)?)",
}
_USUAL = {phase: re.compile(pattern) for phase, pattern in USUAL.items()}
_NOISE = re.compile(r"[\W_\d]+")

# NVTX domains of libraries. Their ranges are details of a call, never a phase of the program.
LIBRARY_DOMAINS = re.compile(
    r"^(?:NCCL|cuBLAS\w*|cuDNN\w*|cuSOLVER|cuSPARSE|cuFFT|CCCL|Thrust|CUB|TensorRT|cuBLASLt|DALI\w*|libcudf|nvshmem|UCX|MPI|OpenACC"
    r"|GIL Trace|Python Periodic Sampling|Python Backtrace.*)$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Phases:
    """The phases of all threads: an immutable value, safe to read from several threads.

    Attributes:
        names: Name of each phase code.
        ranges: Rows of ``trace[RANGES]`` that are a phase, with columns start, end, thread, process, phase (code) and
            below (bool: it counts only where no other phase is open); the index is the row there. Phases that no range
            marks have inferred (bool) set, and a negative index.
        main_thread: The thread of each process whose phases apply where another thread of it has none.
        own_by_thread: The innermost phase open on each thread that has ranges.
        shown_by_thread: The same, with the phases of the main thread where the thread itself has none.
    """

    names: tuple[str, ...]
    ranges: pd.DataFrame
    main_thread: Mapping[int, int]
    own_by_thread: Mapping[int, LabelledSpans]
    shown_by_thread: Mapping[int, LabelledSpans]

    def name(self, code: int) -> str:
        """Return the name of a phase code; "none" for no phase."""
        return NONE if code == NO_PHASE else self.names[code]

    def where(self, code: int) -> str:
        """Return a phase code as a place in a sentence: "in phase forward", "outside phases"."""
        return "outside phases" if code == NO_PHASE else f"in phase {self.names[code]}"

    def code(self, name: str) -> int:
        """Return the code of a phase; -1 for an unknown name."""
        return self.names.index(name) if name in self.names else NO_PHASE

    @property
    def marked(self) -> pd.DataFrame:
        """Return the rows of ``ranges`` that are ranges of the trace."""
        return self.ranges[~self.ranges["inferred"]]

    @memo
    def marks(self, process: int, phase: str) -> bool:
        """Return whether the process has ranges of a phase, or phases inferred."""
        return bool(((self.ranges["process"] == process) & (self.ranges["phase"] == self.code(phase))).any())

    def own(self, thread: int) -> LabelledSpans:
        """Return the innermost phase open on the thread itself."""
        return self.own_by_thread.get(thread, _NOTHING_OPEN)

    def shown(self, thread: int) -> LabelledSpans:
        """Return the innermost phase open on the thread, or on the main thread where it has none."""
        if thread in self.shown_by_thread:
            return self.shown_by_thread[thread]
        main = self.main_thread.get(int(tables.process_of(np.array([thread]))[0]))
        return _NOTHING_OPEN if main is None else self.own(main)

    def at(self, thread: CodedIds, when: Times) -> npt.NDArray[np.int32]:
        """Return the phase code shown on each thread at each time; -1 for none."""
        phase = np.full(len(when), NO_PHASE, np.int32)
        for each, mine in thread.by_id():
            phase[mine] = label_at(self.shown(each), taken(when, mine), NO_PHASE)
        return phase

    def of_operations(self, trace: Trace, operations: Operations) -> npt.NDArray[np.int32]:
        """Return the phase in which each operation was launched; -1 for no phase or an unknown launch."""
        calls = trace[tables.CALLS]
        phase = np.full(len(operations.call), NO_PHASE, np.int32)
        for block in blocks(len(phase)):
            known = operations.call[block] >= 0
            rows = taken(operations.call[block], known)
            phase[block][known] = self.at(coded(calls, "thread").only(rows), taken(array(calls, "start"), rows))
        return phase


def find_phases(
    trace: Trace,
    steps: Steps,
    rules: tuple[PhaseRule, ...] = (),
    sequences: Callable[[], Sequences] = tuple,
    known: pd.DataFrame | None = None,
) -> Phases:
    """Return the phases of a trace.

    Args:
        trace: The tables of one export.
        steps: Steps of the training loop; their ranges are the phase "batch".
        rules: Rules of the user; they come before the usual spellings.
        sequences: Returns what each process launched, to infer the phases of processes that mark none.
        known: The inferred phases, as rows of ``Phases.ranges``, where they are known; None to infer them.
    """
    found, names = _marked_phases(trace, steps, rules)
    if known is None:
        inferred = [_inferred(sequence, steps, names, found) for sequence in _unmarked(found, steps, names, sequences)]
    else:
        inferred = [known] if len(known) else []
    found = found.drop(columns="injected")
    if inferred:
        more = pd.concat(inferred, ignore_index=True)
        found = pd.concat([found, more.set_index(-1 - more.index)])
    main_thread = _main_threads(found)
    own = _own_phases(found)
    shown = {}
    for thread, phases in own.items():
        main = main_thread[int(tables.process_of(np.array([thread]))[0])]
        shown[thread] = phases if thread == main else fill(phases, own[main])
    return Phases(names, found, MappingProxyType(main_thread), MappingProxyType(own), MappingProxyType(shown))


def _marked_phases(trace: Trace, steps: Steps, rules: tuple[PhaseRule, ...]) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return the ranges that are phases, as in ``Phases.ranges``, and the names of the phases."""
    ranges = trace[tables.RANGES]
    names = tuple(dict.fromkeys([*USUAL, *(rule.phase for rule in rules)]))
    with time_limit("--phase", ", ".join(rule.pattern.pattern for rule in rules)):
        by_text = np.array([_phase(str(text), names, rules) for text in ranges["text"].cat.categories], np.int32)
    phase = by_text[ranges["text"].cat.codes.to_numpy()] if len(by_text) else np.empty(0, np.int32)
    is_step = tables.rows_where(ranges["text"], set(steps.frame["name"]).__contains__)
    phase = np.where(is_step & (phase == NO_PHASE), np.int32(names.index(BATCH)), phase)
    phase = np.where(of_library(ranges), np.int32(NO_PHASE), phase)
    # Steps that nsyswrap marks begin at the end of the optimizer, inside phases that the program marks itself.
    below = injected_steps(ranges)
    if below.any():
        phase = np.where(below & ~np.isin(array(ranges, "start"), steps.frame["start"]), np.int32(NO_PHASE), phase)
    phase = np.where(repeated(ranges, phase), np.int32(NO_PHASE), phase)
    rows = np.flatnonzero(phase != NO_PHASE)
    marked = pd.DataFrame({name: array(ranges, name)[rows] for name in ("start", "end", "thread")}, index=rows)
    marked["process"] = tables.process_of(array(marked, "thread"))
    marked["phase"] = phase[rows]
    marked["below"] = below[rows]
    marked["injected"] = injected(ranges)[rows]
    marked["inferred"] = False
    return marked, names


def _unmarked(
    marked: pd.DataFrame, steps: Steps, names: tuple[str, ...], sequences: Callable[[], Sequences]
) -> Sequences:
    """Return the work of each process that has several steps but marks no phases inside them itself."""
    known = set(marked.loc[(marked["phase"] != names.index(BATCH)) & ~marked["injected"], "process"].tolist())
    count = steps.frame["process"].value_counts()
    wanted = set(count.index[count >= LEAST_REPETITIONS].tolist()) - known
    return tuple(each for each in sequences() if each.process in wanted) if wanted else ()


def _inferred(sequence: WorkSequence, steps: Steps, names: tuple[str, ...], marked: pd.DataFrame) -> pd.DataFrame:
    """Return the inferred phases of one process, without those that nsyswrap marked in it.

    Its steps become phases too, unless ranges already mark them. Where nsyswrap marked phases, inferred ones count only
    outside of them.
    """
    mine = steps.frame[steps.frame["process"] == sequence.process]
    start, end = array(mine, "start"), array(mine, "end")
    alike = array(mine, "alike") if "alike" in mine else np.ones(len(mine), bool)
    codes = {name: code for code, name in enumerate(names)}
    inferred = infer_phases(sequence, StepSpans(start, end, alike), codes)
    known = set(marked.loc[marked["process"] == sequence.process, "phase"].tolist()) - {codes[BATCH]}
    inferred = inferred[~inferred["phase"].isin(known)]
    if steps.source == PATTERN:
        whole = pd.DataFrame({"start": start, "end": end, "phase": np.int32(codes[BATCH])})
        inferred = pd.concat([inferred, whole.assign(thread=sequence.thread, process=sequence.process)])
    return inferred.assign(below=bool(known), inferred=True)


def of_library(ranges: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Return for each range whether a library marked it, not the program."""
    return tables.rows_where(ranges["domain"], LIBRARY_DOMAINS.match)


def _own_phases(ranges: pd.DataFrame) -> dict[int, LabelledSpans]:
    """Return the innermost phase open on each thread that has ranges."""
    start, end, phase, below = (array(ranges, name) for name in ("start", "end", "phase", "below"))
    codes, threads = pd.factorize(array(ranges, "thread"))
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(len(threads) + 1))
    by_thread: dict[int, LabelledSpans] = {}
    for index, thread in enumerate(threads.tolist()):
        rows = order[bounds[index] : bounds[index + 1]]
        above, under = rows[~below[rows]], rows[below[rows]]
        phases = innermost(start[above], end[above], phase[above])
        by_thread[thread] = fill(phases, innermost(start[under], end[under], phase[under])) if len(under) else phases
    return by_thread


def _phase(text: str, names: tuple[str, ...], rules: tuple[PhaseRule, ...]) -> int:
    for rule in rules:
        if rule.pattern.search(text):
            return names.index(rule.phase)
    plain = _NOISE.sub(" ", text.lower()).strip()
    for phase, pattern in _USUAL.items():
        if pattern.fullmatch(plain) or pattern.fullmatch(text.lower()):
            return names.index(phase)
    return NO_PHASE


def _main_threads(ranges: pd.DataFrame) -> dict[int, int]:
    """Return the main thread of each process: its first thread if it has phases, else the one with most phase time."""
    by_process: dict[int, int] = {}
    process, thread = array(ranges, "process"), array(ranges, "thread")
    length = array(ranges, "end") - array(ranges, "start")
    for each in np.unique(process):
        mine = process == each
        codes, threads = pd.factorize(thread[mine])
        first = int(each) | tables.pid(int(each))
        most = int(threads[np.argmax(np.bincount(codes, weights=length[mine]))])
        by_process[int(each)] = first if first in threads else most
    return by_process
