"""The glossary: the terms of the report and of the pages, and which of them explains a label."""

from types import MappingProxyType
from typing import NamedTuple


class Term(NamedTuple):
    """A term of the glossary and its meaning."""

    term: str
    meaning: str


GLOSSARY = (
    (
        "What is recorded",
        (
            Term("capture", "What nsys recorded of one run: a .nsys-rep file."),
            Term("export", "The same data as a SQLite database: a .sqlite file."),
            Term("trace", "The tables of an export, in memory, with known columns and units."),
            Term("operation", "Anything that runs on the GPU: a kernel, a copy or a memset."),
            Term(
                "kernel, copy, memset",
                "A function that runs on the GPU; a transfer of memory; memory that is set to a value.",
            ),
            Term("launch", "The CUDA call that puts an operation on a queue of the GPU."),
            Term("wait", "A CUDA call that returns only when an operation is done."),
            Term("range", "A named interval of time that the program marks for profilers (NVTX)."),
            Term("counter", "A property of the GPU that is sampled while it runs."),
        ),
    ),
    (
        "Time",
        (
            Term("step", "One iteration of the training loop, from one batch to the next."),
            Term(
                "phase",
                "A range that names a part of a step: batch, data, copy, forward, backward, optimizer. Where the "
                "program marks none, phases are inferred from what its threads launch.",
            ),
            Term(
                "pattern",
                "The operations that the GPU's work repeats. Where no range names a step, each repetition is one.",
            ),
            Term("warm-up", "The first steps, which load libraries and choose algorithms. The window leaves them out."),
            Term("measured steps", "The steps after the warm-up."),
            Term("window", "The interval that the numbers are about. Each share is printed with its window."),
            Term(
                "outlier",
                "A step that takes at least a tenth longer than the median and lies beyond Tukey's fence.",
            ),
        ),
    ),
    (
        "What the GPU does with its time",
        (
            Term(
                "busy, idle",
                "Time in which at least one operation runs, and time in which none does. A busy GPU may still be used "
                "badly.",
            ),
            Term("gap", "An interval of idle time without interruption. It may have several causes."),
            Term("starvation", "Idle time inside steps: the GPU had nothing to do while the program trained."),
            Term(
                "cause",
                "What the launching thread did while the GPU was idle. Each nanosecond of a gap has exactly one cause.",
            ),
            Term(
                "root cause",
                "The problem that idle time is attributed to. Each nanosecond of a gap belongs to exactly one finding.",
            ),
            Term("exposed", "Time of copies and communication during which no kernel runs."),
            Term("ledger", "The time of a window, divided into parts that add up to it. The page shows it as bars."),
            Term("share", "A ratio from 0 to 1. It is printed in per cent, with the window it refers to."),
            Term(
                "tensor-core share",
                "Time in tensor-core kernels as a share of kernel time. The low end counts known kernels only; the "
                "high end adds kernels whose name does not show it.",
            ),
            Term("occupancy", "Warps on a multiprocessor as a share of the most that it can hold."),
        ),
    ),
    (
        "Results",
        (
            Term("fact", "A number with its unit."),
            Term("finding", "A problem with its time lost, its predicted saving, what to try, and the evidence."),
            Term("time lost", "Time in the window that the problem takes."),
            Term(
                "predicted saving",
                "How much shorter the window gets when the problem is fixed: a lower and an upper bound.",
            ),
            Term(
                "simulation",
                "The window run again on a model of what waits for what, with a change made in it.",
            ),
            Term("rule", "A check that makes a finding. Also a pattern over kernel names that assigns a verdict."),
            Term(
                "verdict",
                "Of a report: what limits the run. Of a kernel: whether it uses tensor cores, could use them, cannot "
                "use them, or is unknown.",
            ),
            Term(
                "plan",
                "The changes in the order that helps most, with the time of a step after each. It includes the changes "
                "above.",
            ),
            Term("section", "One analysis: its facts, tables and findings."),
            Term("report", "All sections of one capture."),
            Term("base, new", "The two sides of a comparison: before and after."),
            Term("workload", "An example program in workloads/ that shows one problem."),
        ),
    ),
    (
        "Several GPUs",
        (
            Term(
                "rank",
                "A process of a job of several GPUs, with its GPU and its number. Here also each GPU of one process.",
            ),
            Term("communicator", "The ranks that exchange data with one another, as NCCL makes them known."),
            Term(
                "collective",
                "A transfer in which all ranks of a communicator take part, such as the sum of gradients (all-reduce).",
            ),
            Term(
                "message", "A transfer from one rank to another, as between the stages of a pipeline (send, receive)."
            ),
            Term("arrival", "When a rank begins a collective. The transfer begins when the last rank has arrived."),
            Term(
                "late rank", "A rank that the others wait for, by more than chance and for a cause that can be named."
            ),
            Term(
                "pipeline bubble",
                "Time in which a stage of a pipeline waits for a message while another stage computes.",
            ),
        ),
    ),
)
"""The terms of docs/glossary.md, in its groups."""

_TERM_OF = MappingProxyType(
    {
        "GPU busy": "busy, idle", "GPU idle": "busy, idle", "busy": "busy, idle", "idle": "busy, idle",
        "compute": "kernel, copy, memset", "kernels": "kernel, copy, memset", "kernel time": "kernel, copy, memset",
        "exposed communication": "exposed", "exposed copies": "exposed", "exposed memsets": "exposed",
        "median step": "step", "Steps": "step", "Phases": "phase", "phases": "phase", "Breakdown": "ledger",
        "Tensor cores": "tensor-core share", "tensor cores": "tensor-core share", "Findings": "finding",
        "GPU counters": "counter", "Launches": "launch", "gaps": "gap", "gap length": "gap",
        "Why the GPU was idle": "root cause", "why": "root cause", "Idle by cause": "cause",
        "Verdict": "verdict", "Plan": "plan", "operations": "operation", "NVTX ranges": "range",
        "outliers": "outlier",
        "Occupancy": "occupancy", "theoretical occupancy": "occupancy", "Kernels": "kernel, copy, memset",
        "share of window": "share", "GPU time breakdown": "ledger",
        "waiting for other ranks": "exposed", "Ranks": "rank", "ranks": "rank",
        "Collectives": "collective", "collectives": "collective",
    }
)  # fmt: skip


def term_anchor(label: str) -> str:
    """Return the anchor of the glossary term that explains a label; empty where none does."""
    term = _TERM_OF.get(label, label)
    is_known = any(each.term == term for _, terms in GLOSSARY for each in terms)
    return "term-" + term.partition(",")[0].replace(" ", "-") if is_known else ""
