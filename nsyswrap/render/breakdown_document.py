"""The overview page of PyTorch's TensorBoard profiler: the parts of a step and the GPU utilization."""

from collections.abc import Iterator

from nsyswrap.base import units
from nsyswrap.model import Report, Section
from nsyswrap.render import summary_model
from nsyswrap.render.document import Column, Document, DocumentSection, Lines, Table

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


def document(report: Report) -> Document:
    """Return the page of a report as a document."""
    section = report.section("step_breakdown")
    return Document(
        command="analyze --view breakdown",
        title=report.capture.name,
        about=(("window", report.window.label),),
        verdict=NOTHING
        if section is None
        else "; ".join(f"{label} {value}" for label, value in _summary(report)) + ".",
        lead=() if section is None else (Lines(section.notes, "notes"),),
        sections=() if section is None else (*_mean(section), *_steps(section)),
    )


def _summary(report: Report) -> Iterator[tuple[str, str]]:
    """Yield the utilization of each GPU, and the estimates that the report has."""
    for row in summary_model.rows(report.section("step_breakdown"), "devices"):
        yield f"GPU Utilization, GPU {row['device_id']}", units.share(row["gpu_utilization_share"])
    occupancy = report.section("occupancy")
    for label, words in ESTIMATES.items():
        fact = occupancy.fact(label) if occupancy else None
        if fact is not None:
            yield words, units.text(fact.value, fact.unit)


def _mean(section: Section) -> Iterator[DocumentSection]:
    """Yield the mean step of each process: time, share and a bar for each role, and their sum."""
    rows = summary_model.rows(section, "mean")
    counts = [row["process_id"] for row in summary_model.rows(section, "steps")]
    for process in dict.fromkeys(row["process_id"] for row in rows):
        mine = [row for row in rows if row["process_id"] == process]
        times = [*(row["mean_ns"] for row in mine), sum(row["mean_ns"] for row in mine)]
        columns = (
            Column("role", "role", "text", [*(LABELS[row["role"]] for row in mine), "step"]),
            Column("mean_ns", "time", "ns", times),
            Column("share", "share", "share", [*(row["share"] for row in mine), 1.0]),
            Column("bar_text", "", "text", [*("#" * round(_BAR * row["share"]) for row in mine), ""]),
        )
        title = f"Mean of {units.counted(counts.count(process), 'step')}, process {process}"
        yield DocumentSection("mean", title, "", (Table("mean", title, columns, most={"text": len(times)}),))


def _steps(section: Section) -> Iterator[DocumentSection]:
    """Yield the table of all steps, where there are any."""
    rows = summary_model.rows(section, "steps")
    times = {"step": "step time", **LABELS}
    columns = (
        Column("name", "step", "text", [str(row["name"]) for row in rows]),
        *(Column(f"{key}_ns", label, "ns", [row[f"{key}_ns"] for row in rows]) for key, label in times.items()),
    )
    yield DocumentSection("steps", "Steps", "", (Table("steps", "Steps", columns, most={"text": len(rows)}),))
