"""Values that are made from others. Their order, and two at the same time, are in tests/test_run_sections.py."""

import threading

import pytest

from nsyswrap.dependent_values import Maker, made_in_order, make_values, needed


def double(length: int) -> int:
    """Return twice a length."""
    return 2 * length


def both(length: int, double: int) -> int:
    """Return the sum of a length and its double."""
    return length + double


def test_a_value_is_made_from_given_and_made_ones() -> None:
    found = make_values({"both": both, "double": double}, {"length": 3})
    assert found == {"length": 3, "double": 6, "both": 9}


@pytest.mark.parametrize("workers", [1, 2])
def test_one_worker_is_the_thread_of_the_caller(workers: int) -> None:
    found = make_values({"thread": lambda: threading.get_ident()}, {}, workers)  # noqa: PLW0108 - it has no signature
    assert (found["thread"] == threading.get_ident()) is (workers == 1)


@pytest.mark.parametrize("workers", [1, 2])
def test_values_that_need_each_other_are_an_error(workers: int) -> None:
    """The error names them; a value that nothing gives is an error, too."""
    circle: dict[str, Maker] = {"one": lambda other: other, "other": lambda one: one, "length": lambda: 1}
    with pytest.raises(ValueError, match="neither given nor made: one, other"):
        make_values(circle, {}, workers)
    with pytest.raises(ValueError, match="neither given nor made: double"):
        make_values({"double": double}, {}, workers)


def test_only_needed_values_are_kept() -> None:
    makers: dict[str, Maker] = {"double": double, "other": lambda: 0}
    assert needed([both], makers) == {"double": double}
    assert needed([], makers) == {}


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_things_are_made_in_order_and_only_as_many_as_there_are_workers(workers: int) -> None:
    begun: list[int] = []

    def make(item: int) -> int:
        begun.append(item)
        return -item

    for number, made in enumerate(made_in_order(make, range(10), workers)):
        assert made == -number
        assert max(begun) < number + workers
    assert sorted(begun) == [*range(10)]


def test_two_things_are_made_at_the_same_time() -> None:
    both_begun = threading.Barrier(2, timeout=30)
    assert len([*made_in_order(lambda _: both_begun.wait(), range(4), 2)]) == 4


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_reaches_the_caller(workers: int) -> None:
    with pytest.raises(ZeroDivisionError):
        list(made_in_order(lambda item: 1 // item, [1, 0, 1], workers))
