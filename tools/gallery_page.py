# ruff: noqa: INP001 - a part of tools/gallery.py, not a package
"""The page docs/results.md: what the literature says and what the committed reports say, side by side."""

import textwrap
from collections.abc import Sequence

from gallery_cases import CLAIMS, Claim, named
from gallery_figures import AllFigures, kernel_ns, milliseconds, percent, phase_ns, three
from gallery_remarks import REMARKS, RUNS
from gallery_results import GALLERY, Result

TOP = 10
WIDTH = 120
HEAD = """# Results

What others have published about these cases, and what nsyswrap says of the same cases here. Each case is a program of
`workloads/` that `make gallery` profiles on a GPU; its `report.json` stands in `reports/gallery`, and this page is made
from those files. The sources used other GPUs, other versions and other batch sizes: directions can be compared, figures
cannot.

- **step**: mean time of a measured step, of which **data** is the wait for a batch.
- **kernels**: time in which a kernel runs, a step. **busy**: the share of the window that this is.
- **occupancy**: estimated from grids and resources, not measured.
- **tensor**: share of kernel time in kernels that use tensor cores; a range where names do not tell.
- **limit**: what takes most of the window: the GPU's own work, or the cause of its idle time that lasts longest.
- **first finding**: the rule of the finding on top of the report.

Float32 is kept to, without TF32, but for MNIST, which leaves PyTorch's defaults.
"""


def page(found: Sequence[Result]) -> str:
    """Return the whole page about the results that are there."""
    by_name = {each.case.name: each for each in found}
    parts = [HEAD, machines(found), RUNS, *(_part(claim, by_name) for claim in CLAIMS)]
    return "\n".join(parts)


def machines(found: Sequence[Result]) -> str:
    """Return a sentence that says on what the results were captured."""
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
        head = ("case", "step, ms", "data, ms", "kernels, ms", "busy", "occupancy", "tensor", "limit", "first finding")
        lines += [_line(head), "|---|" + "---:|" * 6 + "---|---|", *(_line(cells(each)) for each in there), ""]
        lines += ["Where a mean step goes:", "", *_breakdown(there)]
    if there and claim.title.startswith("BERT"):
        lines += _optimizers(there)
    if claim.title.startswith(("AlexNet", "Convolution")):
        for each in there:
            lines += _activities(each)
    said = [f"    {each.case.name}: {line}" for each in there for line in each.said]
    lines += ["What the programs printed, their own clocks included:", "", *said, ""] if said else []
    missing = [name for name in claim.cases if name not in by_name]
    if missing:
        lines += [f"Not captured: {', '.join(f'`{name}`' for name in missing)}.", ""]
    lines += _remark(claim, by_name)
    commands = [f"    python workloads/{case.program}.py {case.options}".rstrip() for case in map(named, claim.cases)]
    return "\n".join([*lines, "Commands:", "", *commands, ""])


def _remark(claim: Claim, by_name: dict[str, Result]) -> list[str]:
    """Return what is added by hand, with figures of the reports; nothing where one of these is not there."""
    try:
        text = REMARKS[claim.title].format_map(AllFigures(by_name))
    except KeyError:
        return []
    return [*textwrap.wrap(text, WIDTH), ""]


def cells(result: Result) -> tuple[str, ...]:
    """Return the cells of a case: name, step, data and kernels in ms, shares, limit and first finding."""
    return (
        _name(result),
        milliseconds(result.fact("step_breakdown", "mean_step_ns")),
        milliseconds(phase_ns(result, "data")),
        milliseconds(kernel_ns(result)),
        percent(result.fact("step_breakdown", "gpu_utilization_share")),
        percent(result.fact("occupancy", "achieved_estimate_share")),
        tensor_share(result),
        result.limit,
        f"`{result.rules[0]}`" if result.rules else "none",
    )


def tensor_share(result: Result) -> str:
    """Return the share of kernel time in tensor core kernels, with its bounds where they differ."""
    low, high = (percent(result.fact("tensor_cores", name)) for name in ("share_low", "share_high"))
    return low if low == high else f"{low} to {high}"


def _name(result: Result) -> str:
    case = result.case
    if case.keeps_page and (GALLERY / case.name / "report.html").exists():
        return f"[{case.name}](../reports/gallery/{case.name}/report.html)"
    return case.name


def _breakdown(there: Sequence[Result]) -> list[str]:
    means = [{row["role"]: row["share"] for row in each.rows("step_breakdown", "mean")} for each in there]
    roles = list(dict.fromkeys(role for each in means for role in each))
    rows = [
        _line((each.case.name, *(percent(mean.get(role)) for role in roles)))
        for each, mean in zip(there, means, strict=True)
    ]
    return [_line(("case", *roles)), "|---|" + "---:|" * len(roles), *rows, ""]


def _activities(result: Result) -> list[str]:
    kernels = [(row["name"], row["count"], row["total_ns"]) for row in result.rows("kernels", "summary")]
    copies = [(f"[copy {row['kind']}]", row["count"], row["total_ns"]) for row in result.rows("copies", "summary")]
    top = sorted(kernels + copies, key=lambda each: -each[2])[:TOP]
    head = _line(("time, ms", "calls", "mean, us", "name"))
    rows = [
        _line((milliseconds(total), str(count), three(total / count / 1e3), f"`{_short(name)}`"))
        for name, count, total in top
    ]
    said = f"GPU activities of `{result.case.name}`, in {result.steps} steps:"
    return [said, "", head, "|---:|---:|---:|---|", *rows, ""]


def _optimizers(there: Sequence[Result]) -> list[str]:
    """Return the table of the phase `optimizer`, in ms a step."""
    rows = []
    for each in there:
        found = next((row for row in each.rows("phases", "phases") if row["phase"] == "optimizer"), None)
        if found:
            times = (milliseconds(found[name] / each.steps) for name in ("host_ns", "gpu_ns", "idle_ns"))
            rows.append(_line((each.case.name, *times, f"{found['kernel_count'] / each.steps:.0f}")))
    head = _line(("case", "host, ms", "its work on the GPU, ms", "GPU idle, ms", "kernels"))
    return ["The optimizer in a mean step:", "", head, "|---|---:|---:|---:|---:|", *rows, ""]


def _short(name: str) -> str:
    plain = name.replace("|", "/")
    return plain if len(plain) <= 80 else f"{plain[:79]}…"  # noqa: PLR2004 - characters of a cell


def _line(parts: Sequence[str]) -> str:
    return f"| {' | '.join(parts)} |"
