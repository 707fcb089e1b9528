"""Kernels by operator and by module of the model, and how much of the GPU's peak a step uses."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.attribution.attribution import Attribution
from nsyswrap.base import units
from nsyswrap.base.intervals import Indices, Window
from nsyswrap.base.row_sums import largest_first, typed_table
from nsyswrap.events.operations import COMPUTE
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.own_windows import find_own_windows
from nsyswrap.model import Fact, Section
from nsyswrap.operators.join import JoinedKernels, find_joined, has_operators, join_kernels
from nsyswrap.operators.observed_calls import BACKWARD, RECOMPUTED, OperatorCall, module_classes
from nsyswrap.operators.peak import ACCOUNTS, BOUNDS, KernelRates, explain_peaks, find_rates
from nsyswrap.program.program import ProgramAlone
from nsyswrap.ranks.collectives import Collectives
from nsyswrap.rules.work_names import LEDGER_NAMES, operation_name
from nsyswrap.sections.places import lines_of, time_by_place
from nsyswrap.sections.program import accounts_of_steps, mean_step, shared_out, window_accounts
from nsyswrap.sections.spec import About, Kind, PageGroup, SectionSpec
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array

NOT_JOINED, NO_OPERATOR, IN_GRAPH = "not joined", "outside operators", "in a CUDA graph"
NO_MODULE, NO_OWNER = "outside modules", "owner not known"
OUTSIDE = f"{NO_MODULE}: "
LACKING = "The X-ray step lacks something: {reason}."
NOT_READ = (
    "No operators, modules and lines, since the X-ray step does not fit into the memory that may be used: allow more "
    "with --memory."
)
NO_STEP = "No operators, modules and lines, since there is no X-ray step: {reason}."
OF_STEP = (
    "Operators, shapes, modules and lines are those of one more step, or one of each kind: the X-ray step, which is "
    "part of no time here. Each kernel takes them from its place in the sequence of its step."
)
OF_RANGES = (
    "Operators are those that ranges of the capture name in the last measured step. Their types, modules and lines are "
    "not recorded; 'nsyswrap profile' records them in one more step."
)
OF_GRAPHS = (
    "{share} of the kernel time is in CUDA graphs and has no operators: they ran when the graphs were captured, before "
    "the X-ray step. Kernels are named by what their names show; module and line are those that launch the graphs."
)
MEASURED, PUBLISHED = "measured", "published"
ADDITIVE = ("count", "total_ns", "forward_ns", "backward_ns", "recomputed_ns")
MODULE_COLUMNS = ("module", "class_name", *ADDITIVE, "self_ns", "operations", "peak_share", "bound")
_NAMES = ("operator", "shapes", "dtypes", "module", "line", "phase", "owner")


def run(
    context: TraceContext,
    window: Window,
    program: ProgramAlone,
    collectives: Collectives,
    attributions: tuple[Attribution, ...],
) -> Section:
    """Return kernel time by operator and by module, and the ledger of the peak of a step.

    The tables ``operators``, ``kernels`` and ``modules`` add up to the compute time of the ledger. The table ``peak``
    adds up to the step.
    """
    joined = find_joined(context, window)
    rates = find_rates(context, joined)
    whole = int(joined.own_ns.sum())
    calls = joined.calls
    named = _is(joined, [bool(each.name) for each in calls])
    shares = {
        "joined_share": named,
        "exact_share": named & joined.exact,
        "line_share": _is(joined, [bool(each.line) for each in calls]),
        "module_share": _is(joined, [bool(each.module) for each in calls]),
        "optimizer_share": _is(joined, [bool(each.optimizer) for each in calls]),
    }
    in_graph = _is(joined, [bool(each.in_graph and not each.name) for each in calls])
    graph_ns = int(joined.own_ns[in_graph].sum())
    if graph_ns:
        shares["graph_share"] = in_graph
    lines = lines_of(time_by_place(joined.calls, joined.call, joined.own_ns), int(joined.own_ns.sum()), "")
    return SECTION.made(
        window,
        facts=(
            *(
                Fact(label, int(joined.own_ns[mask].sum()) / whole if whole else None, "share")
                for label, mask in shares.items()
            ),
            *_use(context, window, program, joined, rates),
            Fact("costliest_line", next(iter(lines), None), "text"),
        ),
        tables={
            "peak": _peak(context, window, program, collectives, attributions, joined, rates),
            "modules": _modules(context, joined, rates),
            "operators": _operators(context, joined, rates),
            "kernels": _kernels(context, joined, rates),
        },
        notes=(
            OF_RANGES if context.xray is None else OF_STEP,
            explain_peaks(context, rates),
            *([OF_GRAPHS.format(share=units.share(graph_ns / whole))] if graph_ns else ()),
            *_reasons(context, LACKING),
        ),
    )


def _is(joined: JoinedKernels, of_calls: Sequence[bool]) -> npt.NDArray[np.bool_]:
    """Return which kernels are of calls that something is true of."""
    return np.array([*of_calls, False], bool)[joined.call]


def without_operators(context: TraceContext) -> tuple[str, ...]:
    """Return why there is no section on operators, as far as that is known."""
    if has_operators(context):
        return ()
    is_left_out = context.trace.excerpt is not None and any(each.operators for each in context.settings.xray)
    return (NOT_READ,) if is_left_out else _reasons(context, NO_STEP)


def _reasons(context: TraceContext, words: str) -> tuple[str, ...]:
    """Return the reasons of the processes whose X-ray step lacks something, in words."""
    found = dict.fromkeys(each.reason for each in context.settings.xray if each.reason)
    return tuple(words.format(reason=each) for each in found)


def _operators(context: TraceContext, joined: JoinedKernels, rates: KernelRates) -> pd.DataFrame:
    """Return the kernels by GPU, operator, shapes, types, module, line and phase, the most time first.

    Shapes, types and work are not known of kernels that were launched with another size than in the X-ray step.
    """
    device = context.operations.device_id[joined.rows]
    code, first = tables.groups([device, *_keys(context, joined)])
    sums = _Sums.of(code, len(first), joined, rates)
    rows = [
        (int(device[at]), *names, *sums.row(each))
        for each, (at, names) in enumerate(zip(first.tolist(), _names_of(context, joined, first), strict=True))
    ]
    rows = [rows[each] for each in largest_first(sums.total_ns, [row[:8] for row in rows])]
    types = {"device_id": np.int64, **dict.fromkeys(_NAMES, str), **_SUM_TYPES}
    return typed_table(rows, types)


def _keys(context: TraceContext, joined: JoinedKernels) -> list[npt.NDArray[Any]]:
    """Return what tells kernels of different operators, shapes, types, modules, lines and phases apart."""
    labels: dict[tuple[str, ...], int] = {}
    call = [labels.setdefault(_label(joined, at), len(labels)) for at in range(-1, len(joined.calls))]
    return [np.array(call, np.intp)[joined.call + 1], context.phase_of_operations[joined.rows], joined.exact]


def _names_of(context: TraceContext, joined: JoinedKernels, at: Indices) -> Iterator[tuple[str, ...]]:
    """Yield operator, shapes, types, module, line, phase and owner of some kernels."""
    for kernel in at.tolist():
        operator, shapes, dtypes, module, line, role, owner = _label(joined, int(joined.call[kernel]))
        known = (shapes, dtypes) if joined.exact[kernel] else ("", "")
        phase = role or context.phases.name(int(context.phase_of_operations[joined.rows[kernel]]))
        yield operator, *known, module, line, phase, owner


def _label(joined: JoinedKernels, call: int) -> tuple[str, ...]:
    """Return operator, shapes, types, module, line, role and owner of a call of an operator; -1 is no call."""
    if call < 0:
        return (NOT_JOINED, "", "", "", "", "", NOT_JOINED)
    each = joined.calls[call]
    name = each.name or (f"{operation_name(each.in_graph)} {IN_GRAPH}" if each.in_graph else NO_OPERATOR)
    return (name, each.shapes, each.dtypes, each.module, each.line, each.role, _owners(each)[-1])


_SUM_TYPES = {
    **dict.fromkeys(("count", "total_ns"), np.int64),
    **dict.fromkeys(("operations", "bytes", "peak_share"), np.float64),
    "bound": str,
}


@dataclass(frozen=True, slots=True)
class _Sums:
    """Sums over groups of kernels: arrays of one value a group, NaN where nothing is known."""

    count: npt.NDArray[np.intp]
    total_ns: npt.NDArray[np.int64]
    operations: npt.NDArray[np.float64]
    bytes: npt.NDArray[np.float64]
    peak_share: npt.NDArray[np.float64]
    bound: npt.NDArray[np.intp]

    @classmethod
    def of(cls, code: npt.NDArray[np.intp], size: int, joined: JoinedKernels, rates: KernelRates) -> "_Sums":
        """Return the sums of each group."""
        total = np.zeros(size, np.int64)
        np.add.at(total, code, joined.own_ns)

        def known(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
            is_known = ~np.isnan(values)
            sums = np.bincount(code[is_known], values[is_known], size)
            return np.where(np.bincount(code[is_known], minlength=size) > 0, sums, np.nan)

        needed = known(rates.needed_ns)
        time = known(np.where(np.isnan(rates.needed_ns), np.nan, joined.own_ns.astype(np.float64)))
        by_bound = np.stack([np.bincount(code, joined.own_ns * (rates.bound == at), size) for at in range(len(BOUNDS))])
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(time > 0, np.minimum(needed / time, 1.0), np.nan)
        count = np.bincount(code, minlength=size)
        return cls(count, total, known(rates.operations), known(rates.bytes), share, by_bound.argmax(axis=0))

    def row(self, at: int) -> tuple[int, int, float, float, float, str]:
        """Return the columns of one group."""
        operations, moved, share = (float(each[at]) for each in (self.operations, self.bytes, self.peak_share))
        return int(self.count[at]), int(self.total_ns[at]), operations, moved, share, BOUNDS[int(self.bound[at])]


def _kernels(context: TraceContext, joined: JoinedKernels, rates: KernelRates) -> pd.DataFrame:
    """Return the kernels of each operator by their names, the most time first."""
    names = context.kernel_names
    kernel = names.code[joined.rows]
    code, first = tables.groups([*_keys(context, joined), kernel])
    sums = _Sums.of(code, len(first), joined, rates)
    kinds = [names.kinds[each].name if each >= 0 else "CUDA graph" for each in kernel[first].tolist()]
    rows = []
    for each, (kind, label) in enumerate(zip(kinds, _names_of(context, joined, first), strict=True)):
        count, total, _, _, share, _ = sums.row(each)
        operator, *others = label
        rows.append((operator, kind, count, total, *others, share))
    rows = [rows[each] for each in largest_first(sums.total_ns, [(*row[:2], *row[4:-1]) for row in rows])]
    texts = dict.fromkeys(_NAMES[1:], str)
    numbers = dict.fromkeys(("count", "total_ns"), np.int64)
    return typed_table(rows, {"operator": str, "name": str, **numbers, **texts, "peak_share": np.float64})


def _modules(context: TraceContext, joined: JoinedKernels, rates: KernelRates) -> pd.DataFrame:
    """Return the kernels of each module with those in it, as the model folds, and those of other owners."""
    classes = module_classes(context.settings.xray)
    roles = np.append([(BACKWARD, RECOMPUTED).index(each.role) + 1 if each.role else 0 for each in joined.calls], 0)
    paths = [*map(_owners, joined.calls), (NOT_JOINED,)]
    place = {path: at for at, path in enumerate(sorted({path for each in paths for path in each}))}
    own = np.array([place[each[-1]] for each in paths], np.intp)[joined.call]
    # A kernel is in each module around the one that launched it.
    depth = max(map(len, paths))
    around = np.array([[place[each[level]] if level < len(each) else -1 for each in paths] for level in range(depth)])
    kernel = np.tile(np.arange(len(joined.rows)), depth)
    module = around[:, joined.call].ravel()
    kernel, module = kernel[module >= 0], module[module >= 0]
    sums = _Sums.of(module, len(place), joined.taken(kernel), rates.taken(kernel))
    own_ns = joined.own_ns
    parts = [
        np.bincount(module, own_ns[kernel] * (roles[joined.call[kernel]] == role), len(place)) for role in range(3)
    ]
    self_ns = np.bincount(own, own_ns, len(place))
    found = [(path, at) for path, at in place.items() if sums.count[at]]
    rows = []
    for each in largest_first(np.array([sums.total_ns[at] for _, at in found]), [path for path, _ in found]):
        path, at = found[each]
        count, total, operations, _, share, bound = sums.row(at)
        times = (int(column[at]) for column in (*parts, self_ns))
        rows.append((path, classes.get(path, ""), count, total, *times, operations, share, bound))
    whole = dict.fromkeys((*ADDITIVE, "self_ns"), np.int64)
    numbers = dict.fromkeys(("operations", "peak_share"), np.float64)
    return typed_table(rows, {**dict.fromkeys(MODULE_COLUMNS[:2], str), **whole, **numbers, "bound": str})


def _owners(call: OperatorCall) -> tuple[str, ...]:
    """Return who owns the kernels of a call, as rows of the table of modules, the outermost first.

    That is a module, with those around it; else an optimizer; else a line. What has a line has an owner.
    """
    if call.module:
        parts = call.module.split(".")
        return tuple(".".join(parts[: at + 1]) for at in range(len(parts)))
    if call.optimizer:
        return (f"{call.optimizer} (optimizer)",)
    if call.line:
        return NO_MODULE, f"{OUTSIDE}{call.line} in {call.function}"
    return (NO_OWNER,)


def around(owner: str) -> str:
    """Return the row of the table of modules in which another one is; empty for none."""
    return NO_MODULE if owner.startswith(OUTSIDE) else owner.rpartition(".")[0]


def _use(
    context: TraceContext, window: Window, program: ProgramAlone, joined: JoinedKernels, rates: KernelRates
) -> tuple[Fact, ...]:
    """Return facts on the use of the peak, the mean over GPUs: of the model's operations, and with those repeated.

    A step does the work that it launches. While it lasts the GPU may still run that of the step before.
    """
    operations, calls = context.operations, context.trace[tables.CALLS]
    # A launch counts in the part of the window of its process.
    low, high = find_own_windows(context, window).by_process(calls)
    start = array(calls, "start")
    in_window = (start >= low) & (start < high)
    rows = np.flatnonzero((operations.kind == COMPUTE) & (operations.call >= 0) & in_window[operations.call])
    if not np.array_equal(rows, joined.rows):
        joined = join_kernels(context, rows, context.operations.end[rows] - context.operations.start[rows])
        rates = find_rates(context, joined)
    device = context.operations.device_id[joined.rows]
    steps = max(context.steps.measured_count if window.is_of_steps else 1, 1)
    shares = []
    for each in np.unique(device).tolist():
        mine = (device == each) & rates.is_product
        length = _step_ns(context, window, program, each)
        model = np.nansum(rates.at_peak_ns[mine] * rates.model_operations[mine] / np.fmax(rates.operations[mine], 1))
        shares.append((model / steps / length, np.nansum(rates.at_peak_ns[mine]) / steps / length))
    known = bool(np.isfinite(rates.at_peak_ns[rates.is_product]).any())
    mfu, hfu = np.mean(shares, axis=0).tolist() if known else (None, None)
    total = np.nansum(rates.operations[rates.is_product]) / steps
    return (
        Fact("mfu_share", mfu, "share"),
        Fact("hfu_share", hfu, "share"),
        Fact("step_operations", float(total), "flop"),
        Fact("peak_source", MEASURED if rates.is_measured.any() else PUBLISHED, "text"),
    )


def _step_ns(context: TraceContext, window: Window, program: ProgramAlone, device_id: int) -> int:
    """Return the length of a step that the numbers are about, in ns."""
    is_known = not program.is_recording and program.step is not None
    return program.step.point if is_known and program.step else mean_step(context, window, device_id)


def _peak(  # noqa: PLR0913, PLR0917 - all that a step is made of
    context: TraceContext,
    window: Window,
    program: ProgramAlone,
    collectives: Collectives,
    attributions: Sequence[Attribution],
    joined: JoinedKernels,
    rates: KernelRates,
) -> pd.DataFrame:
    """Return the ledger of the peak of a step of each GPU, in ns; the rows of a GPU add up to the step.

    The compute time of the ledger is divided into the time that products need at the peak, and what takes the rest.
    """
    device, compute = context.operations.device_id[joined.rows], LEDGER_NAMES["compute_ns"]
    steps = []
    for attribution in attributions:
        each = attribution.device_id
        accounts = window_accounts(context, window, collectives, attribution)
        kernels = rates.accounts[:, device == each].sum(axis=1)
        whole = accounts.pop((compute, ""))
        parts = shared_out(np.rint(kernels * 1000).astype(np.int64), whole) if kernels.any() else [0] * len(ACCOUNTS)
        found = {**dict(zip(((name, "") for name in ACCOUNTS), parts, strict=True)), **accounts}
        steps.append((each, found, _step_ns(context, window, program, each)))
    table = accounts_of_steps(collectives, steps)
    length = table["device_id"].map({device: ns for device, _, ns in steps})
    return table.assign(share=(table["ns"] / length).astype(np.float64))


SECTION = SectionSpec(
    key="operators",
    title="Operators and modules",
    run=run,
    about=About.BOTH,
    applies=has_operators,
    of_program=frozenset({"peak", "mfu_share", "hfu_share"}),
    needs=(tables.KERNELS,),
    of_operations=True,
    place=78,
    group=PageGroup.GPU,
    columns={
        "peak": "device_id rank account rule ns share",
        "modules": " ".join(MODULE_COLUMNS),
        "operators": f"device_id {' '.join(_NAMES)} count total_ns operations bytes peak_share bound",
        "kernels": f"operator name count total_ns {' '.join(_NAMES[1:])} peak_share",
    },
    kinds={
        Kind.TEXT: "operator shapes dtypes module class_name line owner bound account",
        Kind.NUMBER: "operations bytes",
    },
    units={"ns": "ns", "operations": "flop"},
    captions={
        "peak": "Where a step's time goes, against the peak",
        "modules": "Modules",
        "operators": "Operators",
        "kernels": "Kernels of each operator",
    },
    headings={
        "dtypes": "types",
        "class_name": "class",
        "peak_share": "peak share",
        "bound": "bound by",
        "forward_ns": "forward",
        "backward_ns": "backward",
        "recomputed_ns": "recomputed",
        "self_ns": "without modules in it",
    },
    facts={
        "joined_share": "kernel time with a known operator",
        "exact_share": "with known shapes",
        "line_share": "with a known owner and line",
        "module_share": "in a module",
        "optimizer_share": "of an optimizer",
        "graph_share": "in CUDA graphs, operator not known",
        "mfu_share": "model FLOPs utilization",
        "hfu_share": "hardware FLOPs utilization",
        "step_operations": "floating-point operations of products, a step",
        "costliest_line": "launched at",
    },
)
"""The definition of the section."""
