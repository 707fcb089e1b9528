"""Memory in a step, at the bounds of modules."""

from types import SimpleNamespace
from typing import Any

import pytest

from nsyswrap.events.xray_record import HeldMemory, ModuleName, ProcessXray
from nsyswrap.sections.step_memory import StepMemory, find_step_memory, module_rows, words_on_room

GIB = 1 << 30
# Where, module, GiB: a model of two blocks with a forward and a backward pass; a block is computed again in that.
STEP = (
    *((0, None, 10), (1, 0, 10), (1, 1, 10), (4, 1, 14), (1, 2, 14), (4, 2, 20), (4, 0, 21)),
    *((2, None, 21), (1, 2, 21), (4, 2, 27), (5, None, 12), (3, None, 10)),
)


def memory_of(entries: Any, limit: int = 80) -> StepMemory | None:  # noqa: ANN401
    modules = tuple(ModuleName(path, "app.Block") for path in ("", "blocks.0", "blocks.1"))
    held = tuple(HeldMemory(where, module, size * GIB) for where, module, size in entries)
    process = ProcessXray(1, modules=modules, roots=("app.Model",), memory=held)
    gpus = [SimpleNamespace(memory_bytes=limit * GIB)]
    context: Any = SimpleNamespace(settings=SimpleNamespace(xray=(process,)), trace=SimpleNamespace(gpus=gpus))
    return find_step_memory(context)


def test_start_most_and_start_of_the_backward_pass_are_known() -> None:
    found = memory_of(STEP)
    assert found is not None
    assert (found.start, found.most, found.forward) == (10 * GIB, 27 * GIB, 21 * GIB)
    assert found.room == 53 * GIB
    assert found.larger == pytest.approx(1 + 53 / 17)


def test_modules_keep_what_they_add_in_the_forward_pass() -> None:
    """The model holds what its blocks hold and a GiB; what is computed again in the backward pass does not count."""
    found = memory_of(STEP)
    assert found is not None
    rows = module_rows(found)
    assert rows["module"].tolist() == ["Model", "blocks.1", "blocks.0"]
    assert rows["kept_bytes"].tolist() == [11 * GIB, 6 * GIB, 4 * GIB]
    assert rows["count"].tolist() == [1, 1, 1]


def test_of_several_steps_the_one_that_holds_most_counts() -> None:
    """Its modules keep what they keep in one step, not in all."""
    small = [(0, None, 10), (1, 0, 10), (4, 0, 12), (3, None, 10)]
    for steps in ((*STEP, *small), (*small, *STEP), (*STEP, *STEP)):
        assert memory_of(steps) == memory_of(STEP)


def test_a_call_that_an_exception_ended_has_no_end() -> None:
    found = memory_of([(0, None, 1), (1, 0, 1), (1, 1, 2), (4, 0, 5), (3, None, 1)])
    assert found is not None
    rows = module_rows(found)
    assert rows["module"].tolist() == ["Model"]
    assert rows["kept_bytes"].tolist() == [4 * GIB]


def test_without_the_size_of_the_gpu_no_room_is_known() -> None:
    found = memory_of(STEP, limit=0)
    assert found is not None
    assert (found.room, found.larger) == (0, None)


@pytest.mark.parametrize(("needed", "words"), [(53, "suffices."), (106, "50.0 %")])
def test_the_room_is_compared_with_what_is_needed(needed: int, words: str) -> None:
    found = memory_of(STEP)
    assert found is not None
    assert words in words_on_room(found, needed * GIB)


@pytest.mark.parametrize(
    ("limit", "said"), [(0, ""), (4, "at most 3"), (100, "at most 99"), (101, "more than 100"), (9000, "more than 100")]
)
def test_a_factor_that_is_too_large_to_matter_is_no_number(limit: int, said: str) -> None:
    """A step adds 1 byte to 1: so much as the limit less one."""
    assert StepMemory(1, 2, None, limit, ()).growth == said
