"""Two reports beside each other: is a step faster, slower, no different, or can that not be told; and what moved."""

from nsyswrap.compare.comparison import (
    ACCEPTABLE,
    MARGIN,
    Change,
    ChangeTable,
    ComparabilityIssue,
    Comparison,
    ComparisonOptions,
    Estimate,
    FactChange,
    FindingPair,
    IssueKind,
    Outcome,
    Side,
)
from nsyswrap.compare.reports import compare_reports

__all__ = [
    "ACCEPTABLE",
    "MARGIN",
    "Change",
    "ChangeTable",
    "ComparabilityIssue",
    "Comparison",
    "ComparisonOptions",
    "Estimate",
    "FactChange",
    "FindingPair",
    "IssueKind",
    "Outcome",
    "Side",
    "compare_reports",
]
