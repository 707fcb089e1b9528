"""What the reports of several ranks say as one."""

from export_builder import ExportBuilder, trace_of
from xray_program import record

from nsyswrap.events.xray_record import read_xray
from nsyswrap.loop.context import NO_SETTINGS
from nsyswrap.ranks.rank_report import Joined


def test_the_xray_steps_of_ranks_differ_by_their_report() -> None:
    """Processes of two hosts may have the same number."""
    trace = trace_of(ExportBuilder().kernel(0, 1))
    joined = Joined(trace, (), {}, {}, (), xray=(lambda: read_xray(record()),) * 2)
    assert [(each.report, each.pid) for each in joined.settings(NO_SETTINGS).xray] == [(0, 4711), (1, 4711)]
