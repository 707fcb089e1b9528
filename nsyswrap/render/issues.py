"""What keeps runs from being compared, as a list of a document and in JSON."""

from collections.abc import Sequence

from nsyswrap.base.json_codec import list_of, record_of
from nsyswrap.compare.comparison import ComparabilityIssue
from nsyswrap.render.document import Entries, Entry

ISSUES = list_of(record_of(ComparabilityIssue, "kind blocks message hint"))
"""The codec of issues."""
_MOST = (6, 6)


def issue_entries(issues: Sequence[ComparabilityIssue]) -> Entries:
    """Return issues as a list; those that forbid the comparison say what helps."""
    return Entries(tuple(map(_entry, issues)), "issues", _MOST)


def _entry(issue: ComparabilityIssue) -> Entry:
    if not issue.blocks:
        return Entry("note", headline=issue.message, severity="note")
    return Entry(
        "not comparable", headline=issue.message, lines=(issue.hint,) if issue.hint else (), severity="problem"
    )
