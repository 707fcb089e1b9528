"""Results that are kept for as long as the object that they are about, since each of many GPUs needs them again."""

import weakref
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

Owner = TypeVar("Owner")
Rest = ParamSpec("Rest")
Result = TypeVar("Result")


def memo(make: Callable[Concatenate[Owner, Rest], Result]) -> Callable[Concatenate[Owner, Rest], Result]:
    """Return a function that keeps its results until its first argument is gone.

    The first argument is an object that does not change, and is known by its identity, so it need not be hashable. The
    others are hashable. Nothing may change a result. Two threads that need one at the same time may both make it.
    """
    kept: dict[int, tuple[weakref.ref[Any], dict[Any, Result]]] = {}
    # An object may be gone only when Python ends, and then this module has no names any more.
    forget = _forget

    @wraps(make)
    def found(owner: Owner, /, *rest: Rest.args, **named: Rest.kwargs) -> Result:
        key, number = (rest, tuple(named.items())), id(owner)
        held = kept.get(number)
        if held is None or held[0]() is not owner:
            # The number may be used again as soon as the object is gone, so only its own entry is removed.
            reference = weakref.ref(owner, lambda gone: forget(kept, number, gone))
            held = kept[number] = (reference, {})
        results = held[1]
        if key not in results:
            results[key] = make(owner, *rest, **named)
        return results[key]

    return found


def _forget(kept: dict[int, tuple[Any, Any]], number: int, gone: object) -> None:
    held = kept.get(number)
    if held is not None and held[0] is gone:
        kept.pop(number, None)
