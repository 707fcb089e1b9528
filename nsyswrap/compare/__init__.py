"""Comparison of two reports: whether a step is faster or slower, how sure that is, and which amounts changed."""

from typing import TYPE_CHECKING, Any

from nsyswrap.compare.comparison import (
    ACCEPTABLE,
    FIND,
    AmountChange,
    ChangeTable,
    ComparabilityIssue,
    Comparison,
    ComparisonOptions,
    Estimate,
    FactChange,
    FindingChange,
    FindingPair,
    IssueKind,
    MovedTime,
    Outcome,
    RunMachine,
    Side,
)

if TYPE_CHECKING:
    from nsyswrap.compare.reports import compare_reports

__all__ = [
    "ACCEPTABLE",
    "FIND",
    "AmountChange",
    "ChangeTable",
    "ComparabilityIssue",
    "Comparison",
    "ComparisonOptions",
    "Estimate",
    "FactChange",
    "FindingChange",
    "FindingPair",
    "IssueKind",
    "MovedTime",
    "Outcome",
    "RunMachine",
    "Side",
    "compare_reports",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - as the name it returns
    """Return ``compare_reports``, which loads what a report is checked with; the types do without it."""
    if name != "compare_reports":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from nsyswrap.compare.reports import compare_reports  # noqa: PLC0415 - see above

    return compare_reports
