"""Check that the verdict of a report is its first finding, with possible times."""

import re

from nsyswrap.model import Report, Severity
from nsyswrap.verdict import NO_GPU_WORK, says_idle

INCOMPLETE = "capture/incomplete"
_NANOSECONDS = {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9}


def check_verdict(report: Report) -> None:
    """Check that the verdict is the first finding, or says why there is none.

    The finding on missing events does not count. Without a rule kernels limit the run, or the capture does not show
    what limits it.
    """
    first = next((each for each in report.findings if each.rule != INCOMPLETE), None)
    if report.verdict_rule is not None:
        assert first is not None
        said = report.verdict.removeprefix(f"{NO_GPU_WORK} ")
        assert said.startswith(first.headline)
        assert report.verdict_rule == first.rule
        assert ("A step takes" in report.verdict) == bool(report.step.count)
        check_times(said.removeprefix(first.headline))
    elif report.verdict.startswith(("Compute-bound: ", "Kernels do not run for ", "The GPU is busy ")):
        assert first is None or first.severity is Severity.NOTE or says_idle(first.rule)
    else:
        assert report.verdict.startswith(("Cannot tell: ", "No GPU work was recorded"))


def check_times(text: str) -> None:
    """Check that all times in a text are above 0, and none is longer than the first, which is the step now."""
    found = re.findall(r"([\d.,]+) (ns|µs|ms|s)\b", text)
    times = [float(number.replace(",", "")) * _NANOSECONDS[unit] for number, unit in found]
    assert all(0 < each <= times[0] for each in times)
