"""How sections run: each gets the values of its parameters, and a value that several sections need is built once."""

import inspect
import threading
from collections.abc import Callable
from typing import Any

import pytest
from analysis_fixtures import window
from export_builder import ExportBuilder, trace_of
from section_runs import run_sections

from nsyswrap import report
from nsyswrap.base.errors import CannotTellError
from nsyswrap.base.intervals import Window
from nsyswrap.events.thread_states import ThreadStates
from nsyswrap.loop.context import TraceContext, find_context
from nsyswrap.model import Section
from nsyswrap.report import VALUES
from nsyswrap.sections import SECTIONS
from nsyswrap.sections.spec import SectionSpec
from nsyswrap.what_if.simulate import Simulation

WHOLE = window(0, 100)
Values = dict[str, Callable[..., Any]]


@pytest.fixture
def context() -> TraceContext:
    return find_context(trace_of(ExportBuilder().kernel(10, 60, launched=(0, 4))))


@pytest.fixture
def values(monkeypatch: pytest.MonkeyPatch) -> Values:
    """Replace the values that sections may name by an empty mapping, and return it."""
    found: Values = {}
    monkeypatch.setattr(report, "VALUES", found)
    return found


def named(key: str, run: Callable[..., Section]) -> SectionSpec:
    return SectionSpec(key=key, title=key, place=0, run=run)


def section(key: str) -> Section:
    return Section(key, key, WHOLE)


def test_sections_get_the_values_they_name_in_any_order(context: TraceContext) -> None:
    """A section gets the given context and window, and values of the right type."""
    seen: dict[str, object] = {}

    def first(simulation: Simulation, context: TraceContext) -> Section:
        seen.update(simulation=simulation, context=context)
        return section("first")

    def second(window: Window, states: ThreadStates) -> Section:
        seen.update(window=window, states=states)
        return section("second")

    found = run_sections([named("first", first), named("second", second)], context, WHOLE)
    assert [each.key for each in found] == ["first", "second"]
    assert seen["context"] is context
    assert seen["window"] is WHOLE
    assert isinstance(seen["states"], ThreadStates)
    assert isinstance(seen["simulation"], Simulation)
    assert seen["simulation"].states is seen["states"]


def test_each_value_is_built_once_from_those_it_names(context: TraceContext, values: Values) -> None:
    """Three sections need both values, and one value needs the other."""
    built: list[str] = []

    def length(window: Window) -> int:
        built.append("length")
        return window.length_ns

    def double(length: int) -> int:
        built.append("double")
        return 2 * length

    def check(double: int, length: int) -> Section:
        assert (double, length) == (200, 100)
        return section("check")

    values.update(double=double, length=length)
    specs = [named(f"check {number}", check) for number in range(3)]
    assert len(run_sections(specs, context, WHOLE)) == 3
    assert built == ["length", "double"]


def test_two_sections_run_at_the_same_time(context: TraceContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a large capture, each waits until the other has begun."""
    monkeypatch.setattr(report, "MANY_OPERATIONS", 1)
    both = threading.Barrier(2, timeout=30)

    def meet(window: Window) -> Section:
        both.wait()
        return Section("meet", "", window)

    assert len(run_sections([named("one", meet), named("other", meet)], context, WHOLE)) == 2


def test_sections_of_a_small_capture_share_one_thread(context: TraceContext) -> None:
    threads = set()

    def run(window: Window) -> Section:
        threads.add(threading.get_ident())
        return Section("run", "", window)

    assert len(run_sections([named("one", run), named("other", run)], context, WHOLE)) == 2
    assert len(threads) == 1


def test_values_are_built_before_the_sections_that_are_ready(context: TraceContext, values: Values) -> None:
    """Sections may need a value, and nothing needs a section."""
    order: list[str] = []

    def begin() -> None:
        order.append("begin")

    def middle(begin: None) -> None:  # noqa: ARG001 - names the value
        order.append("middle")

    def end(window: Window, middle: None) -> Section:  # noqa: ARG001 - names the value
        order.append("end")
        return Section("end", "", window)

    def free(window: Window) -> Section:
        order.append("free")
        return Section("free", "", window)

    values.update(middle=middle, begin=begin)
    specs = [named("free 1", free), named("end", end), named("free 2", free)]
    assert [each.key for each in run_sections(specs, context, WHOLE)] == ["free", "end", "free"]
    assert order == ["begin", "middle", "free", "free", "end"]


def test_an_error_in_a_section_is_raised(context: TraceContext) -> None:
    """The run fails, although the sections before and after it work."""

    def fails(context: TraceContext) -> Section:
        raise CannotTellError(f"{len(context.operations.start)} operation", hint="")

    def works(window: Window) -> Section:
        return Section("works", "", window)

    specs = [named("before", works), named("fails", fails), named("behind", works)]
    with pytest.raises(CannotTellError, match="1 operation"):
        run_sections(specs, context, WHOLE)


def test_an_error_in_a_value_is_raised(context: TraceContext, values: Values) -> None:
    """The section that names the value never runs."""

    def broken() -> int:
        raise ZeroDivisionError

    def never(broken: int) -> Section:
        raise AssertionError(broken)

    values.update(broken=broken)
    with pytest.raises(ZeroDivisionError):
        run_sections([named("never", never)], context, WHOLE)


@pytest.mark.parametrize("spec", SECTIONS, ids=lambda each: each.key)
def test_a_section_names_only_known_values(spec: SectionSpec) -> None:
    """Each parameter has the name of a known value, and no default."""
    assert parameters(spec.run) <= {"context", "window", *VALUES}


@pytest.mark.parametrize("name", VALUES)
def test_a_value_names_only_known_values_and_not_itself(name: str) -> None:
    """A value that needs itself would never be built."""
    needed, pending = set[str](), [name]
    while pending:
        new = parameters(VALUES[pending.pop()]) - needed
        needed |= new
        pending += [each for each in new if each in VALUES]
    assert needed <= {"context", "window", *VALUES}
    assert name not in needed


def parameters(make: Callable[..., object]) -> set[str]:
    """Return the names of the parameters of a function, after a check that each must be given."""
    found = inspect.signature(make).parameters
    assert all(each.default is inspect.Parameter.empty for each in found.values())
    return set(found)
