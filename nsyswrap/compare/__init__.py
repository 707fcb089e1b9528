"""Two reports beside each other: is a step faster, slower, no different, or can that not be told; and what moved."""

from nsyswrap.compare.comparison import (
    ACCEPTABLE,
    MARGIN,
    Change,
    ChangeTable,
    Comparison,
    Estimate,
    FactChange,
    FindingPair,
    Hurdle,
    Obstacle,
    Outcome,
    Settings,
    Side,
)
from nsyswrap.compare.reports import compare_reports

__all__ = [
    "ACCEPTABLE",
    "MARGIN",
    "Change",
    "ChangeTable",
    "Comparison",
    "Estimate",
    "FactChange",
    "FindingPair",
    "Hurdle",
    "Obstacle",
    "Outcome",
    "Settings",
    "Side",
    "compare_reports",
]
