"""The predicted saving of a finding, as tests read it."""

from nsyswrap.base.interval import Interval
from nsyswrap.model import Finding
from nsyswrap.what_if.saving import Saving


def saving_of(found: Finding | Saving) -> Interval[int]:
    interval = found.saving if isinstance(found, Finding) else found.time
    assert interval is not None
    return interval


def ends_of(found: Finding | Saving) -> tuple[int, int] | tuple[None, None]:
    """Return the least and the most that is saved; None and None where nothing is predicted."""
    interval = found.saving if isinstance(found, Finding) else found.time
    return (None, None) if interval is None else interval.ends
