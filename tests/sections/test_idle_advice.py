"""Advice on idle time fits the facts in the capture: the interval of launches, the direction of copies, the steps."""

import pytest
from analysis_fixtures import idle_section, run_section, window
from export_builder import DEVICE, DEVICE_TO_HOST, HOST_TO_DEVICE, PAGEABLE, ExportBuilder, thread, trace_of
from host_records import record_of, recorded, thread_samples
from made_steps import STEP, STEPS, US, each_step, findings_of, launched_at_once, made_loop
from savings import ends_of

from nsyswrap.attribution.root_causes import ROOT_CAUSES
from nsyswrap.loop.context import Settings, find_context
from nsyswrap.model import Finding, Severity
from nsyswrap.report import choose_window
from nsyswrap.rules import rule_of
from nsyswrap.rules.idle import CPU, FREED_BATCHES, LOCK, OTHER_PROGRAMS, OWN_THREADS, STILL_UNKNOWN, UNKNOWN
from nsyswrap.rules.idle import LAUNCH_LESS as LAUNCH_LESS_OFTEN
from nsyswrap.rules.rule import Advice
from nsyswrap.rules.synchronization import IN_STEP, SMALL_COPIES
from nsyswrap.sections import idle
from nsyswrap.sections.idle_advice import OWN_RULES, WARM, no_core_advice
from nsyswrap.trace.tables import Trace

LAUNCH_LESS = ("batch", "compile", "CUDA graphs", "fused")
COPIES = 40
OTHER = thread(4712)


def found_on_idle_time(trace: Trace) -> dict[str, Finding]:
    """Return the findings of the section on idle time by rule."""
    context = find_context(trace)
    return {each.rule: each for each in run_section(idle, context, choose_window(context)).findings}


def test_long_cpu_code_once_a_step_is_not_answered_with_fewer_launches() -> None:
    """Each step has 400 us of CPU code in one gap, and launches are 2 us apart; a larger batch does not shorten it."""
    found = found_on_idle_time(trace_of(made_loop()))["idle/cpu"]
    assert found.advice == CPU.advice
    assert not [word for word in LAUNCH_LESS if word in found.advice]
    assert "Move it out of the step" in found.advice


def test_cpu_code_between_launches_at_their_usual_pace_is_answered_with_fewer_launches() -> None:
    """There is a launch every 100 us, with a lock of 35 us between launches, so that the loop is not launch-bound.

    ::

        host    |launch|..|--lock 35--|..cpu 40..|launch|
        GPU            |##20##|..................        |##20##|
    """
    made = ExportBuilder().gpu()
    for number in range(STEPS):
        made.range(f"batch {number}", number * STEP, (number + 1) * STEP)
        for at in range(number * STEP, (number + 1) * STEP, 100 * US):
            made.kernel(at + 10 * US, at + 30 * US, launched=(at + 5 * US, at + 9 * US))
            made.os_call("pthread_mutex_lock", at + 30 * US, at + 65 * US)
    found = found_on_idle_time(trace_of(made))["idle/cpu"]
    assert found.lost_ns == 10 * STEP // (100 * US) * 40 * US
    assert found.advice == LAUNCH_LESS_OFTEN.advice


@pytest.mark.parametrize(
    ("name", "call", "share", "freed"),
    [
        ("pt_data_pin", "munmap", 0.55, True),
        ("pt_data_pin", "munmap", 0.45, False),
        ("pt_data_pin", "read", 1.0, False),
        ("other", "munmap", 1.0, False),
        ("", "munmap", 1.0, False),
    ],
)
def test_a_wait_for_the_thread_that_frees_batches_is_answered_with_smaller_batches(
    name: str, call: str, share: float, *, freed: bool
) -> None:
    """Each step waits 400 us for a lock. Meanwhile, another thread is in a call for a share of the time."""
    made = ExportBuilder().gpu()
    if name:
        made.thread_name(OTHER, name)
    for number in range(STEPS):
        begin = number * STEP
        made.range(f"batch {number}", begin, begin + STEP)
        made.kernel(begin + 10 * US, begin + 30 * US, launched=(begin + 5 * US, begin + 9 * US))
        made.kernel(begin + 440 * US, begin + 900 * US, launched=(begin + 431 * US, begin + 435 * US))
        made.os_call("pthread_cond_timedwait", begin + 30 * US, begin + 430 * US)
        made.os_call(call, begin + 20 * US, begin + round((30 + 400 * share) * US), thread=OTHER)
        made.os_call("poll", begin + 30 * US, begin + 430 * US, thread=thread(4713))
    found = found_on_idle_time(trace_of(made))[LOCK.key]
    assert found.advice == (FREED_BATCHES if freed else LOCK).advice
    named = f"meanwhile, {name or 'thread 4712'} is in {call}"
    assert [each.startswith(named) for each in found.evidence if "meanwhile" in each] == [True] * (call == "munmap")


def small_copies(direction: str) -> ExportBuilder:
    """Return steps of kernels and then 40 small copies. There is a copy every 10 us, and it blocks the CPU for 6 us.

    Args:
        direction: "up" for copies to the GPU, "down" for reads of values.

    ::

        host    |-copy 6-|cpu 4|-copy 6-|cpu 4|
        GPU       |1|...........|1|...........
    """
    made = ExportBuilder().gpu().os_call("mmap", 0, 1)
    source, target, kind = PAGEABLE, DEVICE, HOST_TO_DEVICE
    if direction == "down":
        source, target, kind = DEVICE, PAGEABLE, DEVICE_TO_HOST
    for number in range(STEPS):
        at = number * STEP
        made.range(f"batch {number}", at, at + STEP)
        launched_at_once(made, at, at + 10 * US, at + 500 * US)
        for copy in range(COPIES):
            start = at + (510 + 10 * copy) * US
            ran, called = (start + US, start + 2 * US), (start, start + 6 * US)
            made.copy(*ran, kind, launched=called, bytes=64, srcKind=source, dstKind=target)
    return made


