"""The sums of one capture, small enough to travel: where its GPU time went, its findings, its largest kernels.

Times are int64 ns, added over the GPUs of the capture: GPU time. Two GPUs in a window of 3 s have 6 s of it.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd

from nsyswrap.base.errors import ExportError
from nsyswrap.base.json_codec import DamagedError, codec_of, read_object
from nsyswrap.base.program_name import program_and_arguments, working_words
from nsyswrap.model import PARTS, Finding, Report, Severity

SCHEMA = "nsyswrap.capture-sums/3"
LEDGER = tuple(PARTS.split())
# So many kernels of a capture have a row of their own; the rest is one sum. Ours: one capture has at most some 60 kB.
MOST_KERNELS = 200


class FindingSum(NamedTuple):
    """The findings of one rule.

    Attributes:
        severity: The most severe of them.
        saving_ns: Predicted saving as GPU time; None where none of them has one.
    """

    rule: str
    severity: str
    lost_ns: int
    saving_ns: int | None


class KernelSum(NamedTuple):
    """The launches of one kernel: its name, how often it was launched, and its total time."""

    name: str
    launches: int
    total_ns: int


@dataclass(frozen=True, slots=True)
class CaptureSums:
    """The sums of one capture.

    Attributes:
        program: The script or module that ran, such as "train.py"; empty if unknown.
        arguments: The other words of the command, without values that differ from run to run.
        host: Neutral name of the machine; empty if unknown.
        started_utc: Start of the capture, ISO 8601 in UTC; empty if unknown.
        step_count: Measured steps; None where there are none.
        ledger: GPU time by row of the ledger. The values add up to the window of all GPUs.
        idle: Idle GPU time by rule. The values add up to the ledger's idle time.
        kernels: The largest kernels, the most time first.
        other_kernels: All others in one row, without a name.
    """

    program: str
    arguments: str
    gpus: tuple[str, ...]
    host: str
    started_utc: str
    nsys_version: str
    window_ns: int
    step_count: int | None
    step_ns: int | None
    verdict: str
    ledger: Mapping[str, int]
    idle: Mapping[str, int]
    findings: tuple[FindingSum, ...]
    kernels: tuple[KernelSum, ...]
    other_kernels: KernelSum

    @property
    def gpu_ns(self) -> int:
        """Return the GPU time of the window, over all GPUs."""
        return sum(self.ledger.values())


def sums_of(report: Report, host: str = "") -> CaptureSums:
    """Return the sums of a report.

    Args:
        report: The report of one capture, or of the ranks of a job.
        host: Neutral name of the machine; reports do not have it.
    """
    devices, idle = report.rows("ledger", "devices"), report.rows("idle", "attribution")
    kernels, others = _kernels(report.rows("kernels", "summary"))
    program, arguments = program_and_arguments(working_words(report.session.command))
    return CaptureSums(
        program=program.rpartition("/")[2],
        arguments=arguments,
        gpus=tuple(sorted(gpu.name for gpu in report.gpus)),
        host=host,
        started_utc=report.session.started_utc,
        nsys_version=report.session.nsys_version,
        window_ns=report.window.length_ns,
        step_count=report.step.count,
        step_ns=None if report.step.recorded_ns is None else int(report.step.recorded_ns),
        verdict=report.verdict,
        ledger={name: 0 if devices is None else int(devices[name].sum()) for name in LEDGER},
        idle={} if idle is None else {str(rule): int(each.sum()) for rule, each in idle.groupby("rule")["idle_ns"]},
        findings=_findings(report.findings, 1 if devices is None else len(devices)),
        kernels=kernels,
        other_kernels=others,
    )


def _findings(findings: Iterable[Finding], gpus: int) -> tuple[FindingSum, ...]:
    """Return one row for each rule, in the order of the report.

    Times of a finding about several GPUs are means over them, so they count once for each GPU.
    """
    by_rule: dict[str, FindingSum] = {}
    for each in findings:
        times = gpus if each.device_id is None else 1
        saving = None if each.saving is None else each.saving.point * times
        known = by_rule.get(each.rule, FindingSum(each.rule, each.severity.value, 0, None))
        severity = min(known.severity, each.severity.value, key=lambda one: Severity(one).rank)
        both = [one for one in (known.saving_ns, saving) if one is not None]
        lost = known.lost_ns + int(each.lost_ns) * times
        by_rule[each.rule] = FindingSum(each.rule, severity, lost, int(sum(both)) if both else None)
    return tuple(by_rule.values())


def _kernels(summary: pd.DataFrame | None) -> tuple[tuple[KernelSum, ...], KernelSum]:
    """Return the largest kernels, and the sum of all others."""
    if summary is None:
        return (), KernelSum("", 0, 0)
    columns = (summary[name].tolist() for name in ("name", "count", "total_ns"))
    rows = [KernelSum(str(name), int(count), int(total)) for name, count, total in zip(*columns, strict=True)]
    rows.sort(key=lambda row: (-row.total_ns, row.name))
    rest = rows[MOST_KERNELS:]
    others = KernelSum("", sum(row.launches for row in rest), sum(row.total_ns for row in rest))
    return tuple(rows[:MOST_KERNELS]), others


_SUMS = codec_of(CaptureSums)


def encoded(sums: CaptureSums) -> str:
    """Return sums as JSON: the same text for the same sums."""
    return json.dumps({"schema": SCHEMA, **_SUMS.write(sums)}, ensure_ascii=True, allow_nan=False, sort_keys=True)


def failed(reason: str) -> str:
    """Return JSON that says why a capture has no sums."""
    return json.dumps({"schema": SCHEMA, "error": reason}, ensure_ascii=True)


def decoded(text: str) -> CaptureSums | str:
    """Return the sums in JSON of ``encoded``, or the reason in JSON of ``failed``.

    Raises:
        ExportError: The text is something else, or damaged.
    """
    try:
        tree = read_object(json.loads(text), "")
        if tree.get("schema") != SCHEMA:
            raise ExportError("these sums are of another version")
        found: CaptureSums | str = str(tree["error"]) if "error" in tree else _SUMS.read(tree, "")
    except (ValueError, DamagedError) as error:
        raise ExportError("these sums are damaged") from error
    return found
