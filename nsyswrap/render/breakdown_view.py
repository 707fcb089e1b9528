"""The overview page of PyTorch's TensorBoard profiler as text: the parts of a step and the GPU utilization."""

from collections.abc import Iterator

from nsyswrap.base import units
from nsyswrap.model import Fact, Report, Section
from nsyswrap.render import summary_model
from nsyswrap.render.escape import elide, visible

LABELS = {
    "kernel": "Kernel",
    "memcpy": "Memcpy",
    "memset": "Memset",
    "communication": "Communication",
    "runtime": "Runtime",
    "dataloader": "DataLoader",
    "cpu_exec": "CPU Exec",
    "other": "Other",
}
"""Label of each role, in the order of that page."""

ESTIMATES = {"sm_efficiency_estimate_share": "Est. SM Efficiency", "achieved_estimate_share": "Est. Achieved Occupancy"}
NOTHING = "No step can be broken down: no kernels were recorded."

_BAR = 30
_NAME_WIDTH = 24
_NUMBER = 10


def render(report: Report, *, width: int | None = None) -> str:
    """Return the page as text.

    Args:
        report: The report.
        width: Largest line width in columns; None for full lines.
    """
    section = report.section("step_breakdown")
    lines = [f"{report.capture.name}: {report.window.label}"]
    if section is None:
        lines += ["", NOTHING]
    else:
        lines += [*_summary(report, section), *_mean(section), *_steps(section)]
        lines += [f"Note: {note}" for note in section.notes]
    shown = [visible(line) for line in lines]
    return "\n".join(shown if width is None else [elide(line, width) for line in shown]) + "\n"


def _summary(report: Report, section: Section) -> Iterator[str]:
    """Yield the utilization of each GPU, and the estimates that the report has."""
    yield from ("", "GPU summary (steps from first to last)")
    for row in summary_model.rows(section, "devices"):
        yield _labelled(f"GPU Utilization, GPU {row['device_id']}", units.share(row["gpu_utilization_share"]))
    occupancy = report.section("occupancy")
    for label, words in ESTIMATES.items():
        fact: Fact | None = occupancy.fact(label) if occupancy else None
        if fact is not None:
            yield _labelled(words, units.text(fact.value, fact.unit))


def _mean(section: Section) -> Iterator[str]:
    """Yield the mean step of each process: time, share and a bar for each role, and their sum."""
    rows = summary_model.rows(section, "mean")
    counts = [row["process_id"] for row in summary_model.rows(section, "steps")]
    for process in dict.fromkeys(row["process_id"] for row in rows):
        mine = [row for row in rows if row["process_id"] == process]
        count = counts.count(process)
        steps = f"{units.count(count)} step{'' if count == 1 else 's'}"
        yield from ("", f"Step-time breakdown, mean of {steps} (process {process})")
        yield f"  {'':14}{'ms':>{_NUMBER}}{'share':>9}"
        for row in mine:
            bar = "#" * round(_BAR * row["share"])
            time, share = units.milliseconds(row["mean_ns"]), units.share(row["share"])
            yield f"  {LABELS[row['role']]:14}{time:>{_NUMBER}}{share:>9}  {bar}".rstrip()
        whole = sum(row["mean_ns"] for row in mine)
        yield f"  {'step':14}{units.milliseconds(whole):>{_NUMBER}}{units.share(1):>9}"


def _steps(section: Section) -> Iterator[str]:
    """Yield one line for each step, in ms."""
    rows = summary_model.rows(section, "steps")
    heads = ["step time", *LABELS.values()]
    widths = [max(len(head) + 2, _NUMBER) for head in heads]
    yield from ("", "Steps, ms")
    yield (
        "  " + f"{'step':{_NAME_WIDTH}}" + "".join(f"{head:>{wide}}" for head, wide in zip(heads, widths, strict=True))
    )
    for row in rows:
        times = [units.milliseconds(row[f"{column}_ns"]) for column in ("step", *LABELS)]
        cells = "".join(f"{time:>{wide}}" for time, wide in zip(times, widths, strict=True))
        yield f"  {elide(row['name'], _NAME_WIDTH):{_NAME_WIDTH}}{cells}"


def _labelled(label: str, value: str) -> str:
    return f"  {label:28}{value}"
