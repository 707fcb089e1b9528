"""Whether a report is one about GPUs."""

import pytest
from export_builder import HOST_TO_DEVICE, ExportBuilder, trace_of

from nsyswrap.loop.context import find_context


@pytest.mark.parametrize(("length", "is_about_gpus"), [(19, False), (20, True)])
def test_copies_that_take_two_percent_of_the_time_make_it_a_report_about_gpus(
    length: int, *, is_about_gpus: bool
) -> None:
    made = ExportBuilder().gpu().os_call("poll", 0, 1_000).copy(100, 100 + length, HOST_TO_DEVICE, launched=(90, 95))
    assert find_context(trace_of(made)).is_about_gpus == is_about_gpus
