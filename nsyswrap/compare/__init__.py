"""Comparison of two reports: whether a step is faster or slower, how sure that is, and which amounts changed."""

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
    FindingChange,
    FindingPair,
    IssueKind,
    MovedTime,
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
    "FindingChange",
    "FindingPair",
    "IssueKind",
    "MovedTime",
    "Outcome",
    "Side",
    "compare_reports",
]
