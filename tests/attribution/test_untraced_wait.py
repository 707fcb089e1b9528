"""Root cause: the launching thread waits off its core in a call that was not traced. The range names the place."""

from export_builder import ExportBuilder, trace_of
from made_steps import STEP, STEPS, US, findings_of, lost_per_step, made_loop

from nsyswrap.report import build_report


def waiting(*, traced: bool = False) -> ExportBuilder:
    """Return steps whose thread is off its core from 620 to 980 us, inside a range that is no phase.

    ::

        GPU     |######600######|....400....|
        thread  on a core         |off core|
        range                    |  h2d_wq  |
    """
    made = made_loop()
    if not traced:
        made.without("OSRT_API")
    for number in range(STEPS):
        at = number * STEP
        made.range("h2d_wq", at + 610 * US, at + 990 * US)
        made.scheduled(at + 620 * US, running=False).scheduled(at + 980 * US, running=True)
    return made


def test_the_wait_is_named_with_its_range_and_what_would_name_the_call() -> None:
    """The switches show the wait, so the verdict does not say that the capture cannot tell."""
    trace = trace_of(waiting())
    assert lost_per_step(trace)["host/untraced_wait"] == 360
    found = findings_of(trace)["host/untraced_wait"]
    assert "waits in a call that was not recorded, in range h2d_wq" in found.headline
    assert "osrt" in found.advice
    assert "3.60 ms in range h2d_wq" in found.evidence
    report = build_report(trace)
    assert report.verdict.startswith(found.headline)
    assert not any("look like work" in note for section in report.sections for note in section.notes)


def test_where_calls_were_traced_a_thread_off_its_core_lacks_one() -> None:
    """No call is open, so nothing but a core is missing."""
    rules = lost_per_step(trace_of(waiting(traced=True)))
    assert rules["idle/off_cpu"] == 360
    assert "host/untraced_wait" not in rules