def test_many_small_copies_to_the_gpu_are_answered_with_one_copy() -> None:
    """Each value has its own copy. The call that copies is short, and a wait after it blocks the CPU."""
    made = ExportBuilder().gpu().os_call("mmap", 0, 1)
    for number in range(STEPS):
        at = number * STEP
        made.range(f"batch {number}", at, at + STEP)
        launched_at_once(made, at, at + 10 * US, at + 500 * US)
        for copy in range(COPIES):
            start = at + (510 + 10 * copy) * US
            made.copy(start + 2 * US, start + 3 * US, launched=(start, start + US), bytes=64)
            made.call("cudaStreamSynchronize", start + US, start + 6 * US)
    found = findings_of(trace_of(made))["synchronization/in_step"]
    assert found.advice == SMALL_COPIES.advice
    assert any("without the small copies" in line for line in found.evidence)


def test_reads_of_values_are_answered_with_fewer_reads() -> None:
    found = findings_of(trace_of(small_copies("down")))["synchronization/in_step"]
    assert found.advice == IN_STEP.advice
    assert ".item()" in found.advice
    assert any("without the waits and the copies" in line for line in found.evidence)


def test_waits_without_copies_are_answered_with_fewer_waits() -> None:
    """The CPU is blocked until 600 us, when the GPU goes idle, and then launches again."""
    found = findings_of(trace_of(each_step(made_loop(), "cudaDeviceSynchronize", 20, 602)))["synchronization/in_step"]
    assert found.advice == IN_STEP.advice


def test_pageable_copies_to_the_gpu_are_answered_with_pinned_memory() -> None:
    """This holds for small copies, too: the call itself stages the data and blocks the CPU."""
    found = findings_of(trace_of(small_copies("up")))
    assert "pin_memory=True" in found["copies/pageable"].advice
    assert "synchronization/in_step" not in found


def test_code_loaded_in_measured_steps_should_have_been_warm() -> None:
    found = found_on_idle_time(trace_of(each_step(made_loop(), "cuLibraryLoadData", 650, 900)))["modules/in_window"]
    assert found.headline == f"The GPU is idle for 30.0 % of the time while kernels are compiled{WARM}."


def test_a_program_without_steps_has_no_steps_that_should_be_warm() -> None:
    """The program loads code for 300 of 1000 ns."""
    built = ExportBuilder().os_call("mmap", 0, 1).kernel(0, 500, launched=(0, 9))
    built.call("cuLibraryLoadData", 500, 800).kernel(820, 1000, launched=(805, 810))
    found = {each.rule: each for each in idle_section(trace_of(built), 0, 1000).findings}
    assert found["modules/in_window"].headline == ("The GPU is idle for 30.0 % of the time while kernels are compiled.")


@pytest.mark.parametrize(("traced", "advice"), [(True, STILL_UNKNOWN.advice), (False, UNKNOWN.advice)])
def test_unknown_time_asks_only_for_what_was_not_traced(
    traced: bool,  # noqa: FBT001
    advice: str,
) -> None:
    """If system calls were traced, a call of the main thread that waits for another thread explains nothing."""
    built = (
        ExportBuilder().range("data", 500, 900).kernel(0, 500, launched=(0, 9)).kernel(920, 1000, launched=(905, 910))
    )
    if traced:
        built.os_call("pthread_cond_wait", 500, 900).without("NVTX_EVENTS")
    found = {each.rule: each for each in idle_section(trace_of(built), 0, 1000).findings}["idle/unknown"]
    assert (found.advice, found.severity) == (advice, Severity.NOTE)
    assert (*ends_of(found), found.saving_method) == (None, None, None)


def test_profiler_time_is_a_note_that_saves_nothing() -> None:
    """It is not the program's time, so its saving is zero and not unknown."""
    built = ExportBuilder().kernel(0, 500, launched=(0, 9)).overhead("CUPTI Buffer flush", 500, 900)
    found = {
        each.rule: each
        for each in idle_section(trace_of(built.kernel(920, 1000, launched=(905, 910))), 0, 1000).findings
    }
    profiler = found["idle/profiler"]
    assert (profiler.severity, profiler.lost_ns) == (Severity.NOTE, 400)
    assert (*ends_of(profiler), profiler.saving_method) == (0, 0, None)


def test_every_rule_of_idle_time_has_advice_in_one_section() -> None:
    """Findings without advice here are part of the sections on launches, copies and steps."""
    elsewhere = {"launches/launch_bound", "optimizer/many_kernels", "copies/pageable", "steps/uneven"}
    elsewhere |= {"memory/migrations"}
    assert {each.rule.key for each in ROOT_CAUSES} - set(OWN_RULES) == elsewhere


def test_advice_is_sentences() -> None:
    for each in map(rule_of, OWN_RULES):
        assert each.headline.endswith(".")
        assert each.advice.endswith(".")
        assert "{share}" in each.headline


@pytest.mark.parametrize(("ran", "advice"), [(140, OTHER_PROGRAMS), (160, OWN_THREADS)])
def test_threads_that_use_three_quarters_of_their_cores_are_too_many(ran: int, advice: Advice) -> None:
    """In 100 ns the threads of the program run for some ns on two cores; else other programs use the cores."""
    host = record_of(recorded([0, 100], threads=[thread_samples([0, 0], [0, ran])]))
    context = find_context(trace_of(ExportBuilder().session().kernel(0, 10)), Settings(host=host))
    assert no_core_advice(context, window(0, 100)) is advice
