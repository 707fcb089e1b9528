"""Which record each wait for a CUDA event follows, also where times are nanoseconds since 1970."""

import pytest
from export_builder import MAIN, PROCESS, ExportBuilder, trace_of

from nsyswrap.events.cuda_events import recorded_stream_waits

# In ns since 1970: January 2026. A float holds such numbers to 256 ns only.
UTC = 1_767_225_600 * 10**9
RECORD, WAIT, NEVER_RECORDED = 5, 5, 6


@pytest.mark.parametrize("at", [0, UTC])
def test_the_last_record_of_an_event_before_a_wait(at: int) -> None:
    """A wait for an event that is never recorded is left out, and does not change the times of others."""
    made = ExportBuilder()
    for number, start in enumerate((10, 31)):
        made.call("cudaEventRecord", at + start, at + start + 2, correlation=100 + number, thread=MAIN)
        columns = {"process": PROCESS, "correlation": 100 + number, "eventId": RECORD, "device": 0}
        made.row("CUPTI_ACTIVITY_KIND_CUDA_EVENT", stream=7, **columns)
    for number, event in enumerate((WAIT, NEVER_RECORDED)):
        start = at + 63 + number
        made.call("cudaStreamWaitEvent", start, start + 2, correlation=200 + number, thread=MAIN)
        columns = {"process": PROCESS, "correlation": 200 + number, "eventId": event, "device": 0}
        made.row("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", start=start, end=start + 2, stream=14, **columns)
    (wait,) = recorded_stream_waits(trace_of(made)).to_dict("records")
    assert (wait["start"] - at, wait["record"] - at, wait["stream"], wait["of_stream"]) == (63, 31, 14, 7)
