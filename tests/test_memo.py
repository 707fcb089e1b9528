"""Results are made once for each object and argument, and are gone with the object."""

import weakref

from nsyswrap.memo import memo


class Thing:
    """An object that is no key of a dict."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: int) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return True


def test_a_result_is_made_once_for_each_object_and_argument() -> None:
    made: list[tuple[int, int]] = []

    @memo
    def times(thing: Thing, factor: int) -> int:
        """Return a product."""
        made.append((thing.value, factor))
        return thing.value * factor

    two, three = Thing(2), Thing(3)
    assert [times(two, 5), times(three, 5), times(two, 5), times(two, 6), times(three, 5)] == [10, 15, 10, 12, 15]
    assert made == [(2, 5), (3, 5), (2, 6)]
    assert times(two, factor=5) == 10
    assert times.__doc__ == "Return a product."


def test_results_are_gone_with_their_object() -> None:
    """Another object in the same place has results of its own."""

    @memo
    def listed(thing: Thing) -> set[int]:
        return {thing.value}

    for value in range(50):
        thing = Thing(value)
        result = listed(thing)
        assert result == {value}
        kept = weakref.ref(result)
        del thing, result
        assert kept() is None
