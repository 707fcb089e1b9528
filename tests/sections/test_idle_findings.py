"""The idle time of a rule, as each launching thread would save it."""

from analysis_fixtures import attributions_of, window
from export_builder import ExportBuilder, global_id, thread, trace_of
from simulations import simulate

from nsyswrap.attribution.attribution import RULES
from nsyswrap.loop.context import find_context
from nsyswrap.what_if.fix import LostTime


def test_the_threads_of_a_process_share_its_idle_time() -> None:
    """A program may start a thread for each kernel: thousands of copies of the same intervals would fill the memory."""
    builder = ExportBuilder()
    for number in range(4):
        at, own = 10_000 * (number + 1), thread(10_000 + number)
        builder.kernel(at + 7_000, at + 9_000, launched=(at, at + 6_000), thread=own)
    builder.kernel(55_000, 56_000, launched=(54_000, 54_500), process=global_id(5000), thread=thread(5000, 5000))
    context, whole = find_context(trace_of(builder)), window(0, 60_000)
    attributions = attributions_of(context, whole)
    rule = max(RULES, key=attributions[0].idle_of)
    found = LostTime(rule, attributions).on_host(simulate(context, whole))
    of_threads = [found[thread(10_000 + number)] for number in range(4)]
    assert all(each is of_threads[0] for each in of_threads)
    assert found[thread(5000, 5000)] is not of_threads[0]
    assert len(of_threads[0].start)
