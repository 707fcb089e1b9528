"""The page docs/results.md: figures of the literature beside those of the committed reports."""

import re
import textwrap
from collections.abc import Sequence

import gallery_scaling
from gallery_cases import CLAIMS, Claim
from gallery_figures import HUNDRED, AllFigures, kernel_ns, milliseconds, percent, phase_ns, short
from gallery_remarks import REMARKS, RUNS
from gallery_results import Result

from nsyswrap.rules import cause_name, rule_name

# Activities of a case that the page names. Its own page has all.
TOP = 3
WIDTH = 120
HEADERS = (
    *("case", "step, ms", "without nsys", "data, ms", "kernels, ms"),
    *("busy", "occupancy", "tensor", "limit", "first finding"),
)
HEAD = """# Results

Published figures of these cases, and what nsyswrap reports for the same cases. The sources used other GPUs, versions
and batch sizes, so compare directions, not figures.

```sh
make gallery                                  # profile all cases on a GPU, and write this page
.venv/bin/python tools/gallery.py bert-amp    # one case
.venv/bin/python tools/gallery.py --again     # this page from the committed reports, without a GPU
```

`tools/gallery_cases.py` has the program and options of each case, and [the gallery](../reports/index.html) its page.
Beside it, `report.json` has the kernels and the parts of a step, and `output.txt` what the program printed.

- **step**: mean time of a measured step. **data**: the part of it in which the loop waits for a batch.
- **without nsys**: the median step, simulated without the profiler's cost, as a share of the recorded one.
- **kernels**: time of a step in which a kernel runs. **busy**: the same as a share of the window.
- **occupancy**: estimated from grids and resources, not measured.
- **tensor**: share of kernel time in kernels that use tensor cores; a range where names leave it open.
- **limit**: what takes most of the window: compute, exposed copies, or one cause of idle time.
- **first finding**: the rule of the report's first finding.

Float32 cases run without TF32, except MNIST, which keeps PyTorch's defaults.
"""


def page(found: Sequence[Result]) -> str:
    by_name = {each.case.name: each for each in found}
    scaling = gallery_scaling.part()
    parts = [HEAD, machines(found), RUNS, *(_part(claim, by_name) for claim in CLAIMS)]
    return "\n".join([*parts, scaling] if scaling else parts)


def machines(found: Sequence[Result]) -> str:
    """Return a sentence with the GPUs and versions of the captures."""
    seen = {
        f"{gpu['name']}, driver {session.get('driver_version') or 'unknown'}, "
        f"CUDA {session.get('cuda_version') or 'unknown'}, nsys {session['nsys_version']}"
        for each in found
        for session in (each.report["session"],)
        for gpu in each.report["gpus"]
    }
    return f"Captured on: {'; '.join(sorted(seen)) or 'nothing yet'}.\n"


def _part(claim: Claim, by_name: dict[str, Result]) -> str:
    there = [by_name[name] for name in claim.cases if name in by_name]
    lines = [f"## {claim.title}", "", f"Source: {claim.source}", ""]
    if there:
        lines += [_line(HEADERS), "|---|" + "---:|" * 7 + "---|---|", *(_line(cells(each)) for each in there), ""]
        if claim.title.startswith("BERT"):
            lines += _optimizers(there)
        if claim.title.startswith("AlexNet"):
            lines += _activities(there)
        if claim.title.startswith("Convolution"):
            lines += [*_clocks(there), ""]
    missing = [name for name in claim.cases if name not in by_name]
    if missing:
        lines += [f"Not captured: {', '.join(f'`{name}`' for name in missing)}.", ""]
    return "\n".join([*lines, *_remark(claim, by_name)])


def _remark(claim: Claim, by_name: dict[str, Result]) -> list[str]:
    """Return the remark of a claim with its figures filled in; no lines if one of its results is missing."""
    try:
        text = REMARKS[claim.title].format_map(AllFigures(by_name))
    except KeyError:
        return []
    return [*textwrap.wrap(text, WIDTH), ""]


def cells(result: Result) -> tuple[str, ...]:
    """Return the cells of a case: name, steps, data and kernels in ms, shares, limit, finding."""
    return (
        result.case.name,
        milliseconds(result.fact("step_breakdown", "mean_step_ns")),
        without_nsys(result),
        milliseconds(phase_ns(result, "data")),
        milliseconds(kernel_ns(result)),
        percent(result.fact("step_breakdown", "gpu_utilization_share")),
        percent(result.fact("occupancy", "achieved_estimate_share")),
        tensor_share(result),
        cause_name(result.limit) if result.limit else "",
        rule_name(result.rules[0]) if result.rules else "none",
    )


def without_nsys(result: Result) -> str:
    """Return the simulated share of the median step that remains without nsys, with its interval, or a dash."""
    names = ("without_profiler_share", "without_profiler_low_share", "without_profiler_high_share")
    shares = [result.fact("profiler_cost", name) for name in names]
    if None in shares:
        return "-"
    usual, low, high = (f"{HUNDRED * share:.0f}" for share in shares)
    return f"{usual} % ({low} to {high} %)"


def tensor_share(result: Result) -> str:
    """Return the share of kernel time in tensor core kernels, with its bounds where they differ."""
    low, high = (percent(result.fact("tensor_cores", name)) for name in ("share_low", "share_high"))
    return low if low == high else f"{low} to {high}"


def _activities(there: Sequence[Result]) -> list[str]:
    """Return the table of the GPU activities that take longest in each case."""
    rows = []
    for each in there:
        kernels = [(row["name"], row["total_ns"]) for row in each.rows("kernels", "summary")]
        copies = [(f"copy {row['kind']}", row["total_ns"]) for row in each.rows("copies", "summary")]
        top = sorted(kernels + copies, key=lambda one: -one[1])[:TOP]
        longest = "; ".join(f"`{short(name)}` {milliseconds(total / each.steps)}" for name, total in top)
        rows.append(_line((each.case.name, longest)))
    return [_line(("case", "longest GPU activities, ms a step")), "|---|---|", *rows, ""]


def _clocks(there: Sequence[Result]) -> list[str]:
    """Return the table of what programs say about their own time: a line on the batches, then one on the time."""
    rows = [
        _line(
            (
                each.case.name,
                "CPU" if batches.rpartition(";")[0].endswith("cpu") else "GPU",
                *re.findall(r"[\d.]+", time),
            )
        )
        for each in there
        for batches, time in zip(each.printed[::2], each.printed[1::2], strict=True)
    ]
    return [_line(("case", "on", "user, s", "system, s", "elapsed, s")), "|---|---|---:|---:|---:|", *rows]


def _optimizers(there: Sequence[Result]) -> list[str]:
    """Return the table of the phase `optimizer`, in ms a step."""
    rows = []
    for each in there:
        found = next((row for row in each.rows("phases", "phases") if row["phase"] == "optimizer"), None)
        if found:
            times = (milliseconds(found[name] / each.steps) for name in ("host_ns", "gpu_ns", "idle_ns"))
            rows.append(_line((each.case.name, *times, f"{found['kernel_count'] / each.steps:.0f}")))
    head = _line(("case", "CPU, ms", "its GPU work, ms", "GPU idle, ms", "kernels"))
    return ["The optimizer in a mean step:", "", head, "|---|---:|---:|---:|---:|", *rows, ""]


def _line(parts: Sequence[str]) -> str:
    return f"| {' | '.join(parts)} |"
